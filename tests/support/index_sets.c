#include "tests/support/index_sets.h"

#include "tests/support/index_sets_machine.h"

#include <assert.h>
#include <string.h>

// The life of one lowered block: what comes from outside is handed in, every instruction is carried
// out on every rank, and what goes outside is complete at the end.

static void set_term(struct index_machine *m, int buffer, int tensor)
{
    m->held[buffer].terms[0] = tensor;
    m->held[buffer].term_count = 1;
}

static struct view view_of(const struct index_machine *m, int buffer, int tensor, int rank)
{
    const struct index_held *held = &m->held[buffer];
    return (struct view){.tensor = &m->block->tensors[tensor],
                         .box = held->boxes[rank],
                         .whole = m->whole[tensor],
                         .values = held->values[rank],
                         .truth = m->truth[tensor]};
}

static bool is_same_tensor(const struct index_machine *m, int buffer, int tensor)
{
    return m->program->buffers[buffer].tensor == tensor;
}

// Whether the buffers of an instruction are those of its operator; the terms of a sum may be any.
static bool matches(struct index_machine *m, const struct instr *instr)
{
    const struct op *op = &m->block->ops[instr->op];
    bool same = instr->output_count == op->output_count;
    if (op->kind == OP_ADD) return true;
    same = same && instr->input_count == op->input_count;
    for (int i = 0; same && i < op->input_count; i++)
        same = is_same_tensor(m, instr->inputs[i], op->inputs[i]);
    for (int i = 0; same && i < op->output_count; i++)
        same = is_same_tensor(m, instr->outputs[i], op->outputs[i]);
    if (!same) sets_violate(m->result, "%s has other buffers than its operator", op->name);
    return same;
}

// A sum in the making holds its terms, a finished one its tensor: lowering may add up in pieces.
static void collect_terms(struct index_machine *m, const struct instr *instr)
{
    struct index_held *sum = &m->held[instr->outputs[0]];
    int tensor = m->block->ops[instr->op].outputs[0];
    int64_t first[VIEW_RANK_MAX] = {0};
    sum->term_count = 0;
    for (int i = 0; i < instr->input_count; i++) {
        const struct index_held *held = &m->held[instr->inputs[i]];
        for (int t = 0; t < held->term_count; t++) {
            assert(sum->term_count < TERM_MAX);
            sum->terms[sum->term_count++] = held->terms[t];
        }
    }
    bool is_whole = sets_truth(m, sum, tensor, first) == m->truth[tensor][0];
    if (is_whole) set_term(m, instr->outputs[0], tensor);
}

static bool splits_vocabulary(const struct index_machine *m, const struct instr *instr)
{
    const struct op *op = &m->block->ops[instr->op];
    int input = sets_columns_input(op), tensor = op->inputs[input];
    const struct index_box *box = &m->held[instr->inputs[input]].boxes[0];
    for (int e = 0; e < m->block->tensors[tensor].rank; e++) {
        bool is_vocab = m->block->tensors[tensor].extents[e].dim == DIM_VOCAB;
        if (is_vocab && box->count[e] < m->whole[tensor].count[e]) return true;
    }
    return false;
}

// What a group of ranks has of a buffer, side by side in its last dim.
static struct view rows_of(const struct index_machine *m, int buffer, int rank, unsigned axes)
{
    struct view own = view_of(m, buffer, m->program->buffers[buffer].tensor, rank), rows = own;
    int last = own.tensor->rank - 1;
    rows.box.elements = rows.box.elements / own.box.count[last] * own.whole.count[last];
    rows.box.first[last] = 0;
    rows.box.count[last] = own.whole.count[last];
    rows.values = ARENA_NEW(m->arena, uint64_t, rows.box.elements);
    for (int other = 0; other < m->mesh->rank_count; other++) {
        if (!sets_same_group(m->mesh, axes, rank, other)) continue;
        struct view part = view_of(m, buffer, m->program->buffers[buffer].tensor, other);
        for (int64_t i = 0; i < part.box.elements; i++) {
            int64_t index[VIEW_RANK_MAX];
            box_index(&part.box, i, index);
            int64_t at = box_place(&rows.box, index);
            if (at >= 0) rows.values[at] = part.values[i];
        }
    }
    return rows;
}

