# shellcheck shell=sh
# The stages of tests/gpu/run.sh: one function each, which ends with 0 when it passes, with 77 when
# it has nothing to do here, and else fails. Numbers go to $WORK/STAGE.values, what the table shows
# to .measured, .goal and .reason.

# Name, seconds at most, what it does; by worth. The sanitizers are a call of their own.
list_stages() {
    cat <<END
first_look     20  libraries that open, a product in each precision, a plan of cuDNN made and run
kernels_fp32   40  every kernel against the CPU back end, single precision
kernels_bf16   40  the same in bf16
one_gpu_fp32   60  a model trained on one GPU in fp32: the losses are the CPU's
one_gpu_bf16   45  the same in bf16, near the CPU's
calibrate      90  the files of this device
prediction     90  a plan whose products are calibrated for: predicted step and memory beside measured
layer_8b      120  Llama-8B-shaped layers, bf16, 8192 tokens: MFU of a layer and of the step
gpt2_124m      45  tokens a second and MFU
torch_124m     60  the same by PyTorch, compiled, flash attention
gpt2_1558m     75  tokens a second and MFU
torch_1558m    75  the same by PyTorch
torch_8b       75  the Llama-8B-shaped layers by PyTorch
ranks_host     90  plans of several ranks on this GPU through the host's memory
ranks_nccl     90  the same through NCCL
kernel_tests   60  the tests of kernels on the device
backend_tests  60  the tests of the back end on the device
family_tests   60  the tests of models of videos, proteins and towers on the device
image_tests    60  the tests of operators of imported graphs on images on the device
engine_tests   60  the tests of plans in 16 bits on the device
group_tests    30  the tests of grouped products on the device
sum_tests      30  the tests of sums beside products on the device
memcheck       60  compute-sanitizer on a run of two steps
racecheck      60  the same
initcheck      60  the same
synccheck      60  the same
replay         45  one rank of a plan of eight, alone
END
}

# Helpers of the stages; run.sh sets what is named here.
stage=${stage:-}
WORK=${WORK:-}
say() { printf '%s\n' "$2" >"$WORK/$stage.$1"; }
value() {
    printf '"%s": %s\n' "$1" "$(printf '%s' "${2:-null}" | tr '\n' ' ')" >>"$WORK/$stage.values"
}
skip() { say reason "$1"; exit 77; }
calculate() { awk "BEGIN { printf \"%.6g\", $1 }"; }
holds() { awk "BEGIN { exit !($1) }"; }
# A number or a list of a run.json.
number_of() { sed -n "s/.*\"$2\": \\([-+0-9.eE]*\\).*/\\1/p" "$1" | head -n 1; }
list_of() { sed -n "s/.*\"$2\": \\[\\([^]]*\\)\\].*/\\1/p" "$1" | head -n 1; }
joined() { [ -s "$1" ] && paste -sd, "$1"; }
lines_as_list() { printf '[%s]' "$(paste -sd, "$1")"; }
quoted() { printf '%s' "$1" | tr -d '\r\n\t' | sed 's/\\/\\\\/g; s/"/\\"/g'; }

describe_device() {
    cp "$WORK/device" "$WORK/device.members"
    if command -v nvidia-smi >/dev/null; then
        printf '"nvidia_smi": "%s"\n' "$(quoted "$(nvidia-smi \
            --query-gpu=name,driver_version,power.limit,clocks.max.sm --format=csv,noheader |
            head -n 1)")" >>"$WORK/device.members"
    fi
    torch=$(python3 -c 'import torch; print(torch.__version__)' 2>/dev/null) || torch=
    printf '"torch": "%s"\n' "$(quoted "$torch")" >>"$WORK/device.members"
    sed 's/^/run.sh: /' "$WORK/device.members" >&2
}

