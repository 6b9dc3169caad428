#!/bin/sh
# Installs the Debian packages that building and testing need and that are missing; says which.
# Silent when all are there. `install_deps.sh check` adds what `make check` needs.
set -eu

packages="gcc libc6-dev make pkg-config libglpk-dev libhwloc-dev libcjson-dev libcmocka-dev
          libprotobuf-c-dev protobuf-c-compiler zlib1g-dev libopenblas-dev openmpi-bin
          libopenmpi-dev gnuplot-nox libsqlite3-0 perl"
if [ "${1:-}" = check ]; then
    packages="$packages clang clang-tidy clang-format libclang-rt-14-dev chromium libxml2-utils
              abigail-tools"
fi

# gnuplot-nox may be replaced by another gnuplot, and pkg-config by pkgconf, where a user chose so.
is_installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed' && return 0
    case $1 in
    gnuplot-nox) command -v gnuplot >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    *) return 1 ;;
    esac
}

if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system: please see that these are installed:" $packages
    exit 0
fi
missing=
for package in $packages; do
    is_installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "These Debian packages are missing and are being installed:$missing."
as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Installing needs root: please run  apt-get install$missing" >&2
        exit 4
    fi
    as_root="sudo"
fi
install_missing() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $missing </dev/null >"$log" 2>&1
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A fresh system has no package lists, an old one stale lists: only then is an update needed.
install_missing || { $as_root apt-get update -qq >"$log" 2>&1 && install_missing; } || {
    cat "$log" >&2
    exit 4
}
