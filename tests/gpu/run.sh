#!/bin/sh
# Everything that wants a GPU, in at most ten minutes on one: kernels against the interpreter and
# the CPU back end, runs on one GPU, speed beside PyTorch's. Builds, or uses the build that is there.
#   tests/gpu/run.sh [BUILD [RESULT.json]]
# Ends with 0 when all passed, 1 when something failed, 4 when there is no device.
set -u
cd "$(dirname "$0")/../.."
build=${1:-build}
result=${2:-$build/gpu.json}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0

# MESHWRIGHT_TEST_GPU tells the tests to take the device in place of the emulation.
if [ -x "$build/meshwright" ] && [ -x "$build/tests/gpu_compare" ] && [ -r "$build/exec_cuda.so" ]; then
    echo "using the build in $build"
else
    make -j"$(nproc)" BUILD="$build" gpu_programs || exit 1
fi

"$build/tests/gpu_compare" fp32 >"$work/fp32" 2>"$work/err"
status=$?
if [ $status -eq 4 ]; then
    cat "$work/err"
    printf '{"device": null, "reason": "%s"}\n' "$(sed 's/["\\]//g' "$work/err")" >"$result"
    exit 4
fi
[ $status -eq 0 ] || faults=1
timeout 120 "$build/tests/gpu_compare" bf16 >"$work/bf16" 2>>"$work/err" || faults=1

MESHWRIGHT_TEST_GPU=1 timeout 180 "$build/tests/test_cpu_kernels" >"$work/kernels" 2>&1
kernels=$?
MESHWRIGHT_TEST_GPU=1 timeout 60 "$build/tests/test_cuda_backend" >"$work/backend" 2>&1
backend=$?
[ $kernels -eq 0 ] && [ $backend -eq 0 ] || faults=1

sanitizer=null
if command -v compute-sanitizer >/dev/null; then
    timeout 120 compute-sanitizer --error-exitcode 9 "$build/tests/gpu_compare" fp32 \
        >"$work/sanitizer" 2>&1 && sanitizer=true || { sanitizer=false; faults=1; }
fi

# One GPU, GPT-2 124M: the loss falls, and tokens a second beside PyTorch's.
"$build/meshwright" plan gpt2 dgx-h200 --gpus 1 --seq-len 1024 --global-batch 8 \
    --precision fp32 -o "$work/plan.json" >/dev/null &&
    timeout 120 "$build/meshwright" run "$work/plan.json" --backend cuda --steps 10 \
        -o "$work/run.json" >"$work/run" 2>&1 || faults=1
echo null >"$work/torch"
python3 -c 'import torch' 2>/dev/null &&
    timeout 180 python3 tests/gpu/torch_gpt2.py 1024 8 fp32 >"$work/torch" 2>"$work/torch.err"
[ -s "$work/run.json" ] || echo null >"$work/run.json"
[ -s "$work/torch" ] || echo null >"$work/torch"

list() { paste -sd, "$1"; }
{
    printf '{"date": "%s", "commit": "%s",\n' "$(date -u +%F)" "$(git rev-parse HEAD 2>/dev/null)"
    printf '"device": "%s",\n' "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
    printf '"kernels_pass": %s, "backend_passes": %s, "sanitizer_passes": %s,\n' \
        "$([ $kernels -eq 0 ] && echo true || echo false)" \
        "$([ $backend -eq 0 ] && echo true || echo false)" "$sanitizer"
    printf '"fp32": [%s],\n"bf16": [%s],\n' "$(list "$work/fp32")" "$(list "$work/bf16")"
    printf '"run": %s,\n"torch": %s}\n' "$(cat "$work/run.json")" "$(tail -n 1 "$work/torch")"
} >"$result"
cat "$work/fp32" "$work/bf16" "$work/err" "$work/run" "$work/torch"
grep -h FAILED "$work/kernels" "$work/backend"
echo "wrote $result"
exit $faults