# CUDA's libraries that are in no folder of the loader's may have come with PyTorch.
find_libraries() {
    for library in libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
        [ ! -e "/usr/local/cuda/lib64/$library" ] || continue
        ! ldconfig -p 2>/dev/null | grep -q "$library " || continue
        found=$(find /usr/lib/python3* /usr/local/lib/python3* /opt "$HOME" \
            -name "$library" 2>/dev/null | head -n 1)
        [ -z "$found" ] || LD_LIBRARY_PATH=${found%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    [ -z "${LD_LIBRARY_PATH:-}" ] || export LD_LIBRARY_PATH
}

print_table() {
    awk -F '\t' '
        BEGIN { n = 1; split("stage result measured goal note", h, " ")
                for (c = 1; c <= 5; c++) { cell[n, c] = h[c]; w[c] = length(h[c]) } }
        { n++; for (c = 1; c <= 5; c++) { cell[n, c] = $c
              if (length($c) > w[c]) w[c] = length($c) } }
        END { for (r = 1; r <= n; r++) {
              line = sprintf("%-*s  %-*s  %-*s  %-*s  %s", w[1], cell[r, 1], w[2], cell[r, 2], w[3],
                             cell[r, 3], w[4], cell[r, 4], cell[r, 5])
              sub(/ +$/, "", line); print line } }' "$1"
}

# Models. Of a device what people train; of an emulation what it can do in a second.
write_tiny() {
    cat >"$WORK/tiny.json" <<END
{"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 4, "n_positions": 64,
 "vocab_size": 512}
END
    cat >"$WORK/tiny_llama.json" <<END
{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
 "intermediate_size": 32, "num_hidden_layers": 32, "vocab_size": 512,
 "max_position_embeddings": 64, "hidden_act": "silu"}
END
    cat >"$WORK/tiny_moe.json" <<END
{"model_type": "mixtral", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
 "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 512, "num_local_experts": 4,
 "num_experts_per_tok": 2, "max_position_embeddings": 64}
END
}

# plan OUT MODEL CHOICES... on the calibrated device where there is one. What is planned is what is
# asked for, whether it fits or not: the status says which.
plan() {
    plan_out=$1
    plan_model=$2
    shift 2
    cluster='dgx-h200 --stack meshwright'
    files=${FILES:-$WORK/calibrated}
    if [ -s "$files/cluster.json" ] && [ "${SHIPPED:-}" = "" ]; then
        cluster="$files/cluster.json --stack $files/stack.json"
    fi
    # shellcheck disable=SC2086
    "$MESHWRIGHT" plan "$plan_model" $cluster -o "$plan_out" "$@"
}

# Ranks on one GPU: a cluster of more than there is, of the shipped device.
plan_ranks() {
    SHIPPED=1 plan "$@"
}

run_on() {
    run_out=$1
    run_plan=$2
    shift 2
    "$MESHWRIGHT" run "$run_plan" -o "$run_out" "$@"
}

# The largest relative distance of two lists of losses.
losses_apart() {
    { list_of "$1" loss; list_of "$2" loss; } | awk -F ', *' '
        NR == 1 { n = NF; for (i = 1; i <= n; i++) a[i] = $i }
        NR == 2 { if (NF != n || n == 0) { print 1; exit }
                  for (i = 1; i <= n; i++) { d = (a[i] - $i) / $i; if (d < 0) d = -d
                      if (d > most) most = d }
                  printf "%.3g", most }'
}
loss_falls() { list_of "$1" loss | awk -F ', *' '{ exit !(NF > 1 && $NF < $1) }'; }

kernels() {
    "$COMPARE" "$1" ${TINY:+"$TINY"} >"$WORK/$stage.cases"
    kernels_status=$?
    [ -s "$WORK/$stage.cases" ] || return 1
    value cases "$(lines_as_list "$WORK/$stage.cases")"
    worst=$(sed -n 's/.*"relative_error": \([^,]*\),.*/\1/p' "$WORK/$stage.cases" |
        awk '$1 > most { most = $1 } END { printf "%.2g", most }')
    say measured "error $worst"
    say goal "$2"
    return $kernels_status
}
stage_first_look() { kernels first "fp8 0.125"; }
stage_kernels_fp32() { kernels fp32 1e-5; }
stage_kernels_bf16() { kernels bf16 1e-2; }

# The same steps on the GPU and on the CPU.
one_gpu() {
    precision=$1 limit=$2 model=gpt2 length=64 batch=4
    if [ -n "$TINY" ]; then write_tiny && model=$WORK/tiny.json length=32; fi
    plan "$WORK/$stage.plan" "$model" --gpus 1 --precision "$precision" --seq-len $length \
        --global-batch $batch --micro-batch 2 --zero 0 --recompute none || return
    run_on "$WORK/$stage.cuda" "$WORK/$stage.plan" --backend cuda --steps 4 || return
    if [ ! -s "$WORK/cpu.run" ]; then
        run_on "$WORK/cpu.run" "$WORK/$stage.plan" --backend cpu --steps 4 || return
    fi
    apart=$(losses_apart "$WORK/$stage.cuda" "$WORK/cpu.run")
    value losses "[$(list_of "$WORK/$stage.cuda" loss)]"
    value cpu_losses "[$(list_of "$WORK/cpu.run" loss)]"
    value relative_error "$apart"
    say measured "losses off by $apart"
    say goal "$limit, falling"
    holds "$apart <= $limit" && loss_falls "$WORK/$stage.cuda"
}
stage_one_gpu_fp32() { one_gpu fp32 1e-4; }
stage_one_gpu_bf16() { one_gpu bf16 1e-2; }

stage_calibrate() {
    set -- --seconds 60
    [ -z "$TINY" ] || set -- --short --seconds 1
    "$MESHWRIGHT" calibrate --backend cuda --long -o "$WORK/calibrated" "$@" \
        >"$WORK/$stage.table" 2>&1
    calibrate_status=$?
    cat "$WORK/$stage.table"
    [ $calibrate_status -eq 0 ] || return 1
    value kernels "[$(sed '/^$/,$d; s/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/' "$WORK/$stage.table" |
        paste -sd,)]"
    value device_file "$(cat "$WORK/calibrated/device.json")"
    value cluster_file "$(cat "$WORK/calibrated/cluster.json")"
    value host_op_s "$(number_of "$WORK/calibrated/stack.json" host_op_s)"
    say measured "$(sed -n 's/^A rank: \(.*\) at most, \(.*\) of it in long.*/\1, \2 reached/p' \
        "$WORK/$stage.table")"
}

