#!/usr/bin/env bash
# From a fresh Debian 12 or Ubuntu 24.04 machine to a trained model: installs packages, builds,
# starts a coordinator and two workers on loopback, trains configs/jobs/quickstart.yaml on the text
# of this repository and shows what came of it. Needs no GPU.
#   deploy/quickstart.sh [--keep] [--dir DIR] [--set PATH=VALUE]...
#     --keep   leave the daemons running
#     --dir    folder for data, state and checkpoints (default: ~/.local/state/coatrack/quickstart)
#     --set    override a field of the job, for example --set train.steps=300
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
dir=${XDG_STATE_HOME:-$HOME/.local/state}/coatrack/quickstart
keep=false
overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) keep=true ;;
    --dir) dir=${2:?--dir needs a folder}; shift ;;
    --set) overrides+=(--set "${2:?--set needs PATH=VALUE}"); shift ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "quickstart.sh: unknown argument '$1' (--keep, --dir DIR, --set PATH=VALUE)" >&2; exit 2 ;;
  esac
  shift
done
bin=$repository/build/release/bin
say() { printf '\n== %s\n' "$*"; }

build() {
  say "Packages and build (a second run finds them done)"
  bash "$repository/deploy/packages.sh"
  cd "$repository"
  if [ ! -f build/release/build.ninja ]; then
    local cuda=AUTO
    [ -e /dev/nvidia0 ] || cuda=OFF
    cmake --preset release -DENABLE_CUDA=$cuda >/dev/null
  fi
  cmake --build --preset release --target coat coat-server coat-worker coat-train -- --quiet
}

# The tracked text files of this repository, one flat folder of .txt files.
collect_text() {
  rm -rf "$dir/data/corpus"
  mkdir -p "$dir/data/corpus"
  cd "$repository"
  { git ls-files 2>/dev/null || find . -type f -not -path './build/*' -not -path './.git/*'; } |
    grep -E '\.(cc|h|cu|cuh|proto|md|sh|yaml|yml|json|cmake|py|txt)$' | while read -r file; do
      cp "$file" "$dir/data/corpus/$(printf %s "${file#./}" | tr / _).txt"
    done
  say "Data: $(find "$dir/data/corpus" -name '*.txt' | wc -l) files of this repository, $(du -sh "$dir/data/corpus" | cut -f1)"
}

pids=()
stop_daemons() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
}

# start NAME PROGRAM ARGUMENTS...: in a session of its own, so that Ctrl-C reaches `coat` alone.
start() {
  local name=$1
  shift
  rm -f "$dir/$name/ports.json"
  mkdir -p "$dir/$name"
  setsid "$@" --state-dir "$dir/$name" >"$dir/$name.log" 2>&1 </dev/null &
  pids+=($!)
  local tries=0
  until [ -s "$dir/$name/ports.json" ]; do
    kill -0 "${pids[-1]}" 2>/dev/null || { cat "$dir/$name.log" >&2; exit 1; }
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { echo "quickstart.sh: $name did not start; see $dir/$name.log" >&2; exit 1; }
    sleep 0.1
  done
}

# port NAME KEY: from the ports a daemon wrote down.
port() { tr -d ' \n' <"$dir/$1/ports.json" | grep -oE "\"$2\":\"?[^\",}]+" | sed 's/.*[":]\([0-9]*\)$/\1/'; }

start_daemons() {
  say "Daemons: a coordinator and two workers on loopback"
  trap 'stop_daemons' EXIT
  start server "$bin/coat-server" --listen 127.0.0.1:0 --health-listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0
  export COAT_SERVER=127.0.0.1:$(port server listen)
  local i
  for i in 1 2; do
    start "worker-$i" "$bin/coat-worker" --name "worker-$i" --server "$COAT_SERVER" \
      --data-root "$dir/data" --root "default=$dir/checkpoints" --cpu-slots 1 \
      --health-listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0
  done
  local tries=0
  until [ "$("$bin/coat" workers -o name 2>/dev/null | wc -l)" = 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { echo "quickstart.sh: the workers did not register; see $dir/worker-1.log" >&2; exit 1; }
    sleep 0.1
  done
  "$bin/coat" workers
}

train() {
  say "BF16 for a few steps, so that its memory is measured too"
  local job=$repository/configs/jobs/quickstart.yaml
  "$bin/coat" run -f "$job" --set name=quickstart-bf16 --set precision.recipe=bf16 \
    --set precision.optimizer_state=fp32 --set train.steps=5 --set optimizer.warmup_steps=1 \
    --set checkpoint.every_steps=0 --set train.eval_sequences=2 >"$dir/bf16.log" 2>&1 ||
    { cat "$dir/bf16.log" >&2; exit 1; }
  say "COAT: a Llama of about one million parameters, two ranks"
  "$bin/coat" run -f "$job" --compare quickstart-bf16 "${overrides[@]}"
}

finish() {
  local metrics=127.0.0.1:$(port server metrics)
  say "Metrics: http://$metrics/metrics and http://$metrics/metrics/jobs"
  if $keep; then
    trap - EXIT
    echo "The daemons stay up (logs in $dir). Next:"
    echo "  export COAT_SERVER=$COAT_SERVER PATH=$bin:\$PATH"
    echo "  coat list; coat describe quickstart; coat checkpoints ls quickstart; coat metrics quickstart"
    echo "  coat run -f configs/jobs/quickstart.yaml --set precision.recipe=fp8 --set name=again"
    echo "  kill ${pids[*]}    # stops them"
  else
    echo "Nothing is left running; checkpoints are in $dir/checkpoints. Next:"
    echo "  deploy/quickstart.sh --keep                 # the same, and the daemons stay up"
    echo "  $bin/coat plan -f configs/jobs/llama-7b-gpu.yaml"
    echo "  $bin/coat-train --job configs/jobs/quickstart.yaml --nproc 2 --data-root $dir/data --out $dir/alone"
  fi
}

build
collect_text
start_daemons
train
finish
