#!/usr/bin/env bash
# Sets up, builds and runs the tests. The last lines are ctest's own count.
#   tests/run.sh          release build, every test but the slow ones
#   tests/run.sh slow     the tests labelled slow
#   tests/run.sh asan     everything under the address and undefined-behaviour sanitizers
#   tests/run.sh tsan     what has no gRPC under the thread sanitizer
#   tests/run.sh tidy     clang-tidy on all files (by default: on the last commit's)
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-default}
jobs=$(nproc)
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # a second clone finds the first one's objects

bash deploy/packages.sh --tests

# Attention on GPUs compiles against headers that only a Python package carries.
if command -v nvcc >/dev/null && [ ! -f .cache/python/include/cudnn_frontend.h ]; then
  python3 -m pip install --quiet --disable-pip-version-check --no-deps \
    --target .cache/python nvidia-cudnn-frontend==1.23.0 ||
    echo "run.sh: no cudnn-frontend headers; GPU attention is the plain kernels'" >&2
fi

check_format() {
  git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs -r clang-format-14 --dry-run --Werror
}

# clang-tidy needs compile_commands.json, so a configured build.
run_clang_tidy() {
  local files
  files=$(grep '\.cc$' || true)
  [ -z "$files" ] || xargs -r -n 4 -P "$jobs" clang-tidy-14 --quiet -p "$1" <<<"$files"
}

build() {
  cmake --preset "$@" >/dev/null
  cmake --build --preset "$1" -j "$jobs" -- --quiet
}

run_tests() {
  local dir=$1
  shift
  (cd "$dir" && ctest --output-on-failure -j "$jobs" --no-tests=error "$@")
}

# A finding ends its process (cmake/toolchain.cmake) and leaves a report, since a test may outlive it:
# jobs start again after a crash. One try, as a second might not show it.
run_sanitized() {
  build "$1"
  local reports=$PWD/build/$1/reports status=0
  rm -rf "$reports"
  mkdir "$reports"
  local log=log_path=$reports/report
  local known=$PWD/tests/support  # findings of libraries
  ASAN_OPTIONS=$log UBSAN_OPTIONS=$log:print_stacktrace=1 \
    LSAN_OPTIONS=suppressions=$known/lsan.supp:print_suppressions=0 \
    TSAN_OPTIONS=$log:halt_on_error=1:suppressions=$known/tsan.supp:print_suppressions=0 \
    run_tests "build/$1" -LE "$2" || status=1
  for report in "$reports"/*; do
    [ -f "$report" ] || continue
    status=1
    cat "$report" >&2
  done
  return $status
}

case "$what" in
  default)
    check_format
    build release -DENABLE_CUDA=AUTO
    git diff --name-only --diff-filter=d HEAD~1 -- '*.cc' ':!tests' 2>/dev/null |
      run_clang_tidy build/release
    # A test of real processes may be unlucky with time on a loaded machine: it gets two more tries,
    # and every failure is printed.
    run_tests build/release -LE slow --repeat until-pass:3
    ;;
  slow) build release -DENABLE_CUDA=AUTO; run_tests build/release -L slow ;;
  asan) run_sanitized asan slow ;;
  tsan) run_sanitized tsan slow ;;
  tidy)
    build release -DENABLE_CUDA=AUTO
    git ls-files '*.cc' | run_clang_tidy build/release
    ;;
  *) echo "run.sh: unknown target '$what' (slow, asan, tsan, tidy)" >&2; exit 2 ;;
esac
