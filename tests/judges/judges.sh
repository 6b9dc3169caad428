#!/bin/bash
# Puts 200 drawn exports of every target through the target's own parser, and weights through
# `transformers`: judges.sh BUILD.
# Installs what they need of the Python package index into BUILD/judges, 6 GB.
set -euo pipefail
build=$1
folder=$build/judges
python=$folder/bin/python
if [ ! -x "$python" ]; then
    python3 -m venv "$folder"
    "$folder/bin/pip" install -q --no-cache-dir torch==2.15.0 megatron-core==0.16.1 \
        torchtitan==0.2.2 deepspeed==0.19.8 transformers==5.23.0
fi
exports=$(mktemp -d)
trap 'rm -rf "$exports"' EXIT
MESHWRIGHT_EXPORTS=$exports "$build/tests/test_exchange" >"$exports/log" 2>&1 || {
    tail -n 20 "$exports/log"
    exit 1
}
export BUILD=$build DS_BUILD_OPS=0 DS_ACCELERATOR=cpu CUDA_DEVICE_MAX_CONNECTIONS=1 PYTHONWARNINGS=ignore
status=0
for judge in tests/judges/*_judge.py; do
    "$python" "$judge" "$exports" 2>/dev/null || status=1
done
exit $status
