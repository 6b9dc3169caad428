#include "models/op_image.h"
#include "models/op_linear_loss.h"
#include "plan/layout/entries.h"
#include "plan/lower/lowering.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// One operator: bring the inputs into the layouts its strategy needs, write the instruction, place
// the outputs.

// Backward work whose partial results join others that are partial alike: the undoing of a
// repetition, on the way back from experts what goes to the tokens and through the router, what is
// of all rows of a table, and of no sample, as a table that is normed and projected before rows are
// looked up: it ends in parameters.
static bool passes_on(const struct block *block, const struct op *op)
{
    switch (op->kind) {
    case OP_REDUCE:
    case OP_DISPATCH_BACKWARD:
    case OP_ROUTE_BACKWARD:
        return true;
    case OP_CONTRACT:
        if (op_has_dim(block, op, DIM_GATE) || op_has_dim(block, op, DIM_TABLE)) return true;
        break;
    default:
        break;
    }
    return !op_has_dim(block, op, DIM_BATCH) && !op_has_dim(block, op, DIM_EXPERT);
}

// Axes over which partial inputs may stay partial and make the outputs partial: all backward work
// is linear in the gradient. Done where it saves communication: parameter gradients are reduced
// once a step anyway, over used-up axes (kv heads) nothing else would need the whole before the
// next contraction, and the sum over the chosen experts is smaller than their rows.
static unsigned linear_axes(const struct lowering *low, const struct op *op,
                            const struct strategy *strategy)
{
    if (op->phase == PHASE_FORWARD) return 0;
    if (op->phase != PHASE_WEIGHT && !passes_on(low->block, op))
        return strategy->used_up | entries_axes(low->mesh, strategy, low->block, op);
    unsigned axes = 0;
    for (int i = 0; i < low->mesh->axis_count; i++) {
        if (strategy->of[i] == DIM_NONE) axes |= 1u << i;
    }
    return axes;
}

bool lowering_is_apart(const struct lowering *low)
{
    return low->joins >> JOIN_APART & 1;
}

static bool has_keys(const struct op *op)
{
    bool found = false;
    for (int i = 0; i < op->input_count; i++)
        found |= strategy_is_keys(op, false, i);
    for (int i = 0; i < op->output_count; i++)
        found |= strategy_is_keys(op, true, i);
    return found;
}

// Whether it reduces over a dim that is split.
static bool reduces_split(const struct lowering *low, const struct op *op,
                          const struct strategy *strategy)
{
    bool is_split = false;
    if (op_inner_reductions(op) == 0) return false;
    for (int i = 0; i < low->mesh->axis_count; i++) {
        enum dim dim = strategy->of[i];
        is_split |= dim && op_rule(op->kind)->split(low->block, op, dim) == SPLIT_REDUCED;
    }
    return is_split;
}

// Backward has the strategies of forward, a sum of gradients its own.
const struct op_layouts *lowering_layouts(struct lowering *low, int index)
{
    assert(index >= 0 && index < low->block->op_count);
    struct op_layouts *layouts = &low->layouts[index];
    if (layouts->known) return layouts;
    const struct op *op = &low->block->ops[index];
    layouts->strategy = strategy_of(low->mesh, low->request->parallel, low->block, op);
    for (int i = 0; i < op->input_count; i++)
        layouts->inputs[i] = strategy_input(low->mesh, &layouts->strategy, low->block, op, i);
    for (int i = 0; i < op->output_count; i++)
        layouts->outputs[i] =
            op->kind == OP_CHOOSE_BACKWARD
                ? strategy_zeros(low->mesh, low->request->parallel, low->block, op->outputs[i])
                : strategy_output(low->mesh, &layouts->strategy, low->block, op, i);
    layouts->has_keys = has_keys(op);
    layouts->reduces = reduces_split(low, op, &layouts->strategy);
    layouts->linear = linear_axes(low, op, &layouts->strategy);
    layouts->known = true;
    return layouts;
}

