#include "tests/support/machine.h"

#include "tests/support/interpreter.h"
#include "tests/support/test.h"

#include <math.h>

struct machine_range {
    int64_t first[TENSOR_RANK_MAX], count[TENSOR_RANK_MAX], elements;
    int rank;
};

// One lowered block on all ranks, beside the same block on one.
struct machine_case {
    struct arena *arena;
    const struct block_program *program;
    const struct block *block;
    const struct mesh *mesh;
    struct interpreter whole;
    int64_t batch;
    double **values[MACHINE_RANK_MAX];               // [rank][buffer]
    struct machine_range *ranges[MACHINE_RANK_MAX];  // as values; asked for with every element
    struct interpreter local;                        // borrowed by each op of each rank
};

static struct machine_range range_of(const struct machine_case *m, int tensor,
                                     const struct layout *layout, int rank)
{
    const struct tensor *t = &m->block->tensors[tensor];
    struct machine_range range = {.elements = 1, .rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        int64_t size = extent_size(&t->extents[i], m->batch, MACHINE_SEQ);
        struct slice slice = layout_held(layout, m->mesh, t->extents[i].dim, size, rank);
        range.first[i] = slice.first;
        range.count[i] = slice.count;
        range.elements *= slice.count;
    }
    return range;
}

static const struct machine_range *buffer_range(const struct machine_case *m, int buffer, int rank)
{
    return &m->ranges[rank][buffer];
}

// The whole index of element `at` of a range.
static void index_of(const struct machine_range *range, int64_t at, int64_t index[TENSOR_RANK_MAX])
{
    for (int i = range->rank - 1; i >= 0; i--) {
        index[i] = range->first[i] + at % range->count[i];
        at /= range->count[i];
    }
}

// The place of a whole index in a range; -1 when it is not there.
static int64_t place_of(const struct machine_range *range, const int64_t index[TENSOR_RANK_MAX])
{
    int64_t at = 0;
    for (int i = 0; i < range->rank; i++) {
        int64_t within = index[i] - range->first[i];
        if (within < 0 || within >= range->count[i]) return -1;
        at = at * range->count[i] + within;
    }
    return at;
}

static struct machine_range whole_range(const struct machine_case *m, int tensor)
{
    struct layout whole = {.of = {0}};
    return range_of(m, tensor, &whole, 0);
}

static double *local_array(struct machine_case *m, int rank, int buffer)
{
    int64_t elements = buffer_range(m, buffer, rank)->elements;
    if (!m->values[rank][buffer]) m->values[rank][buffer] = ARENA_NEW(m->arena, double, elements);
    return m->values[rank][buffer];
}

// Hands every rank its slice of a tensor that comes from outside.
static void hand_in(struct machine_case *m, int buffer)
{
    int tensor = m->program->buffers[buffer].tensor;
    struct machine_range whole = whole_range(m, tensor);
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        const struct machine_range *range = buffer_range(m, buffer, rank);
        double *values = local_array(m, rank, buffer);
        for (int64_t i = 0; i < range->elements; i++) {
            int64_t index[TENSOR_RANK_MAX];
            index_of(range, i, index);
            values[i] = m->whole.values[tensor][place_of(&whole, index)];
        }
    }
}

static bool is_same_group(const struct mesh *mesh, unsigned axes, int a, int b)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        bool may_differ = axes >> i & 1;
        if (!may_differ && mesh_coordinate(mesh, i, a) != mesh_coordinate(mesh, i, b)) return false;
    }
    return true;
}

static const char *layout_text(const struct machine_case *m, int buffer)
{
    const struct layout *layout = &m->program->buffers[buffer].layout;
    const char *text = "";
    for (int i = 0; i < m->mesh->axis_count; i++) {
        int8_t of = layout->of[i];
        const char *what = of < 0 ? "partial" : of > 0 ? dim_name((enum dim)of) : "whole";
        text = arena_print(m->arena, "%s %s: %s", text, m->mesh->axes[i].name, what);
    }
    return text;
}

