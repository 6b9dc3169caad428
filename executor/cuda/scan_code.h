#pragma once
#include "executor/cuda/device_code.h"

// Heads of sequences, for the kernels of scans and of the delta rule.

enum { WARPS_MAX = 32 };

// Loops that are not unrolled need no registers for what they would load ahead.
#if defined(__CUDACC__)
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif

// A head of a sequence.
struct head_of {
    int64_t head, group, first;  // first: of its tokens' rows
};

DEVICE struct head_of head_at(const struct scan_args *a, int64_t pair)
{
    int64_t head = pair % a->heads;
    struct head_of of = {head, (a->first_head + head) / a->heads_each - a->first_group,
                         pair / a->heads * a->seq};
    return of;
}
DEVICE int64_t step_at(const struct scan_args *a, const struct head_of *of, int64_t t)
{
    return (of->first + t) * a->heads + of->head;
}
DEVICE int64_t group_at(const struct scan_args *a, const struct head_of *of, int64_t t)
{
    return ((of->first + t) * a->groups + of->group) * a->state;
}
DEVICE float rate_of(const struct scan_args *a, int64_t head)
{
    return -expf(load(a->a_log, head));
}
