#include "executor/cuda/cuda.h"
#include "executor/cuda/pairs.h"
#include "executor/lookup_call.h"

#include <assert.h>

// Operators that work row by row: norms, softmax, lookups, the loss.

static struct norm_args norm_of(const struct run *run)
{
    const struct kernel_array *in = &run->call->inputs[0];
    int64_t width = call_norm_width(run->call, 0);
    assert(width > 0 && array_elements(in) % width == 0);
    return (struct norm_args){.rows = array_elements(in) / width,
                              .width = width,
                              .row = array_row(in),
                              .x_stride = in->row_stride,
                              .y_stride = run->call->outputs[0].row_stride,
                              .epsilon = (float)run->call->op->scalar,
                              .has_mean = run->call->op->function == FUNCTION_LAYER_NORM,
                              .x = run_input(run, 0),
                              .weight = run_input(run, 1),
                              .bias = run_input(run, 2),
                              .y = run_output(run, 0)};
}

// Whether ranks hold parts of the rows that x, an input, is normed over.
static bool is_shared(const struct kernel_call *call, int x)
{
    return call->op->groups < 2 && call_norm_width(call, x) < call_norm_whole(call, x);
}

// Of a norm by groups the group `index`: columns of rows that lie apart.
static struct norm_args group_of(const struct norm_args *all, int64_t each, int64_t index)
{
    struct norm_args args = *all;
    int64_t first = index * each;
    args.width = args.row = each;
    args.x_stride = args.y_stride = args.d_stride = args.d_x_stride = all->width;
    struct reals *const columns[] = {&args.x,      &args.y,    &args.d,        &args.d_x,
                                     &args.weight, &args.bias, &args.d_weight, &args.d_bias};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (columns[i]->data) *columns[i] = reals_at(*columns[i], first);
    }
    return args;
}

typedef void norm_kernel(struct CUstream_st *stream, const struct norm_args *args);

static const char *run_norm(const struct run *run, const struct norm_args *args, int x,
                            norm_kernel *kernel)
{
    int64_t each = call_norm_each(run->call, x);
    if (each == args->width) {
        kernel(run->on, args);
        return NULL;
    }
    assert(each > 0 && args->width % each == 0);
    if (call_is_apart(run->call)) return "a norm by groups wants rows that follow one another";
    for (int64_t g = 0; g < args->width / each; g++) {
        struct norm_args group = group_of(args, each, g);
        kernel(run->on, &group);
    }
    return NULL;
}

// A part of a call whose rows ranks share, in executor/kernel.h's words. `is_last` where what is
// left to do is the call itself, with what was exchanged last.
static const char *norm_part(const struct run *run, int x, struct norm_args *args, bool *is_last)
{
    static const enum norm_term LAYER[] = {NORM_VALUE, NORM_SQUARE, NORM_GRADIENT, NORM_PRODUCT};
    static const enum norm_term SQUARE[] = {NORM_SQUARE, NORM_PRODUCT};
    const struct kernel_call *call = run->call;
    int count = (args->has_mean ? 2 : 1) * (args->d.data ? 2 : 1), n = (call->part + 1) / 2;
    int element_bytes = (args->d.data ? args->d_x : args->y).number == NUMBER_FP32 ? 4 : 2;
    *is_last = false;
    if (args->width * element_bytes < NORM_KEPT_BYTES)
        return "a norm that ranks share needs rows of 12 bytes on each";
    // Nothing can be said yet: parts 1 and on follow.
    if (call->part == 0) return NULL;
    if (n > count) return "a norm has no such exchange";
    if (array_elements(&call->inner) != args->rows) return "no room to exchange";
    args->inner = call->inner.data;
    args->whole = call_norm_whole(call, x);
    args->exchange = args->has_mean ? (int)LAYER[n - 1] : (int)SQUARE[n - 1];
    args->fills = call->part % 2 == 1;
    *is_last = !args->fills && n == count;
    if (!*is_last) kernel_norm_exchange(run->on, args);
    return NULL;
}

const char *cuda_norm(const struct run *run)
{
    const struct kernel_array *rows = &run->call->inputs[0];
    if (array_elements(rows) == 0) return NULL;
    struct norm_args args = norm_of(run);
    bool is_last = true;
    const char *fault = is_shared(run->call, 0) ? norm_part(run, 0, &args, &is_last) : NULL;
    if (!fault && is_last) fault = run_norm(run, &args, 0, kernel_norm);
    return fault;
}