static void fail_at(const struct machine_case *m, const struct instr *instr, int holders,
                    int members)
{
    const struct tensor *tensor = &m->block->tensors[m->program->buffers[instr->inputs[0]].tensor];
    fail_msg("%s of %s: %d of %d ranks hold an element;%s ->%s", collective_name(instr->collective),
             tensor->name, holders, members, layout_text(m, instr->inputs[0]),
             layout_text(m, instr->outputs[0]));
}

// One element of the result of a collective on one rank: the sum over the group for reductions,
// else the copy that one of them holds. Of strips that are added some hold it and some do not.
static double combined(struct machine_case *m, const struct instr *instr, int rank,
                       const int64_t index[TENSOR_RANK_MAX])
{
    bool sums = instr->combine != 0;
    double value = 0;
    int holders = 0, members = 0;
    for (int other = 0; other < m->mesh->rank_count; other++) {
        unsigned axes = instr->collective == COLLECTIVE_SLICE ? 0 : instr->axes;
        if (!is_same_group(m->mesh, axes, rank, other)) continue;
        const struct machine_range *range = buffer_range(m, instr->inputs[0], other);
        int64_t at = place_of(range, index);
        members++;
        if (at < 0) continue;
        value += m->values[other][instr->inputs[0]][at];
        holders++;
    }
    bool is_strip = sums && instr->collective == COLLECTIVE_SEND_RECV;
    bool is_right = is_strip ? holders >= 1 : holders == (sums ? members : 1);
    if (!is_right) fail_at(m, instr, holders, members);
    return value;
}

static void communicate(struct machine_case *m, const struct instr *instr)
{
    int output = instr->outputs[0];
    double *results[MACHINE_RANK_MAX];
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        const struct machine_range *range = buffer_range(m, output, rank);
        results[rank] = ARENA_NEW(m->arena, double, range->elements);
        for (int64_t i = 0; i < range->elements; i++) {
            int64_t index[TENSOR_RANK_MAX];
            index_of(range, i, index);
            results[rank][i] = combined(m, instr, rank, index);
        }
    }
    for (int rank = 0; rank < m->mesh->rank_count; rank++)
        m->values[rank][output] = results[rank];
}

// A sum of any number of terms, some of which lack dims of the result (biases).
static void add(struct machine_case *m, const struct instr *instr, int rank)
{
    int output = instr->outputs[0];
    const struct tensor *to = &m->block->tensors[m->program->buffers[output].tensor];
    const struct machine_range *range = buffer_range(m, output, rank);
    for (int64_t i = 0; i < range->elements; i++) {
        int64_t index[TENSOR_RANK_MAX];
        index_of(range, i, index);
        double sum = 0;
        for (int j = 0; j < instr->input_count; j++) {
            int buffer = instr->inputs[j];
            const struct tensor *from = &m->block->tensors[m->program->buffers[buffer].tensor];
            const struct machine_range *term = buffer_range(m, buffer, rank);
            int64_t own[TENSOR_RANK_MAX];
            for (int e = 0; e < from->rank; e++) {
                own[e] = index[tensor_find_dim(to, from->extents[e].dim)];
            }
            int64_t at = place_of(term, own);
            assert_true(at >= 0);
            sum += m->values[rank][buffer][at];
        }
        local_array(m, rank, output)[i] = sum;
    }
}

// The axes that split what a norm, an operator with statistics or a loss is taken over.
static unsigned joint_axes(const struct machine_case *m, const struct instr *instr)
{
    const struct op *op = &m->block->ops[instr->op];
    const struct layout *layout = &m->program->buffers[instr->outputs[0]].layout;
    bool is_norm = op->kind == OP_NORM || op->kind == OP_NORM_BACKWARD;
    if (is_norm) return layout_axes_on(layout, DIM_HIDDEN);
    if (op_is_loss(op->kind)) {
        int columns = instr->inputs[op->kind == OP_LINEAR_LOSS];
        return layout_axes_on(&m->program->buffers[columns].layout, DIM_VOCAB);
    }
    if (op->work.places != PLACES_STATISTICS) return 0;
    return layout_axes_on(layout, DIM_HEIGHT) | layout_axes_on(layout, DIM_WIDTH);
}

