#!/bin/bash
# Promise R1: a plan is a pure function of its inputs: the same bytes whatever the
# environment and folder. A foreign locale may not be installed where this runs: that no code calls
# setlocale, which tidy.t checks, is what keeps numbers apart from it.
build=$(cd "${BUILD:-build}" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0

plan() {
    "$build/meshwright" plan "$@" >/dev/null 2>&1
}

check() {
    number=$((number + 1))
    local word='not ok'
    if cmp -s "$folder/$1" "$folder/$2"; then word=ok; fi
    echo "$word $number - $3"
}

for args in "llama-2-70b dgx-a100-80g-x16 --seq-len 4096 --global-batch 1024 --tokens 2T" \
    "gpt2 dgx-h100 --gpus 6 --seq-len 1024 --global-batch 96" \
    "gemma-2-27b mi300x-8-x4 --seq-len 4096 --global-batch 256 --stack megatron-core --vpp 1"; do
    # shellcheck disable=SC2086
    plan $args -o "$folder/a.json"
    (cd "$folder" && env -i LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo "$build/meshwright" plan $args \
        -o c.json >/dev/null 2>&1)
    plan $args --exhaustive --top 1 -o "$folder/d.json"
    check a.json c.json "another folder and nothing in the environment but another place: $args"
    "$build/meshwright" simulate "$folder/a.json" --json --trace "$folder/a.trace" >"$folder/a.sim"
    "$build/meshwright" simulate "$folder/c.json" --json --trace "$folder/c.trace" >"$folder/c.sim"
    check a.sim c.sim "the simulation of both: $args"
    check a.trace c.trace "the timeline of both: $args"
    number=$((number + 1))
    step=$(grep -m1 '"step_s"' "$folder/a.json")
    word='not ok'
    [ "$step" != "$(grep -m1 '"step_s"' "$folder/d.json")" ] || word=ok
    echo "$word $number - exhaustive search finds no faster plan: $args"
done
echo "1..$number"