bool cuda_norm_of_sum(const struct run *run, const struct kernel_call *sum)
{
    const struct kernel_array *out = &sum->outputs[0];
    struct norm_args args = norm_of(run);
    bool fits = run->call->inputs[0].data == out->data && array_elements(out) > 0 &&
                run->call->op->groups == 0 && !is_shared(run->call, 0) &&
                sum->input_count <= (int)(sizeof args.term / sizeof *args.term) && !sum->adds;
    for (int i = 0; i < sum->input_count && fits; i++) {
        const struct kernel_array *term = &sum->inputs[i];
        bool is_vector = term->rank == 1 && term->dims[0] == out->dims[out->rank - 1];
        args.vectors |= (unsigned)is_vector << args.term_count;
        args.term[args.term_count++] = reals_of(run->device, term);
        fits = is_vector ? array_elements(term) == args.width
                         : array_elements(term) == array_elements(out);
    }
    if (fits) kernel_norm(run->on, &args);
    return fits;
}

// `beside` is added to the gradient of the input, which goes to `d_x`.
static const char *norm_backward(const struct run *run, struct reals beside, struct reals d_x)
{
    const struct kernel_call *call = run->call;
    const struct kernel_array *in = &call->inputs[1];
    const char *fault = NULL;
    if (array_elements(in) == 0) {
        for (int i = 1; i < call->output_count && !fault; i++)
            fault = cuda_begin_sum(run->device, run->stream, call, i);
        return fault;
    }
    int64_t width = call_norm_width(call, 1);
    assert(width > 0 && array_elements(in) % width == 0);
    struct norm_args args = {.rows = array_elements(in) / width,
                             .width = width,
                             .row = array_row(in),
                             .x_stride = in->row_stride,
                             .d_stride = call->inputs[0].row_stride,
                             .d_x_stride = call->outputs[0].row_stride,
                             .epsilon = (float)call->op->scalar,
                             .has_mean = call->op->function == FUNCTION_LAYER_NORM,
                             .d = run_input(run, 0),
                             .x = run_input(run, 1),
                             .weight = run_input(run, 2),
                             .d_x = d_x,
                             .beside = beside,
                             .d_weight = run_output(run, 1),
                             .d_bias = run_output(run, 2),
                             .adds_x = call_adds(call, 0),
                             .adds_weight = call_adds(call, 1),
                             .adds_bias = call_adds(call, 2)};
    bool is_last = true;
    if (is_shared(call, 1)) fault = norm_part(run, 1, &args, &is_last);
    if (fault || !is_last) return fault;
    int64_t each = call_norm_each(call, 1), partial = 2 * norm_partials(args.rows, each) * each;
    args.partial = run_scratch(run, SCRATCH_PARTIAL, partial * (int64_t)sizeof(float));
    if (!args.partial) return CUDA_NO_MEMORY;
    return run_norm(run, &args, 1, kernel_norm_backward);
}

// The sum's other term is added as the gradient is written.
bool cuda_norm_into_sum(const struct run *run, const struct kernel_call *sum)
{
    const struct kernel_array *made = &run->call->outputs[0];
    int at = sum->inputs[0].data == made->data ? 0 : 1;
    const struct kernel_array *other = &sum->inputs[1 - at];
    bool fits = run->call->op->groups == 0 && sum->input_count == 2 &&
                sum->inputs[at].data == made->data && !sum->adds && !call_adds(run->call, 0) &&
                array_elements(made) > 0 && array_elements(other) == array_elements(made) &&
                array_elements(&sum->outputs[0]) == array_elements(made);
    return fits && !norm_backward(run, reals_of(run->device, other),
                                  reals_of(run->device, &sum->outputs[0]));
}

const char *cuda_norm_backward(const struct run *run)
{
    return norm_backward(run, (struct reals){0}, run_output(run, 0));
}

// Where in a sequence a row stands follows from its number, by the strides of its dims.
static const char *read_softmax(const struct run *run, struct softmax_args *args)
{
    const struct kernel_array *scores = &run->call->inputs[0];
    const char *fault = call_check_softmax(run->call);
    int64_t keys = array_last(scores);
    int head = array_find(scores, DIM_HEAD), seq = array_find(scores, DIM_SEQ);
    if (fault) return fault;
    *args = (struct softmax_args){
        .sight = {run->call->op->causal, run->call->op->window, run->call->op->chunked,
                  run->call->op->prefix},
        .rows = keys > 0 ? array_elements(scores) / keys : 0,
        .keys = keys,
        .first_key = scores->first[scores->rank - 1],
        .query_stride = 1,
        .queries = 1,
        .head_stride = 1,
        .heads = 1,
    };
    if (keys == 0 || call_is_plain_softmax(run->call)) return NULL;
    args->query_stride = array_stride(scores, seq) / keys;
    args->queries = scores->sizes[seq];
    args->first_query = scores->first[seq];
    args->head_stride = array_stride(scores, head) / keys;
    args->heads = scores->sizes[head];
    return NULL;
}