static bool splits_rows(const struct index_machine *m, const struct instr *instr)
{
    const struct op *op = &m->block->ops[instr->op];
    if (op->kind != OP_NORM && op->kind != OP_NORM_BACKWARD) return false;
    int last = m->block->tensors[op->outputs[0]].rank - 1;
    return sets_claimed_box(m, op->outputs[0], &m->program->buffers[instr->outputs[0]].layout, 0)
               .count[last] < m->whole[op->outputs[0]].count[last];
}

static void compute(struct index_machine *m, const struct instr *instr)
{
    const struct op *op = &m->block->ops[instr->op];
    if (!matches(m, instr)) return;
    if (instr->rows) return sets_work_on_part(m, instr);
    for (int i = 0; i < instr->output_count; i++) {
        sets_make_room(m, instr->outputs[i]);
        set_term(m, instr->outputs[i], op->kind == OP_ADD ? 0 : op->outputs[i]);
    }
    if (op->kind == OP_ADD) collect_terms(m, instr);
    if (m->waiting) sets_violate(m->result, "%s runs before exchanges of another", op->name);
    bool is_norm = splits_rows(m, instr);
    if (!is_norm) sets_carry_out(m, instr, 0);
    // Parts of a sum are not all there until it has come round.
    if (m->result->violation_count || instr->relay) return;
    bool is_loss = op_is_loss(op->kind) && splits_vocabulary(m, instr);
    if (is_norm || is_loss) {
        m->waiting = instr;
        m->inner_done = 0;
        return;
    }
    for (int i = 0; i < instr->output_count; i++)
        sets_check_claim(m, instr->outputs[i]);
}

void sets_carry_out(struct index_machine *m, const struct instr *instr, unsigned axes)
{
    const struct op *op = &m->block->ops[instr->op];
    for (int rank = 0; rank < m->mesh->rank_count && !m->result->violation_count; rank++) {
        struct index_work work = {.op = op,
                                  .op_index = instr->op,
                                  .rank = rank,
                                  .input_count = instr->input_count,
                                  .output_count = instr->output_count,
                                  .result = m->result};
        for (int i = 0; i < instr->input_count; i++) {
            int tensor = m->program->buffers[instr->inputs[i]].tensor;
            work.inputs[i] = view_of(m, instr->inputs[i], tensor, rank);
        }
        work.has_rows = axes != 0;
        for (int i = 0; i < instr->input_count && axes; i++)
            work.rows[i] = rows_of(m, instr->inputs[i], rank, axes);
        for (int i = 0; i < instr->output_count; i++)
            work.outputs[i] = view_of(m, instr->outputs[i], op->outputs[i], rank);
        sets_compute(&work);
    }
}

// What the block as a whole says of itself: the signatures of the unsplit block.
static void compute_truth(struct index_machine *m)
{
    struct layout whole = {.of = {0}};
    for (int t = 0; t < m->block->tensor_count; t++) {
        m->whole[t] = sets_claimed_box(m, t, &whole, 0);
        m->truth[t] = ARENA_NEW(m->arena, uint64_t, m->whole[t].elements);
        if (m->block->tensors[t].producer >= 0) continue;
        for (int64_t i = 0; i < m->whole[t].elements; i++)
            m->truth[t][i] = sets_signature(0, (uint64_t)t << 32 | (uint64_t)i);
    }
    for (int o = 0; o < m->block->op_count; o++) {
        const struct op *op = &m->block->ops[o];
        struct index_work work = {.op = op,
                                  .op_index = o,
                                  .input_count = op->input_count,
                                  .output_count = op->output_count,
                                  .result = m->result};
        for (int i = 0; i < op->input_count + op->output_count; i++) {
            bool is_input = i < op->input_count;
            int t = is_input ? op->inputs[i] : op->outputs[i - op->input_count];
            struct view view = {&m->block->tensors[t], m->whole[t], m->whole[t], m->truth[t],
                                m->truth[t]};
            *(is_input ? &work.inputs[i] : &work.outputs[i - op->input_count]) = view;
        }
        sets_compute(&work);
    }
}

