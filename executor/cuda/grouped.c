#include "executor/array.h"
#include "executor/cuda/cuda.h"

#include <assert.h>
#include <stdlib.h>

// GEMMs of the experts of a rank in one launch instead of one each: with many experts and few
// rows each, one GEMM alone leaves most of the device idle. Sizes of the groups change with
// every choice of experts, and cuBLASLt's heuristics would be asked about each.

// By what a library takes GEMMs in groups or refuses them.
static unsigned group_kind(const struct cuda_gemm *gemm)
{
    enum { NUMBERS = 3 };  // of 16 bits or more
    assert(gemm->a.number < NUMBERS && gemm->c.number < NUMBERS);
    return 1u << (gemm->a.number * NUMBERS + gemm->c.number);
}

// The kernels of 16 bits load so much at a time; those of fp32 do with any place.
static bool is_aligned(struct reals x)
{
    return x.number == NUMBER_FP32 || (uintptr_t)x.data % GROUP_ALIGNMENT == 0;
}

// The GEMMs that there are: none without rows in its result, and of an expert whose sum is over
// no rows nothing but the zeros. False: one of them is not to be had in a group.
static bool read_products(const struct run *run, struct cuda_gemm *gemms, int *count,
                          const char **fault)
{
    for (int64_t e = 0; e < run->call->routing->expert_count; e++) {
        struct kernel_call one;
        struct run own = {run->device, run->stream, run->on, &one, {0}};
        *fault = cuda_cut_expert(run->device, run->call, e, &one);
        if (*fault) return false;
        if (array_elements(&one.outputs[0]) == 0) continue;
        if (array_elements(&one.inputs[0]) == 0 || array_elements(&one.inputs[1]) == 0) {
            *fault = cuda_begin_sum(run->device, run->stream, &one, 0);
            if (*fault) return false;
            continue;
        }
        struct cuda_gemm *gemm = &gemms[*count];
        bool fits = cuda_single_gemm(&own, gemm) && is_aligned(gemm->a) && is_aligned(gemm->b) &&
                    is_aligned(gemm->c) && group_kind(gemm) == group_kind(&gemms[0]);
        if (!fits || run->device->refused_groups & group_kind(gemm)) return false;
        ++*count;
    }
    return true;
}

// Addresses go as arguments of kernels: a copy from the host would have to be waited for.
static void write_table(const struct run *run, const struct cuda_gemm *gemms, int count,
                        void **table)
{
    for (int first = 0; first < count; first += ADDRESS_PARTS) {
        struct addresses_args args = {.first = first, .whole = count, .table = table};
        for (int i = first; i < count && args.count < ADDRESS_PARTS; i++, args.count++) {
            args.at[0][args.count] = gemms[i].a.data;
            args.at[1][args.count] = gemms[i].b.data;
            args.at[2][args.count] = gemms[i].c.data;
        }
        kernel_addresses(run->on, &args);
    }
}

static const char *run_group(const struct run *run, const struct cuda_gemm *gemms, int count,
                             bool *is_done)
{
    bool is_refused = false;
    assert(count > 1);
    void **table = run_scratch(run, SCRATCH_ROWS, 3 * count * (int64_t)sizeof *table);
    if (!table) return CUDA_NO_MEMORY;
    write_table(run, gemms, count, table);
    const char *fault = gemm_run_group(run->device, run->stream, gemms, count, table, &is_refused);
    if (is_refused) run->device->refused_groups |= group_kind(&gemms[0]);
    *is_done = !fault && !is_refused;
    return fault ? fault : cuda_fault(cudaGetLastError());
}

const char *cuda_contract_experts(const struct run *run, bool *is_done)
{
    const struct kernel_call *call = run->call;
    int64_t experts = call->routing->expert_count;
    const char *fault = NULL;
    int count = 0;
    *is_done = false;
    // Results that experts share would be written by several at once.
    if (experts < 2 || call_shared_outputs(call)) return NULL;
    struct cuda_gemm *gemms = calloc((size_t)experts, sizeof *gemms);
    if (!gemms) return "no memory left on this host";
    if (read_products(run, gemms, &count, &fault)) {
        *is_done = count == 0;
        if (count == 1) fault = gemm_run(run->device, run->stream, &gemms[0]), *is_done = true;
        if (count > 1) fault = run_group(run, gemms, count, is_done);
    }
    free(gemms);
    return fault;
}
