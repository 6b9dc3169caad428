#!/bin/sh
# Writes DEBIAN/control for a staged tree: deb_control.sh STAGE VERSION ARCHITECTURE. What the
# package depends on follows from the libraries that its files are linked with.
set -eu
stage=$1 version=$2 architecture=$3

# The packages that own the libraries of these files. Libraries are linked from two places where
# /lib is /usr/lib, and dpkg knows one.
owners() {
    ldd "$@" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
        while read -r library; do
            real=$(readlink -f "$library")
            dpkg -S "$library" "$real" "/usr$library" "${real#/usr}" 2>/dev/null | head -n 1
        done | cut -d: -f1 | sort -u
}
listed() { tr '\n' ' ' | sed 's/ *$//; s/ /, /g'; }

needed=$(owners "$stage/usr/bin/meshwright" "$stage/usr/lib/libmeshwright.so.0")
plugins=$(owners "$stage"/usr/lib/meshwright/exec_cpu*.so)
depends=$(printf '%s\n%s\n' "$needed" "$plugins" | sort -u | sed '/^$/d' | listed)
size=$(du -sk "$stage/usr" | cut -f1)
mkdir -p "$stage/DEBIAN"
cat >"$stage/DEBIAN/control" <<CONTROL
Package: meshwright
Version: $version
Architecture: $architecture
Maintainer: Meshwright <meshwright@localhost>
Installed-Size: $size
Depends: $depends
Recommends: openmpi-bin, gnuplot-nox, libsqlite3-0
Section: science
Priority: optional
Description: planner, simulator and executor for training large models
 How should this model be trained on that cluster, how long will it take, what
 will it cost, and is that true? Searches every way to split the work, predicts
 time and memory with a band earned on published runs, and runs the plan.
CONTROL
