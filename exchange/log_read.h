#pragma once
#include "core/err.h"

// The step lines of other trainers' logs: how long a step took, and of what else a line says. The
// formats are those of Megatron-LM 0.16 (and Megatron-Bridge, GPT-NeoX), NeMo 2, DeepSpeed 0.7 to
// 0.19, torchtitan 0.2 and 0.3, ColossalAI 0.5 and nanotron 0.4, as their sources print them; one
// row of a table each. Colours are skipped, commas and K, M, G in numbers understood.

enum log_measure {
    LOG_STEP_MS,
    LOG_STEP_S,
    LOG_SAMPLES_PER_S,  // sequences of all ranks together
    LOG_TOKENS_PER_S_PER_GPU,
};

struct log_run {
    const char *path;       // plain
    const char *framework;  // "megatron-lm", "torchtitan", ...
    enum log_measure measure;
    double *values;  // one a step line, in the order of the file
    int count, capacity;
    double global_batch;        // sequences a step, of the last line that says it; 0: none does
    double flop_per_s_per_gpu;  // median of what the lines say, as the trainer counts flop; 0: none
    double allocated_bytes, reserved_bytes;  // the most that a line says; 0: none does
};

// ERR_INPUT where the file cannot be read or has no step line that we know. Where lines of several
// trainers are in it (one library prints beside another), those of the one with most are taken.
MUST_CHECK bool log_read(struct arena *arena, const char *path, struct log_run *run,
                         struct err *err);
