#include "plan/script/graph.h"

#include "plan/boundary.h"

#include <assert.h>
#include <math.h>

struct building {
    struct arena *arena;
    const struct program *program;
    struct step_graph *graph;
    int capacity;
};

static struct graph_task *put(struct building *building, enum task_kind kind)
{
    struct step_graph *graph = building->graph;
    ARENA_GROW(building->arena, graph->tasks, graph->task_count, building->capacity);
    struct graph_task *task = &graph->tasks[graph->task_count++];
    *task = (struct graph_task){
        .kind = kind, .use = -1, .block = -1, .instr = -1, .group = -1, .count = 1};
    return task;
}

static void add_elements(const struct program *program, enum element element, double bytes,
                         struct task_bytes *sum)
{
    double width = (double)lower_element_bytes(element, program->workload.precision);
    if (element == ELEMENT_COMPUTE) {
        sum->compute += bytes / width;
    } else if (element == ELEMENT_FP32) {
        sum->reals += bytes / width;
    } else {
        sum->plain += bytes;
    }
}

static enum element element_of(const struct block_program *block, int buffer)
{
    int tensor = block->buffers[buffer].tensor;
    if (block->buffers[buffer].cast) return ELEMENT_BYTE;
    return tensor < 0 ? ELEMENT_COMPUTE : block->block->tensors[tensor].element;
}

// Whether a buffer is the gradient of a parameter where the state keeps it. What is scattered is
// made beside it first, as wide as kernels compute.
static bool is_in_state(const struct program *program, const struct block_program *block, int b)
{
    const struct buffer *buffer = &block->buffers[b];
    if (!buffer->external || buffer->tensor < 0) return false;
    const struct tensor *tensor = &block->block->tensors[buffer->tensor];
    enum parameter_kind kind = parameter_kind_of(tensor_find_dim(tensor, DIM_EXPERT) >= 0, false);
    return tensor->role == TENSOR_PARAMETER_GRADIENT && !program->storage[kind].gradient_axes;
}

// A tensor as its layout has it, element by element.
static bool is_plain(const struct block_program *block, int b)
{
    const struct buffer *buffer = &block->buffers[b];
    return buffer->tensor >= 0 && !buffer->packed && !buffer->cast &&
           !block_program_is_ragged(block, b);
}

// Of what is streamed past the kernel that works on it all, though memory holds two pieces.
static double buffer_bytes(const struct program *program, const struct block_program *block, int b)
{
    const struct buffer *buffer = &block->buffers[b];
    if (!is_plain(block, b)) return (double)buffer->bytes;
    const struct tensor *tensor = &block->block->tensors[buffer->tensor];
    const struct parallel *parallel = &program->parallel;
    int64_t batch = (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP];
    return layout_mean_elements(&buffer->layout, &program->mesh, tensor, batch,
                                program->workload.seq_len) *
           (double)lower_element_bytes(tensor->element, program->workload.precision) /
           (buffer->pieces > 0 ? buffer->pieces : 1);
}

// The share of a buffer that an instruction reads or writes: in a relay what one rank has of it.
static double part_ratio(const struct program *program, const struct block_program *block,
                         const struct instr *instr, int b)
{
    if (!instr->rows || block->buffers[b].tensor < 0) return 1;
    if (tensor_find_dim(&block->block->tensors[block->buffers[b].tensor], instr->dim) < 0 ||
        block->buffers[b].skew_axes)
        return 1;
    const struct buffer *part = &block->buffers[instr_part(instr)];
    unsigned own = layout_axes_on(&block->buffers[b].layout, instr->dim);
    unsigned parts = layout_axes_on(&part->layout, instr->dim);
    return 1.0 / mesh_size(&program->mesh, parts & ~own);
}

static void add_part(const struct program *program, const struct block_program *block, int b,
                     double ratio, struct graph_task *task)
{
    bool is_real = is_in_state(program, block, b);
    double bytes = ratio * buffer_bytes(program, block, b);
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, program->workload.precision);
    task->is_ragged |= block_program_is_ragged(block, b);
    if (is_real) {
        task->bytes.reals += bytes / width;
    } else {
        add_elements(program, element_of(block, b), bytes, &task->bytes);
    }
}

