#include "executor/cuda/attention.h"
#include "plan/choose_parts.h"
#include "plan/unfused.h"

#include <assert.h>
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
                               .has_choice = a->chosen_count > 0,
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
    if (shape.has_choice) shape.choice_stride = attended_row_bytes(a->keys) / 2;
    bound(a, &shape);
    assert(shape.has_end || shape.ahead == 0);  // equal shapes share a plan
    assert(shape.has_start || shape.back == 0);
    return shape;
}

// cuDNN's kernels load 16 bytes at a time, from every row.
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
        [UNFUSED_ODD_CHOICE] = a->chosen_count > 0 && a->queries * a->heads % FUSED_CHOICE_UNIT,
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

// What is not chosen gets a number added that leaves nothing of it.
static const char *give_choice(const struct cuda_attend *a, const struct sdpa_shape *shape,
                               struct sdpa_tensors *tensors)
{
    int64_t rows = a->batch_count * a->queries, bytes = attended_row_bytes(a->keys);
    if (!shape->has_choice) return NULL;
    tensors->chosen =
        (struct reals){run_scratch(a->run, SCRATCH_D_SCORES, rows * bytes), a->number};
    if (!tensors->chosen.data) return CUDA_NO_MEMORY;
    struct choice_args args = {.rows = rows,
                               .keys = a->keys,
                               .stride = shape->choice_stride,
                               .first_key = a->first_key,
                               .chosen_count = a->chosen_count,
                               .chosen = a->chosen,
                               .added = tensors->chosen};
    kernel_choice(a->run->on, &args);
    return NULL;
}

// What is attended at a time: all, but where keys are chosen (plan/choose_parts.h).
struct attend_part {
    struct cuda_attend attend;
    int64_t sequence, query;  // where it begins
    int64_t row, key_row;     // so many queries and keys are before it
    bool is_cut;              // there are others of its sequence
};

static bool next_part(const struct cuda_attend *a, struct attend_part *part)
{
    struct attended_part most = {a->batch_count, a->queries};
    if (a->chosen_count > 0) most = attended_part(a->batch_count, a->queries, a->keys);
    bool begins = part->attend.run == NULL;
    if (!begins) part->query += part->attend.queries;
    if (!begins && part->query == a->queries) {
        part->query = 0;
        part->sequence += part->attend.batch_count;
    }
    int64_t sequences = a->batch_count - part->sequence, queries = a->queries - part->query;
    if (sequences == 0) return false;
    part->attend = *a;
    part->attend.batch_count = most.sequences < sequences ? most.sequences : sequences;
    part->attend.queries = most.queries < queries ? most.queries : queries;
    part->attend.first_query += part->query;
    part->row = part->sequence * a->queries + part->query;
    part->key_row = part->sequence * a->keys;
    part->is_cut = most.queries < a->queries;
    part->attend.q = reals_at(a->q, part->row * a->q_stride);
    part->attend.k = reals_at(a->k, part->key_row * a->k_stride);
    part->attend.v = reals_at(a->v, part->key_row * a->v_stride);
    assert(part->attend.batch_count > 0 && part->attend.queries > 0);
    assert((!part->is_cut || part->attend.batch_count == 1) && "parts of one sequence at a time");
    if (a->chosen_count > 0) part->attend.chosen = reals_at(a->chosen, part->row * a->chosen_count);
    return true;
}

// Of a result, or its gradient, and of the log-sum-exp.
static struct reals out_of(const struct attend_part *part, struct reals out)
{
    return reals_at(out, part->row * part->attend.heads * part->attend.value_width);
}
static struct reals lse_of(const struct attend_part *part, struct reals lse)
{
    return reals_at(lse, part->row * part->attend.heads);
}

// Whether cuDNN takes all parts.
static bool are_fused(const struct cuda_attend *a, struct reals lse, const int64_t *strides)
{
    struct attend_part part = {0};
    while (next_part(a, &part)) {
        struct sdpa_shape shape = shape_of(&part.attend, strides != NULL);
        if (strides) memcpy(shape.gradient_strides, strides, sizeof shape.gradient_strides);
        if (!is_fused(&part.attend, lse, &shape)) return false;
    }
    return true;
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
    if (!fault) fault = give_choice(a, shape, &tensors);
    if (!fault) fault = sdpa_run(run->device, run->stream, shape, &tensors);
    if (!fault && run->call->merges) kernel_attend_join(run->on, &join);
    return fault;
}

