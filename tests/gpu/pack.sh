#!/usr/bin/env bash
# pack.sh BUILD_DIR OUT: the programs of a build and the shared libraries they need, stripped, for
# a machine that has a C++ runtime, OpenBLAS and CUDA (what building the engine needs) but not the
# rest. Programs land in OUT, libraries in OUT/lib; run them with LD_LIBRARY_PATH=OUT/lib. Fails
# above 48 MiB.
set -euo pipefail
build=${1:?usage: pack.sh BUILD_DIR OUT} out=${2:?usage: pack.sh BUILD_DIR OUT}
programs=(coat coat-server coat-worker coat-train)
# The C and C++ runtimes, OpenBLAS, and what comes with the driver and CUDA.
there='^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libgfortran|libquadmath|libopenblas|libcuda|libcudart|libcublas|libcublasLt|libcudnn.*|libnccl|libnvrtc.*|libnvidia.*)\.so'
mkdir -p "$out/lib"
for program in "${programs[@]}"; do
  [ -x "$build/bin/$program" ] || { echo "pack.sh: $build/bin/$program is missing; build it" >&2; exit 1; }
  install -m 755 "$build/bin/$program" "$out/"
  strip "$out/$program"
  ldd "$build/bin/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'
done | sort -u | while read -r name path; do
  [[ $name =~ $there ]] && continue
  install -m 755 "$path" "$out/lib/$name"
  strip --strip-unneeded "$out/lib/$name"
done
size=$(du -sm "$out" | cut -f1)
echo "$out: $(ls "$out/lib" | wc -l) libraries, $size MiB"
[ "$size" -le 48 ] || { echo "pack.sh: more than 48 MiB" >&2; exit 1; }
