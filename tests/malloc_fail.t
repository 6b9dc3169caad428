#!/bin/bash
# Fails the N-th allocation of a command for N = 1, 2, 3, ... until it succeeds: every time it must
# end with status 4, one line on stderr, nothing half-written, and no crash.
build=${BUILD:-build}
library=$build/tests/malloc_fail.so
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if grep -q __asan_init "$build/meshwright"; then
    echo "1..0 # SKIP the sanitizer has its own malloc"
    exit 0
fi

# Runs the command with the N-th allocation failing; says what was wrong, or nothing.
attempt() {
    local n=$1 output=$2
    shift 2
    rm -rf "${folder:?}"/*
    MALLOC_FAIL=$n LD_PRELOAD=$PWD/$library "$build/meshwright" "$@" \
        >"$folder/out" 2>"$folder/err"
    status=$?
    case $status in
    0) return ;;
    4) ;;
    *) echo "allocation $n: status $status, $(head -c 200 "$folder/err")" ;;
    esac
    [ "$(wc -l <"$folder/err")" -eq 1 ] || echo "allocation $n: stderr is not one line"
    [ -z "$output" ] || [ ! -e "$folder/$output" ] || echo "allocation $n: $output was written"
    find "$folder" -name '*.tmp' -printf "allocation $n: %p was left\n"
}

# Every N up to 200, then about every 25th part of N: the later ones repeat a few places.
loop() {
    local name=$1 output=$2 n=1 status=4 faults=
    shift 2
    while [ "$status" -ne 0 ] && [ "$n" -lt 100000000 ]; do
        # Not in a subshell: the status is needed here.
        attempt "$n" "$output" "$@" >"$folder.faults"
        faults=$faults$(cat "$folder.faults")
        rm -f "$folder.faults"
        [ -z "$faults" ] || break
        n=$((n < 200 ? n + 1 : n + n / 25))
    done
    number=$((number + 1))
    if [ -z "$faults" ] && [ "$status" -eq 0 ]; then
        echo "ok $number - $name, $n allocations"
    else
        echo "not ok $number - $name"
        echo "# ${faults:-it never succeeded}" >&2
    fi
}

number=0
loop "topology survives each failing allocation" "" topology topologies/dgx-a100-80g.json
loop "topology --json survives each failing allocation" "" topology dgx-a100-80g --json
if "$build/meshwright" help plan >/dev/null 2>&1; then
    loop "plan survives each failing allocation" plan.json \
        plan bloom-560m dgx-a100-80g --seq-len 512 --global-batch 8 --dp 8 --tp 1 --cp 1 --pp 1 \
        --micro-batch 1 --zero 1 --recompute none --schedule 1f1b --stack meshwright \
        -o "$folder/plan.json"
else
    number=$((number + 1))
    echo "ok $number - plan survives each failing allocation # SKIP plan is not built"
fi
loop "whatif survives each failing allocation" "" \
    whatif gpt2 dgx-a100-40g --gpus 4,8 --seq-len 512 --global-batch 8 --tp 1 --cp 1 --pp 1 \
    --micro-batch 1 --zero 1 --recompute none --schedule 1f1b --stack megatron-core \
    --workers 2
loop "validate survives each failing allocation" headline.json \
    validate tests/data/runs.jsonl --family kempner --headline-out "$folder/headline.json"
rows=$(mktemp)
head -2 tests/data/runs.jsonl >"$rows"
loop "fit survives each failing allocation" tests/validation/left_out.json \
    fit "$rows" --leave-out none -o "$folder" --date 2026-11-21
rm "$rows"
echo "1..$number"