// Parameters, ids, block inputs and the gradients of block outputs come from outside: buffers that
// no instruction writes.
static void hand_in(struct index_machine *m)
{
    const struct block_program *program = m->program;
    bool *is_written = ARENA_NEW(m->arena, bool, program->buffer_count);
    for (int i = 0; i < program->instr_count; i++) {
        for (int o = 0; o < program->instrs[i].output_count; o++)
            is_written[program->instrs[i].outputs[o]] = true;
    }
    m->at = -1;
    for (int b = 0; b < program->buffer_count; b++) {
        int t = program->buffers[b].tensor;
        if (t < 0 || is_written[b] || m->block->tensors[t].producer >= 0) continue;
        sets_make_room(m, b);
        set_term(m, b, t);
        for (int rank = 0; rank < m->mesh->rank_count; rank++) {
            const struct index_box *box = &m->held[b].boxes[rank];
            for (int64_t i = 0; i < box->elements; i++) {
                int64_t index[VIEW_RANK_MAX];
                box_index(box, i, index);
                m->held[b].values[rank][i] = m->truth[t][box_place(&m->whole[t], index)];
            }
        }
        sets_check_claim(m, b);
    }
}

static bool is_usable(struct index_machine *m, const struct instr *instr)
{
    for (int i = 0; i < instr->input_count + instr->output_count; i++) {
        bool reads = i < instr->input_count;
        int b = reads ? instr->inputs[i] : instr->outputs[i - instr->input_count];
        const struct buffer *buffer = &m->program->buffers[b];
        bool alive = buffer->birth <= m->at && m->at < buffer->death;
        bool crosses = instr->phase != PHASE_FORWARD && buffer->tensor >= 0 && m->held[b].boxes &&
                       reads && buffer->birth < m->program->phase_first[PHASE_BACKWARD];
        bool is_made_for_backward =
            buffer->birth >= m->program->phase_first[PHASE_BACKWARD] || !crosses;
        bool is_boundary = false;
        for (int n = 0; n < m->block->output_count; n++)
            is_boundary = is_boundary || b == m->program->outputs[n];
        if (!alive) sets_complain(m, b, "is used outside its lifetime");
        if (!is_made_for_backward && !buffer->saved && !buffer->external && !is_boundary) {
            sets_complain(m, b, "is read by backward and was not saved");
        }
        bool lacks = reads && buffer->tensor >= 0 && !m->held[b].boxes;
        if (lacks) sets_complain(m, b, "is read before it is filled");
    }
    return m->result->violation_count == 0;
}

// Where blocks meet, both sides have to mean the same layout.
static void check_boundary(struct index_machine *m, int buffer, int tensor,
                           const struct layout *agreed)
{
    if (buffer < 0 || !m->held[buffer].boxes) {
        sets_violate(m->result, "%s never comes out", m->block->tensors[tensor].name);
        return;
    }
    set_term(m, buffer, tensor);
    sets_check_sums(m, buffer, 0);
    bool agrees = !agreed || memcmp(agreed, &m->held[buffer].claim, sizeof *agreed) == 0;
    if (!agrees) sets_complain(m, buffer, "is in another layout than the next block expects");
}

// A layer hands on what it takes; the head's losses go nowhere.
static const struct layout *layout_out(const struct index_machine *m, int output)
{
    const struct block *block = m->block;
    if (block->role == BLOCK_HEAD) return NULL;
    bool chains = block->role == BLOCK_LAYER && output < block->input_count;
    const struct tensor *to = &m->block->tensors[block->outputs[output]], *from = NULL;
    if (chains) from = &m->block->tensors[block->inputs[output]];
    for (int e = 0; chains && e < to->rank; e++)
        chains = from->rank == to->rank && from->extents[e].dim == to->extents[e].dim;
    return chains ? &m->program->buffers[m->program->inputs[output]].layout
                  : &m->program->output_layout;
}

