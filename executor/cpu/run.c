#include "executor/contraction.h"
#include "executor/cpu/array.h"
#include "executor/cpu/attend.h"
#include "executor/cpu/image.h"
#include "executor/scan_call.h"

#include <assert.h>

// One call: its checks, experts one after another, and results that are added.

struct kernel_row {
    const char *(*run)(struct cpu_device *device, const struct kernel_call *call);
    unsigned adds;  // outputs that the kernel adds by itself
    bool is_dense;  // it wants rows that lie apart one by one
};

static const struct kernel_row KERNELS[OP_KIND_COUNT] = {
    [OP_CONTRACT] = {cpu_contract, 1, false},
    [OP_ADD] = {cpu_add, 1, false},
    [OP_ELEMENTWISE] = {cpu_elementwise, 0, true},
    [OP_EXPAND] = {cpu_expand, 0, false},
    [OP_DROPOUT] = {cpu_dropout, 0, false},
    [OP_NORM] = {cpu_norm, 0, true},
    [OP_SOFTMAX] = {cpu_softmax, 0, false},
    [OP_ATTENTION] = {cpu_attention, 0, false},
    [OP_GATHER] = {cpu_gather, 0, false},
    [OP_CONCAT] = {cpu_concat, 0, false},
    [OP_PART] = {cpu_concat_backward, 3, false},
    [OP_FLATTEN] = {cpu_flatten, 0, false},
    [OP_ROUTE] = {cpu_route, 0, false},
    [OP_DISPATCH] = {cpu_dispatch, 0, false},
    [OP_COMBINE] = {cpu_combine, 1, false},
    [OP_LOSS] = {cpu_loss, 0, false},
    [OP_NORM_BACKWARD] = {cpu_norm_backward, 6, true},
    [OP_SOFTMAX_BACKWARD] = {cpu_softmax_backward, 2, false},
    [OP_ATTENTION_BACKWARD] = {cpu_attention_backward, 15, false},
    [OP_GATHER_BACKWARD] = {cpu_gather_backward, 1, false},
    [OP_LOSS_BACKWARD] = {cpu_loss_backward, 0, false},
    [OP_CONCAT_BACKWARD] = {cpu_concat_backward, 3, false},
    [OP_ROUTE_BACKWARD] = {cpu_route_backward, 2, false},
    [OP_DISPATCH_BACKWARD] = {cpu_dispatch_backward, 1, false},
    [OP_COMBINE_BACKWARD] = {cpu_combine_backward, 2, false},
    [OP_REDUCE] = {cpu_reduce, 1, false},
    [OP_CONV] = {cpu_conv, 0, false},
    [OP_CONV_BACKWARD] = {cpu_conv_backward, 6, false},
    [OP_SCAN] = {cpu_scan, 0, false},
    [OP_SCAN_BACKWARD] = {cpu_scan_backward, 60, false},
    [OP_DELTA] = {cpu_delta, 0, false},
    [OP_DELTA_BACKWARD] = {cpu_delta_backward, 28, false},
    [OP_CHOOSE] = {cpu_choose, 0, false},
    [OP_CHOOSE_BACKWARD] = {cpu_choose_backward, 63, false},
    [OP_LINEAR_LOSS] = {cpu_linear_loss, 0, false},
    [OP_LINEAR_LOSS_BACKWARD] = {cpu_linear_loss_backward, 3, false},
    [OP_SINKHORN] = {cpu_sinkhorn, 0, false},
    [OP_SINKHORN_BACKWARD] = {cpu_sinkhorn_backward, 0, false},
    [OP_POOL] = {cpu_pool_entries, 0, false},
    [OP_POOL_BACKWARD] = {cpu_pool_entries_backward, 7, false},
    [OP_POOLED] = {cpu_pooled, 0, false},
    [OP_POOLED_BACKWARD] = {cpu_pooled_backward, 15, false},
    [OP_PRODUCT] = {cpu_product, 1, false},
    [OP_OPERATOR] = {cpu_operator, 1, false},
    [OP_OPERATOR_BACKWARD] = {cpu_operator_backward, 63, false},
};

