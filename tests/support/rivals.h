#pragma once
#include "tests/bench/plain_gpt2.h"

#include <stdbool.h>
#include <time.h>

// What tests/bench/bench_executor.c measures itself against: sgemm alone, and PyTorch in a process
// of its own that does a step when asked to.

struct taken {
    double wall_s, cpu_s;
};

double clock_of(clockid_t clock);

// OpenBLAS as it is loaded already; NULL: it is not there.
struct sgemm;
struct sgemm *sgemm_open(void);
void sgemm_close(struct sgemm *sgemm);
const char *sgemm_kernels(const struct sgemm *sgemm);  // "Cooperlake"
// Of the processor; the best of a few products of 1024 x 3072 x 768.
double sgemm_seconds_per_flop(const struct sgemm *sgemm);

// tests/bench_executor_torch.py with the first of python3 and Debian's own that has torch, one
// thread, OpenBLAS with the same kernels; NULL: none has.
struct rival;
struct rival *rival_start(const struct plain_shape *shape, const char *kernels);
const char *rival_name(const struct rival *rival);
bool rival_step(struct rival *rival, struct taken *taken);  // false: it is gone
void rival_stop(struct rival *rival);