// The buffer that holds a tensor at the end.
static int last_buffer(const struct index_machine *m, int tensor)
{
    int found = -1;
    for (int i = 0; i < m->program->instr_count; i++) {
        const struct instr *instr = &m->program->instrs[i];
        for (int o = 0; o < instr->output_count; o++) {
            if (m->program->buffers[instr->outputs[o]].tensor == tensor) found = instr->outputs[o];
        }
    }
    return found;
}

static enum stored stored_at(int least_zero)
{
    return least_zero == 3 ? STORED_WEIGHTS : least_zero == 2 ? STORED_GRADIENTS : STORED_STATES;
}

// Where ZeRO stores the parameters of a kind: dense ones over dp and cp, those of experts over
// their own data parallelism, without the replicas of a shard group.
static unsigned store_axes(const struct index_machine *m, enum parameter_kind kind, int least_zero)
{
    unsigned axes = 0;
    if (m->task->parallel->zero < least_zero) return 0;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        const struct mesh_axis *axis = &m->mesh->axes[a];
        bool is_data = axis->parent == AXIS_DP || axis->parent == AXIS_CP;
        if (kind == PARAMETER_EXPERT) is_data = axis->parent != AXIS_PP && axis->expert == AXIS_DP;
        if (is_data && axis->shards >> stored_at(least_zero) & 1) axes |= 1u << a;
    }
    return axes;
}

static void check_parameter(struct index_machine *m, const struct parameter *parameter)
{
    int gradient = m->task->facts->gradients.of_parameter[parameter->tensor];
    if (gradient < 0 && m->block->tensors[parameter->tensor].frozen) return;
    int buffer = last_buffer(m, gradient);
    const struct tensor *tensor = &m->block->tensors[parameter->tensor];
    bool is_expert = tensor_find_dim(tensor, DIM_EXPERT) >= 0;
    enum parameter_kind kind = is_expert ? PARAMETER_EXPERT : PARAMETER_DENSE;
    unsigned sharded = store_axes(m, kind, 2), axes = parameter->gradient_partial_axes;
    if (buffer < 0) {
        sets_violate(m->result, "%s has no gradient", tensor->name);
        return;
    }
    // What an axis of the shard group splits itself (sinks under Ulysses) has no parts over it.
    for (int a = 0; a < m->mesh->axis_count; a++) {
        if (parameter->layout.of[a] > 0) sharded &= ~(1u << a);
    }
    if (kind != parameter->kind) sets_complain(m, buffer, "is of the other kind");
    if (axes & sharded) sets_complain(m, buffer, "is reduced twice, also by ZeRO");
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        struct index_box stored = sets_claimed_box(m, gradient, &parameter->layout, rank);
        bool same = memcmp(&stored, &m->held[buffer].boxes[rank], sizeof stored) == 0;
        if (!same) sets_complain(m, buffer, "is not split like its parameter");
    }
    set_term(m, buffer, gradient);
    sets_check_sums(m, buffer, axes | sharded);
}

static void expect_flat(struct index_machine *m, enum collective collective, enum phase phase,
                        unsigned axes, int64_t bytes)
{
    for (int i = 0; i < m->flat_count; i++) {
        struct flat *flat = &m->flats[i];
        bool fits = flat->collective == collective && flat->phase == phase && flat->axes == axes &&
                    flat->bytes == bytes;
        if (!fits) continue;
        *flat = m->flats[--m->flat_count];
        return;
    }
    sets_violate(m->result, "no %s of %lld bytes for ZeRO in phase %d", collective_name(collective),
                 (long long)bytes, (int)phase);
}

