#!/usr/bin/env bash
# collect_text.sh DIR [MIB]: the sources of this machine's Python libraries, one flat folder of
# .txt files: real text, as much as there is up to MIB (default 64).
set -euo pipefail
dir=${1:?usage: collect_text.sh DIR [MIB]}
mkdir -p "$dir"
python3 - "$dir" "${2:-64}" <<'PYTHON'
import itertools, pathlib, sys, sysconfig

target, limit = pathlib.Path(sys.argv[1]), int(sys.argv[2]) << 20
paths = sysconfig.get_paths()
roots = dict.fromkeys(pathlib.Path(paths[name]) for name in ("purelib", "stdlib"))
total = count = 0
for source in itertools.chain.from_iterable(sorted(root.rglob("*.py")) for root in roots):
    if total >= limit:
        break
    try:
        text = source.read_bytes()
    except OSError:
        continue
    if len(text) < 1024:
        continue
    (target / f"{count:06}-{source.stem}.txt").write_bytes(text)
    total, count = total + len(text), count + 1
if total < 1 << 20:
    sys.exit(f"collect_text.sh: only {total} bytes of Python sources below {list(map(str, roots))}")
print(f"text: {count} files, {total / 2**20:.1f} MiB")
PYTHON
