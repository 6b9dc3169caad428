#!/bin/bash
# `meshwright run` of a mixture of experts: four ranks that share experts print the losses of one.
build=$(cd "${BUILD:-build}" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
number=0

check() {
    number=$((number + 1))
    local word='not ok'
    if "${@:2}"; then word=ok; fi
    echo "$word $number - $1"
}

cat >"$folder/tiny.json" <<'MODEL'
{"model_type": "mixtral", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
 "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 256}
MODEL
work="dgx-a100-80g --precision fp32 --seq-len 64 --global-batch 8 --stack meshwright"

# plan NAME CHOICES...
plan() {
    # shellcheck disable=SC2086
    "$build/meshwright" plan "$folder/tiny.json" $work "${@:2}" -o "$folder/$1.json" \
        >"$folder/$1.plan" 2>&1
}

# Losses of a run, one a line; the status is that of the run.
losses() {
    "$build/meshwright" run "$folder/$1.json" --spawn --steps 3 -o "$folder/$1.run" \
        >"$folder/$1.out" 2>"$folder/$1.err" || return
    sed -n 's/^step.*loss \([0-9.]*\).*/\1/p' "$folder/$1.out" >"$folder/$1.losses"
    test "$(wc -l <"$folder/$1.losses")" = 3
}

same() {
    cmp -s "$folder/one.losses" "$folder/$1.losses"
}

plan one --gpus 1
check "one rank runs" losses one
plan shared --gpus 4 --dp 4 --ep 4
check "experts shared by four ranks run" losses shared
check "with the losses of one" same shared
plan parts --gpus 4 --tp 2 --sp on --dp 2 --ep 2 --etp 2 --recompute none
check "parts of experts under tensor and sequence parallelism run" losses parts
check "with the losses of one" same parts

plan drops --gpus 4 --dp 4 --ep 4 --capacity-factor 1.25
check "experts with a capacity run" losses drops
check "with other losses" bash -c '! cmp -s "$0/one.losses" "$0/drops.losses"' "$folder"
plan alone --gpus 1 --capacity-factor 1.25
check "one rank drops tokens as well" losses alone
check "the same ones" cmp "$folder/alone.losses" "$folder/drops.losses"
echo "1..$number"
