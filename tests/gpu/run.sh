#!/usr/bin/env bash
# For a machine with an NVIDIA GPU: builds the engine with CUDA and runs what needs the card.
#   tests/gpu/run.sh build [TARGET...]   preset engine-cuda
#   tests/gpu/run.sh test [REGEX]        tests that run on every device, and those labelled gpu
#   tests/gpu/run.sh sanitize            operator tests under compute-sanitizer
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=build/engine-cuda
what=${1:-test}
shift || true

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ||
  { echo "run.sh: no NVIDIA GPU here" >&2; exit 1; }

build() {
  [ -f $dir/build.ninja ] || cmake --preset engine-cuda >/tmp/coat-configure.log 2>&1 ||
    { tail -40 /tmp/coat-configure.log; exit 1; }
  cmake --build $dir -j "$(nproc)" -- --quiet -k 0 "$@"
}

case "$what" in
  build) build "$@" ;;
  test)
    build
    (cd $dir && ctest --output-on-failure -j 4 --no-tests=error -R "${1:-ops_tests|optim|model_tests|gpu}")
    ;;
  sanitize)
    build ops_tests
    for tool in memcheck racecheck; do
      compute-sanitizer --tool $tool --error-exitcode 1 $dir/tests/ops_tests \
        --gtest_filter='*cuda*' --gtest_brief=1
    done
    ;;
  *) echo "run.sh: unknown target '$what' (build, test, sanitize)" >&2; exit 2 ;;
esac
