#!/usr/bin/env bash
# service.sh BIN_DIR [gpu|cpu] [RANKS]: the whole service on loopback with programs from BIN_DIR
# (pack.sh): a job on the device is watched, scraped, cancelled mid-run with a checkpoint; another
# continues from it, loses a rank, recovers from its own checkpoint and ends; of several RANKS (one
# a device; 1 by default) one more stops without a word, is named, and its gang starts again;
# nothing is left on the devices.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "${1:?usage: service.sh BIN_DIR [gpu|cpu]}" && pwd)
device=${2:-gpu}
ranks=${3:-1}
[ ! -d "$bin/lib" ] || export LD_LIBRARY_PATH="$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
dir=$(mktemp -d)
pids=()
say() { printf '\n== %s\n' "$*"; }
fail() {
  echo "service.sh: $*" >&2
  tail -n 30 "$dir"/*.log 2>/dev/null >&2 || true
  exit 1
}
finish() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap finish EXIT

# until_true SECONDS WHAT COMMAND...
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $end ] || fail "waited in vain for: $what"
    sleep 0.2
  done
}
coat() { "$bin/coat" "$@"; }
submit() { coat submit -f "$dir/$1.yaml" -o name; }
# field EXPRESSION: of the JSON on stdin, as d.
field() { python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"; }
job() { coat describe "$1" -o json | field "$2"; }
page() { python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())' "$1"; }
state_is() { [ "$(job "$1" "d['state']")" = "$2" ]; }
step_is() { [ "$(job "$1" "d.get('step', 0)")" -ge "$2" ]; }
has_checkpoint() { [ "$(coat checkpoints ls "$1" -o json | field "len(d['checkpoints'])")" -gt 0 ]; }
has_started() { [ -s "$dir/$1/ports.json" ]; }
port() { field "str(d['$2']).split(':')[-1]" <"$dir/$1/ports.json"; }
start() {
  local name=$1
  shift
  mkdir -p "$dir/$name"
  setsid "$@" --state-dir "$dir/$name" --health-listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
    >"$dir/$name.log" 2>&1 </dev/null &
  pids+=($!)
  until_true 30 "$name to start" has_started "$name"
}
gpu_processes() { nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader; }
gpu_used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | head -1; }
rank_processes() { pgrep -f -- "--rank-dir $dir/worker/attempts/" || true; }
no_ranks() { [ -z "$(rank_processes)" ]; }
# The driver frees a little after the process has gone; 64 MiB is less than any CUDA context.
device_clean() {
  no_ranks || return 1
  [ "$device" = cpu ] || [ "$(gpu_used)" -le $((used_before + 64)) ]
}
device_free() { [ -z "$(coat workers -o json | field "''.join(x['job_id'] for x in d['workers'][0]['devices'])")" ]; }

expect_clean() {
  until_true 60 "no process and no memory of ours on the device" device_clean
  until_true 30 "the coordinator to show the device free" device_free
  echo "clean: no rank process$([ "$device" = cpu ] || echo "; device memory $(gpu_used) MiB, before: $used_before MiB; processes: [$(gpu_processes)]")"
}

write_job() {  # NAME STEPS [EXTRA LINE]
  local every=20
  [ "$device" = cpu ] || every=100
  local shape="preset: llama-tiny" train="sequence_length: 128" batch=4
  # 100M parameters.
  [ "$device" = cpu ] || shape="family: llama, hidden_size: 832, layers: 12, heads: 13, intermediate_size: 2240"
  [ "$device" = cpu ] || train="sequence_length: 1024" batch=8
  cat >"$dir/$1.yaml" <<YAML
api_version: coatrack/v1
name: $1
model: {$shape}
data: {text: ["corpus/*.txt"], tokenizer: byte, validation_fraction: 0.01}
train: {steps: $2, $train, global_batch: $((batch * ranks)), micro_batch: $batch, seed: 7, eval_sequences: 8}
optimizer: {lr: 1.0e-3, schedule: constant, warmup_steps: 10}
precision: {recipe: coat}
resources: {ranks: $ranks, device: $device, time_limit: 10m}
checkpoint: {root: default, every_steps: $every, keep: 2}
${3:-}
YAML
}

show_metrics() {  # JOB
  page "http://127.0.0.1:$(port server metrics)/metrics" >"$dir/metrics.txt"
  page "http://127.0.0.1:$(port server metrics)/metrics/jobs" >"$dir/jobs.txt"
  page "http://127.0.0.1:$(port worker metrics)/metrics" >"$dir/worker.txt"
  cat "$dir/jobs.txt" "$dir/worker.txt" | grep -E '^coat_(memory_bytes|memory_planned_bytes|train_loss|device_memory)' |
    grep -E "job_id=\"$1\"|device_memory" | sort -u | tee "$dir/shown.txt"
  echo "families: $(cat "$dir/metrics.txt" "$dir/jobs.txt" "$dir/worker.txt" | grep -oE '^coat_[a-z0-9_]+' | sort -u | tr '\n' ' ')"
  local kind
  for kind in weights master gradients optimizer activations workspace; do
    grep -q "^coat_memory_bytes{.*kind=\"$kind\"" "$dir/shown.txt" || fail "no coat_memory_bytes of kind $kind"
  done
  grep -q '^coat_train_loss' "$dir/shown.txt" || fail "no coat_train_loss"
  grep -q '^coat_jobs{' "$dir/metrics.txt" || fail "no coat_jobs on /metrics"
}

missing=$(for program in coat coat-server coat-worker coat-train; do ldd "$bin/$program"; done | awk '/not found/ { print $1 }' | sort -u | paste -sd ' ')
[ -z "$missing" ] || fail "libraries not found: $missing; add their folders to LD_LIBRARY_PATH"

used_before=0
if [ "$device" = gpu ]; then
  nvidia-smi -L
  used_before=$(gpu_used)
fi
bash "$here/collect_text.sh" "$dir/data/corpus" 32

say "Daemons"
printf 'api_version: coatrack/v1\nstall_floor: 10s\nload_limit: 120s\n' >"$dir/server.yaml"
start server "$bin/coat-server" --config "$dir/server.yaml" --listen 127.0.0.1:0
COAT_SERVER=127.0.0.1:$(port server listen)
export COAT_SERVER
start worker "$bin/coat-worker" --name here --server "$COAT_SERVER" --data-root "$dir/data" \
  --root "default=$dir/checkpoints" --cpu-slots "$([ "$device" = cpu ] && echo "$ranks" || echo 0)"
registered() { [ "$("$bin/coat" workers -o name 2>/dev/null)" = here ]; }
until_true 30 "the worker to register" registered
coat workers -o wide
coat workers -o json | field "[(x['kind'], x['model'], x['total_bytes']) for x in d['workers'][0]['devices']]" | tee "$dir/offer.txt"
grep -q "'$device'" "$dir/offer.txt" || fail "the worker offers no $device"

say "A job, cancelled mid-run"
write_job first 100000
first=$(submit first)
until_true 180 "step 30 of the first job" step_is "$first" 30
timeout 3 "$bin/coat" watch "$first" || true
echo "losses: $(coat metrics "$first" -o json | python3 -c '
import json, sys
losses = [r["loss"] for r in map(json.loads, sys.stdin) if r.get("loss") is not None]
print(losses[0], "->", losses[-1])
sys.exit(0 if losses[-1] < losses[0] - 0.5 else "service.sh: the loss does not fall")')"
show_metrics "$first"
coat cancel "$first" --wait || true
state_is "$first" cancelled || fail "the first job is $(job "$first" "d['state']"), not cancelled"
coat checkpoints ls "$first"
cancelled_at=$(job "$first" "d['step']")
newest=$(coat checkpoints ls "$first" -o json | field "d['checkpoints'][0]['step']")
[ "$newest" = "$cancelled_at" ] || fail "cancelled at step $cancelled_at, newest checkpoint of step $newest"
expect_clean

say "From its checkpoint; a rank is killed, the job recovers from its own"
write_job second "$([ "$device" = cpu ] && echo 300 || echo 1000)" "init_from: {job: $first}"
second=$(submit second)
until_true 180 "a checkpoint of the second job" has_checkpoint "$second"
kill -KILL "$(rank_processes | tail -n 1)"  # the rank itself; its parent writes why it ended
"$bin/coat" wait "$second" || fail "the second job ended as $(job "$second" "d['state']")"
coat describe "$second"
coat metrics "$second" -o json | python3 -c '
import json, sys
records = [json.loads(line) for line in sys.stdin]
start = [r["validation_loss"] for r in records if r.get("validation_loss") is not None][0]
attempts = sorted({r["attempt"] for r in records})
again = min(r["step"] for r in records if r["attempt"] == attempts[-1] and r.get("loss") is not None)
print(f"validation loss at the start {start:.3f}; attempts {attempts}; the last began at step {again}")
if start > 4.5: sys.exit("service.sh: the second job did not begin from the weights of the first")
if len(attempts) < 2 or again <= 1: sys.exit("service.sh: the job did not resume from its checkpoint")'
expect_clean
if [ "$ranks" -gt 1 ]; then
  say "A rank stops without a word; its gang starts again"
  write_job third "$([ "$device" = cpu ] && echo 300 || echo 1000)"
  third=$(submit third)
  until_true 180 "a checkpoint of the third job" has_checkpoint "$third"
  kill -STOP "$(pgrep -f -- "--rank-dir $dir/worker/attempts/$third/1/1( |$)" | tail -n 1)"
  coat wait "$third" || fail "the third job ended as $(job "$third" "d['state']")"
  coat describe "$third" | tee "$dir/third.txt"
  grep -q 'rank 1 on here holds the gang up' "$dir/third.txt" || fail "the rank that stopped was not named"
  expect_clean
fi
coat report "$second" --out "$dir/report.html"
[ "$(wc -c <"$dir/report.html")" -gt 5000 ] || fail "the report is nearly empty"
echo "report: $(wc -c <"$dir/report.html") bytes"

say "Everything held"