static void add_buffer(const struct program *program, const struct block_program *block, int b,
                       struct graph_task *task)
{
    add_part(program, block, b, 1, task);
}

// What ranks tell each other inside a dispatch: a bit for each of their tokens and experts, in
// words of 64 (executor/engine/experts.c). Prices of other software count the rows of each expert.
static double choice_bytes(const struct program *program, const struct block_program *block,
                           const struct instr *instr)
{
    const struct instr *dispatch = instr - 1;
    while (dispatch->op != instr->op || dispatch->collective)
        dispatch--;
    const struct buffer *rows = &block->buffers[dispatch->outputs[0]];
    const struct tensor *tensor = &block->block->tensors[rows->tensor];
    const struct parallel *parallel = &program->parallel;
    int64_t batch = (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP], choices = 1;
    enum { CHOICE_RANK = 3, WORD = 64 };  // batch, seq, expert
    for (int i = 0; i < CHOICE_RANK; i++) {
        const struct extent *extent = &tensor->extents[i];
        choices *= layout_local_size(&rows->layout, &program->mesh, extent->dim,
                                     extent_size(extent, batch, program->workload.seq_len));
    }
    unsigned parts = layout_axes_on(&rows->layout, DIM_SEQ);
    unsigned tokens = layout_axes_on(&rows->layout, DIM_BATCH) | parts;
    unsigned axes =
        tokens & (mesh_axes_of(&program->mesh, AXIS_EP) | mesh_axes_of(&program->mesh, AXIS_ETP));
    bool drops = program->workload.capacity_factor > 0 && parts;
    // What drops has to be known before a dispatch, and still is when that is recomputed.
    if (drops && instr->recompute) return 0;
    if (drops) axes |= parts;
    int64_t words = (choices + WORD - 1) / WORD;
    return (double)words * sizeof(int64_t) * mesh_size(&program->mesh, axes);
}

// Payload of the mean rank, where that of the fullest is known: a last part may be smaller than the
// others, and an image's first and last strip have one neighbour.
static double mean_payload(const struct program *program, const struct block_program *block,
                           const struct instr *instr)
{
    int from = instr->inputs[0], to = instr->outputs[0];
    bool is_box = instr->inner == 0 && is_plain(block, from) && is_plain(block, to);
    if (!is_box || instr->collective == COLLECTIVE_ALL_TO_ALL) return (double)instr->bytes;
    double before = buffer_bytes(program, block, from), after = buffer_bytes(program, block, to);
    // What a rank has of its own in a pair's turn stays there.
    const struct buffer *ends[] = {&block->buffers[from], &block->buffers[to]};
    for (int i = 0; i < 2 && instr->relay; i++) {
        if (!ends[i]->skew_axes || ends[i]->is_own) continue;
        return before * held_moving(&program->mesh, ends[i]) /
               mesh_size(&program->mesh, ends[i]->skew_axes);
    }
    if (instr->relay) return before;
    if (instr->collective == COLLECTIVE_SEND_RECV) return fabs(before - after);
    return instr->collective == COLLECTIVE_ALL_GATHER ? after : before;
}

// Payload as the engine counts it: of what is streamed the parts that are handed on.
static void add_payload(const struct program *program, const struct block_program *block,
                        const struct instr *instr, struct graph_task *task)
{
    double bytes = mean_payload(program, block, instr);
    int from = instr->inputs[0];
    bool is_flat = block->buffers[from].tensor < 0;
    bool is_reduced = is_flat && instr->parameter && !instr_gathers(instr);
    enum element element = element_of(block, from);
    if (instr->inner > 0) {
        const struct op *op = &block->block->ops[instr->op];
        element = block->block->tensors[op->outputs[0]].element;
        if (op->kind == OP_DISPATCH) {
            task->bytes.plain = choice_bytes(program, block, instr);
            return;
        }
    }
    if (instr->streamed)
        bytes *= (double)instr->stream_steps / mesh_size(&program->mesh, instr->axes);
    task->is_ragged |= instr->ragged || block_program_is_ragged(block, from);
    add_elements(program, element, bytes, &task->bytes);
    if (!is_reduced) return;
    task->bytes.reals += task->bytes.compute;
    task->bytes.compute = 0;
}

