#include "executor/contraction.h"
#include "executor/cuda/cuda.h"
#include "executor/scan_call.h"
#include "models/op_image.h"

#include <assert.h>

// One call: its checks, experts one after another, and results that are added.

struct kernel_row {
    const char *(*run)(const struct run *run);
    unsigned adds;  // outputs that the kernel adds by itself
};

static const struct kernel_row KERNELS[OP_KIND_COUNT] = {
    [OP_CONTRACT] = {cuda_contract, 1},
    [OP_ADD] = {cuda_add, 1},
    [OP_ELEMENTWISE] = {cuda_elementwise, 0},
    [OP_EXPAND] = {cuda_expand, 0},
    [OP_DROPOUT] = {cuda_dropout, 0},
    [OP_NORM] = {cuda_norm, 0},
    [OP_SOFTMAX] = {cuda_softmax, 0},
    [OP_ATTENTION] = {cuda_attention, 0},
    [OP_GATHER] = {cuda_gather, 1},
    [OP_CONCAT] = {cuda_concat, 0},
    [OP_PART] = {cuda_concat_backward, 3},
    [OP_ROUTE] = {cuda_route, 1},
    [OP_DISPATCH] = {cuda_dispatch, 1},
    [OP_COMBINE] = {cuda_combine, 1},
    [OP_LOSS] = {cuda_loss, 3},
    [OP_NORM_BACKWARD] = {cuda_norm_backward, 7},
    [OP_SOFTMAX_BACKWARD] = {cuda_softmax_backward, 3},
    [OP_ATTENTION_BACKWARD] = {cuda_attention_backward, 15},
    [OP_GATHER_BACKWARD] = {cuda_gather_backward, 1},
    [OP_LOSS_BACKWARD] = {cuda_loss_backward, 1},
    [OP_CONCAT_BACKWARD] = {cuda_concat_backward, 3},
    [OP_ROUTE_BACKWARD] = {cuda_route_backward, 3},
    [OP_DISPATCH_BACKWARD] = {cuda_dispatch_backward, 1},
    [OP_COMBINE_BACKWARD] = {cuda_combine_backward, 3},
    [OP_REDUCE] = {cuda_reduce, 1},
    [OP_CONV] = {cuda_conv, 0},
    [OP_CONV_BACKWARD] = {cuda_conv_backward, 6},
    [OP_FLATTEN] = {cuda_flatten, 0},
    [OP_PRODUCT] = {cuda_product, 1},
    [OP_OPERATOR] = {cuda_operator, 1},
    [OP_OPERATOR_BACKWARD] = {cuda_operator, 63},
    [OP_SCAN] = {cuda_scan, 0},
    [OP_SCAN_BACKWARD] = {cuda_scan_backward, 60},
    [OP_LINEAR_LOSS] = {cuda_linear_loss, 0},
    [OP_LINEAR_LOSS_BACKWARD] = {cuda_linear_loss_backward, 3},
    [OP_DELTA] = {cuda_delta, 0},
    [OP_DELTA_BACKWARD] = {cuda_delta_backward, 28},
    [OP_CHOOSE] = {cuda_choose, 0},
    [OP_CHOOSE_BACKWARD] = {cuda_choose_backward, 63},
};

static const char *check_route(const struct kernel_call *call)
{
    const struct op *op = call->op;
    int64_t count = array_last(&call->inputs[0]);
    if (count > ROUTE_EXPERT_MAX) return "more than 1024 experts to choose from";
    if (op->group_count > ROUTE_GROUP_MAX) return "more than 256 groups of experts";
    if (op->group_count > 1 && count % op->group_count) return "groups of experts of unequal size";
    return NULL;
}

// Entries that tokens are pooled to, and what goes with them (plan/unexecuted.c).
static bool is_pooled(const struct op *op)
{
    return op->rate > 0 || op->function == FUNCTION_ROPE_BACK ||
           op->function == FUNCTION_ROUTE_ROOT;
}

const char *cuda_can_run(const struct kernel_call *call)
{
    enum op_kind kind = call->op->kind;
    bool is_known = (unsigned)kind < OP_KIND_COUNT && KERNELS[kind].run;
    if (!is_known || is_pooled(call->op)) return "no kernel for this operator";
    switch (kind) {
    case OP_CONTRACT:
        return einsum_check(call);
    case OP_ROUTE:
        return check_route(call);
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return cuda_check_attention(call, kind == OP_ATTENTION ? 0 : 1);
    case OP_CHOOSE:
        return cuda_check_choose(call);
    case OP_CONV:
    case OP_CONV_BACKWARD:
        return cuda_check_conv(call, kind == OP_CONV ? 0 : 1);
    case OP_SCAN:
    case OP_SCAN_BACKWARD:
        return call_check_scan(call, kind == OP_SCAN ? 0 : 1);
    case OP_DELTA:
    case OP_DELTA_BACKWARD:
        return cuda_check_delta(call, kind == OP_DELTA ? 0 : 1);
    case OP_PRODUCT:
    case OP_OPERATOR:
    case OP_OPERATOR_BACKWARD:
        return call->op->work.type && !imported_is_of_cpus(&call->op->work)
                   ? NULL
                   : "no kernel for this operator";
    case OP_SOFTMAX:
    case OP_SOFTMAX_BACKWARD:
        return call_check_softmax(call);
    case OP_DROPOUT:
        return call->routing && array_is_ragged(&call->inputs[0]) ? "dropout inside experts" : NULL;
    default:
        return NULL;
    }
}

