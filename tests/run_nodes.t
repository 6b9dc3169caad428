#!/bin/bash
# `meshwright run` on two nodes that are both this machine, without mpirun: what it trains, what it
# says when something is not right, and that both nodes end. Faults of processes are those of
# tests/test_launch_nodes.c.
build=$(cd "${BUILD:-build}" && pwd)
folder=$(mktemp -d)
gpu=$(mktemp -d "$build/tests/gpu.XXXXXX") # data is found from within the tree
trap 'rm -rf "$folder" "$gpu"' EXIT
number=0

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

free_port() {
    perl -MIO::Socket::INET -e \
        'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}

# node K PLAN OPTIONS...: leaves $folder/K.{out,err,status}
node() {
    "$build/meshwright" run "$folder/$2.json" --rendezvous "127.0.0.1:$port" --node-rank "$1" \
        --node-count 2 --backend "${backend:-cpu}" -o "$folder/$1.run" "${@:3}" \
        >"$folder/$1.out" 2>"$folder/$1.err"
    echo $? >"$folder/$1.status"
}

losses() {
    sed -n 's/^step.*loss \([0-9.]*\)  norm \([0-9.]*\).*/\1 \2/p' "$1"
}

says() {
    grep -Eq "$2" "$folder/$1" && return
    sed 's/^/# /' "$folder/$1" >&2
    return 1
}

ended() {
    test "$(cat "$folder/$1.status")" = "$2"
}

plan whole --gpus 4 --tp 2 --pp 2 --schedule 1f1b
plan other --gpus 4 --dp 4
"$build/meshwright" run "$folder/whole.json" --spawn --backend cpu --steps 3 -o "$folder/run" \
    >"$folder/spawned.out" 2>"$folder/spawned.err"
port=$(free_port)
node 1 whole --steps 3 &
node 0 whole --steps 3
wait
check "node 0 ends well" ended 0 0
check "node 1 ends well" ended 1 0
check "losses are those of one node" diff <(losses "$folder/0.out") <(losses "$folder/spawned.out")
check "there are three" test "$(losses "$folder/0.out" | wc -l)" = 3
check "the way of the data is told" says 0.out ', 4 ranks over tcp$'
check "node 1 has nothing to say" test ! -s "$folder/1.out"
check "and writes no file" test ! -e "$folder/1.run"

# One process a node under srun: those are launchers, not ranks.
port=$(free_port)
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 node 1 whole --steps 1 &
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 node 0 whole --steps 1
wait
check "one process a node may be srun's" ended 0 0

port=$(free_port)
node 1 other --steps 3 &
node 0 whole --steps 3
wait
for k in 0 1; do
    check "another plan on one node is told on node $k" says $k.err \
        '^meshwright run: node 1 \(.*\) has another plan than node 0$'
    check "exit 4 on node $k" ended $k 4
done

port=$(free_port)
node 1 whole --steps 4 &
node 0 whole --steps 3
wait
for k in 0 1; do
    check "other options on one node are told on node $k" says $k.err \
        '^meshwright run: node 1 \(.*\) was started with other options than node 0$'
done

# A device that is not there, on all nodes.
if [ ! -e /dev/nvidia0 ] && [ -e "$build/exec_cuda.so" ]; then
    port=$(free_port)
    backend=cuda node 1 whole &
    backend=cuda node 0 whole
    wait
    check "a rank that fails is told on node 0" says 0.err \
        '^meshwright run: rank [0-3] failed in step 0: .*'
    check "and on node 1, alike" cmp -s "$folder/0.err" "$folder/1.err"
    check "with exit 4" ended 1 4
fi

# CUDA's back end and NCCL as they are emulated for tests, under the names of the real ones: one
# device, which all ranks share.
cp "$build/meshwright" "$gpu"
for name in cuda nccl; do
    ln -s "$build/exec_${name}_emulated.so" "$gpu/exec_$name.so"
done
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

# refuses NAME PATTERN OPTIONS...
refuses() {
    "$build/meshwright" run "$folder/whole.json" "${@:3}" >"$folder/r.out" 2>"$folder/r.err"
    echo $? >"$folder/r.status"
    check "$1: exit 2" ended r 2
    check "$1 is told" says r.err "^meshwright run: $2\$"
}
refuses "a node without a rendezvous" '--node-rank and --node-count need --rendezvous HOST:PORT' \
    --node-rank 0
refuses "a rendezvous without nodes" \
    '--rendezvous needs --node-rank K and --node-count N, of two nodes or more' --rendezvous a:1
refuses "a node past the last" '--node-rank: must be between 0 and 1, found 2' \
    --rendezvous a:1 --node-rank 2 --node-count 2
refuses "no port" "--rendezvous: found 'a', wanted HOST:PORT with a port of 1 to 65535" \
    --rendezvous a --node-rank 0 --node-count 2
refuses "more nodes than ranks" '--node-count 9: the plan has 4 ranks' \
    --rendezvous a:1 --node-rank 0 --node-count 9
refuses "MPI without mpirun" '--transport mpi: ranks without mpirun have no MPI' \
    --transport mpi --spawn
"$build/meshwright" run "$folder/whole.json" --spawn --backend cpu --transport nccl \
    >"$folder/n.out" 2>"$folder/n.err"
echo $? >"$folder/n.status"
check "NCCL between CPUs: exit 4" ended n 4
check "NCCL between CPUs is told" says n.err \
    'rank [0-3] failed in step 0: the transport nccl is between GPUs: the ranks compute on cpu$'
echo "1..$number"
