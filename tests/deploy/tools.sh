#!/usr/bin/env bash
# Puts the tools that the tests of deploy/ need into a folder, without installing a service:
#   tools.sh DIR   ->   DIR/bin/{promtool,prometheus[,kubectl]}, DIR/venv/bin/python
# A program of the PATH is taken first; otherwise the Debian package is unpacked, not installed.
set -euo pipefail
dir=$(mkdir -p "${1:?usage: tools.sh DIR}" && cd "$1" && pwd)
mkdir -p "$dir/bin"

# have NAME PACKAGE
have() {
  [ -x "$dir/bin/$1" ] && return 0
  if command -v "$1" >/dev/null; then
    ln -sf "$(command -v "$1")" "$dir/bin/$1"
    return 0
  fi
  local folder="$dir/packages/$2"
  if [ -x "$folder/usr/bin/$1" ]; then
    ln -sf "$folder/usr/bin/$1" "$dir/bin/$1"
    return 0
  fi
  echo "tools.sh: $1 is not installed; unpacking the package $2"
  mkdir -p "$folder"
  # A machine that never ran `apt-get update` knows no packages.
  (cd "$folder" && { apt-get download -q "$2" || { apt-get update -q && apt-get download -q "$2"; }; }) \
    >"$folder/log" 2>&1 || {
    echo "tools.sh: cannot download $2:" >&2
    tail -3 "$folder/log" >&2
    return 1
  }
  dpkg-deb -x "$folder/$2"_*.deb "$folder"
  rm -f "$folder/$2"_*.deb
  ln -sf "$folder/usr/bin/$1" "$dir/bin/$1"
}

have promtool prometheus
have prometheus prometheus
# Debian's kubernetes-client is too old for these manifests; without kubectl their tests say so.
if command -v kubectl >/dev/null; then
  ln -sf "$(command -v kubectl)" "$dir/bin/kubectl"
else
  echo "tools.sh: kubectl is not installed; the manifests will not be rendered"
fi

# The schemas of Kubernetes come with a pip package; where it cannot be had, their tests say so.
if ! "$dir/venv/bin/python" -c 'import yaml, kubernetes_validate' 2>/dev/null; then
  rm -rf "$dir/venv"
  /usr/bin/python3 -m venv --system-site-packages "$dir/venv"  # the one that python3-yaml is for
  "$dir/venv/bin/pip" install -q --disable-pip-version-check --retries 1 'kubernetes-validate>=1.30' ||
    echo "tools.sh: kubernetes-validate cannot be installed; the schemas will not be checked"
fi
echo "tools.sh: $("$dir/bin/promtool" --version 2>&1 | head -1)"
echo "tools.sh: $("$dir/venv/bin/python" --version), kubernetes-validate $("$dir/venv/bin/pip" list 2>/dev/null | awk '/^kubernetes-validate/ {print $2}')"