// As a group of ranks has it: with whole rows, images or columns.
static struct machine_range joint_range(const struct machine_case *m, int buffer, int rank)
{
    int tensor = m->program->buffers[buffer].tensor;
    struct machine_range range = *buffer_range(m, buffer, rank), whole = whole_range(m, tensor);
    range.elements = 1;
    for (int i = 0; i < range.rank; i++) {
        enum dim dim = m->block->tensors[tensor].extents[i].dim;
        if (dim == DIM_HIDDEN || dim == DIM_HEIGHT || dim == DIM_WIDTH || dim == DIM_VOCAB) {
            range.first[i] = whole.first[i];
            range.count[i] = whole.count[i];
        }
        range.elements *= range.count[i];
    }
    return range;
}

static double *joined(struct machine_case *m, int buffer, int rank, unsigned axes)
{
    int tensor = m->program->buffers[buffer].tensor;
    struct machine_range whole = joint_range(m, buffer, rank);
    double *values = ARENA_NEW(m->arena, double, whole.elements);
    memcpy(m->local.sizes[tensor], whole.count, sizeof whole.count);
    memcpy(m->local.firsts[tensor], whole.first, sizeof whole.first);
    for (int other = 0; other < m->mesh->rank_count; other++) {
        if (!is_same_group(m->mesh, axes, rank, other)) continue;
        const struct machine_range *part = buffer_range(m, buffer, other);
        for (int64_t i = 0; i < part->elements && m->values[other][buffer]; i++) {
            int64_t index[TENSOR_RANK_MAX];
            index_of(part, i, index);
            values[place_of(&whole, index)] = m->values[other][buffer][i];
        }
    }
    return values;
}

// A norm or a loss over rows, or statistics over images, of which each rank has a part: what its
// exchanges amount to. Nobody's inputs change before all are done.
static void normalise_together(struct machine_case *m, const struct instr *instr, int rank,
                               unsigned axes)
{
    const struct op *op = &m->block->ops[instr->op];
    for (int i = 0; i < instr->input_count; i++)
        m->local.values[op->inputs[i]] = joined(m, instr->inputs[i], rank, axes);
    for (int i = 0; i < instr->output_count; i++)
        m->local.values[op->outputs[i]] = joined(m, instr->outputs[i], rank, axes);
    interpreter_run(&m->local, instr->op, instr->op + 1);
    for (int o = 0; o < instr->output_count; o++) {
        const struct machine_range *own = buffer_range(m, instr->outputs[o], rank);
        struct machine_range whole = joint_range(m, instr->outputs[o], rank);
        double *to = local_array(m, rank, instr->outputs[o]);
        // Of a gradient that is partial one rank has all, and the others nothing.
        const struct layout *layout = &m->program->buffers[instr->outputs[o]].layout;
        bool is_first = true;
        for (int other = 0; other < rank; other++)
            is_first = is_first && !is_same_group(m->mesh, axes, rank, other);
        bool has_it = is_first || !(layout_partial_axes(layout) & axes);
        for (int64_t i = 0; i < own->elements; i++) {
            int64_t index[TENSOR_RANK_MAX];
            index_of(own, i, index);
            double value = m->local.values[op->outputs[o]][place_of(&whole, index)];
            to[i] = has_it ? value : 0;
        }
    }
}

// Shows a buffer to the interpreter as its tensor. The first tensor with a dim says where it
// starts: keys, which come later, keep the name seq but are whole.
static void show(struct machine_case *m, int rank, int buffer, int tensor, bool seen[DIM_COUNT])
{
    const struct tensor *t = &m->block->tensors[tensor];
    const struct machine_range *range = buffer_range(m, buffer, rank);
    m->local.values[tensor] = local_array(m, rank, buffer);
    for (int i = 0; i < t->rank; i++) {
        enum dim dim = t->extents[i].dim;
        m->local.sizes[tensor][i] = range->count[i];
        m->local.firsts[tensor][i] = range->first[i];
        if (!seen[dim]) m->local.offset[dim] = range->first[i];
        seen[dim] = true;
    }
}

