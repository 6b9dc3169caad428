#include "executor/contraction.h"
#include "executor/cuda/cuda.h"
#include "executor/merged.h"

#include <assert.h>

// GEMMs with what follows done before their result is written: a bias, then GELU; or the
// derivative of GELU behind the gradient's GEMM. And the gradients of a weight and of the bias
// behind it, in any order, which both sum the same gradient over the tokens: one pass over it the
// less. cuBLASLt has these as epilogues. And a residual, which a GEMM takes for the matrix that it
// adds to another one than it writes.

enum { AUX_GRAIN = 8 };

// One matrix, whole, whichever way it lies.
static bool is_one_matrix(const struct kernel_call *call, struct einsum *e)
{
    const struct kernel_array *out = &call->outputs[0];
    bool is_product = call->op->kind == OP_CONTRACT && !call->routing && array_elements(out) > 0 &&
                      array_elements(&call->inputs[0]) > 0 && array_elements(&call->inputs[1]) > 0;
    if (!is_product) return false;
    *e = einsum_of(call);
    bool is_plain = e->column.c == 1 && e->row.c == e->column.size;
    bool is_turned = e->row.c == 1 && e->column.c == e->row.size;
    return e->loops.count == 0 && e->inner_loops.count == 0 && e->row.size > 1 &&
           (is_plain || is_turned);
}

// One matrix, whose columns lie one after another.
static bool is_one_product(const struct kernel_call *call, struct einsum *e)
{
    return is_one_matrix(call, e) && e->column.c == 1;
}

// Of one number and size; shapes may have other names.
static bool is_alike(const struct kernel_array *a, const struct kernel_array *b)
{
    return a->element == b->element && array_elements(a) == array_elements(b);
}

// The input of a sum of two that is added to every row; -1: it is no such sum.
static int bias_of(const struct kernel_call *sum, const struct kernel_array *rows, int64_t columns)
{
    if (sum->op->kind != OP_ADD || sum->input_count != 2 || sum->adds) return -1;
    int at = sum->inputs[0].data == rows->data ? 1 : 0;
    const struct kernel_array *bias = &sum->inputs[at], *out = &sum->outputs[0];
    bool fits = sum->inputs[1 - at].data == rows->data && is_alike(rows, out) &&
                bias->element == out->element && array_elements(bias) == columns &&
                bias->rank <= out->rank;
    for (int i = 1; fits && i <= bias->rank; i++) {
        fits = bias->dims[bias->rank - i] == out->dims[out->rank - i] &&
               bias->sizes[bias->rank - i] == out->sizes[out->rank - i];
    }
    return fits ? at : -1;
}

// With the inputs that its direction has: backward the gradient and what went in.
static bool is_gelu(const struct kernel_call *call, enum phase phase, int inputs)
{
    return call->op->kind == OP_ELEMENTWISE && call->op->function == FUNCTION_GELU_TANH &&
           (call->op->phase == PHASE_FORWARD) == (phase == PHASE_FORWARD) && call->adds == 0 &&
           call->input_count == inputs && call->output_count == 1;
}

// What cuBLASLt demands of the matrix that GELU's input is kept in, or read from.
static bool is_aux(const struct kernel_array *aux, const struct kernel_array *out, int64_t columns)
{
    return is_alike(aux, out) && columns % AUX_GRAIN == 0 && (uintptr_t)aux->data % 16 == 0 &&
           aux->data != out->data;
}

// The last dims of an array.
static bool ends(const struct kernel_array *array, const struct kernel_array *end)
{
    bool fits = end->rank < array->rank;
    for (int i = 1; fits && i <= end->rank; i++) {
        fits = end->dims[end->rank - i] == array->dims[array->rank - i] &&
               end->sizes[end->rank - i] == array->sizes[array->rank - i];
    }
    return fits;
}

// Whether `sum` adds the second operand of the GEMM up over what the GEMM sums.
static bool is_summed_beside(const struct kernel_call *product, const struct kernel_call *sum)
{
    struct einsum e;
    const struct kernel_array *from = &sum->inputs[0], *bias = &sum->outputs[0];
    if (sum->op->kind != OP_REDUCE || sum->routing || product->op->kind != OP_CONTRACT)
        return false;
    const struct kernel_array *b = &product->inputs[1];
    bool is_same = from->data == b->data && is_alike(from, b) && ends(from, bias) &&
                   bias->element == product->outputs[0].element && product->op->scalar == 1;
    if (!is_same || !is_one_matrix(product, &e)) return false;
    bool is_dense = e.column.b == 1 && (e.sum.size == 1 || e.sum.b == e.column.size);
    return is_dense && array_elements(bias) == e.column.size;
}

// The GEMM of a pair of gradients; -1: the two are none.
static int weight_of(const struct kernel_call calls[2])
{
    if (is_summed_beside(&calls[0], &calls[1])) return 0;
    return is_summed_beside(&calls[1], &calls[0]) ? 1 : -1;
}

