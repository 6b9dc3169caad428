#pragma once
#include "tests/support/run_case.h"

// A way to share a model between ranks: a case of run_case_new split so, one sequence a
// micro-batch.
struct run_way {
    int dp, tp, cp, pp, ep;
    bool sp;
    int zero;
    enum cp_kind cp_kind;
    enum recompute recompute;
};
struct run_case run_case_split(const char *config, int64_t seq_len, int64_t global_batch,
                               const struct run_way *way);