# bf16's, as the device file has it; where nothing was calibrated, as the shipped one in the plan.
peak() {
    peak_of=$WORK/calibrated/device.json
    [ -s "$peak_of" ] || peak_of=$WORK/$stage.plan
    sed -n '/"peak_flop_per_s"/,/}/p' "$peak_of" 2>/dev/null |
        sed -n 's/.*"bf16": \([-+0-9.eE]*\).*/\1/p' | head -n 1
}

stage_prediction() {
    [ -s "$WORK/calibrated/cluster.json" ] || skip "nothing was calibrated"
    model=gpt2 length=1024 batch=16
    if [ -n "$TINY" ]; then write_tiny && model=$WORK/tiny.json length=32 batch=4; fi
    # The plan says which products to measure, and is made anew from what they took.
    own=$WORK/$stage.files short='--seconds 25'
    [ -z "$TINY" ] || short='--short --seconds 0.2'
    set -- "$model" --gpus 1 --precision bf16 --seq-len $length --global-batch $batch \
        --micro-batch $((batch / 2)) --zero 0 --recompute none
    plan "$WORK/$stage.first" "$@" || return
    # shellcheck disable=SC2086
    "$MESHWRIGHT" calibrate --backend cuda --quiet $short --plan "$WORK/$stage.first" \
        -o "$own" || return
    FILES=$own plan "$WORK/$stage.plan" "$@" --kernels "$own/kernels.json" || return
    products=$(sed -n 's/.*"price_count": \([0-9]*\).*/\1/p' "$WORK/$stage.plan" | head -n 1)
    wanted=$(sed -n 's/.*"kernel_count": \([0-9]*\).*/\1/p' "$WORK/$stage.plan" | head -n 1)
    value measured_products "${products:-0}"
    value products "${wanted:-0}"
    if [ "${products:-0}" != "${wanted:-none}" ]; then
        say reason "$products of $wanted products were measured"
        return 1
    fi
    run_on "$WORK/$stage.run" "$WORK/$stage.plan" --backend cuda --steps 8 || return
    predicted=$(number_of "$WORK/$stage.run" predicted_step_s)
    measured=$(number_of "$WORK/$stage.run" measured_step_s)
    peak_predicted=$(number_of "$WORK/$stage.run" predicted_peak_bytes)
    peak_measured=$(number_of "$WORK/$stage.run" peak_bytes)
    step_ratio=$(calculate "$predicted / $measured")
    peak_ratio=$(calculate "$peak_predicted / $peak_measured")
    value predicted_step_s "$predicted"
    value measured_step_s "$measured"
    value predicted_peak_bytes "$peak_predicted"
    value measured_peak_bytes "$peak_measured"
    say measured "step x$(calculate "int($step_ratio * 1000) / 1000"), memory x$peak_ratio"
    say goal "5 %, 2 %"
    [ -z "$TINY" ] || return 0 # how fast an emulation is nobody predicts
    holds "$step_ratio > 0.95 && $step_ratio < 1.05 && $peak_ratio > 0.98 && $peak_ratio < 1.02"
}