// How many from the first on one epilogue does; 0: none.
static int joined_count(const struct kernel_call *calls, int count)
{
    struct einsum e;
    if (count >= 2 && weight_of(calls) >= 0) return 2;
    if (count < 2 || calls[0].adds || !is_one_product(&calls[0], &e)) return 0;
    const struct kernel_array *product = &calls[0].outputs[0];
    const struct kernel_array *second = &calls[1].outputs[0];
    bool is_slope = is_gelu(&calls[1], PHASE_BACKWARD, 2) &&
                    calls[1].inputs[0].data == product->data && is_alike(product, second) &&
                    is_aux(&calls[1].inputs[1], second, e.column.size);
    if (is_slope) return 2;
    if (bias_of(&calls[1], product, e.column.size) < 0) return 0;
    bool goes_on = count > 2 && is_gelu(&calls[2], PHASE_FORWARD, 1) &&
                   calls[2].inputs[0].data == second->data &&
                   is_alike(second, &calls[2].outputs[0]) &&
                   is_aux(second, &calls[2].outputs[0], e.column.size);
    return goes_on ? 3 : 2;
}

// The result is written where the last of the calls wants it: those between are not
// written, but for what GELU's gradient reads.
static const char *run_one(struct cuda_device *device, enum stream stream,
                           const struct kernel_call *calls, int count)
{
    struct einsum e = einsum_of(&calls[0]);
    struct cuda_matmul end = {.aux = {NULL, 0}};
    const struct kernel_call *last = &calls[count - 1];
    struct run run = {device, stream, device->streams[stream], &calls[0], {0}};
    end.c.reals = reals_of(device, &last->outputs[0]);
    end.aux_stride = e.column.size;
    if (calls[1].op->kind == OP_ELEMENTWISE) {
        end.epilogue = GEMM_D_GELU;
        end.aux = reals_of(device, &calls[1].inputs[1]);
    } else {
        int bias = bias_of(&calls[1], &calls[0].outputs[0], e.column.size);
        assert(bias >= 0 && count <= 3 && "joined_count has looked");
        end.bias = reals_of(device, &calls[1].inputs[bias]);
        end.epilogue = count == 2 ? GEMM_BIAS : GEMM_BIAS_GELU;
        if (count == 3) end.aux = reals_of(device, &calls[1].outputs[0]);
    }
    return cuda_contract_to(&run, &end);
}

// The epilogue writes its sums: those that are to be added take a way round.
static const char *run_pair(struct cuda_device *device, enum stream stream,
                            const struct kernel_call *product, const struct kernel_call *sum)
{
    struct run run = {device, stream, device->streams[stream], product, {0}};
    struct reals bias = reals_of(device, &sum->outputs[0]), to = bias;
    int64_t count = array_elements(&sum->outputs[0]);
    if (call_adds(sum, 0))
        to.data = run_scratch(&run, SCRATCH_SUM, count * number_bytes(to.number));
    if (!to.data) return CUDA_NO_MEMORY;
    const struct cuda_matmul end = {.beta = call_adds(product, 0) ? 1 : 0,
                                    .c.reals = reals_of(device, &product->outputs[0]),
                                    .epilogue = GEMM_SUM_B,
                                    .bias = to};
    const char *fault = cuda_contract_to(&run, &end);
    if (fault || !call_adds(sum, 0)) return fault;
    struct terms_args args = {.rank = 1,
                              .term_count = 1,
                              .adds = true,
                              .sizes = {count},
                              .out = bias,
                              .out_strides = {1},
                              .term = {to},
                              .strides = {{1}}};
    kernel_terms(run.on, &args);
    return cuda_fault(cudaGetLastError());
}

// A norm and the sum in front of it or behind it, in one kernel; false: they do not fit.
static bool run_norm(struct cuda_device *device, enum stream stream,
                     const struct kernel_call calls[2])
{
    bool is_forward = calls[0].op->kind == OP_ADD && calls[1].op->kind == OP_NORM;
    struct run run = {device, stream, device->streams[stream], &calls[is_forward], {0}};
    if (is_forward) return cuda_norm_of_sum(&run, &calls[0]);
    bool is_backward = calls[0].op->kind == OP_NORM_BACKWARD && calls[1].op->kind == OP_ADD;
    return is_backward && cuda_norm_into_sum(&run, &calls[1]);
}

static const char *run_all(struct device *device, enum stream stream,
                           const struct kernel_call *calls, int count);

// The result of the first call is a term of the second: it goes into that sum, behind the others.
static const char *run_into_sum(struct device *device, enum stream stream,
                                const struct kernel_call calls[2])
{
    struct kernel_call gemm = calls[0], sum = calls[1];
    const char *fault = NULL;
    sum.input_count = 0;
    for (int i = 0; i < calls[1].input_count; i++) {
        if (calls[1].inputs[i].data != gemm.outputs[0].data)
            sum.inputs[sum.input_count++] = calls[1].inputs[i];
    }
    if (sum.input_count + 1 != calls[1].input_count) return MERGED_APART;
    if (sum.input_count > 0) fault = cuda_run(device, stream, &sum);
    gemm.outputs[0].data = sum.outputs[0].data;
    gemm.adds = sum.input_count > 0 || call_adds(&sum, 0);
    return fault ? fault : cuda_run(device, stream, &gemm);
}

