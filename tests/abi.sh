#!/bin/sh
# Whether programs that were linked with the committed libmeshwright still run with this one:
# abidiff compares what both export, as the debug information has it. tests/abi.sh LIBRARY;
# tests/abi.sh --update LIBRARY writes the committed description: look at the difference.
set -eu
committed=tests/data/libmeshwright.abi
command -v abidiff >/dev/null || {
    echo "abidiff is not there: apt-get install abigail-tools" >&2
    exit 4
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/include"
cp library/meshwright.h "$folder/include"

# What the header shows alone: the library's own types are nobody's business.
describe() {
    abidw --headers-dir "$folder/include" --drop-private-types --exported-interfaces-only \
        --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed "$1"
}
if [ "$1" = --update ]; then
    describe "$2" >"$committed"
else
    # Against the library itself abidiff would leave out what differs from its headers.
    describe "$1" >"$folder/now.abi"
    abidiff --harmless "$committed" "$folder/now.abi"
fi