// Partial sums of `home` over `axes` kept in what is wanted; returns the axes that were kept.
static unsigned keep_partial(const struct layout *home, unsigned axes, struct layout *want)
{
    unsigned kept = layout_partial_axes(home) & axes;
    for (int i = 0; kept >> i; i++) {
        if (!(kept >> i & 1)) continue;
        assert(want->of[i] == LAYOUT_WHOLE);
        want->of[i] = home->of[i];
    }
    return kept;
}

// Of the dim that a relay hands on what a buffer has; 0: it has none.
static int64_t part_of(const struct lowering *low, const struct instr *instr, int b)
{
    const struct buffer *buffer = &low->program->buffers[b];
    const struct tensor *tensor = &low->block->tensors[buffer->tensor];
    int at = tensor_find_dim(tensor, instr->dim);
    if (at < 0) return 0;
    int64_t whole = extent_size(&tensor->extents[at], low->batch, low->request->seq_len);
    return layout_local_size(&buffer->layout, low->mesh, instr->dim, whole) /
           (buffer->pieces > 0 ? buffer->pieces : 1);
}

// What an instruction reads or writes of a buffer: in a relay one part.
static int64_t moved_bytes(const struct lowering *low, const struct instr *instr, int b)
{
    int64_t bytes = low->backing[b].whole_bytes;
    int64_t whole = instr->rows ? part_of(low, instr, b) : 0;
    return whole ? bytes / whole * part_of(low, instr, instr_part(instr)) : bytes;
}

// Local extents, from the tensors as the instruction reads and writes them; 0 for other dims. Keys
// of attention have the name seq: they count as kv_seq. What lies in a halo is not worked on.
static void local_sizes(const struct lowering *low, const struct op *op, const struct instr *instr,
                        int64_t size[DIM_COUNT])
{
    bool may_be_keys = low->layouts[instr->op].has_keys;
    memset(size, 0, DIM_COUNT * sizeof *size);
    if (instr->rows) size[instr->dim] = part_of(low, instr, instr_part(instr));
    for (int i = 0; i < instr->input_count + instr->output_count; i++) {
        bool output = i >= instr->input_count;
        int index = output ? i - instr->input_count : i;
        int b = output ? instr->outputs[index] : instr->inputs[index];
        const struct buffer *buffer = &low->program->buffers[b];
        const struct tensor *tensor = &low->block->tensors[buffer->tensor];
        bool keys = may_be_keys && strategy_is_keys(op, output, index) &&
                    op_keys_dim(low->block, op) == DIM_SEQ;
        for (int e = 0; e < tensor->rank; e++) {
            enum dim dim = tensor->extents[e].dim;
            enum dim as = keys && dim == DIM_SEQ ? DIM_KV_SEQ : dim;
            if (size[as]) continue;
            int64_t whole = extent_size(&tensor->extents[e], low->batch, low->request->seq_len);
            struct layout own = buffer->layout;
            memset(own.halos, 0, sizeof own.halos);
            size[as] = layout_local_size(&own, low->mesh, dim, whole);
        }
    }
}

static void count_traffic(const struct lowering *low, struct instr *instr)
{
    int64_t written = 0, read = 0;
    for (int i = 0; i < instr->output_count; i++)
        written += moved_bytes(low, instr, instr->outputs[i]);
    for (int i = 0; i < instr->input_count; i++) {
        bool again = false;
        for (int j = 0; j < i; j++)
            again = again || instr->inputs[j] == instr->inputs[i];
        int64_t bytes = moved_bytes(low, instr, instr->inputs[i]);
        // A lookup reads the rows it writes, not the table.
        if (instr->kind == OP_GATHER && i == 1 && bytes > written) bytes = written;
        if (!again) read += bytes;
    }
    bool is_executed = joins_are_executed(low->request->joins);
    // Our engine adds to the rows that it meets; who begins the sum is told by begins.
    if (is_executed && instr_adds_rows(low->program, instr)) {
        int64_t rows = moved_bytes(low, instr, instr->inputs[0]);
        if (rows < written) written = rows;
        read += written;
    }
    // A renaming is a view, and so is its undoing; but for our engine, which copies.
    bool renames =
        instr->kind == OP_EXPAND || instr->kind == OP_REDUCE || instr->kind == OP_FLATTEN;
    if (renames && !is_executed && read == written) {
        instr->flop = 0;
        return;
    }
    instr->read_bytes = read;
    instr->write_bytes = written;
}