// What depends on shapes alone: kernels check again what they read.
const char *cpu_can_run(const struct kernel_call *call)
{
    enum op_kind kind = call->op->kind;
    struct attend attend;
    struct kernel_call folded;
    const char *fault;
    if ((unsigned)kind >= OP_KIND_COUNT || !KERNELS[kind].run) return "no kernel for this operator";
    switch (kind) {
    case OP_CONTRACT:
        return einsum_check(call);
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        folded = *call;
        fault = call_fold_attention(&folded, kind == OP_ATTENTION ? 0 : 1);
        return fault ? fault : attend_read(&attend, &folded, kind == OP_ATTENTION ? 0 : 1);
    case OP_SCAN:
    case OP_SCAN_BACKWARD:
        return call_check_scan(call, kind == OP_SCAN ? 0 : 1);
    case OP_DELTA:
    case OP_DELTA_BACKWARD:
        return call_check_delta(call, kind == OP_DELTA ? 0 : 1);
    case OP_CONV:
    case OP_CONV_BACKWARD:
        return call_check_conv(call, kind == OP_CONV ? 0 : 1);
    case OP_DROPOUT:
        return call->routing && array_is_ragged(&call->inputs[0]) ? "dropout inside experts" : NULL;
    default:
        return NULL;
    }
}

FAST static void add_to(int64_t count, const REAL *x, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++) y[i] += x[i];
}

// Kernels that write their results whole write to scratch where these are to be added.
static const char *run_added(struct cpu_device *device, const struct kernel_call *call)
{
    struct kernel_call own = *call;
    const struct kernel_row *kernel = &KERNELS[call->op->kind];
    unsigned foreign = call->adds & ~kernel->adds;
    own.adds &= kernel->adds;
    for (int i = 0; i < call->output_count; i++) {
        if (!(foreign >> i & 1)) continue;
        int64_t bytes = call_held_elements(call, &call->outputs[i]) * (int64_t)sizeof(REAL);
        own.outputs[i].data = cpu_scratch(device, (enum scratch)(SCRATCH_SUM + i), bytes);
        if (!own.outputs[i].data) return cpu_no_memory(device);
    }
    const char *fault = kernel->run(device, &own);
    for (int i = 0; i < call->output_count && !fault; i++) {
        if (!(foreign >> i & 1)) continue;
        add_to(call_held_elements(call, &call->outputs[i]), own.outputs[i].data,
               call->outputs[i].data);
    }
    return fault;
}

static const char *run_experts(struct cpu_device *device, const struct kernel_call *call)
{
    assert(call->routing->rows_of[0] == 0 && call->routing->expert_count >= 0);
    const char *fault = NULL;
    for (int64_t e = 0; e < call->routing->expert_count && !fault; e++) {
        struct kernel_call one = *call;
        one.routing = NULL;
        for (int i = 0; i < one.input_count && !fault; i++)
            fault = array_cut_expert(&one.inputs[i], call->routing, e, sizeof(REAL));
        for (int i = 0; i < one.output_count && !fault; i++)
            fault = array_cut_expert(&one.outputs[i], call->routing, e, sizeof(REAL));
        one.adds |= e > 0 ? call_shared_outputs(call) : 0;
        if (!fault) fault = run_added(device, &one);
    }
    return fault;
}

// Rows that lie apart, one after the other. Sums over all rows go on.
static const char *run_rows_apart(struct cpu_device *device, const struct kernel_call *call)
{
    const char *fault = NULL;
    const struct kernel_array *rows = &call->outputs[0];
    assert(call->output_count > 0 && array_has_rows(rows));
    for (int64_t i = 0; i < rows->sizes[0] * rows->sizes[1] && !fault; i++) {
        struct kernel_call one = *call;
        int64_t batch = i / rows->sizes[1], row = i % rows->sizes[1];
        for (int k = 0; k < one.input_count; k++)
            array_cut_rows(&one.inputs[k], batch, row, 1);
        for (int k = 0; k < one.output_count; k++) {
            if (i > 0 && !array_has_rows(&one.outputs[k])) one.adds |= 1u << k;
            array_cut_rows(&one.outputs[k], batch, row, 1);
        }
        fault = run_added(device, &one);
    }
    return fault;
}

const char *cpu_run(struct device *device, enum stream stream, const struct kernel_call *call)
{
    struct cpu_device *own = (struct cpu_device *)(void *)device;
    (void)stream;
    const char *fault = cpu_can_run(call);
    if (fault) return fault;
    if (call_is_inside_experts(call)) return run_experts(own, call);
    bool is_any = array_elements(&call->outputs[0]) > 0;
    if (KERNELS[call->op->kind].is_dense && is_any && call_is_apart(call))
        return run_rows_apart(own, call);
    return run_added(own, call);
}
