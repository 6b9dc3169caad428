#!/bin/sh
# Everything that wants a GPU, in at most ten minutes on one: kernels against the CPU back end, runs
# on one GPU and of several ranks on it, the sanitizer, calibration, predicted against measured,
# speed beside PyTorch's. Takes a folder made by `make gpu_bundle`, which needs nothing but CUDA,
# and PyTorch for the comparisons; where there is none it builds.
#   tests/gpu/run.sh [--seconds S] [--stages A,B | --sanitizers] [--list] [--keep FILE.tar.gz]
#                    [FOLDER [RESULT.json]]
# The sanitizers are slow and say nothing of speed: they are a second call, with --sanitizers.
# Stages go by their worth, each with a time of its own. One that fails or is late is a row that
# says so; the result, of executor/results/result.schema.json, is written after every stage.
# --keep packs what the stages wrote, plans, runs and logs, for who wants to know more.
# MESHWRIGHT_GPU_EMULATED=1 takes the emulation of the back end and tiny sizes: that checks this
# script and no device. Ends with 0 when nothing failed, 1 when something did, 2 when it is called
# in a wrong way, 4 when there is no device.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/stages.sh

seconds=600
chosen=
kept=
sanitizers=,memcheck,racecheck,initcheck,synccheck,
while [ $# -gt 0 ]; do
    case $1 in
    --seconds | --stages | --keep)
        [ $# -ge 2 ] || { echo "run.sh: $1 wants a value" >&2; exit 2; }
        case $1 in --seconds) seconds=$2 ;; --stages) chosen=,$2, ;; --keep) kept=$2 ;; esac
        shift
        ;;
    --sanitizers) chosen=$sanitizers ;;
    --list)
        list_stages
        exit 0
        ;;
    --stage) # of itself: one stage, in $WORK
        stage=$2
        "stage_$stage"
        exit
        ;;
    -*) echo "run.sh: no option $1" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
case $seconds in '' | *[!0-9]*) echo "run.sh: --seconds wants a whole number" >&2; exit 2 ;; esac
for name in $(echo "$chosen" | tr ',' ' '); do
    list_stages | grep -q "^$name " || { echo "run.sh: no stage $name; --list has them" >&2; exit 2; }
done

emulated=${MESHWRIGHT_GPU_EMULATED:-}
folder=${1:-}
if [ -z "$folder" ]; then
    folder=build
    [ -n "$emulated" ] || [ ! -x build/gpu_bundle/meshwright ] || folder=build/gpu_bundle