# Flop of a step by the convention that halves causal attention: six times the parameters that are
# multiplied with, and 6 S^2 H of each layer and sequence, forward and backward.
# flop PARAMETERS LAYERS WIDTH LENGTH SEQUENCES
flop() { calculate "$5 * $4 * 6 * ($1 + $2 * $3 * $4)"; }

# What a plain training step of this size reaches.
# speed MODEL LENGTH SEQUENCES MICRO_BATCH PARAMETERS LAYERS WIDTH STEPS
speed() {
    plan "$WORK/$stage.plan" "$1" --gpus 1 --precision bf16 --seq-len "$2" --global-batch "$3" \
        --micro-batch "$4" --zero 0 --recompute none --attention flash || return
    run_on "$WORK/$stage.run" "$WORK/$stage.plan" --backend cuda --steps "$8" || return
    step=$(number_of "$WORK/$stage.run" measured_step_s)
    work=$(flop "$5" "$6" "$7" "$2" "$3")
    tokens=$(calculate "$2 * $3 / $step")
    mfu=$(calculate "${work} / $step / $(peak || true)" 2>/dev/null) || mfu=
    value step_s "$step"
    value predicted_step_s "$(number_of "$WORK/$stage.run" predicted_step_s)"
    value peak_bytes "$(number_of "$WORK/$stage.run" peak_bytes)"
    value tokens_per_s "$tokens"
    value step_flop "$work"
    value mfu_ratio "$mfu"
    printf '%s\n' "$tokens" >"$WORK/$stage.tokens"
}
percent() { [ -n "$1" ] && calculate "int($1 * 1000 + 0.5) / 10" || echo '?'; }

stage_gpt2_124m() {
    if [ -n "$TINY" ]; then write_tiny && speed "$WORK/tiny.json" 32 4 2 65536 4 32 3; else
        speed gpt2 1024 64 32 123568128 12 768 8; fi || return
    say measured "$(calculate "int($tokens)") tokens/s, MFU $(percent "$mfu") %"
    say goal -
}
stage_gpt2_1558m() {
    [ -z "$TINY" ] || skip "too large for an emulation"
    speed gpt2-xl 1024 16 8 1555046400 48 1600 5 || return
    say measured "$(calculate "int($tokens)") tokens/s, MFU $(percent "$mfu") %"
    say goal "MFU 50 %"
    [ -n "$mfu" ] && holds "$mfu >= 0.5"
}

# Seconds of a task of a step, "F" or "B".
task_s() { sed -n "s/.*\"group\": \"task\", \"kind\": \"$2\".*\"measured_s\": \\([-+0-9.eE]*\\).*/\\1/p" \
    "$1"; }

# The model with so many layers.
llama_of() {
    sed "s/\"num_hidden_layers\": 32/\"num_hidden_layers\": $1/" "$llama" >"$WORK/llama_$1.json"
}