static void compute(struct machine_case *m, const struct instr *instr, int rank)
{
    const struct op *op = &m->block->ops[instr->op];
    bool seen[DIM_COUNT] = {false};
    if (op->kind == OP_ADD) return add(m, instr, rank);
    unsigned joint = joint_axes(m, instr);
    memset(m->local.offset, 0, sizeof m->local.offset);
    if (joint) return normalise_together(m, instr, rank, joint);
    for (int i = 0; i < instr->input_count; i++) {
        show(m, rank, instr->inputs[i], op->inputs[i], seen);
    }
    for (int i = 0; i < instr->output_count; i++) {
        show(m, rank, instr->outputs[i], op->outputs[i], seen);
    }
    interpreter_run(&m->local, instr->op, instr->op + 1);
}

static void check_lifetimes(const struct machine_case *m, int at)
{
    const struct instr *instr = &m->program->instrs[at];
    for (int i = 0; i < instr->input_count + instr->output_count; i++) {
        int b = i < instr->input_count ? instr->inputs[i] : instr->outputs[i - instr->input_count];
        const struct buffer *buffer = &m->program->buffers[b];
        assert_true(buffer->birth <= at && at < buffer->death);
    }
}

static void run(struct machine_case *m)
{
    for (int i = 0; i < m->program->instr_count; i++) {
        const struct instr *instr = &m->program->instrs[i];
        check_lifetimes(m, i);
        bool is_flat = instr->collective && m->program->buffers[instr->inputs[0]].tensor < 0;
        if (is_flat) continue;
        if (instr->collective) {
            communicate(m, instr);
            continue;
        }
        for (int rank = 0; rank < m->mesh->rank_count; rank++)
            compute(m, instr, rank);
    }
}

// Compares a buffer with the whole tensor, its partial sums added up over `axes`.
static void check_buffer(struct machine_case *m, int buffer, unsigned axes)
{
    int tensor = m->program->buffers[buffer].tensor;
    struct machine_range whole = whole_range(m, tensor);
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        const struct machine_range *range = buffer_range(m, buffer, rank);
        for (int64_t i = 0; i < range->elements; i++) {
            int64_t index[TENSOR_RANK_MAX];
            double found = 0;
            index_of(range, i, index);
            for (int other = 0; other < m->mesh->rank_count; other++) {
                if (!is_same_group(m->mesh, axes, rank, other)) continue;
                found += m->values[other][buffer][i];
            }
            double expected = m->whole.values[tensor][place_of(&whole, index)];
            if (fabs(found - expected) < 1e-9 * (1 + fabs(expected))) continue;
            fail_msg("%s, rank %d, element %lld: %.12g, expected %.12g",
                     m->block->tensors[tensor].name, rank, (long long)i, found, expected);
        }
    }
}

static double next_number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 33) / (double)(1u << 31) - 0.5;
}

static void fill(struct interpreter *in, uint64_t seed)
{
    for (int t = 0; t < in->block->tensor_count; t++) {
        const struct tensor *tensor = &in->block->tensors[t];
        if (tensor->producer >= 0) continue;
        double *values = interpreter_array(in, t);
        for (int64_t i = 0; i < interpreter_elements(in, t); i++) {
            double number = next_number(&seed);
            // Type ids have the smallest table: two rows.
            values[i] = tensor->role == TENSOR_IDS ? (double)(number > 0) : number;
        }
    }
}

static void hand_in_all(struct machine_case *m)
{
    for (int b = 0; b < m->program->buffer_count; b++) {
        int tensor = m->program->buffers[b].tensor;
        if (tensor < 0) continue;
        const struct tensor *t = &m->block->tensors[tensor];
        if (t->producer < 0 && m->program->buffers[b].external) {
            hand_in(m, b);
        }
    }
    for (int i = 0; i < m->block->input_count; i++)
        hand_in(m, m->program->inputs[i]);
    for (int i = 0; i < m->block->output_count; i++) {
        hand_in(m, m->program->output_gradients[i]);
    }
}

