#include "executor/cuda/attention.h"
#include "plan/unfused.h"

#include <string.h>

// Attention that cuDNN has an engine for: what of a call its shape is, what it has to be given
// beside, and which calls it has no place for.

// A sequence of whole chunks is as many sequences of one. 0: there are none.
static int64_t whole_chunks(const struct cuda_attend *a)
{
    int64_t chunk = a->op->window;
    bool is_square = a->first_query == a->first_key && a->queries == a->keys;
    bool is_whole = is_square && a->first_query % chunk == 0 && a->queries % chunk == 0;
    return is_whole ? a->queries / chunk : 0;
}

// All that is here is of one chunk.
static bool is_one_chunk(const struct cuda_attend *a)
{
    int64_t chunk = a->op->window, first = a->first_key / chunk;
    return a->first_query / chunk == first && (a->first_key + a->keys - 1) / chunk == first &&
           (a->first_query + a->queries - 1) / chunk == first;
}

// Which keys a query sees, without bounds that none of them meets.
static void bound(const struct cuda_attend *a, struct sdpa_shape *s)
{
    const struct op *op = a->op;
    int64_t shift = a->first_query - a->first_key, window = op->window;
    if (op->chunked && window > 0) {
        int64_t chunks = whole_chunks(a);
        if (chunks > 0) s->batch *= chunks, s->queries = s->keys = window;
        window = 0;
    }
    s->ahead = shift + (op->causal ? 0 : window - 1);
    s->back = window - shift;
    s->has_end = (op->causal || window > 0) && s->ahead < s->keys - 1;
    s->has_start = window > 0 && s->back < s->queries;
    if (!s->has_end) s->ahead = 0;
    if (!s->has_start) s->back = 0;
}

static struct sdpa_shape shape_of(const struct cuda_attend *a, bool is_backward)
{
    struct sdpa_shape shape = {.strides = {a->q_stride, a->k_stride, a->v_stride},
                               .number = a->number,
                               .is_causal = a->op->causal,
                               .is_backward = is_backward,
                               .turns_lse = is_backward && !sdpa_reads_strides(),
                               .has_sinks = a->has_sink && !a->run->call->merges,
                               .has_slopes = a->op->alibi > 0,
                               .batch = a->batch_count,
                               .heads = a->heads,
                               .kv_heads = a->kv_heads,
                               .queries = a->queries,
                               .keys = a->keys,
                               .width = a->width,
                               .value_width = a->value_width,
                               .first_key = a->op->alibi > 0 ? a->first_key : 0,
                               .scale = (float)a->op->scalar,
                               .softcap = (float)a->op->softcap};
    bound(a, &shape);
    return shape;
}

static bool is_aligned(const struct cuda_attend *a)
{
    const struct kernel_call *call = a->run->call;
    uintptr_t places = (uintptr_t)a->q.data | (uintptr_t)a->k.data | (uintptr_t)a->v.data;
    for (int i = 0; i < call->output_count && i < 3; i++)
        places |= (uintptr_t)call->outputs[i].data | (uintptr_t)(2 * call->outputs[i].row_stride);
    places |= (uintptr_t)(2 * (a->q_stride | a->k_stride | a->v_stride));
    return places % 16 == 0;
}