// How many more rows than the mean the fullest of the ragged operands has; 0 = none is ragged.
static double room_of(const struct lowering *low, struct instr *instr)
{
    double most = 0;
    for (int i = 0; i < instr->input_count + instr->output_count; i++) {
        int b = i < instr->input_count ? instr->inputs[i] : instr->outputs[i - instr->input_count];
        const struct buffer *buffer = &low->program->buffers[b];
        if (low->block->tensors[buffer->tensor].density <= 0) continue;
        double room = lowering_room(low, buffer->tensor, &buffer->layout);
        instr->ragged = instr->ragged || lowering_is_ragged(low, buffer->tensor);
        if (room > most) most = room;
    }
    return most;
}

static void add_rows(const struct lowering *low, const struct op *op, struct instr *instr)
{
    double room = room_of(low, instr);
    if (room == 0 || room == 1) return;
    instr->flop *= room;
    if (op->kind != OP_CONTRACT) return;
    const struct tensor *output = &low->block->tensors[op->outputs[0]];
    int64_t *rows = tensor_find_dim(output, DIM_BATCH) >= 0 ? &instr->gemm.m : &instr->gemm.k;
    *rows = (int64_t)ceil((double)*rows * room);
    instr->flop = gemm_flop(&instr->gemm);
}

// Of a convolution samples, and rows and columns of its narrow side as they are read or written,
// with their halo (cost_models/convolution.h).
static void measure_narrow(const struct lowering *low, const struct op *op, struct instr *instr)
{
    bool is_turned = op->work.type == IMPORTED_CONV_TURNED;
    bool is_written = op->phase != PHASE_WEIGHT && (op->phase == PHASE_FORWARD) != is_turned;
    bool is_second = op->phase == PHASE_WEIGHT && !is_turned;
    int b = is_written ? instr->outputs[0] : instr->inputs[is_second];
    const struct buffer *narrow = &low->program->buffers[b];
    const struct tensor *tensor = &low->block->tensors[narrow->tensor];
    instr->seq = instr->kv_seq = 1;
    for (int e = 0; e < tensor->rank; e++) {
        const struct extent *of = &tensor->extents[e];
        int64_t *size = of->dim == DIM_HEIGHT ? &instr->seq : &instr->kv_seq;
        if (of->dim != DIM_HEIGHT && of->dim != DIM_WIDTH) continue;
        *size = layout_local_size(&narrow->layout, low->mesh, of->dim, of->size);
    }
}