// One GEMM (executor/merged.h), with what is behind it as behind any other.
static const char *run_merged(struct device *device, enum stream stream,
                              const struct kernel_call *calls, int count)
{
    const struct cuda_device *own = (const struct cuda_device *)(const void *)device;
    struct kernel_call folded[MERGED_CALLS];
    int64_t compute_bytes = number_bytes(reals_of(own, &calls[0].inputs[0]).number);
    int left = merged_fold(calls, count, compute_bytes, sizeof(float), folded);
    if (left == 0) return MERGED_APART;
    assert(left > 0 && left <= MERGED_CALLS);
    if (left == 1) return cuda_run(device, stream, folded);
    bool is_summed = folded[0].op->phase == PHASE_BACKWARD;
    return is_summed ? run_into_sum(device, stream, folded) : run_all(device, stream, folded, left);
}

// What there is no such kernel for runs one by one.
const char *cuda_run_joined(struct device *device, enum stream stream,
                            const struct kernel_call *calls, int count)
{
    bool is_merged = calls[0].merged;
    assert(count > 0);
    return (is_merged ? run_merged : run_all)(device, stream, calls, count);
}

// The sum of a product and of another array like it; -1: it is none. Else the other input.
static int addend_of(const struct kernel_call calls[2])
{
    struct einsum e;
    const struct kernel_call *sum = &calls[1];
    const struct kernel_array *product = &calls[0].outputs[0], *out = &sum->outputs[0];
    if (sum->op->kind != OP_ADD || sum->input_count != 2 || sum->adds || calls[0].adds) return -1;
    if (!is_one_matrix(&calls[0], &e) || product->row_stride || out->row_stride) return -1;
    int at = sum->inputs[0].data == product->data ? 1 : 0;
    const struct kernel_array *other = &sum->inputs[at];
    bool fits = sum->inputs[1 - at].data == product->data && is_alike(product, out) &&
                is_alike(other, out) && other->data != product->data && !other->row_stride &&
                other->rank == out->rank;
    for (int i = 0; i < out->rank && fits; i++)
        fits = other->dims[i] == out->dims[i] && product->dims[i] == out->dims[i];
    return fits ? at : -1;
}

// The product goes to where the sum is wanted, added to the other term as it is written.
static const char *run_residual(struct cuda_device *device, enum stream stream,
                                const struct kernel_call calls[2], int addend)
{
    struct kernel_call product = calls[0];
    assert(addend == 0 || addend == 1);
    product.outputs[0].data = calls[1].outputs[0].data;
    const struct run run = {device, stream, device->streams[stream], &product,
                            reals_of(device, &calls[1].inputs[addend])};
    return cuda_contract(&run);
}

static bool is_rope(const struct kernel_call *call)
{
    return call->op->kind == OP_ELEMENTWISE && call->op->function == FUNCTION_ROPE && !call->adds;
}

// Queries and keys in one launch: each alone is too short to fill a device.
static const char *run_ropes(struct cuda_device *device, enum stream stream,
                             const struct kernel_call calls[2])
{
    const struct run first = {device, stream, device->streams[stream], &calls[0], {0}};
    const struct run second = {device, stream, device->streams[stream], &calls[1], {0}};
    const char *fault = cuda_ropes(&first, &second);
    return fault ? fault : cuda_fault(cudaGetLastError());
}

static const char *run_all(struct device *device, enum stream stream,
                           const struct kernel_call *calls, int count)
{
    struct cuda_device *own = (struct cuda_device *)(void *)device;
    if (count == 2 && is_rope(&calls[0]) && is_rope(&calls[1]))
        return run_ropes(own, stream, calls);
    if (count == 2 && run_norm(own, stream, calls)) return cuda_fault(cudaGetLastError());
    int addend = count == 2 && calls[0].op->kind == OP_CONTRACT ? addend_of(calls) : -1;
    if (addend >= 0 && !run_residual(own, stream, calls, addend))
        return cuda_fault(cudaGetLastError());
    int weight = count >= 2 ? weight_of(calls) : -1, joined = joined_count(calls, count);
    const char *fault = joined == 0  ? "no epilogue"
                        : weight < 0 ? run_one(own, stream, calls, joined)
                                     : run_pair(own, stream, &calls[weight], &calls[1 - weight]);
    // What the library refuses goes one by one, as what has no epilogue.
    int done = fault ? 0 : joined;
    fault = NULL;
    for (int i = done; i < count && !fault; i++)
        fault = cuda_run(device, stream, &calls[i]);
    return fault;
}