const char *cuda_attend_fused(const struct cuda_attend *a, bool *is_done)
{
    struct reals out = run_output(a->run, 0), lse = run_output(a->run, 1);
    struct attend_part part = {0};
    const char *fault = NULL;
    *is_done = are_fused(a, lse, NULL);
    while (*is_done && !fault && next_part(a, &part)) {
        struct sdpa_shape shape = shape_of(&part.attend, false);
        fault = run_forward(&part.attend, &shape, out_of(&part, out), lse_of(&part, lse));
    }
    return fault;
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

// Only where it was made elsewhere.
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

// Where gradients are made, and where those of keys and values are summed in fp32, if queries of
// one sequence are apart.
struct made {
    struct reals gradients[3], sums[3];
    int64_t strides[3];
    bool is_cut;
};

// A part's gradient of keys is made in scratch, and added to the sum behind it.
static const char *place_sum(const struct cuda_attend *a, int output, struct made *made)
{
    static const enum scratch SUMS[] = {[1] = SCRATCH_KEYS, [2] = SCRATCH_VALUES};
    const struct kernel_array *array = &a->run->call->outputs[output];
    assert(output > 0 && output < 3);
    struct reals *gradient = &made->gradients[output];
    *gradient = run_output(a->run, output);
    made->strides[output] = array_row(array);
    gradient->data = run_scratch(a->run, (enum scratch)(SCRATCH_SUM + output),
                                 a->keys * array_row(array) * number_bytes(gradient->number));
    if (!gradient->data) return CUDA_NO_MEMORY;
    return cuda_begin_keys(a->run, SUMS[output], array_elements(array), &made->sums[output]);
}

static const char *place_gradients(const struct cuda_attend *a, struct made *made)
{
    const char *fault = NULL;
    *made = (struct made){0};
    if (a->chosen_count > 0)
        made->is_cut = attended_part(a->batch_count, a->queries, a->keys).queries < a->queries;
    for (int i = 0; i < 3 && !fault; i++) {
        fault = i > 0 && made->is_cut
                    ? place_sum(a, i, made)
                    : place_gradient(a, i, &made->gradients[i], &made->strides[i]);
    }
    return fault;
}

// One part, of whose sequence there are others if it is cut.
static const char *part_backward(const struct attend_part *part, const struct attend_gradients *g,
                                 const struct made *made)
{
    const struct cuda_attend *a = &part->attend;
    struct sdpa_shape shape = shape_of(a, true);
    struct sdpa_tensors tensors = {.q = a->q,
                                   .k = a->k,
                                   .v = a->v,
                                   .out = out_of(part, g->out),
                                   .d = out_of(part, g->d),
                                   .d_q =
                                       reals_at(made->gradients[0], part->row * made->strides[0])};
    struct reals *const of_keys[] = {NULL, &tensors.d_k, &tensors.d_v};
    memcpy(shape.gradient_strides, made->strides, sizeof made->strides);
    for (int i = 1; i < 3; i++) {
        int64_t first = made->is_cut ? 0 : part->key_row * made->strides[i];
        *of_keys[i] = reals_at(made->gradients[i], first);
    }
    const char *fault = turn_lse(a, &shape, lse_of(part, g->lse), &tensors.lse);
    if (!fault) fault = give_heads(a, &shape, &tensors);
    if (!fault) fault = give_choice(a, &shape, &tensors);
    if (!fault) fault = sdpa_run(a->run->device, a->run->stream, &shape, &tensors);
    for (int i = 1; i < 3 && made->is_cut && !fault; i++) {
        int64_t row = made->strides[i];
        struct terms_args args = {.rank = 1,
                                  .term_count = 1,
                                  .adds = true,
                                  .sizes = {a->keys * row},
                                  .out = reals_at(made->sums[i], part->key_row * row),
                                  .out_strides = {1},
                                  .term = {made->gradients[i]},
                                  .strides = {{1}}};
        kernel_terms(a->run->on, &args);
    }
    return fault;
}

const char *cuda_attend_fused_backward(const struct cuda_attend *a,
                                       const struct attend_gradients *g, bool *is_done)
{
    struct made made;
    struct attend_part part = {0};
    const char *fault = place_gradients(a, &made);
    *is_done = fault || are_fused(a, g->lse, made.strides);
    if (fault || !*is_done) return fault;
    while (!fault && next_part(a, &part))
        fault = part_backward(&part, g, &made);
    for (int i = 0; i < 3 && !fault; i++) {
        if (i > 0 && made.is_cut)
            cuda_end_keys(a->run, i, made.sums[i]);
        else
            add_gradient(a, i, made.gradients[i]);
    }
    return fault;
}
