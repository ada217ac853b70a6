#!/usr/bin/env bash
# For a machine with an NVIDIA GPU: builds the engine with CUDA and runs what needs the card.
#   tests/gpu/run.sh build [TARGET...]   preset engine-cuda
#   tests/gpu/run.sh test [REGEX]        tests that run on every device, and those labelled gpu
#   tests/gpu/run.sh compare             CPU against GPU, and PyTorch against GPU
#   tests/gpu/run.sh train               olmo-1b and llama-7b, 50 steps on real text
#   tests/gpu/run.sh memory              planned against measured bytes, all recipes
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
  compare)
    build gpu_tests dump_model
    (cd $dir && ctest --output-on-failure -j 2 --no-tests=error -L gpu)
    dumps=$(mktemp -d)
    trap 'rm -rf "$dumps"' EXIT
    $dir/tests/dump_model cuda:0 "$dumps"
    python3 -B tests/gpu/torch_compare.py "$dumps"
    ;;
  train)
    build coat-train
    python3 -B tests/gpu/train.py $dir/bin/coat-train olmo-1b 8
    python3 -B tests/gpu/train.py $dir/bin/coat-train llama-7b 4 --gradients bf16
    ;;
  memory)
    build coat-bench
    python3 -B tests/gpu/memory.py $dir/bin/coat-bench
    ;;
  sanitize)
    build ops_tests
    for tool in memcheck racecheck; do
      compute-sanitizer --tool $tool --error-exitcode 1 $dir/tests/ops_tests \
        --gtest_filter='*cuda*' --gtest_brief=1
    done
    ;;
  *) echo "run.sh: unknown target '$what' (build, test, compare, train, memory, sanitize)" >&2; exit 2 ;;
esac
