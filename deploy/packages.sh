#!/usr/bin/env bash
# Installs the Debian 12 / Ubuntu 24.04 packages that Coatrack needs and that are missing.
#   deploy/packages.sh            what the programs need
#   deploy/packages.sh --tests    and what the tests need
#   deploy/packages.sh --list     print the missing ones, install nothing
set -euo pipefail

build=(g++ cmake ninja-build pkg-config git ca-certificates
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotoc-dev
  prometheus-cpp-dev libcurl4-openssl-dev zlib1g-dev libyaml-cpp-dev libspdlog-dev libcli11-dev
  nlohmann-json3-dev libsqlite3-dev libgloo-dev libopenblas-dev libssl-dev libgtest-dev
  libgmock-dev)
tests=(libbenchmark-dev clang-format-14 clang-tidy-14 ccache python3 python3-pip python3-venv python3-yaml procps curl
  chromium)

want=("${build[@]}")
list_only=false
for argument in "$@"; do
  case "$argument" in
    --tests) want+=("${tests[@]}") ;;
    --list) list_only=true ;;
    *) echo "packages.sh: unknown argument '$argument' (--tests, --list)" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${want[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
echo "packages missing: ${missing[*]}" >&2
if $list_only; then exit 0; fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "packages.sh: not root and no sudo; install by hand: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive

# Some packages (prometheus) start a service when they are installed: not here.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '"${as_root[@]}" rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
  "${as_root[@]}" chmod +x $policy
fi
install=("${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}")
"${install[@]}" >/dev/null 2>&1 || { "${as_root[@]}" apt-get update -q >/dev/null; "${install[@]}" >/dev/null; }