# The time of a layer is what two more of them take; embedding, head and update are in both. As
# many as fit, but no more than there is time to draw the weights of.
stage_layer_8b() {
    llama=models/zoo/llama-3-8b.json layer=218112000 head=525336576 width=4096 length=8192 batch=4
    if [ -n "$TINY" ]; then
        write_tiny
        llama=$WORK/tiny_llama.json layer=18432 head=32768 width=64 length=32 batch=2
    fi
    for layers in 8 6 4; do
        llama_of $layers
        plan "$WORK/fits.plan" "$WORK/llama_$layers.json" --gpus 1 --precision bf16 \
            --seq-len $length --global-batch $batch --micro-batch 1 --zero 0 --recompute none \
            >/dev/null && break
    done
    fewer=$((layers - 2))
    llama_of $fewer
    speed "$WORK/llama_$fewer.json" $length $batch 1 $((fewer * layer + head)) $fewer $width 4 ||
        return
    few=$(calculate "$(task_s "$WORK/$stage.run" F) + $(task_s "$WORK/$stage.run" B)")
    rm -f "$WORK/$stage.values"
    speed "$WORK/llama_$layers.json" $length $batch 1 $((layers * layer + head)) "$layers" $width \
        4 || return
    many=$(calculate "$(task_s "$WORK/$stage.run" F) + $(task_s "$WORK/$stage.run" B)")
    layer_s=$(calculate "($many - $few) / 2 / $batch")
    layer_mfu=$(calculate "$(flop $layer 1 $width $length 1) / $layer_s / $(peak)") || return
    echo "$layers" >"$WORK/layers"
    value layers "$layers"
    value layer_s "$layer_s"
    value layer_mfu_ratio "$layer_mfu"
    say measured "MFU of a layer $(percent "$layer_mfu") %, of a step of $layers $(percent "$mfu") %"
    say goal "60 %, 50 %"
    [ -n "$TINY" ] || holds "$layer_mfu >= 0.6 && $mfu >= 0.5"
}

# PyTorch on the same shapes, and how much faster we are.
# beside OURS CONFIG LAYERS LENGTH SEQUENCES MICRO_BATCH
beside() {
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
        skip "no PyTorch with a GPU"
    python3 tests/gpu/torch_steps.py "$2" "$3" "$4" "$5" "$6" >"$WORK/$stage.torch" || return
    value torch "$(tail -n 1 "$WORK/$stage.torch")"
    theirs=$(number_of "$WORK/$stage.torch" tokens_per_s)
    say measured "$(calculate "int($theirs)") tokens/s by PyTorch"
    say goal "1.1 times as fast"
    [ -s "$WORK/$1.tokens" ] || { say reason "nothing of ours to compare with"; return 1; }
    ratio=$(calculate "$(cat "$WORK/$1.tokens") / $theirs")
    value ratio "$ratio"
    ours=$(sed -n 's/^"mfu_ratio": //p' "$WORK/$1.values")
    [ "${ours:-null}" = null ] || value torch_mfu_ratio "$(calculate "$ours / $ratio")"
    say measured "$(calculate "int($theirs)") tokens/s by PyTorch: ours $ratio times"
    holds "$ratio >= 1.1"
}
stage_torch_124m() { beside gpt2_124m models/zoo/gpt2.json 12 1024 64 32; }
stage_torch_1558m() { beside gpt2_1558m models/zoo/gpt2-xl.json 48 1024 16 8; }
stage_torch_8b() {
    [ -z "$TINY" ] || skip "no PyTorch with a GPU"
    beside layer_8b models/zoo/llama-3-8b.json "$(cat "$WORK/layers" 2>/dev/null || echo 8)" 8192 4 1
}

# Name, model and choices of plans of several ranks; each must have the losses of one.
list_rank_plans() {
    cat <<END
tp     tiny      --gpus 2 --tp 2
pp     tiny      --gpus 2 --pp 2 --schedule 1f1b
dp     tiny      --gpus 2 --dp 2 --zero 0
zero3  tiny      --gpus 2 --dp 2 --zero 3
cp     tiny      --gpus 2 --cp 2
ep     tiny_moe  --gpus 2 --dp 2 --ep 2 --zero 0
END
}

