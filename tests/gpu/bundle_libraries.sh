#!/bin/sh
# Copies into FOLDER/lib what the programs and plug-ins of FOLDER need of this Debian and a bare
# machine lacks: not the C library and its like, which any system has as new, nor CUDA's.
# What is there already is found there, and left alone.
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
    *) [ "${library#"$here/"}" != "$library" ] || cp -Lf "$library" "$folder/lib/" ;;
    esac
done
bytes=$(du -sb "$folder" | cut -f 1)
echo "$folder: $bytes bytes"
[ "$bytes" -lt 67108864 ] || { echo "$folder is larger than 64 MiB" >&2; exit 1; }
