#!/bin/bash
# Promise R1 of the planner in a page: the module answers what the binary answers, byte for byte.
build=${BUILD:-build}
module=build/wasm/planner.wasm.gz
if ! command -v node >/dev/null; then
    echo '1..0 # SKIP no node'
    exit 0
fi
if [ ! -e $module ]; then
    echo '1..0 # SKIP no planner.wasm.gz: make wasm'
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
node tests/wasm/questions.js $module "$build/meshwright" "$folder" 20261121 200
bytes=$(stat -c %s $module)
word='not ok'
# As base64 beside a page of 500 KB they stay far below 1 MB.
if [ "$bytes" -lt 200000 ]; then word=ok; fi
echo "$word 3 - the module has $bytes bytes"
imports=$(node -e '
const packed = require("fs").readFileSync(process.argv[1]);
const module = new WebAssembly.Module(require("zlib").gunzipSync(packed));
const known = ["clock_time_get", "emscripten_notify_memory_growth", "fd_close", "fd_seek",
    "fd_write", "proc_exit"];
console.log(WebAssembly.Module.imports(module).map(entry => entry.name)
    .filter(name => !known.includes(name)).join(" "));' $module)
word='not ok'
if [ -z "$imports" ]; then word=ok; fi
echo "$word 4 - it asks its page for a clock, an end and a place for last words, no more $imports"
echo '1..4'
