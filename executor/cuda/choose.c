#include "executor/cuda/cuda.h"
#include "plan/choose_parts.h"

#include <assert.h>
#include <limits.h>

// The choice of keys (models/op_choose.h): products of heads and keys by cuBLASLt, some queries of
// a sequence at a time, and the kernel that adds them up and chooses.

const char *cuda_check_choose(const struct kernel_call *call)
{
    const struct kernel_array *q = &call->inputs[0], *k = q + 1, *w = q + 2;
    if (call->input_count != 3 || q->rank != 4 || k->rank != 3 || w->rank != 3 ||
        k->sizes[2] != q->sizes[3])
        return "a choice wants queries (batch, seq, heads, width) and keys (batch, seq, width)";
    if (k->sizes[1] != k->whole[1]) return "a choice wants all keys";
    return k->sizes[1] > INT_MAX ? "a choice among more than 2^31 keys" : NULL;
}

// Rows of a head each; where those of queries lie apart each query is a product of its own.
static const char *multiply(const struct run *run, int64_t row, int64_t sequence,
                            const struct choose_args *args)
{
    const struct kernel_array *q = &run->call->inputs[0], *k = q + 1;
    int64_t q_stride = array_stride(q, 1), k_stride = array_stride(k, 1);
    int64_t heads = args->heads, width = array_last(q);
    bool is_dense = q_stride == heads * width;
    struct reals keys = reals_at(run_input(run, 1), sequence * args->keys * k_stride);
    struct cuda_matmul product = {
        .rows = is_dense ? args->queries * heads : heads,
        .columns = args->keys,
        .inner = width,
        .batch = is_dense ? 1 : args->queries,
        .alpha = 1,
        .a = {reals_at(run_input(run, 0), row * q_stride), width, 1, q_stride},
        .b = {keys, 1, k_stride, 0},
        .c = {{args->products, NUMBER_FP32}, args->keys, 1, heads * args->keys}};
    return cuda_multiply(run->device, run->stream, &product);
}

// As many queries at a time as have room for the products of all their heads.
const char *cuda_choose(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct kernel_array *q = &call->inputs[0], *k = q + 1, *w = q + 2;
    int64_t queries = q->sizes[1], w_stride = array_stride(w, 1);
    struct choose_args args = {.sight = {.causal = call->op->causal, .window = call->op->window},
                               .heads = q->sizes[2],
                               .keys = k->sizes[1],
                               .most = array_last(&call->outputs[0]),
                               .first_key = k->first[1],
                               .weight_stride = w_stride};
    if (array_elements(&call->outputs[0]) == 0) return NULL;
    if (args.keys == 0) return "a choice without keys";
    int64_t some = choose_queries(queries, args.heads, args.keys);
    args.products =
        run_scratch(run, SCRATCH_SCORES, some * choose_query_bytes(args.heads, args.keys));
    if (!args.products) return CUDA_NO_MEMORY;
    assert(some > 0 && some <= queries);
    const char *fault = NULL;
    for (int64_t row = 0; row < q->sizes[0] * queries && !fault; row += args.queries) {
        int64_t sequence = row / queries, query = row % queries, left = queries - query;
        args.queries = some < left ? some : left;
        args.scores = args.products + args.queries * args.heads * args.keys;
        args.first_query = q->first[1] + query;
        args.weights = reals_at(run_input(run, 2), row * w_stride);
        args.chosen = reals_at(run_output(run, 0), row * args.most);
        fault = multiply(run, row, sequence, &args);
        if (!fault) kernel_choose(run->on, &args);
    }
    return fault;
}

// A choice has no derivative.
const char *cuda_choose_backward(const struct run *run)
{
    const char *fault = NULL;
    for (int i = 0; i < run->call->output_count && !fault; i++)
        fault = cuda_begin_sum(run->device, run->stream, run->call, i);
    return fault;
}
