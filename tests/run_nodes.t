#!/bin/bash
# `meshwright run` on several hosts that are all this machine: groups of processes under mpirun over
# MPI, with srun's environment, and one process a host whose launchers meet by files and whose ranks
# exchange over the emulation of NCCL. What they train, what they say when something is not right,
# and that all end. More faults of processes are those of tests/executor/test_launch_nodes.c.
build=$(cd "${BUILD:-build}" && pwd)
folder=$(mktemp -d)
# Open MPI leaves memory at its end, which is no fault of ours: the sanitizer does not look for it.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
gpu=$(mktemp -d "$build/tests/gpu.XXXXXX") # data is found from within the tree
trap 'rm -rf "$folder" "$gpu"' EXIT
number=0
unset SLURM_JOB_ID
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

check() {
    number=$((number + 1))
    local word='not ok'
    if "${@:2}"; then word=ok; fi
    echo "$word $number - $1"
}

cat >"$folder/tiny.json" <<'MODEL'
{"model_type": "gpt2", "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 8,
 "vocab_size": 256}
MODEL
work="dgx-a100-80g --precision fp32 --seq-len 8 --global-batch 4 --micro-batch 1 --stack meshwright"

# plan NAME CHOICES...
plan() {
    # shellcheck disable=SC2086
    "$build/meshwright" plan "$folder/tiny.json" $work "${@:2}" -o "$folder/$1.json" \
        >"$folder/$1.plan" 2>&1
}

losses() {
    sed -n 's/^step.*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2/p' "$1"
}

says() {
    grep -Eq "$2" "$folder/$1" && return
    sed 's/^/# /' "$folder/$1" >&2
    return 1
}

# Of ours, but for what a good run says as well.
lines() {
    local good=': predicted for| on .*OpenBLAS|: cuda on '
    test "$(grep '^meshwright run: ' "$folder/$1" | grep -Evc "$good")" = "$2" && return
    sed 's/^/# /' "$folder/$1" >&2
    return 1
}

ended() {
    test "$(cat "$folder/$1.status")" = "$2" && return
    echo "# status $(cat "$folder/$1.status")" >&2
    return 1
}

# Whether it comes true within some seconds.
soon() {
    for _ in $(seq 200); do
        if "$@"; then return; fi
        sleep 0.05
    done
    return 1
}

plan whole --gpus 4 --tp 2 --pp 2 --schedule 1f1b
plan other --gpus 4 --dp 4
plan pair --gpus 2 --dp 2
"$build/meshwright" run "$folder/whole.json" --spawn --backend cpu --steps 3 -o "$folder/run" \
    >"$folder/spawned.out" 2>"$folder/spawned.err"

# CUDA's back end and NCCL as they are emulated for tests, under the names of the real ones: one
# device, which all ranks share.
cp "$build/meshwright" "$gpu"
for name in cuda nccl; do
    ln -s "$build/exec_${name}_emulated.so" "$gpu/exec_$name.so"
done
if [ -e "$build/exec_mpi.so" ]; then ln -s "$build/exec_mpi.so" "$gpu"; fi

# Nothing of ours talks to the network.
listens() {
    nm -u "$1" | grep -Ew '(socket|bind|listen|accept|accept4|connect|getaddrinfo)(@.*)?'
}
for part in meshwright exec_mpi.so exec_nccl.so; do
    if [ ! -e "$build/$part" ]; then continue; fi
    check "$part opens no connections" test -z "$(listens "$build/$part")"
done

# hosts NAME RANKS PLAN OPTIONS...: two ranks a host; leaves $folder/NAME.{out,err,status}
hosts() {
    MESHWRIGHT_RANKS_PER_HOST=2 mpirun --oversubscribe --bind-to none -n "$2" \
        ${wrap:+sh "$wrap"} "${binary:-$build/meshwright}" run "$folder/$3.json" \
        --backend "${backend:-cpu}" -o "${output:-$folder/$1.run}" "${@:4}" \
        >"$folder/$1.out" 2>"$folder/$1.err"
    echo $? >"$folder/$1.status"
}

# The process that is a rank, below its guard below mpirun; names of plans are those of tests.
process() {
    for guard in $(pgrep -f -- "^$build/meshwright run $folder/$1.json .*-o $folder/$2.run"); do
        tr '\0' '\n' 2>/dev/null <"/proc/$guard/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$3" &&
            pgrep -P "$guard" && return
    done
    return 1
}

steps() {
    grep -qs '^step  *2' "$folder/$1.out"
}

if [ -e "$build/exec_mpi.so" ] && command -v mpirun >"$folder/mpirun"; then
    hosts whole 4 whole --steps 3
    check "hosts under mpirun end well" ended whole 0
    check "losses are those of one host" diff <(losses "$folder/whole.out") \
        <(losses "$folder/spawned.out")
    check "there are three" test "$(losses "$folder/whole.out" | wc -l)" = 3
    check "the way of the data is told" says whole.out ', 4 ranks over mpi$'

    # What srun sets, beside a real PMIx: rank and size are found without mpirun's own names.
    wrap=$folder/srun
    cat >"$wrap" <<'SRUN'
