#include "executor/cuda/cuda.h"

#include <assert.h>

// What is repeated over which dims, for the kernels of modulate.cu.

// Rows of `up`, and which part of `gate` belongs to each.
static const char *read_rows(const struct kernel_array *gate, const struct kernel_array *up,
                             struct modulate_args *args)
{
    int last = up->rank - 1, shared = 0;
    *args = (struct modulate_args){
        .rank = last, .width = array_last(up), .rows = 1, .gates = 1, .repeats = 1};
    if (gate->row_stride || up->row_stride) return "modulation wants dense rows";
    if (gate->rank == 0 || gate->dims[gate->rank - 1] != up->dims[last])
        return "modulation wants a gate with the last dim";
    for (int i = 0; i <= last; i++) {
        int at = array_find(gate, up->dims[i]);
        bool is_same =
            at < 0 || (gate->sizes[at] == up->sizes[i] && gate->first[at] == up->first[i]);
        if (!is_same) return "gate and what it modulates are not the same slices";
        shared += at >= 0;
        if (i == last) continue;
        args->sizes[i] = up->sizes[i];
        args->row_strides[i] = array_stride(up, i);
        args->gate_strides[i] = at < 0 ? 0 : array_stride(gate, at);
        args->rows *= up->sizes[i];
        *(at < 0 ? &args->repeats : &args->gates) *= up->sizes[i];
    }
    assert(args->rows == args->repeats * args->gates);
    return shared == gate->rank ? NULL : "a gate has a dim that what it modulates lacks";
}

// Partial sums of runs of rows, added up in their order.
static const char *sum_rows(const struct run *run, struct modulate_args *args, int output)
{
    if (args->rows * args->width == 0)
        return cuda_begin_sum(run->device, run->stream, run->call, output);
    int64_t floats = column_chunks(args->repeats) * args->gates * args->width;
    args->adds = call_adds(run->call, output);
    args->d_gate = run_output(run, output);
    args->partial = run_scratch(run, SCRATCH_PARTIAL, floats * (int64_t)sizeof(float));
    if (!args->partial) return CUDA_NO_MEMORY;
    kernel_gate_sums(run->on, args);
    return NULL;
}

const char *cuda_modulate(const struct run *run)
{
    const struct kernel_call *call = run->call;
    bool is_forward = call->op->phase == PHASE_FORWARD;
    int gate = is_forward ? 0 : 1;
    struct modulate_args args;
    const char *fault = read_rows(&call->inputs[gate], &call->inputs[gate + 1], &args);
    if (fault) return fault;
    args.scalar = (float)call->op->scalar;
    args.gate = run_input(run, gate);
    args.x = run_input(run, is_forward ? 1 : 0);
    args.y = run_output(run, is_forward ? 0 : 1);
    if (args.rows * args.width > 0) kernel_modulate(run->on, &args);
    if (is_forward) return NULL;
    args.d = args.x;
    args.x = run_input(run, gate + 1);
    return sum_rows(run, &args, 0);
}

bool cuda_sum_rows(const struct run *run, const char **fault)
{
    const struct kernel_array *in = &run->call->inputs[0], *out = &run->call->outputs[0];
    struct modulate_args args;
    if (out->rank == 0 || in->rank <= out->rank || read_rows(out, in, &args)) return false;
    args.x = run_input(run, 0);
    *fault = sum_rows(run, &args, 0);
    return true;
}
