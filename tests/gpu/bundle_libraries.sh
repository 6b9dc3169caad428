#!/bin/sh
# Copies into FOLDER/lib what the programs and plug-ins of FOLDER need of this Debian and a bare
# machine lacks: not the C library and its like, which any system has as new, nor CUDA's.
# What is there already is found there, and left alone. The large ones are packed, as OpenBLAS has
# kernels for processors of all kinds: run.sh unpacks them where there is a device. Bundle and tree together go to the
# machine, so both are counted.
#   tests/gpu/bundle_libraries.sh FOLDER
set -eu
folder=$1
mkdir -p "$folder/lib"
here=$(cd "$folder" && pwd -P)
for program in "$folder"/meshwright "$folder"/*.so "$folder"/tests/*; do
    ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
    case ${library##*/} in
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*) ;;
    libstdc++.so.* | libgcc_s.so.*) ;;
    libcu*.so.* | libnccl.so.* | libnvrtc*.so.*) ;;
    *)
        [ "${library#"$here/"}" = "$library" ] || continue
        [ -e "$folder/lib/${library##*/}.gz" ] || cp -Lf "$library" "$folder/lib/"
        ;;
    esac
done
find "$folder/lib" -type f -size +2M ! -name '*.gz' | while read -r library; do
    gzip -9nc "$library" >"$library.gz.new" && mv "$library.gz.new" "$library.gz" && rm "$library"
done
bytes=$(du -sb "$folder" | cut -f 1)
tree=$(git ls-files -z 2>/dev/null | du -cb --files0-from=- 2>/dev/null | tail -n 1 | cut -f 1)
echo "$folder: $bytes bytes, beside ${tree:=0} of the tree"
[ $((bytes + tree)) -lt 55000000 ] || { echo "$folder is too large: 55 MB with the tree" >&2; exit 1; }