// A cast, or the view of one, as a product reads or writes it: a byte each, without its factor.
static void add_cast(const struct program *program, const struct block_program *block, int cast,
                     int shown, struct graph_task *task)
{
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, program->workload.precision);
    task->bytes.plain += shown == cast ? (double)(block->buffers[cast].bytes - CAST_HEAD_BYTES)
                                       : buffer_bytes(program, block, shown) / width;
}

bool step_is_term_sum(const struct block_program *block, const struct instr *instr)
{
    return instr->op >= 0 && !instr->collective && instr->kind == OP_ADD &&
           block->buffers[instr->outputs[0]].external;
}

static void put_instr(struct building *building, const struct block_use *use, int u, int i)
{
    const struct block_program *block = building->program->blocks[use->block_program];
    const struct instr *instr = &block->instrs[i];
    struct graph_task *task = put(building, TASK_INSTR);
    task->use = u;
    task->block = use->block_program;
    task->instr = i;
    task->count = step_is_term_sum(block, instr) ? 0 : use->count;
    bool stays = block->weights_rounds > 0 && instr->phase == PHASE_FORWARD;
    task->is_repeated = !(stays && instr->collective == COLLECTIVE_FETCH);
    if (instr->collective == COLLECTIVE_SLICE) return;
    if (instr->collective) return add_payload(building->program, block, instr, task);
    for (int k = 0; k < instr->input_count + instr->output_count; k++) {
        int output = k - instr->input_count;
        int own = output < 0 ? instr->inputs[k] : instr->outputs[output];
        int shown = output < 0 ? instr_input(block, instr, k) : instr_output(block, instr, output);
        if (block->buffers[own].cast)
            add_cast(building->program, block, own, shown, task);
        else
            add_part(building->program, block, shown,
                     part_ratio(building->program, block, instr, shown), task);
    }
}

// What is moved of what forward saves goes out once and comes back once.
static void put_copies(struct building *building, const struct block_use *use, int u)
{
    const struct block_program *block = building->program->blocks[use->block_program];
    struct arena scratch = {0};
    struct graph_task sum = {.use = u,
                             .block = use->block_program,
                             .instr = -1,
                             .group = -1,
                             .count = use->count,
                             .is_repeated = true};
    bool is_any = false;
    const enum op_class *class_of = lower_classes(&scratch, block);
    for (int b = 0; b < block->buffer_count; b++) {
        if (!block->buffers[b].saved || !(use->moved >> class_of[b] & 1)) continue;
        add_buffer(building->program, block, b, &sum);
        is_any = true;
    }
    arena_free(&scratch);
    for (int back = 0; back < 2 && is_any; back++) {
        struct graph_task *task = put(building, back ? TASK_COPY_IN : TASK_COPY_OUT);
        enum task_kind kind = task->kind;
        *task = sum;
        task->kind = kind;
    }
}

// What crosses the boundaries of a chunk in a forward (group 0) or a backward (group 1).
static struct graph_task *put_message(struct building *building, const struct block_use *use, int u,
                                      enum task_kind kind, bool is_backward, const int *buffers)
{
    const struct block_program *block = building->program->blocks[use->block_program];
    struct graph_task *task = put(building, kind);
    task->use = u;
    task->block = use->block_program;
    task->group = is_backward;
    task->is_repeated = true;
    for (int i = 0; i < (kind == TASK_LOSS ? 1 : BLOCK_EDGES); i++) {
        if (buffers[i] >= 0) add_buffer(building->program, block, buffers[i], task);
    }
    return task;
}

// Where the meshes of two stages are unlike a rank sends what it has in common with ranks of the
// other; what it gets is all of a tensor that it holds, as elsewhere.
static void put_send(struct building *building, const struct program_chunk *chunk,
                     const struct block_use *use, int u, bool is_backward, const int *buffers)
{
    const struct program *program = building->program;
    const struct block_program *block = program->blocks[use->block_program];
    struct graph_task *task = put_message(building, use, u, TASK_SEND, is_backward, buffers);
    int there = is_backward ? chunk->mesh_before : chunk->mesh_behind;
    if (there < 0 || !parallel_has_meshes(&program->parallel)) return;
    task->bytes = (struct task_bytes){0};
    for (int edge = 0; edge < BLOCK_EDGES; edge++) {
        struct boundary boundary;
        struct graph_task one = {.count = 1};
        if (!boundary_of_class(program, chunk, is_backward, edge, &boundary)) continue;
        double ratio = boundary_sent_ratio(&boundary);
        add_buffer(program, block, buffers[edge], &one);
        task->bytes.compute += ratio * one.bytes.compute;
        task->bytes.reals += ratio * one.bytes.reals;
        task->bytes.plain += ratio * one.bytes.plain;
    }
}

