#!/usr/bin/env bash
# For a machine with an NVIDIA GPU: builds the engine with CUDA and runs what needs the card.
#   tests/gpu/run.sh build [TARGET...]   preset engine-cuda
#   tests/gpu/run.sh test [REGEX]        tests that run on every device, and those labelled gpu
#   tests/gpu/run.sh compare             CPU against GPU, and PyTorch against GPU
#   tests/gpu/run.sh train               olmo-1b and llama-7b, 50 steps on real text
#   tests/gpu/run.sh memory              planned against measured bytes, all recipes
#   tests/gpu/run.sh ranks               several GPUs: agreement, speed, scaling, memory
#   tests/gpu/run.sh sanitize [FILTER]   operator tests under compute-sanitizer
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

# sanitize TOOL FILTER: four processes share the cases. A finding, a case that fails, a share
# without cases or one that takes longer than two minutes fails; the slowest cases are named.
sanitize() {
  local tool=$1 filter=$2 start=$SECONDS shards=4 i status=0 logs pids=()
  logs=$(mktemp -d)
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout 120 compute-sanitizer --tool "$tool" \
      --error-exitcode 1 $dir/tests/ops_tests --gtest_filter="$filter" >"$logs/$i" 2>&1 &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[$i]}" && grep -q '^\[ *OK' "$logs/$i" ||
      { status=1; echo "$tool, share $i:"; tail -n 40 "$logs/$i"; }
  done
  echo "slowest: $(sed -nE 's/^\[ *OK \] (.*) \(([0-9]+) ms\)$/\2 ms \1/p' "$logs"/* | sort -rn | head -5 | paste -sd, )"
  echo "$tool: $(cat "$logs"/* | grep -c '^\[ *OK') cases, $((SECONDS - start)) s, $([ $status = 0 ] && echo clean || echo NOT CLEAN)"
  rm -rf "$logs"
  return $status
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
  ranks)
    build collectives_tests trainer_tests coat-train
    export NCCL_NVLS_ENABLE=0  # NVLink multicast
    $dir/tests/collectives_tests --gtest_filter='*Nccl*'
    $dir/tests/trainer_tests --gtest_filter='*RanksTest*cuda*'
    python3 -B tests/gpu/ranks.py $dir/bin/coat-train
    ;;
  sanitize)
    build ops_tests
    status=0
    sanitize memcheck "${1:-*cuda*}" || status=1
    # racecheck takes the asynchronous copies of cuDNN's attention kernels for hazards, and needs
    # minutes for the widest products.
    sanitize racecheck "${1:-*cuda*:-*Attention*:*WideOperands*}" || status=1
    exit $status
    ;;
  *) echo "run.sh: unknown target '$what' (build, test, compare, train, memory, ranks, sanitize)" >&2; exit 2 ;;
esac