// NULL, or what cuDNN's pattern has no place for: it goes the other way.
static const char *special(const struct cuda_attend *a, struct reals lse,
                           const struct sdpa_shape *shape)
{
    const struct op *op = a->op;
    bool is_chunked = op->chunked && op->window > 0;
    bool is_cut = is_chunked && whole_chunks(a) == 0 && !is_one_chunk(a);
    bool is_grouped = a->heads == a->kv_heads * a->group || a->kv_heads == 1;
    bool sees_none = (shape->has_end && shape->ahead < 0) ||
                     (shape->has_start && shape->keys + shape->back <= shape->queries);
    bool is_wide = a->width > FUSED_BACKWARD_WIDTH || a->value_width > FUSED_BACKWARD_WIDTH;
    const bool breaks[UNFUSED_COUNT] = {
        [UNFUSED_FP32] = a->number == NUMBER_FP32,
        [UNFUSED_DROPOUT] = op->dropout_ratio > 0,
        [UNFUSED_PREFIX] = op->prefix > 0,
        [UNFUSED_WIDE_BACKWARD] = shape->is_backward && is_wide,
        [UNFUSED_WIDTH] = a->width % FUSED_WIDTH_UNIT || a->value_width % FUSED_WIDTH_UNIT,
        [UNFUSED_UNEVEN_HEADS] = !is_grouped,
        [UNFUSED_RING_WINDOW] = sees_none,
        [UNFUSED_CUT_CHUNK] = is_cut,
        [UNFUSED_CHOSEN] = op->top_k > 0,
    };
    for (int rule = 0; rule < UNFUSED_COUNT; rule++) {
        if (breaks[rule]) return unfused_text((enum unfused)rule);
    }
    // No model and no plan has these.
    if (is_chunked && op->alibi > 0) return "its chunks have biases of alibi";
    if (lse.number != NUMBER_FP32) return "its sums of exponentials are not of fp32";
    return is_aligned(a) ? NULL : "its rows begin at no multiple of 16 bytes";
}

// Whether cuDNN takes it; which way it goes is kept for the report.
static bool is_fused(const struct cuda_attend *a, struct reals lse, const struct sdpa_shape *shape)
{
    struct cuda_device *device = a->run->device;
    const char *fault = special(a, lse, shape), *refusal = NULL;
    if (!fault) fault = sdpa_missing(device);
    if (!fault) fault = refusal = sdpa_prepare(device, shape);
    cuda_note_attention(device, shape, fault, refusal != NULL);
    return !fault;
}

// What goes with heads: slopes, and sinks in fp32.
static const char *give_heads(const struct cuda_attend *a, const struct sdpa_shape *shape,
                              struct sdpa_tensors *tensors)
{
    const struct run *run = a->run;
    if (shape->has_slopes) {
        struct slope_args args = {
            .heads = a->heads,
            .first_head = a->first_head,
            .whole_heads = run->call->head_count,
            .alibi = a->op->alibi,
            .slopes = run_scratch(run, SCRATCH_WEIGHTS, a->heads * (int64_t)sizeof(float))};
        if (!args.slopes) return CUDA_NO_MEMORY;
        kernel_slopes(run->on, &args);
        tensors->slopes = args.slopes;
    }
    if (shape->has_sinks && !shape->is_backward) {
        struct reals wide = {run_scratch(run, SCRATCH_D_WEIGHTS, a->heads * 4), NUMBER_FP32};
        if (!wide.data) return CUDA_NO_MEMORY;
        struct terms_args args = {.rank = 1,
                                  .term_count = 1,
                                  .sizes = {a->heads},
                                  .out = wide,
                                  .out_strides = {1},
                                  .term = {a->sink},
                                  .strides = {{1}}};
        kernel_terms(run->on, &args);
        tensors->sinks = wide.data;
    }
    return NULL;
}

// Of an earlier block of a ring there is a result already: what this one makes joins it.
static const char *run_forward(const struct cuda_attend *a, const struct sdpa_shape *shape,
                               struct reals out, struct reals lse)
{
    const struct run *run = a->run;
    struct join_args join = {.rows = a->batch_count * a->queries * a->heads,
                             .width = a->value_width,
                             .out = out,
                             .lse = lse,
                             .fresh = out,
                             .fresh_lse = lse};
    if (run->call->merges) {
        join.fresh.data = run_scratch(run, SCRATCH_RESULT, join.rows * join.width * 2);
        join.fresh_lse.data = run_scratch(run, SCRATCH_SCORES, join.rows * 4);
        if (!join.fresh.data || !join.fresh_lse.data) return CUDA_NO_MEMORY;
    }
    struct sdpa_tensors tensors = {
        .q = a->q, .k = a->k, .v = a->v, .out = join.fresh, .lse = join.fresh_lse.data};
    const char *fault = give_heads(a, shape, &tensors);
    if (!fault) fault = sdpa_run(run->device, run->stream, shape, &tensors);
    if (!fault && run->call->merges) kernel_attend_join(run->on, &join);
    return fault;
}