ranks() {
    write_tiny
    work="--precision fp32 --seq-len 32 --global-batch 4 --micro-batch 1 --recompute none"
    wrong=0
    for model in tiny tiny_moe; do
        # shellcheck disable=SC2086
        plan_ranks "$WORK/$stage.$model.plan" "$WORK/$model.json" --gpus 1 $work --zero 0 &&
            run_on "$WORK/$stage.$model.run" "$WORK/$stage.$model.plan" --backend cuda --steps 3 ||
            return
    done
    list_rank_plans >"$WORK/$stage.list"
    while read -r name model choices; do
        # shellcheck disable=SC2086
        if plan_ranks "$WORK/$stage.plan" "$WORK/$model.json" $work $choices &&
            run_on "$WORK/$stage.run" "$WORK/$stage.plan" --backend cuda --steps 3 --spawn "$@" \
                </dev/null; then
            apart=$(losses_apart "$WORK/$stage.run" "$WORK/$stage.$model.run")
        else
            apart=1
        fi
        value "$name" "$apart"
        holds "$apart <= 1e-4" || wrong="$wrong $name"
    done <"$WORK/$stage.list"
    say goal "losses of one rank"
    say measured "$(wc -l <"$WORK/$stage.list") plans"
    [ "$wrong" = 0 ] || { say reason "wrong:${wrong#0}"; return 1; }
}
has_transport() { "$MESHWRIGHT" run --help | grep -q -- --transport; }
stage_ranks_host() {
    has_transport || skip "run has no --transport"
    ranks --transport host
}
stage_ranks_nccl() {
    has_transport || skip "run has no --transport"
    ranks --transport nccl
}

# The test programs on the device in the place of the emulation.
tests_of() {
    [ -z "$TINY" ] || unset MESHWRIGHT_TEST_GPU
    [ -n "$TINY" ] || export MESHWRIGHT_TEST_GPU=1
    [ -x "$TESTS/$1" ] || skip "no $1 in this build"
    CMOCKA_MESSAGE_OUTPUT=TAP "$TESTS/$1" >"$WORK/$stage.tap" 2>&1
    tests_status=$?
    grep '^not ok' "$WORK/$stage.tap"
    say measured "$(grep -c '^ok' "$WORK/$stage.tap") of $(grep -cE '^(not )?ok' \
        "$WORK/$stage.tap") pass"
    [ $tests_status -eq 0 ] || say reason "$(grep '^not ok' "$WORK/$stage.tap" | head -n 1)"
    return $tests_status
}
stage_kernel_tests() { tests_of test_cpu_kernels; }
stage_backend_tests() { tests_of test_cuda_backend; }
stage_family_tests() { tests_of test_cuda_families; }
stage_image_tests() {
    tests_of test_cuda_images && tests_of test_cuda_strided && tests_of test_cuda_loops
}
stage_engine_tests() { tests_of test_run_half; }
stage_group_tests() { tests_of test_grouped; }
stage_sum_tests() { tests_of test_weight_sums; }

sanitize() {
    command -v compute-sanitizer >/dev/null || skip "no compute-sanitizer"
    write_tiny
    SHIPPED=1 plan "$WORK/$stage.plan" "$WORK/tiny.json" --gpus 1 --precision bf16 --seq-len 32 \
        --global-batch 2 --micro-batch 1 --zero 0 || return
    compute-sanitizer --tool "$1" --error-exitcode 9 "$MESHWRIGHT" run "$WORK/$stage.plan" \
        --backend cuda --steps 2 -o "$WORK/$stage.run"
    sanitize_status=$?
    say goal "no errors"
    say measured "$(grep 'ERROR SUMMARY' "$WORK/$stage.log" | tail -n 1 | sed 's/=* *//')"
    return $sanitize_status
}
stage_memcheck() { sanitize memcheck; }
stage_racecheck() { sanitize racecheck; }
stage_initcheck() { sanitize initcheck; }
stage_synccheck() { sanitize synccheck; }

stage_replay() {
    "$MESHWRIGHT" run --help | grep -q -- --replay-rank || skip "run has no --replay-rank"
    model=gpt2 length=1024 batch=32
    if [ -n "$TINY" ]; then write_tiny && model=$WORK/tiny.json length=32 batch=8; fi
    plan_ranks "$WORK/$stage.plan" "$model" --gpus 8 --tp 2 --pp 2 --precision bf16 \
        --seq-len $length --global-batch $batch --micro-batch 1 || return
    run_on "$WORK/$stage.run" "$WORK/$stage.plan" --backend cuda --steps 4 --replay-rank 0 || return
    predicted=$(number_of "$WORK/$stage.run" predicted_step_s)
    measured=$(number_of "$WORK/$stage.run" measured_step_s)
    value predicted_step_s "$predicted"
    value measured_step_s "$measured"
    say measured "step x$(calculate "int($predicted / $measured * 1000) / 1000")"
}