fi
result=${2:-$folder/gpu_result.json}
[ $# -ge 2 ] || [ "$chosen" != "$sanitizers" ] || result=$folder/gpu_sanitizers.json
if [ -x "$folder/meshwright" ] && [ -x "$folder/tests/gpu_compare" ]; then
    echo "run.sh: using what is in $folder" >&2
else
    make -j"$(nproc)" BUILD="$folder" gpu_programs >&2 || exit 1
fi

WORK=$(mktemp -d) || exit 4
leave() {
    [ -z "$kept" ] || tar -C "$WORK" --exclude=./lib --exclude=./cache -czf "$kept" . ||
        echo "run.sh: cannot write $kept" >&2
    rm -rf "$WORK"
}
trap leave EXIT
trap 'exit 130' INT TERM
LD_LIBRARY_PATH=$WORK/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
TESTS=$folder/tests
COMPARE=$folder/tests/gpu_compare
MESHWRIGHT=$folder/meshwright
TINY=
if [ -n "$emulated" ]; then
    MESHWRIGHT=$folder/emulated/meshwright
    COMPARE=$folder/emulated/gpu_compare
    TINY=tiny
fi
export WORK TESTS COMPARE MESHWRIGHT TINY
PATH=$PATH:/usr/local/cuda/bin # for compute-sanitizer
# Files of `calibrate` are of this run.
XDG_CACHE_HOME=$WORK/cache
export XDG_CACHE_HOME
find_libraries

begun=$(date +%s)
passed() { echo $(($(date +%s) - begun)); }

# The whole result as far as it goes, in the place of the last one at once.
write_result() {
    {
        printf '{\n  "version": 1,\n  "date": "%s",\n' "$(date -u +%F)"
        printf '  "commit": "%s",\n' "$(git rev-parse HEAD 2>/dev/null || echo unknown)"
        printf '  "emulated": %s,\n' "$([ -n "$emulated" ] && echo true || echo false)"
        printf '  "device": {%s},\n' "$(joined "$WORK/device.members")"
        printf '  "seconds": %s,\n  "stages": [\n' "$(passed)"
        cat "$WORK/rows" 2>/dev/null
        printf '\n  ]\n}\n'
    } >"$result.new" && mv "$result.new" "$result"
}

# One row: the stage, how it ended, and after how many seconds.
add_row() {
    row_measured=$(cat "$WORK/$1.measured" 2>/dev/null || echo -)
    row_goal=$(cat "$WORK/$1.goal" 2>/dev/null || echo -)
    row_reason=$(cat "$WORK/$1.reason" 2>/dev/null || true)
    [ ! -s "$WORK/rows" ] || printf ',\n' >>"$WORK/rows"
    {
        printf '    {"name": "%s", "status": "%s", "seconds": %s,\n' "$1" "$2" "$3"
        printf '     "measured": "%s", "goal": "%s", "reason": "%s",\n' "$(quoted "$row_measured")" \
            "$(quoted "$row_goal")" "$(quoted "$row_reason")"
        printf '     "values": {%s}}' "$(joined "$WORK/$1.values")"
    } >>"$WORK/rows"
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$row_measured" "$row_goal" "$row_reason" \
        >>"$WORK/table"
    write_result || { echo "run.sh: cannot write $result" >&2; exit 4; }
}

# Large libraries of the bundle are packed; where it may not be written to they are unpacked
# elsewhere.
unpack_into() {
    unpacked=${2##*/}
    gzip -dc "$2" >"$1/$unpacked.new" && mv "$1/$unpacked.new" "$1/${unpacked%.gz}"
}
unpack_libraries() {
    mkdir -p "$WORK/lib"
    for library in "$folder"/lib/*.gz; do
        if [ ! -e "$library" ] || [ -e "${library%.gz}" ]; then continue; fi
        unpack_into "$folder/lib" "$library" 2>/dev/null || unpack_into "$WORK/lib" "$library" ||
            { echo "run.sh: cannot unpack $library" >&2; exit 4; }
    done
}

run_stage() {
    left=$((seconds - $(passed)))
    if [ "$left" -lt 3 ]; then
        echo "no time was left" >"$WORK/$1.reason"
        add_row "$1" skipped 0
        return
    fi
    limit=$2
    [ "$limit" -le "$left" ] || limit=$left
    echo "run.sh: $1, at most $limit s" >&2
    stage_begun=$(date +%s)
    timeout -k 5 "$limit" sh tests/gpu/run.sh --stage "$1" >"$WORK/$1.log" 2>&1 </dev/null
    status=$?
    case $status in
    0) how=pass ;;
    77) how=skipped ;;
    124 | 137)
        how=timeout
        echo "stopped after $limit s" >"$WORK/$1.reason"
        ;;
    *)
        how=fail
        [ -s "$WORK/$1.reason" ] || tail -n 1 "$WORK/$1.log" >"$WORK/$1.reason"
        ;;
    esac
    [ $how = pass ] || [ $how = skipped ] || sed "s/^/$1: /" "$WORK/$1.log" | tail -n 30 >&2
    add_row "$1" $how $(($(date +%s) - stage_begun))
}

# The device first: without one there is nothing to do.
"$COMPARE" probe >"$WORK/device" 2>"$WORK/device.log"
status=$?
if [ $status -ne 0 ]; then
    cat "$WORK/device.log" >&2
    exit $status
fi
describe_device
unpack_libraries
list_stages | while read -r name limit _; do
    case ${chosen:-except} in
    except) case $sanitizers in *,$name,*) continue ;; esac ;;
    *,$name,*) ;;
    *) continue ;;
    esac
    run_stage "$name" "$limit"
done

print_table "$WORK/table"
echo "Wrote $result"
! cut -f 2 "$WORK/table" | grep -qE '^(fail|timeout)$'