// Of ranks with the same tokens one tells the losses.
static void part_losses(const struct program *program, struct graph_task *task)
{
    const struct block_program *block = program->blocks[task->block];
    const struct layout *layout = &block->buffers[block->outputs[0]].layout;
    double copies = 1;
    for (int a = 0; a < program->mesh.axis_count; a++) {
        bool is_same = layout->of[a] <= 0 && program->mesh.axes[a].parent != AXIS_PP;
        if (is_same) copies *= program->mesh.axes[a].size;
    }
    assert(copies >= 1);
    task->bytes.compute /= copies;
    task->bytes.reals /= copies;
}

static void put_messages(struct building *building, const struct program_chunk *chunk)
{
    const struct program *program = building->program;
    int last = chunk->use_count - 1;
    const struct block_use *front = &chunk->uses[0], *behind = &chunk->uses[last];
    const struct block_program *first_block = program->blocks[front->block_program];
    const struct block_program *last_block = program->blocks[behind->block_program];
    put_message(building, front, 0, TASK_RECEIVE, false, first_block->inputs);
    put_send(building, chunk, behind, last, false, last_block->outputs);
    put_message(building, behind, last, TASK_RECEIVE, true, last_block->output_gradients);
    put_send(building, chunk, front, 0, true, first_block->input_gradients);
    put_message(building, behind, last, TASK_SEED, true, last_block->output_gradients);
    put_message(building, behind, last, TASK_LOSS, false, last_block->outputs);
    part_losses(program, &building->graph->tasks[building->graph->task_count - 1]);
}

static double parts(const struct program *program, unsigned axes)
{
    return mesh_size(&program->mesh, axes);
}

// Reals of what the ranks reduce of a group: to the shard and among its replicas, or at once.
static double reduced(const struct program *program, const struct step_group *group)
{
    unsigned kept = group->storage.gradient_axes;
    unsigned shard = storage_scatter_axes(&group->storage, group->reduce_axes);
    unsigned rest = group->reduce_axes & ~kept & ~shard;
    double elements = shard ? group->elements / parts(program, kept) : 0;
    if (rest) elements += group->elements / parts(program, kept | shard);
    return elements;
}

// Weights and moments are read and written, gradients read; with masters the weights are written as
// kernels read them, too.
static void add_update(const struct program *program, const struct step_group *group,
                       struct graph_task *task)
{
    double elements = group->elements / parts(program, group->storage.optimizer_axes);
    enum optimizer optimizer = program->workload.optimizer;
    enum { GRADIENT = 1, WEIGHT = 2, MOMENT = 2 };
    double arrays = GRADIENT + WEIGHT + MOMENT * optimizer_moment_count(optimizer);
    task->bytes.reals = arrays * elements;
}

static void put_of_group(struct building *building, enum task_kind kind, int group, int count,
                         struct task_bytes all)
{
    assert(count >= 0 && group >= 0);
    if (count == 0) return;
    struct graph_task *task = put(building, kind);
    task->group = group;
    task->count = count;
    task->bytes = (struct task_bytes){all.compute / count, all.reals / count, all.plain / count};
}

// Gradients that are kept on the host leave for it in every micro-batch, and come back in all but
// the first.
static void put_away(struct building *building, const struct step_group *group, int g)
{
    int rounds = building->program->shape.micro_batch_count;
    double each = group->elements / parts(building->program, group->storage.gradient_axes);
    if (!group->is_away) return;
    put_of_group(building, TASK_GRADIENT_OUT, g, group->bucket_count * rounds,
                 (struct task_bytes){.reals = each * rounds});
    put_of_group(building, TASK_GRADIENT_IN, g, group->bucket_count * (rounds - 1),
                 (struct task_bytes){.reals = each * (rounds - 1)});
}