void lowering_measure(const struct lowering *low, const struct op *op, struct instr *instr)
{
    int64_t size[DIM_COUNT];
    local_sizes(low, op, instr, size);
    instr->batch = size[DIM_BATCH];
    instr->heads = op->kind == OP_CHOOSE ? size[DIM_INDEX_HEAD] : size[DIM_HEAD];
    instr->kv_heads = size[DIM_KV_HEAD] ? size[DIM_KV_HEAD] : size[DIM_HEAD];
    instr->head_dim = size[DIM_HEAD_DIM];
    instr->value_dim = size[DIM_VALUE_DIM] ? size[DIM_VALUE_DIM] : size[DIM_HEAD_DIM];
    instr->seq = size[DIM_SEQ];
    instr->kv_seq = size[DIM_KV_SEQ] ? size[DIM_KV_SEQ] : size[DIM_SEQ];
    if (op->kind == OP_CHOOSE && op->rate > 0) instr->kv_seq = size[DIM_ENTRY];
    if (op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BACKWARD) {
        struct attention_shape shape = op_attention_shape(low->block, op, size);
        instr->batch = shape.outer;
        instr->seq = shape.queries;
        instr->kv_seq = shape.keys;
    }
    bool slides = op->work.type == IMPORTED_CONV || op->work.type == IMPORTED_CONV_TURNED;
    if (op->kind == OP_PRODUCT && slides) measure_narrow(low, op, instr);
    instr->window = op_seen_most(op);
    instr->causal = op->causal;
    instr->chunked = op->chunked;
    instr->in_order = joins_are_executed(low->request->joins) && !low->request->zigzag;
    instr->merge = low->joins >> JOIN_MERGED & 1 ? low->block->ops[op->forward_op].merge : 0;
    bool is_gemm = op_is_gemm(op->kind);
    if (is_gemm) instr->gemm = op_gemm(low->block, op, size);
    if (op->kind == OP_LINEAR_LOSS || op->kind == OP_LINEAR_LOSS_BACKWARD)
        instr->gemm = op_linear_loss_gemm(low->block, op, size);
    instr->flop = is_gemm ? gemm_flop(&instr->gemm) : op_rule(op->kind)->flop(low->block, op, size);
    assert(instr->flop >= 0);
    add_rows(low, op, instr);
    count_traffic(low, instr);
}

static struct instr *begin(struct lowering *low, int index)
{
    assert(index >= 0 && index < low->block->op_count);
    struct instr *instr = lowering_instr(low);
    instr->op = index;
    instr->kind = low->block->ops[index].kind;
    return instr;
}

// Recomputed work whose result was kept all the same does not become the tensor a second time.
static void place_output(struct lowering *low, int tensor, int buffer)
{
    bool was_kept = low->recompute && low->saved[tensor];
    if (!was_kept) lowering_set_home(low, tensor, buffer);
}

// Axes over which every term is partial; the sum may stay so.
static unsigned all_partial(const struct lowering *low, const struct block_sum *sum)
{
    assert(sum->input_count > 0 && "of no term every axis would be partial");
    unsigned axes = ~0u;
    for (int i = 0; i < sum->input_count; i++) {
        struct layout home = lowering_home_layout(low, sum->inputs[i]);
        axes &= layout_partial_axes(&home);
    }
    return axes;
}

static void emit_sum(struct lowering *low, int index, const int *buffers, int count, int output)
{
    assert(count >= 2 && count <= OP_INPUT_MAX);
    struct instr *instr = begin(low, index);
    instr->input_count = count;
    memcpy(instr->inputs, buffers, (size_t)count * sizeof *buffers);
    for (int i = 0; i < count; i++)
        lowering_unshrink(low, buffers[i]);
    instr->outputs[instr->output_count++] = output;
    const struct buffer *to = &low->program->buffers[output];
    int64_t width =
        lowering_element_bytes(low, low->block->tensors[low->block->ops[index].outputs[0]].element);
    instr->flop = (double)(count - 1) * (double)to->bytes / (double)width;
    count_traffic(low, instr);
}

// Axes over which each term is reduced by itself.
static unsigned reduced_apart(const struct lowering *low, const struct op *op)
{
    bool is_parameter = low->block->tensors[op->outputs[0]].role == TENSOR_PARAMETER_GRADIENT;
    return lowering_is_apart(low) && !is_parameter ? mesh_axes_of(low->mesh, AXIS_TP) : 0;
}

// Adds up the terms that are partial in the same way, so that they are reduced together. Returns
// the buffer of their sum, or -1 when fewer than two are. `rest` gets the other terms.
static int sum_partials(struct lowering *low, int index, const struct block_sum *sum,
                        struct block_sum *rest)
{
    int buffers[OP_INPUT_MAX], count = 0;
    unsigned apart = reduced_apart(low, &low->block->ops[index]);
    struct layout shared = {.of = {0}};
    *rest = (struct block_sum){.input_count = 0};
    for (int i = 0; i < sum->input_count; i++) {
        struct layout home = lowering_home_layout(low, sum->inputs[i]);
        bool joins =
            layout_partial_axes(&home) & ~apart && (!count || layout_equal(&home, &shared));
        if (joins) {
            shared = home;
            buffers[count++] = low->places[sum->inputs[i]].home;
        } else {
            rest->inputs[rest->input_count++] = sum->inputs[i];
        }
    }
    if (count < 2) return -1;
    int output = lowering_buffer(low, low->block->ops[index].outputs[0], &shared);
    emit_sum(low, index, buffers, count, output);
    return output;
}

