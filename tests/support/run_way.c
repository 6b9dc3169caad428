#include "tests/support/run_way.h"

struct run_case run_case_split(const char *config, int64_t seq_len, int64_t global_batch,
                               const struct run_way *way)
{
    struct run_case of = run_case_new(config, seq_len, global_batch);
    struct parallel *parallel = &of.parallel;
    parallel->degree[AXIS_DP] = way->dp;
    parallel->degree[AXIS_TP] = way->tp;
    parallel->degree[AXIS_CP] = way->cp;
    parallel->degree[AXIS_PP] = way->pp;
    parallel->degree[AXIS_EP] = way->ep;
    parallel->cp_kind = way->cp_kind;
    parallel->sp = way->sp;
    parallel->zero = way->zero;
    parallel->recompute = way->recompute;
    parallel->micro_batch = 1;
    return of;
}