static void put_group(struct building *building, const struct step_group *group, int g)
{
    const struct program *program = building->program;
    struct task_bytes reduces = {.reals = reduced(program, group)};
    struct task_bytes tied = {.reals =
                                  group->elements / parts(program, group->storage.gradient_axes)};
    struct task_bytes gathers = {.compute =
                                     group->elements / parts(program, group->storage.weight_axes)};
    int reduce_count = group->reduce_axes ? group->bucket_count : 0;
    put_of_group(building, TASK_GRADIENT_REDUCE, g, reduce_count, reduces);
    if (group->tie) {
        put_of_group(building, TASK_TIED_REDUCE, g, group->bucket_count, tied);
        building->graph->tasks[building->graph->task_count - 1].tie = group->tie;
    }
    put_away(building, group, g);
    struct graph_task update = {0};
    add_update(program, group, &update);
    put_of_group(building, TASK_UPDATE, g, group->bucket_count, update.bytes);
    put_of_group(building, TASK_PARAMETER_GATHER, g, group->gather_count, gathers);
}

static void put_class(struct building *building, const struct program_chunk *chunk, int *use_first,
                      const struct step_rules *rules)
{
    struct program room;
    const struct program *whole = building->program;
    const struct program *program = program_of_chunk(whole, chunk, &room);
    building->program = program;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = program->blocks[chunk->uses[u].block_program];
        use_first[u] = building->graph->task_count;
        for (int i = 0; i < block->instr_count; i++)
            put_instr(building, &chunk->uses[u], u, i);
        put_copies(building, &chunk->uses[u], u);
    }
    put_messages(building, chunk);
    const struct step_end end = step_end_of(program, chunk, rules);
    for (int g = 0; g < end.group_count; g++)
        put_group(building, &end.groups[g], g);
    for (int s = 0; s < end.small_kind_count; s++) {
        const struct step_small *small = &end.smalls[s];
        struct task_bytes all = {.reals = small->elements / parts(program, small->gradient_axes)};
        put_of_group(building, TASK_SMALL_REDUCE, s, small->count, all);
    }
    building->program = whole;
}

// Norms of weights and steps of the parameters of a stage.
static double trusted(const struct program *program, int stage)
{
    double count = 0;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        int class = program->class_of[stage * program->shape.chunk_count + c];
        const struct program_chunk *chunk = &program->chunks[class];
        for (int u = 0; u < chunk->use_count; u++)
            count += chunk->uses[u].count *
                     program->blocks[chunk->uses[u].block_program]->parameter_count;
    }
    return 2 * count;
}

// What all ranks of a stage do together, with others or alone.
static void put_stage(struct building *building, int stage)
{
    const struct program *program = building->program;
    const struct mesh *mesh = &program->mesh;
    if (step_takes_norm(&program->workload))
        put(building, TASK_NORM)->bytes.reals = mesh->rank_count > 1;
    if (!step_takes_trust(&program->workload)) return;
    struct graph_task *task = put(building, TASK_TRUST);
    task->bytes.reals = mesh_stage_ranks(mesh, stage) > 1 ? trusted(program, stage) : 0;
}

struct step_graph *step_graph_make(struct arena *arena, const struct program *program,
                                   const struct step_rules *rules)
{
    struct step_graph *graph = ARENA_NEW(arena, struct step_graph, 1);
    struct building building = {.arena = arena, .program = program, .graph = graph};
    int stages = program->shape.stage_count, chunks = program->shape.chunk_count;
    int classes = program->chunk_class_count;
    graph->program = program;
    graph->first = ARENA_NEW(arena, int, classes + stages + 1);
    graph->use_first = ARENA_NEW(arena, int *, classes);
    graph->place_first = ARENA_NEW(arena, int, stages *chunks + stages);
    for (int c = 0; c < classes; c++) {
        graph->first[c] = graph->task_count;
        graph->use_first[c] = ARENA_NEW(arena, int, program->chunks[c].use_count);
        put_class(&building, &program->chunks[c], graph->use_first[c], rules);
    }
    for (int s = 0; s < stages; s++) {
        graph->first[classes + s] = graph->task_count;
        put_stage(&building, s);
    }
    graph->first[classes + stages] = graph->task_count;
    for (int place = 0; place < stages * chunks + stages; place++) {
        int first;
        graph->place_first[place] = graph->number_count;
        graph->number_count += step_graph_tasks(graph, place, &first);
    }
    return graph;
}