const char *cuda_softmax(const struct run *run)
{
    struct softmax_args args;
    const char *fault = read_softmax(run, &args);
    if (fault || args.rows == 0) return fault;
    args.x = run_input(run, 0);
    args.sink = run_input(run, 1);
    args.y = run_output(run, 0);
    kernel_softmax(run->on, &args);
    return NULL;
}

const char *cuda_softmax_backward(const struct run *run)
{
    struct softmax_args args;
    const char *fault = read_softmax(run, &args);
    bool has_sink = run->call->output_count > 1;
    if (!fault && has_sink && args.rows == 0)
        fault = cuda_begin_sum(run->device, run->stream, run->call, 1);
    if (fault || args.rows == 0) return fault;
    args.d = run_input(run, 0);
    args.y = run_input(run, 1);
    args.d_x = run_output(run, 0);
    args.d_sink = run_output(run, 1);
    args.adds_x = call_adds(run->call, 0);
    args.adds_sink = call_adds(run->call, 1);
    if (has_sink) {
        args.partial = run_scratch(run, SCRATCH_PARTIAL, args.rows * 4);
        if (!args.partial) return CUDA_NO_MEMORY;
    }
    kernel_softmax_backward(run->on, &args);
    return NULL;
}

// Ids that this rank's part of the table does not have give zeros, and no gradient.
static const char *read_lookup(const struct run *run, const struct kernel_array *ids,
                               const struct kernel_array *table, const struct kernel_array *rows,
                               struct lookup_args *args)
{
    int64_t width = 1;
    for (int i = 1; i < table->rank; i++)
        width *= table->sizes[i];
    *args = (struct lookup_args){.ids = ids->data,
                                 .count = array_elements(ids),
                                 .width = width,
                                 .first = table->first[0],
                                 .held = table->sizes[0],
                                 .whole = table->whole[0],
                                 .adds = call_adds(run->call, 0),
                                 .rows = reals_of(run->device, rows),
                                 .table = reals_of(run->device, table),
                                 .fault = run->device->fault};
    if (ids->element != ELEMENT_INT64) return "ids are 64-bit integers";
    bool fits = array_elements(rows) == args->count * width;
    return fits ? NULL : "rows, ids and table of a lookup do not fit together";
}

static void add_dim(const struct looked_pairs *pairs, const struct kernel_array *rows, int dim,
                    struct pair_dims *dims)
{
    int at = dims->rank++;
    assert(dim >= 0 && at < TENSOR_RANK_MAX);
    if (at == 0) dims->count = 1;
    dims->count *= pairs->sizes[dim];
    dims->sizes[at] = pairs->sizes[dim];
    dims->ids[at] = pairs->ids[dim];
    dims->table[at] = pairs->table[dim];
    dims->rows[at] = array_stride(rows, dim);
}

// A lookup of each pair, or its backward.
static const char *run_pairs(const struct run *run, const struct kernel_array *ids,
                             const struct kernel_array *table, const struct kernel_array *rows)
{
    struct looked_pairs pairs;
    bool is_forward = run->call->op->kind == OP_GATHER;
    const char *fault = call_read_pairs(ids, table, rows, &pairs);
    struct pairs_args args = {.row = pairs.row,
                              .whole = table->sizes[0],
                              .adds = call_adds(run->call, 0),
                              .ids = ids->data,
                              .rows = reals_of(run->device, rows),
                              .table = reals_of(run->device, table),
                              .fault = run->device->fault,
                              .walked = {.count = 1}};
    for (int i = 0; i < rows->rank; i++) {
        add_dim(&pairs, rows, i, &args.all);
        if (!pairs.is_column[i]) add_dim(&pairs, rows, i, &args.walked);
    }
    for (int i = 1; i < table->rank; i++)
        add_dim(&pairs, rows, array_find(rows, table->dims[i]), &args.columns);
    if (!fault && is_forward && args.all.count > 0) kernel_pairs(run->on, &args);
    if (!fault && !is_forward && args.columns.count > 0) kernel_pairs_backward(run->on, &args);
    return fault;
}

const char *cuda_gather(const struct run *run)
{
    struct lookup_args args;
    const struct kernel_call *call = run->call;
    if (array_shares_dims(&call->inputs[0], &call->inputs[1]))
        return run_pairs(run, &call->inputs[0], &call->inputs[1], &call->outputs[0]);
    const char *fault =
        read_lookup(run, &call->inputs[0], &call->inputs[1], &call->outputs[0], &args);
    if (!fault && args.count > 0) kernel_gather(run->on, &args);
    return fault;
}