export SLURM_PROCID=$OMPI_COMM_WORLD_RANK SLURM_LOCALID=$OMPI_COMM_WORLD_LOCAL_RANK
export SLURM_STEP_NUM_TASKS=$OMPI_COMM_WORLD_SIZE
for name in $(env | sed -n 's/^\(OMPI_COMM_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
exec "$@"
SRUN
    hosts srun 4 whole --steps 3
    wrap=
    check "with srun's environment as well" ended srun 0
    check "with the same losses" diff <(losses "$folder/srun.out") <(losses "$folder/spawned.out")
    SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 "$build/meshwright" run "$folder/whole.json" \
        --backend cpu >"$folder/bare.out" 2>"$folder/bare.err"
    echo $? >"$folder/bare.status"
    check "srun without PMIx: exit 4" ended bare 4
    check "srun without PMIx is told" says bare.err \
        '^meshwright run: rank 0 failed .*: MPI says rank 0 of 1 where rank 0 of 4 .* --mpi=pmix$'

    hosts three 3 whole
    check "too few ranks: exit 2" ended three 2
    check "and one line" lines three.err 1
    check "which says so" says three.err \
        '^meshwright run: the plan has 4 ranks, the launcher started 3$'
    output=/nowhere/run.json hosts failed 4 whole --steps 1
    check "a rank that fails: exit 4" ended failed 4
    check "and one line of it" lines failed.err 1
    check "with rank and reason" says failed.err \
        '^meshwright run: rank 0 failed in step 1, .*: cannot write /nowhere/run.json: '

    # A rank on the second host is killed, in another job one is stopped, which takes 10 s to see.
    hosts stopped 2 pair --steps 1000000 &
    soon steps stopped
    victim=$(process pair stopped 1)
    check "a job to stop runs" kill -STOP "$victim"
    hosts killed 4 whole --steps 1000000 &
    soon steps killed
    victim=$(process whole killed 3)
    check "a job to kill runs" kill -KILL "$victim"
    soon test -s "$folder/killed.status"
    check "a rank that is killed: exit 4" ended killed 4
    check "and one line of it" lines killed.err 1
    check "with rank, step and operator" says killed.err \
        '^meshwright run: rank 3 was killed \(signal 9\) in step [0-9]+, .*at .'
    check "nothing of it is left" soon test -z "$(pgrep -f -- "-o $folder/killed.run")"

    binary=$gpu/meshwright backend=cuda hosts ids 4 whole --steps 3 --transport nccl
    check "ids of NCCL go over MPI" says ids.out ', 4 ranks over nccl$'
    check "with the losses of the emulated device" test "$(losses "$folder/ids.out" | wc -l)" = 3
fi

# node K PLAN OPTIONS...: leaves $folder/K.{out,err,status}
mkdir "$folder/meet"
node() {
    local place=(--node-rank "$1" --node-count 2)
    if [ -n "$SLURM_JOB_ID" ]; then place=(); fi # which srun says
    "$gpu/meshwright" run "$folder/$2.json" --rendezvous "$folder/meet" "${place[@]}" \
        --backend cuda --transport "${transport:-nccl}" \
        -o "$folder/$1.run" "${@:3}" >"$folder/$1.out" 2>"$folder/$1.err"
    echo $? >"$folder/$1.status"
}

# device TRANSPORT
device() {
    "$gpu/meshwright" run "$folder/whole.json" --spawn --backend cuda --transport "$1" \
        --steps 3 -o "$folder/run" >"$folder/$1.out" 2>"$folder/$1.err"
}
check "ranks that share a device run" device auto
check "over the host's memory" says auto.out ', 4 ranks over host$'
check "which is said" says auto.err \
    "^meshwright run: ranks share a GPU: what they exchange goes through the host's memory$"
check "NCCL, when asked for, is used" device nccl
check "for their data" says nccl.out ', 4 ranks over nccl$'
check "with the losses of the host's memory" \
    diff <(losses "$folder/nccl.out") <(losses "$folder/auto.out")

node 1 whole --steps 3 &
node 0 whole --steps 3
wait $!
check "node 0 ends well" ended 0 0
check "node 1 ends well" ended 1 0
check "losses are those of one node" diff <(losses "$folder/0.out") <(losses "$folder/auto.out")
check "there are three" test "$(losses "$folder/0.out" | wc -l)" = 3
check "the way of the data is told" says 0.out ', 4 ranks over nccl$'
check "node 1 has nothing to say" test ! -s "$folder/1.out"
check "and writes no file" test ! -e "$folder/1.run"
check "nothing stays where they met" test -z "$(ls -A "$folder/meet")"
if [ -e "$folder/ids.out" ]; then
    check "ids by files or by MPI make no difference" \
        diff <(losses "$folder/ids.out") <(losses "$folder/0.out")
fi

# One process a node under srun: those are launchers, not ranks, and srun says which.
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=7 node 1 whole --steps 1 &
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=7 node 0 whole --steps 1
wait $!
check "one process a node may be srun's" ended 0 0
check "on both nodes" ended 1 0

node 1 other --steps 3 &
node 0 whole --steps 3
wait $!
for k in 0 1; do
    check "another plan on one node is told on node $k" says $k.err \
        '^meshwright run: node 1 \(.*\) has another plan than node 0$'
    check "exit 4 on node $k" ended $k 4
done

node 1 whole --steps 4 &
node 0 whole --steps 3
wait $!
for k in 0 1; do
    check "other options on one node are told on node $k" says $k.err \
        '^meshwright run: node 1 \(.*\) was started with other options than node 0$'
done

# Not asked for, NCCL is not used where ranks share a device, and there is nothing else.
transport=auto node 1 whole &
transport=auto node 0 whole
wait $!
check "ranks of several hosts that share a device are told" says 0.err \
    '^meshwright run: with --rendezvous data goes over NCCL: ranks share a GPU.*'
check "and on node 1, alike" \
    diff <(grep rendezvous "$folder/0.err") <(grep rendezvous "$folder/1.err")
check "with exit 4" ended 1 4

rm -f "$folder"/[01].*
node 1 whole --steps 1000000 &
node 0 whole --steps 1000000 &
soon steps 0
# Rank 3 says so itself: numbers of processes begin anew after the largest.
victim=$(for each in $(pgrep -f -- "-o $folder/1.run"); do
    tr '\0' '\n' 2>/dev/null <"/proc/$each/environ" | grep -qx MESHWRIGHT_RANK=3 && echo "$each"
done)
check "a job to kill runs" kill -KILL "$victim"
soon test -s "$folder/0.status" && soon test -s "$folder/1.status"
for k in 0 1; do
    check "a rank that is killed is told on node $k" says $k.err \
        '^meshwright run: rank 3 was killed \(signal 9\) in step [0-9]+, .*at .'
    check "with exit 4 on node $k" ended $k 4
    check "in one line on node $k" lines $k.err 1
done

# refuses NAME PATTERN OPTIONS...
refuses() {
    "$build/meshwright" run "$folder/whole.json" "${@:3}" >"$folder/r.out" 2>"$folder/r.err"
    echo $? >"$folder/r.status"
    check "$1: exit 2" ended r 2
    check "$1 is told" says r.err "^meshwright run: $2\$"
}
meet="--rendezvous $folder/meet"
both="--node-rank 0 --node-count 2"
refuses "a node without a rendezvous" \
    '--node-rank, --node-count and --job need --rendezvous DIR' --node-rank 0
# shellcheck disable=SC2086
{
    refuses "a rendezvous without nodes" \
        '--rendezvous needs --node-rank K and --node-count N, of two nodes or more, or a .*' $meet
    refuses "a node past the last" '--node-rank: must be between 0 and 1, found 2' \
        $meet --node-rank 2 --node-count 2
    refuses "no folder" '--rendezvous /nowhere: No such file or directory' \
        --rendezvous /nowhere $both
    refuses "a file for a folder" '--rendezvous .*/whole.json: no folder' \
        --rendezvous "$folder/whole.json" $both
    refuses "a job with no name" "--job: found 'a/b', wanted 1 to 64 letters, digits and \"._-\"" \
        $meet $both --job a/b
    refuses "more nodes than ranks" '--node-count 9: the plan has 4 ranks' \
        $meet --node-rank 0 --node-count 9
    refuses "MPI without mpirun" '--transport mpi: ranks without mpirun have no MPI' \
        --transport mpi --spawn
    refuses "files to meet for MPI" '--transport mpi: with --rendezvous data goes over NCCL; .*' \
        $meet $both --transport mpi
    refuses "files to meet for CPU ranks" \
        '--backend cpu: with --rendezvous data goes over NCCL, between GPUs; .*' \
        $meet $both --backend cpu
}
"$build/meshwright" run "$folder/whole.json" --spawn --backend cpu --transport nccl \
    >"$folder/n.out" 2>"$folder/n.err"
echo $? >"$folder/n.status"
check "NCCL between CPUs: exit 2" ended n 2
check "NCCL between CPUs is told" says n.err \
    '^meshwright run: the transport nccl is between GPUs: the ranks compute on cpu$'

if [ -e "$folder/killed.status" ]; then
    soon test -s "$folder/stopped.status" || soon test -s "$folder/stopped.status"
    check "a rank that is stopped: exit 4" ended stopped 4
    check "and one line of it" lines stopped.err 1
    check "with rank and step" says stopped.err \
        '^meshwright run: rank 1 was stopped for 10 s in step [0-9]+, .*at .'
fi
echo "1..$number"
