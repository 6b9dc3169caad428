#!/bin/sh
# Installs a wheel into a fresh environment, without a network, and plans with it from a folder that
# is no source tree: wheel_try.sh WHEEL FOLDER.
set -eu
wheel=$(readlink -f "$1") folder=$2
rm -rf "$folder"
if ! python3 -m venv "$folder" >/dev/null 2>&1; then
    echo "not tried: python3 makes no environment here (python3-venv)" >&2
    exit 0
fi
folder=$(cd "$folder" && pwd)
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
cd "$folder"
env -u MESHWRIGHT_DATA -u MESHWRIGHT_PLUGINS bin/meshwright plan gpt2 dgx-h100 --seq-len 512 \
    --global-batch 16 -o plan.json >plan.txt 2>&1 && grep -q '^Best' plan.txt || {
    cat plan.txt >&2
    exit 1
}
echo "installed and tried: $(bin/meshwright --version)"