const char *cuda_attend_fused(const struct cuda_attend *a, bool *is_done)
{
    struct reals out = run_output(a->run, 0), lse = run_output(a->run, 1);
    struct sdpa_shape shape = shape_of(a, false);
    *is_done = is_fused(a, lse, &shape);
    return *is_done ? run_forward(a, &shape, out, lse) : NULL;
}

// The log-sum-exp by head and then by query, where that is how cuDNN reads it.
static const char *turn_lse(const struct cuda_attend *a, const struct sdpa_shape *s,
                            struct reals lse, float **turned)
{
    *turned = lse.data;
    if (!s->turns_lse) return NULL;
    *turned = run_scratch(a->run, SCRATCH_SCORES, a->batch_count * a->queries * a->heads * 4);
    if (!*turned) return CUDA_NO_MEMORY;
    struct terms_args args = {.rank = 3,
                              .term_count = 1,
                              .sizes = {s->batch, s->heads, s->queries},
                              .out = {*turned, NUMBER_FP32},
                              .out_strides = {s->heads * s->queries, s->queries, 1},
                              .term = {lse},
                              .strides = {{s->heads * s->queries, 1, s->heads}}};
    kernel_terms(a->run->on, &args);
    return NULL;
}

static bool is_added(const struct kernel_call *call, int output)
{
    return call->merges || call_adds(call, output);
}

// A gradient that is added to what is there is made in other memory, its rows one behind another.
static const char *place_gradient(const struct cuda_attend *a, int output, struct reals *gradient,
                                  int64_t *stride)
{
    const struct kernel_call *call = a->run->call;
    const struct kernel_array *made = &call->outputs[output];
    *gradient = run_output(a->run, output);
    *stride = array_stride(made, 1);
    if (!is_added(call, output)) return NULL;
    *stride = array_row(made);
    gradient->data = run_scratch(a->run, (enum scratch)(SCRATCH_SUM + output),
                                 array_elements(made) * number_bytes(gradient->number));
    return gradient->data ? NULL : CUDA_NO_MEMORY;
}

static void add_gradient(const struct cuda_attend *a, int output, struct reals gradient)
{
    const struct kernel_array *out = &a->run->call->outputs[output];
    int64_t row = array_row(out);
    if (!is_added(a->run->call, output)) return;
    struct terms_args args = {.rank = 2,
                              .term_count = 1,
                              .adds = true,
                              .sizes = {out->sizes[0] * out->sizes[1], row},
                              .out = run_output(a->run, output),
                              .out_strides = {array_stride(out, 1), 1},
                              .term = {gradient},
                              .strides = {{row, 1}}};
    kernel_terms(a->run->on, &args);
}

const char *cuda_attend_fused_backward(const struct cuda_attend *a,
                                       const struct attend_gradients *g, bool *is_done)
{
    struct sdpa_shape shape = shape_of(a, true);
    struct sdpa_tensors tensors = {.q = a->q, .k = a->k, .v = a->v, .out = g->out, .d = g->d};
    struct reals *gradients[] = {&tensors.d_q, &tensors.d_k, &tensors.d_v};
    const char *fault = NULL;
    for (int i = 0; i < 3 && !fault; i++)
        fault = place_gradient(a, i, gradients[i], &shape.gradient_strides[i]);
    *is_done = fault || is_fused(a, g->lse, &shape);
    if (fault || !*is_done) return fault;
    fault = turn_lse(a, &shape, g->lse, &tensors.lse);
    if (!fault) fault = give_heads(a, &shape, &tensors);
    if (!fault) fault = sdpa_run(a->run->device, a->run->stream, &shape, &tensors);
    for (int i = 0; i < 3 && !fault; i++)
        add_gradient(a, i, *gradients[i]);
    return fault;
}
