#!/bin/sh
# PID 1 of a worker's container:   coat-init coat-worker [FLAG...]
# Starts the daemon and starts it again whenever it ends, so that ranks, which are children of this
# process's namespace, outlive it. SIGTERM and SIGINT are passed on, the daemon drains, and this ends
# with the daemon's status. Status 2 (bad flags or configuration) is final at once.
child=0
stopping=false
delay=1

stop() {
  stopping=true
  if [ "$child" -gt 0 ]; then kill -TERM "$child" 2>/dev/null; fi
}
trap stop TERM INT

# A signal interrupts `wait`; the status is asked for until the process is gone. Waiting also reaps
# the ranks' parents, which become children of PID 1 when the daemon dies.
await() {
  while :; do
    wait "$1"
    status=$?
    kill -0 "$1" 2>/dev/null || return "$status"
  done
}

while :; do
  "$@" &
  child=$!
  if $stopping; then kill -TERM "$child" 2>/dev/null; fi
  started=$(date +%s)
  await "$child"
  status=$?
  child=0
  if $stopping || [ "$status" -eq 2 ]; then exit "$status"; fi
  if [ $(($(date +%s) - started)) -ge 60 ]; then delay=1; fi
  echo "coat-init: $1 ended with status $status; starts again in $delay s" >&2
  sleep "$delay" &
  await $!
  if $stopping; then exit 0; fi
  delay=$((delay * 2))
  if [ "$delay" -gt 30 ]; then delay=30; fi
done