struct reals reals_of(const struct cuda_device *device, const struct kernel_array *array)
{
    bool is_wide = array->element == ELEMENT_FP32;
    return (struct reals){array->data, is_wide ? NUMBER_FP32 : (int)device->compute};
}

const char *cuda_begin_sum(struct cuda_device *device, enum stream stream,
                           const struct kernel_call *call, int output)
{
    struct reals reals = reals_of(device, &call->outputs[output]);
    int64_t bytes = call_held_elements(call, &call->outputs[output]) * number_bytes(reals.number);
    if (call_adds(call, output) || bytes == 0) return NULL;
    const struct kernel_array *array = &call->outputs[output];
    int64_t rows = array->row_stride ? array->sizes[0] * array->sizes[1] : 1;
    assert(output < OP_OUTPUT_MAX && rows > 0 && bytes % rows == 0);
    cudaError_t error = cudaSuccess;
    for (int64_t i = 0; i < rows && error == cudaSuccess; i++)
        error = cudaMemsetAsync(reals_at(reals, i * array->row_stride).data, 0,
                                (size_t)(bytes / rows), device->streams[stream]);
    return cuda_fault(error);
}

static void add_to(const struct run *run, int64_t count, struct reals from, struct reals to)
{
    struct terms_args args = {.rank = 1,
                              .term_count = 1,
                              .adds = true,
                              .sizes = {count},
                              .out = to,
                              .out_strides = {1},
                              .term = {from},
                              .strides = {{1}}};
    if (count > 0) kernel_terms(run->on, &args);
}

// Kernels that write their results whole write to scratch where these are to be added.
static const char *run_added(struct cuda_device *device, enum stream stream,
                             const struct kernel_call *call)
{
    struct kernel_call own = *call;
    const struct kernel_row *kernel = &KERNELS[call->op->kind];
    struct run run = {device, stream, device->streams[stream], &own, {0}};
    unsigned foreign = call->adds & ~kernel->adds;
    own.adds &= kernel->adds;
    for (int i = 0; i < call->output_count; i++) {
        if (!(foreign >> i & 1)) continue;
        int number = reals_of(device, &call->outputs[i]).number;
        int64_t bytes = call_held_elements(call, &call->outputs[i]) * number_bytes(number);
        own.outputs[i].data = run_scratch(&run, (enum scratch)(SCRATCH_SUM + i), bytes);
        if (!own.outputs[i].data) return CUDA_NO_MEMORY;
    }
    const char *fault = kernel->run(&run);
    for (int i = 0; i < call->output_count && !fault; i++) {
        if (!(foreign >> i & 1)) continue;
        add_to(&run, call_held_elements(call, &call->outputs[i]), reals_of(device, &own.outputs[i]),
               reals_of(device, &call->outputs[i]));
    }
    return fault ? fault : cuda_fault(cudaGetLastError());
}

static const char *cut(const struct cuda_device *device, struct kernel_array *array,
                       const struct kernel_routing *routing, int64_t expert)
{
    return array_cut_expert(array, routing, expert, number_bytes(reals_of(device, array).number));
}

const char *cuda_cut_expert(const struct cuda_device *device, const struct kernel_call *call,
                            int64_t expert, struct kernel_call *one)
{
    const char *fault = NULL;
    *one = *call;
    one->routing = NULL;
    for (int i = 0; i < one->input_count && !fault; i++)
        fault = cut(device, &one->inputs[i], call->routing, expert);
    for (int i = 0; i < one->output_count && !fault; i++)
        fault = cut(device, &one->outputs[i], call->routing, expert);
    return fault;
}

// In one launch where the library has that, else one expert after another.
static const char *run_experts(struct cuda_device *device, enum stream stream,
                               const struct kernel_call *call)
{
    struct run run = {device, stream, device->streams[stream], call, {0}};
    bool is_done = false;
    const char *fault = NULL;
    assert(call->routing);
    if (call->op->kind == OP_CONTRACT) fault = cuda_contract_experts(&run, &is_done);
    if (fault || is_done) return fault;
    for (int64_t e = 0; e < call->routing->expert_count && !fault; e++) {
        struct kernel_call one;
        fault = cuda_cut_expert(device, call, e, &one);
        one.adds |= e > 0 ? call_shared_outputs(call) : 0;
        if (!fault) fault = run_added(device, stream, &one);
    }
    return fault;
}

const char *cuda_run(struct device *device, enum stream stream, const struct kernel_call *call)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    const char *fault = cuda_can_run(call);
    if (fault) return fault;
    if (call_is_inside_experts(call)) return run_experts(own, stream, call);
    return run_added(own, stream, call);
}
