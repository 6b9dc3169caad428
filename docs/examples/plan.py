"""Plans a model and reads its prediction, through libmeshwright.so and ctypes alone.

python3 plan.py llama-3-8b dgx-h100
"""
import ctypes
import json
import os
import sys

library = ctypes.CDLL(os.environ.get("LIBMESHWRIGHT", "libmeshwright.so.0"))
library.meshwright_new.restype = ctypes.c_void_p
for name in ("plan", "simulate", "what_if", "load", "memory", "save"):
    call = getattr(library, "meshwright_" + name)
    call.argtypes = [ctypes.c_void_p] + ([] if name in ("simulate", "memory") else [ctypes.c_char_p])
for name in ("text", "error"):
    call = getattr(library, "meshwright_" + name)
    call.argtypes, call.restype = [ctypes.c_void_p], ctypes.c_char_p
library.meshwright_free.argtypes = [ctypes.c_void_p]

plan = library.meshwright_new()


def ask(name, question=None):
    """The answer of a call, as Python has it."""
    words = [] if question is None else [json.dumps(question).encode()]
    if getattr(library, "meshwright_" + name)(plan, *words):
        raise SystemExit(library.meshwright_error(plan).decode())
    return json.loads(library.meshwright_text(plan))


model, cluster = (sys.argv[1:] + ["gpt2", "dgx-h100"][len(sys.argv) - 1:])[:2]
ask("plan", {"model": model, "cluster": cluster, "seq_len": 1024, "global_batch": 64})
print("step {step_s:.4f} s, MFU {mfu_ratio:.1%}".format(**ask("simulate")["prediction"]))
fewer = ask("what_if", {"gpus": 4})
print("on 4 GPUs {step_s:.4f} s".format(**fewer["prediction"]))
library.meshwright_free(plan)
