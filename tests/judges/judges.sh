#!/bin/bash
# Puts 200 drawn exports of every target through the target's own parser, holds the tables of
# exchange/options/ against the parsers, checks what launchers are given, reads weights with
# `transformers`, and trains images beside PyTorch and JAX: judges.sh BUILD.
# Installs what they need of the Python package index into BUILD/judges, 5 GB (docs/exchange.md).
set -euo pipefail
build=$1
folder=$(realpath -m "$build/judges")
judges=$PWD/tests/judges
torch=$folder/torch/bin/python
mindspore=$folder/mindspore/bin/python
weights=$folder/weights/bin/python
jax=$folder/jax/bin/python
sources=$folder/sources
megatron_lm=$folder/megatron_lm

# torch asks for 4 GB of NVIDIA's libraries that no judge calls: stand-ins take their place, and
# nothing that depends on torch may be installed with its dependencies.
install_torch() {
    local pip="$folder/torch/bin/pip -q --disable-pip-version-check"
    python3 -m venv "$folder/torch"
    $pip install --no-cache-dir --no-deps torch==2.15.0 torchdata==0.11.0 megatron-core==0.16.1 \
        torchtitan==0.2.2 deepspeed==0.19.8 accelerate==1.15.0 megatron-bridge==0.3.1
    $pip install --no-cache-dir 'transformers<5' datasets omegaconf hydra-core==1.3.2 tyro tomli \
        hjson py-cpuinfo msgpack einops pydantic psutil pyyaml packaging regex rich six numpy \
        tensorboard ninja sympy networkx jinja2 kubernetes-validate wheel onnx 'setuptools>=77' \
        2>/dev/null
    # What NeMo is imported with; what else it asks for is stood in for.
    $pip install --no-cache-dir --no-deps lightning==2.4.0 pytorch-lightning==2.4.0 \
        lightning-utilities torchmetrics fiddle absl-py libcst graphviz wrapt
    "$torch" "$judges/cuda_stand_ins.py" "$folder/torch"
}

install_mindspore() {
    python3 -m venv "$folder/mindspore"
    "$folder/mindspore/bin/pip" -q --disable-pip-version-check install --no-cache-dir \
        mindspore==2.10.0 pyyaml tqdm deprecated
}

install_jax() {
    python3 -m venv "$folder/jax"
    "$folder/jax/bin/pip" -q --disable-pip-version-check install --no-cache-dir jax==0.10.2 \
        flax==0.12.8
}

# The exporters above know no transformers as new as the one that reads weights.
install_weights() {
    local pip="$folder/weights/bin/pip -q --disable-pip-version-check"
    python3 -m venv "$folder/weights"
    $pip install --no-cache-dir --no-deps torch==2.15.0 compressed-tensors==0.20.0
    $pip install --no-cache-dir transformers==5.23.0 safetensors numpy sympy networkx jinja2 \
        pydantic psutil loguru 'setuptools>=77'
    "$weights" "$judges/cuda_stand_ins.py" "$folder/weights"
}

# What cannot be installed without a GPU, or not beside this torch, is only unpacked.
unpack_sources() {
    local pip="$folder/torch/bin/pip -q --disable-pip-version-check" wheel
    mkdir -p "$sources"
    $pip download --no-cache-dir --no-deps -d "$sources" nemo_toolkit==2.7.3 mindformers==2.1.0
    $pip download --no-cache-dir --no-deps --no-build-isolation --no-binary :all: -d "$sources" \
        colossalai==0.5.0 2>/dev/null
    for wheel in "$sources"/*.whl; do
        "$torch" -m zipfile -e "$wheel" "$sources"
    done
    tar -xzf "$sources"/colossalai-0.5.0.tar.gz -C "$sources"
}

# The first package of Megatron-Core that carries Megatron-LM's command line: asked for with the
# Python that it is built for, though nothing of it is compiled that its command line needs.
unpack_megatron_lm() {
    local pip="$folder/torch/bin/pip -q --disable-pip-version-check"
    $pip download --no-cache-dir --no-deps --python-version 3.12 --only-binary :all: \
        --platform manylinux_2_28_x86_64 -d "$megatron_lm" megatron-core==0.17.1
    "$torch" -m zipfile -e "$megatron_lm"/*.whl "$megatron_lm"
}

# A folder that another version of this script filled is completed: what it has is kept.
wanted=$(declare -f | cksum)
if [ "$(cat "$folder/complete" 2>/dev/null)" != "$wanted" ]; then
    install_torch
    install_mindspore
    install_weights
    install_jax
    unpack_sources
    unpack_megatron_lm
    echo "$wanted" >"$folder/complete"
fi
exports=$(mktemp -d)
trap 'rm -rf "$exports"' EXIT
MESHWRIGHT_EXPORTS=$exports "$build/tests/test_exchange" >"$exports/log" 2>&1 || {
    tail -n 20 "$exports/log"
    exit 1
}
export DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_DEVICE_MAX_CONNECTIONS=1 PYTHONWARNINGS=ignore
export NEMO_PATH=$sources PYTHONDONTWRITEBYTECODE=1
export BUILD=$(realpath "$build")
status=0
"$torch" "$judges/shown.py" "$build/meshwright" "$exports" || status=1
"$torch" "$judges/images.py" "$build/meshwright" || status=1
"$jax" "$judges/programs.py" "$build/meshwright" || status=1
git diff --exit-code --stat tests/data/stablehlo/steps.tsv || status=1

# python_for TARGET: its interpreter and where its sources are.
python_for() {
    case $1 in
        mindspore) PYTHONPATH=$sources "$mindspore" "${@:2}" ;;
        huggingface) "$weights" "${@:2}" ;;
        colossalai) PYTHONPATH=$sources/colossalai-0.5.0 "$torch" "${@:2}" ;;
        megatron_lm) PYTHONPATH=$megatron_lm "$torch" "${@:2}" ;;
        nemo) PYTHONPATH=$sources "$torch" "${@:2}" ;;
        *) "$torch" "${@:2}" ;;
    esac
}

for judge in "$judges"/*_judge.py; do
    name=$(basename "$judge" _judge.py)
    (cd "$exports" && python_for "$name" "$judge" "$exports" 2>/dev/null |
        grep -E '^(.* of .* accepted|[a-z-]+-[0-9]+-.*: .*)$') || status=1
done
for table in exchange/options/*-*.tsv; do
    name=$(basename "$table" .tsv)
    target=${name%-*}
    # The parsers of these releases of Megatron-LM and Megatron-DeepSpeed are in no package.
    [ "$target" != megatron ] && [ "$target" != megatron-deepspeed ] || continue
    (cd "$exports" && python_for "$target" "$judges/option_tables.py" "$target" "$name.tsv" \
        >/dev/null 2>&1) || status=1
    diff "$table" "$exports/$name.tsv" && echo "$name: $(wc -l <"$table") lines as committed" ||
        status=1
done
exit $status