static void lower_sum(struct lowering *low, int index)
{
    const struct op *op = &low->block->ops[index];
    const struct block_sum *sum = &low->facts->sums[index];
    if (sum->input_count == 0) return;
    struct layout result = lowering_layouts(low, index)->outputs[0];
    unsigned lazy = all_partial(low, sum) & ~reduced_apart(low, op);
    for (int i = 0; i < low->mesh->axis_count; i++) {
        if (lazy >> i & 1) result.of[i] = lowering_home_layout(low, sum->inputs[0]).of[i];
    }

    int buffers[OP_INPUT_MAX], count = 0;
    struct block_sum rest = *sum;
    int together = lazy ? -1 : sum_partials(low, index, sum, &rest);
    if (together >= 0) buffers[count++] = lowering_change(low, together, &result);
    if (together < 0) rest = *sum;
    for (int i = 0; i < rest.input_count; i++) {
        const struct tensor *term = &low->block->tensors[rest.inputs[i]];
        struct layout want = {.of = {0}};
        for (int a = 0; a < low->mesh->axis_count; a++) {
            // A bias has only some of the dims.
            int8_t of = result.of[a];
            bool has = of <= 0 || tensor_find_dim(term, (enum dim)of) >= 0;
            want.of[a] = has ? of : LAYOUT_WHOLE;
        }
        buffers[count++] = lowering_read(low, rest.inputs[i], &want);
    }
    if (count == 1) return place_output(low, op->outputs[0], buffers[0]);
    int output = lowering_buffer(low, op->outputs[0], &result);
    emit_sum(low, index, buffers, count, output);
    place_output(low, op->outputs[0], output);
}

// Rows of numbers that an operator reduces inside: as many as it has tokens, or its statistics.
static int64_t inner_bytes(const struct lowering *low, const struct op *op,
                           const struct layout *whole)
{
    const struct tensor *output = &low->block->tensors[op->outputs[0]];
    int64_t rows = 1, statistics = 0;
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        int t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        if (!op_is_statistic(low->block, op, t)) continue;
        statistics += layout_local_elements(whole, low->mesh, &low->block->tensors[t], low->batch,
                                            low->request->seq_len);
    }
    if (statistics > 0) return statistics * lowering_element_bytes(low, ELEMENT_FP32);
    bool is_norm = op->kind == OP_NORM || op->kind == OP_NORM_BACKWARD;
    int rank = output->rank - (is_norm ? op_norm_rank(low->block, op) : 0);
    for (int e = 0; e < rank; e++) {
        enum dim dim = output->extents[e].dim;
        int64_t size = extent_size(&output->extents[e], low->batch, low->request->seq_len);
        rows *= layout_local_size(whole, low->mesh, dim, size);
    }
    return rows * lowering_element_bytes(low, ELEMENT_FP32);
}

// The reductions inside an operator that splits a dim it reduces over: scratch rows, partial over
// the axes of that dim, made whole. The first of a loss is a maximum, all others are sums.
static void lower_inner_reductions(struct lowering *low, int index, const struct strategy *strategy)
{
    assert(low->layouts[index].known);
    const struct op *op = &low->block->ops[index];
    const struct op_rule *rule = op_rule(op->kind);
    int count = low->layouts[index].reduces ? op_inner_reductions(op) : 0;
    struct layout whole = low->layouts[index].outputs[0];
    for (int n = 1; n <= count; n++) {
        struct layout partial = whole;
        for (int i = 0; i < low->mesh->axis_count; i++) {
            enum dim dim = strategy->of[i];
            if (!dim || rule->split(low->block, op, dim) != SPLIT_REDUCED) continue;
            whole.of[i] = LAYOUT_WHOLE;
            partial.of[i] = n == 1 && op_is_loss(op->kind) ? LAYOUT_MAX : LAYOUT_SUM;
        }
        int64_t bytes = inner_bytes(low, op, &whole);
        lowering_change(low, lowering_flat_buffer(low, bytes, &partial), &whole);
        struct instr *instr = &low->program->instrs[low->program->instr_count - 1];
        instr->op = index;
        instr->inner = n;
    }
}