// Rows of equal ids are added up in a fixed order: ids are sorted first.
const char *cuda_gather_backward(const struct run *run)
{
    struct lookup_args args;
    const struct kernel_call *call = run->call;
    if (array_shares_dims(&call->inputs[1], &call->outputs[0]))
        return run_pairs(run, &call->inputs[1], &call->outputs[0], &call->inputs[0]);
    const char *fault =
        read_lookup(run, &call->inputs[1], &call->outputs[0], &call->inputs[0], &args);
    if (!fault) fault = cuda_begin_sum(run->device, run->stream, call, 0);
    if (fault || args.count == 0) return fault;
    args.sorting =
        run_scratch(run, SCRATCH_INDEX, kernel_lookup_ints(&args) * (int64_t)sizeof *args.sorting);
    args.partial = run_scratch(run, SCRATCH_PARTIAL,
                               kernel_lookup_floats(&args) * (int64_t)sizeof *args.partial);
    if (!args.sorting || !args.partial) return CUDA_NO_MEMORY;
    kernel_gather_backward(run->on, &args);
    return NULL;
}

// Columns past the vocabulary do not count and get no gradient.
static struct loss_args read_loss(const struct run *run, int logits_at)
{
    const struct kernel_array *logits = &run->call->inputs[logits_at];
    const struct kernel_array *labels = &run->call->inputs[logits_at + 1];
    int last = logits->rank - 1;
    bool is_vocab = run->call->vocab > 0 && logits->dims[last] == DIM_VOCAB;
    int64_t vocab = is_vocab ? run->call->vocab : logits->whole[last];
    int64_t real = vocab - logits->first[last], count = logits->sizes[last];
    return (struct loss_args){.part = run->call->part,
                              .rows = array_elements(labels),
                              .count = count,
                              .real = real < 0       ? 0
                                      : real < count ? real
                                                     : count,
                              .first = logits->first[last],
                              .labels = labels->data,
                              .logits = run_input(run, logits_at),
                              .adds = call_adds(run->call, 0)};
}

// Losses that are sums over columns.
static const char *read_columns(const struct run *run, int logits_at, struct loss_args *args)
{
    const struct kernel_array *logits = &run->call->inputs[logits_at], *other = logits + 1;
    bool is_error = run->call->op->function == FUNCTION_SQUARED_ERROR;
    *args = read_loss(run, logits_at);
    bool is_whole = args->count == logits->whole[logits->rank - 1] && args->real == args->count;
    if (!is_whole) return "a loss of each column wants all of them";
    args->kind = is_error ? LOSS_SQUARED_ERROR : LOSS_EACH;
    if (is_error) {
        if (other->element == ELEMENT_INT64) return "a squared error wants a target of reals";
        args->target = run_input(run, logits_at + 1);
        args->labels = NULL;
        args->rows = args->count > 0 ? args->rows / args->count : 0;
    } else if (other->element != ELEMENT_INT64) {
        return "labels are 64-bit integers";
    }
    bool fits = array_elements(logits) == args->rows * args->count;
    return fits ? NULL : "logits without a label";
}

static const char *columns_loss(const struct run *run)
{
    struct loss_args args;
    const char *fault = read_columns(run, 0, &args);
    if (fault || args.rows == 0) return fault;
    args.value = run_output(run, 0);
    args.adds_value = call_adds(run->call, 0);
    kernel_loss(run->on, &args);
    return NULL;
}

const char *cuda_loss(const struct run *run)
{
    if (run->call->op->function != FUNCTION_NONE) return columns_loss(run);
    const struct kernel_call *call = run->call;
    const struct kernel_array *logits = &call->inputs[0];
    struct loss_args args = read_loss(run, 0);
    if (call->inputs[1].element != ELEMENT_INT64) return "labels are 64-bit integers";
    if (call->part < 0 || call->part > 6) return "the loss has three exchanges";
    if (array_elements(logits) != args.rows * args.count) return "logits without a label";
    if (call->part > 0 && array_elements(&call->inner) != args.rows) return "no room to exchange";
    // Nothing can be said yet: parts 1 to 6 follow.
    bool is_split = args.count < logits->whole[logits->rank - 1];
    if ((call->part == 0 && is_split) || args.rows == 0) return NULL;
    args.value = run_output(run, 0);
    args.lse = run_output(run, 1);
    args.inner = reals_of(run->device, &call->inner);
    args.adds_value = call_adds(call, 0);
    args.adds_lse = call_adds(call, 1);
    kernel_loss(run->on, &args);
    return NULL;
}

const char *cuda_loss_backward(const struct run *run)
{
    struct loss_args args;
    const char *fault = NULL;
    if (run->call->op->function != FUNCTION_NONE) {
        fault = read_columns(run, 1, &args);
    } else {
        args = read_loss(run, 1);
        args.lse = run_input(run, 3);
        if (run->call->inputs[2].element != ELEMENT_INT64) fault = "labels are 64-bit integers";
    }
    if (fault) return fault;
    args.d = run_input(run, 0);
    args.d_logits = run_output(run, 0);
    if (args.rows > 0 && args.count > 0) kernel_loss_backward(run->on, &args);
    return NULL;
}