static int gradient_buffer(const struct machine_case *m, int tensor)
{
    int found = -1;
    for (int b = 0; b < m->program->buffer_count; b++) {
        if (m->program->buffers[b].tensor == tensor) found = b;
    }
    assert_true(found >= 0);
    return found;
}

static void check_gradients(struct machine_case *m, const struct parallel *parallel,
                            const struct block_gradients *gradients)
{
    for (int i = 0; i < m->program->parameter_count; i++) {
        const struct parameter *parameter = &m->program->parameters[i];
        bool is_frozen = m->block->tensors[parameter->tensor].frozen;
        assert_int_equal(is_frozen, gradients->of_parameter[parameter->tensor] < 0);
        assert_int_equal(is_frozen, !parameter_kind_is_trained(parameter->kind));
        if (is_frozen) continue;
        int buffer = gradient_buffer(m, gradients->of_parameter[parameter->tensor]);
        bool is_sharded = parallel->zero >= 2;
        unsigned sharded =
            is_sharded ? mesh_shard_axes(m->mesh, parallel, parameter->kind, STORED_GRADIENTS) : 0;
        for (int a = 0; a < m->mesh->axis_count; a++) {
            if (parameter->layout.of[a] > 0) sharded &= ~(1u << a);
        }
        unsigned axes = parameter->gradient_partial_axes | sharded;
        assert_int_equal(axes, layout_partial_axes(&m->program->buffers[buffer].layout));
        check_buffer(m, buffer, axes);
    }
    for (int i = 0; i < m->block->input_count; i++) {
        if (gradients->of_input[i] >= 0) check_buffer(m, m->program->input_gradients[i], 0);
    }
}

static void check_joined(struct arena *arena, const struct block *forward, const struct mesh *mesh,
                         const struct parallel *parallel, enum recompute recompute, unsigned joins)
{
    struct differentiated facts;
    block_differentiate(arena, forward, &facts);
    struct lower_request request = {.block = forward,
                                    .mesh = mesh,
                                    .parallel = parallel,
                                    .recompute = recompute,
                                    .seq_len = MACHINE_SEQ,
                                    .joins = joins,
                                    .differentiated = &facts};
    struct machine_case m = {.arena = arena,
                             .program = lower_block(arena, &request),
                             .block = facts.block,
                             .mesh = mesh,
                             .batch = (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP]};
    m.whole = interpreter_new(arena, m.block, m.batch, MACHINE_SEQ);
    m.local = interpreter_new(arena, m.block, m.batch, MACHINE_SEQ);
    fill(&m.whole, 77);
    interpreter_run(&m.whole, 0, m.block->op_count);
    for (int rank = 0; rank < mesh->rank_count; rank++) {
        m.values[rank] = ARENA_NEW(arena, double *, m.program->buffer_count);
        m.ranges[rank] = ARENA_NEW(arena, struct machine_range, m.program->buffer_count);
        for (int b = 0; b < m.program->buffer_count; b++) {
            const struct buffer *buffer = &m.program->buffers[b];
            if (buffer->tensor < 0) continue;
            m.ranges[rank][b] = range_of(&m, buffer->tensor, &buffer->layout, rank);
        }
    }
    hand_in_all(&m);
    run(&m);
    for (int i = 0; i < m.block->output_count; i++)
        check_buffer(&m, m.program->outputs[i], 0);
    check_gradients(&m, parallel, &facts.gradients);
}

void machine_check(struct arena *arena, const struct block *forward, const struct mesh *mesh,
                   const struct parallel *parallel, enum recompute recompute)
{
    check_joined(arena, forward, mesh, parallel, recompute, 0);
    if (parallel->degree[AXIS_TP] > 1)
        check_joined(arena, forward, mesh, parallel, recompute, 1u << JOIN_APART);
}