// A rank learns how many rows are coming before they do, of the ranks that share experts or the
// parts of one. Where it has the tokens whole it counts them itself. With a capacity it has to know
// what the sequence before its part of it chose as well.
static void exchange_counts(struct lowering *low, int index, const struct strategy *strategy)
{
    const struct op *op = &low->block->ops[index];
    if (op->kind != OP_DISPATCH || !lowering_is_ragged(low, op->outputs[0])) return;
    unsigned axes = mesh_axes_of(low->mesh, AXIS_EP), parts = mesh_axes_of(low->mesh, AXIS_ETP);
    for (int i = 0; i < low->mesh->axis_count; i++) {
        bool is_of_tokens = strategy->of[i] == DIM_BATCH || strategy->of[i] == DIM_SEQ;
        if (is_of_tokens) axes |= parts & 1u << i;
        if (strategy->of[i] == DIM_EXPERT) axes &= ~(1u << i);
        if (strategy->of[i] == DIM_SEQ && low->request->capacity_factor > 0) axes |= 1u << i;
    }
    if (!axes) return;
    const struct tensor *rows = &low->block->tensors[op->outputs[0]];
    int expert = tensor_find_dim(rows, DIM_EXPERT);
    assert(expert >= 0 && "rows go to experts");
    lowering_exchange_counts(low, index, axes, rows->extents[expert].size);
}

void lowering_op(struct lowering *low, int index)
{
    const struct op *op = &low->block->ops[index];
    if (op->kind == OP_ADD) return lower_sum(low, index);
    const struct op_layouts *layouts = lowering_layouts(low, index);
    const struct strategy *strategy = &layouts->strategy;
    unsigned allowed = layouts->linear, kept = 0;
    bool is_forward = op->phase == PHASE_FORWARD;
    int inputs[OP_INPUT_MAX], outputs[OP_OUTPUT_MAX];
    for (int i = 0; i < op->input_count; i++) {
        struct layout want = layouts->inputs[i];
        struct layout home = lowering_home_layout(low, op->inputs[i]);
        if (allowed) kept |= keep_partial(&home, allowed, &want);
        if (layouts->has_keys) low->stream = lowering_stream(low, op, strategy, false, i);
        low->apart = lowering_is_apart(low) && op->kind == OP_CONTRACT && is_forward;
        inputs[i] = lowering_read(low, op->inputs[i], &want);
        low->apart = false;
        low->stream.steps = 0;
    }
    for (int i = 0; i < op->output_count; i++) {
        struct layout made = layouts->outputs[i];
        for (int a = 0; kept >> a; a++) {
            if (kept >> a & 1) made.of[a] = LAYOUT_SUM;
        }
        outputs[i] = lowering_buffer(low, op->outputs[i], &made);
        struct key_stream stream = {0};
        if (layouts->has_keys) stream = lowering_stream(low, op, strategy, true, i);
        if (stream.steps > 0) lowering_shrink(low, outputs[i], &stream);
        place_output(low, op->outputs[i], outputs[i]);
    }
    struct instr *instr = begin(low, index);
    instr->input_count = op->input_count;
    instr->output_count = op->output_count;
    memcpy(instr->inputs, inputs, (size_t)op->input_count * sizeof *inputs);
    memcpy(instr->outputs, outputs, (size_t)op->output_count * sizeof *outputs);
    lowering_measure(low, op, instr);
    lower_inner_reductions(low, index, strategy);
    exchange_counts(low, index, strategy);
}