static void expect_storage(struct index_machine *m, enum parameter_kind kind, int64_t bytes)
{
    unsigned gathered = store_axes(m, kind, 3), scattered = store_axes(m, kind, 2);
    if (gathered) {
        expect_flat(m, COLLECTIVE_ALL_GATHER, PHASE_FORWARD, gathered, bytes);
        expect_flat(m, COLLECTIVE_ALL_GATHER, PHASE_BACKWARD, gathered, bytes);
    }
    if (scattered) expect_flat(m, COLLECTIVE_REDUCE_SCATTER, PHASE_WEIGHT, scattered, bytes);
}

// One collective for all parameters of a kind, or one for each, as the pass that combines says.
static void check_flats(struct index_machine *m)
{
    bool combines = m->task->parallel->passes >> PASS_COMBINE & 1;
    int64_t all[PARAMETER_KIND_COUNT] = {0};
    for (int i = 0; i < m->program->parameter_count; i++) {
        const struct parameter *parameter = &m->program->parameters[i];
        int64_t bytes = sets_bytes(m, parameter->tensor, &parameter->layout);
        all[parameter->kind] += bytes;
        if (!combines) expect_storage(m, parameter->kind, bytes);
    }
    for (int kind = 0; kind < PARAMETER_KIND_COUNT && combines; kind++) {
        if (all[kind]) expect_storage(m, (enum parameter_kind)kind, all[kind]);
    }
    if (m->flat_count > 0) sets_violate(m->result, "ZeRO communicates more than it has to");
}

// Which rows find room in a capacity depends on those of all the sequence before them.
static void check_capacities(struct index_machine *m)
{
    for (int i = 0; i < m->program->instr_count; i++) {
        const struct instr *instr = &m->program->instrs[i];
        if (instr->kind != OP_DISPATCH || instr->collective) continue;
        unsigned split = layout_axes_on(&m->held[instr->inputs[0]].claim, DIM_SEQ);
        if (split & ~m->counted_axes[instr->op][instr->recompute])
            sets_violate(m->result, "a capacity does not know the sequence before it");
    }
}

static void check_end(struct index_machine *m)
{
    const struct block_gradients *gradients = &m->task->facts->gradients;
    if (m->waiting) sets_violate(m->result, "an operator waits for its exchanges");
    for (int i = 0; i < m->block->output_count; i++)
        check_boundary(m, m->program->outputs[i], m->block->outputs[i], layout_out(m, i));
    for (int i = 0; i < m->block->input_count; i++) {
        if (gradients->of_input[i] < 0) continue;
        check_boundary(m, m->program->input_gradients[i], gradients->of_input[i],
                       &m->program->buffers[m->program->inputs[i]].layout);
    }
    for (int i = 0; i < m->program->parameter_count; i++)
        check_parameter(m, &m->program->parameters[i]);
    check_flats(m);
    if (m->task->has_capacity) check_capacities(m);
}

struct sets_result sets_check(struct arena *arena, const struct sets_case *task)
{
    struct sets_result result = {0};
    struct index_machine m = {.arena = arena,
                              .task = task,
                              .program = task->program,
                              .block = task->program->block,
                              .mesh = task->mesh,
                              .batch = (int64_t)task->parallel->micro_batch,
                              .result = &result};
    m.batch *= task->parallel->degree[AXIS_DP];
    m.whole = ARENA_NEW(arena, struct index_box, m.block->tensor_count);
    m.truth = ARENA_NEW(arena, uint64_t *, m.block->tensor_count);
    m.held = ARENA_NEW(arena, struct index_held, m.program->buffer_count);
    m.counted_axes = arena_alloc(arena, (size_t)m.block->op_count, sizeof *m.counted_axes);
    compute_truth(&m);
    assert(result.violation_count == 0 && "the unsplit block reads what it has not");
    hand_in(&m);
    for (m.at = 0; m.at < m.program->instr_count && !result.violation_count; m.at++) {
        const struct instr *instr = &m.program->instrs[m.at];
        if (!is_usable(&m, instr)) break;
        if (instr->collective) sets_communicate(&m, instr);
        if (!instr->collective) compute(&m, instr);
    }
    if (result.violation_count == 0) check_end(&m);
    return result;
}
