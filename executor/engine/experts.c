#include "executor/engine/engine.h"

#include "executor/engine/expert_rows.h"

#include <assert.h>
#include <string.h>

// Ragged tensors: the rows of experts. When tokens are dispatched, the ranks that share experts
// tell each other which of their tokens chose which, and from then on every rank knows what rows
// any of them holds under any layout (executor/engine/expert_rows.h). The choices of a micro-batch
// at a position live from its dispatch to the last task that touches its rows; what is recomputed
// finds them there.
//
// The lowered program gathers the counts of rows; here the choices themselves are gathered in its
// place, one bit for a token and an expert, since the order by token wants them.

struct routed_experts {
    struct expert_rows *slots;  // of the micro-batches and positions under way
    int slot_count;
};

static const struct instr *instr_of(const struct engine *engine, const struct script_task *task)
{
    return &engine_block(engine, task)->instrs[task->instr];
}

// The first ragged operand of a task; -1.
static int ragged_buffer(const struct engine *engine, const struct script_task *task)
{
    if (task->kind != TASK_INSTR) return -1;
    const struct block_program *block = engine_block(engine, task);
    const struct instr *instr = instr_of(engine, task);
    for (int i = 0; i < instr->input_count; i++)
        if (block_program_is_ragged(block, instr->inputs[i])) return instr->inputs[i];
    for (int i = 0; i < instr->output_count; i++)
        if (block_program_is_ragged(block, instr->outputs[i])) return instr->outputs[i];
    return -1;
}

static bool gathers_choices(const struct engine *engine, const struct script_task *task)
{
    if (task->kind != TASK_INSTR) return false;
    const struct instr *instr = instr_of(engine, task);
    const struct block *block = engine_block(engine, task)->block;
    return instr->inner > 0 && block->ops[instr->op].kind == OP_DISPATCH;
}

static bool dispatches(const struct engine *engine, const struct script_task *task)
{
    return instr_of(engine, task)->collective == COLLECTIVE_NONE &&
           instr_of(engine, task)->kind == OP_DISPATCH;
}

bool experts_are_ragged(const struct engine *engine, int task)
{
    return ragged_buffer(engine, &engine->script->tasks[task]) >= 0;
}

bool experts_gather(const struct engine *engine, int task)
{
    return gathers_choices(engine, &engine->script->tasks[task]);
}

// Positions and micro-batches as one number.
struct choice_keys {
    int positions, micro_batches, count;
};

static struct choice_keys keys_of(const struct script *script)
{
    struct choice_keys keys = {1, 1, 0};
    int chunks = 1;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        if (task->position >= keys.positions) keys.positions = task->position + 1;
        if (task->micro_batch >= keys.micro_batches) keys.micro_batches = task->micro_batch + 1;
        if (task->chunk >= chunks) chunks = task->chunk + 1;
    }
    keys.count = chunks * keys.positions * keys.micro_batches;
    return keys;
}

static int key_of(const struct choice_keys *keys, const struct script_task *task)
{
    return (task->chunk * keys->positions + task->position) * keys->micro_batches +
           task->micro_batch;
}

void experts_prepare(struct engine *engine)
{
    const struct script *script = engine->script;
    struct choice_keys keys = keys_of(script);
    int *last = ARENA_NEW(engine->arena, int, keys.count), free_count = 0;
    int *slot = ARENA_NEW(engine->arena, int, keys.count);  // 1 + number
    int *free_slots = ARENA_NEW(engine->arena, int, keys.count);
    struct routed_experts *experts = engine->experts =
        ARENA_NEW(engine->arena, struct routed_experts, 1);
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        bool is_one = ragged_buffer(engine, task) >= 0 || gathers_choices(engine, task);
        engine->prepared[t].rows = is_one ? 0 : -1;
        if (is_one) last[key_of(&keys, task)] = t;
    }
    for (int t = 0; t < script->task_count; t++) {
        if (engine->prepared[t].rows < 0) continue;
        int key = key_of(&keys, &script->tasks[t]);
        if (!slot[key]) slot[key] = free_count ? free_slots[--free_count] : ++experts->slot_count;
        engine->prepared[t].rows = slot[key] - 1;
        if (last[key] == t) free_slots[free_count++] = slot[key];
    }
    experts->slots = ARENA_NEW(engine->arena, struct expert_rows, experts->slot_count);
}

struct expert_rows *experts_rows(struct engine *engine, int task)
{
    int slot = engine->prepared[task].rows;
    assert(slot >= 0);
    return &engine->experts->slots[slot];
}

static int64_t token_count(const struct held *box)
{
    return box->count[ROWS_BATCH] * box->count[ROWS_SEQ];
}

static int64_t choice_count(const struct held *box)
{
    return token_count(box) * box->count[ROWS_EXPERT];
}

static bool drops(const struct engine *engine)
{
    return engine->program->workload.capacity_factor > 0;
}

// The ranks whose tokens this one may get: those that share experts, or the parts of one, and have
// other tokens when these are dispatched. With a capacity also those with other parts of its
// sequences. 0: none.
static unsigned gather_axes(const struct engine *engine, const struct layout *dispatched)
{
    const struct mesh *mesh = &engine->program->mesh;
    unsigned parts = layout_axes_on(dispatched, DIM_SEQ);
    unsigned tokens = layout_axes_on(dispatched, DIM_BATCH) | parts;
    unsigned axes = tokens & (mesh_axes_of(mesh, AXIS_EP) | mesh_axes_of(mesh, AXIS_ETP));
    return drops(engine) ? axes | parts : axes;
}

// The layout of the rows that a dispatch writes.
static const struct layout *dispatched_layout(const struct engine *engine, int task, int *buffer)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    *buffer = instr_of(engine, of)->outputs[0];
    return &block->buffers[*buffer].layout;
}

// Whether what has no room depends on tokens that others have: then all is known before the
// dispatch, not behind it.
static bool drops_over_parts(const struct engine *engine, int dispatch)
{
    int buffer;
    const struct layout *layout = dispatched_layout(engine, dispatch, &buffer);
    return drops(engine) && layout_axes_on(layout, DIM_SEQ);
}

bool experts_wait(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (engine->prepared[task].rows < 0 || !dispatches(engine, of)) return false;
    return !instr_of(engine, of)->recompute && drops_over_parts(engine, task);
}

// What this rank's own tokens chose: weights that are not 0.
static bool read_choices(struct engine *engine, int task, const struct held *box, bool *chosen)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct block_program *block = engine_block(engine, of);
    const struct held weights =
        held_of_buffer(engine->program, block, of->inputs[1].buffer, engine->rank);
    int64_t gates = weights.count[weights.rank - 1], experts = box->count[ROWS_EXPERT];
    assert(weights.elements == token_count(box) * gates);
    double *shares = ARENA_NEW(engine->scratch, double, weights.elements + 1);
    enum element element = engine_element(engine, of, &of->inputs[1]);
    const char *from = engine_address(engine, of, &of->inputs[1]);
    if (!numbers_read(engine, task, element, from, weights.elements, shares)) return false;
    for (int64_t t = 0; t < token_count(box); t++) {
        for (int64_t e = 0; e < experts; e++) {
            int64_t at = t * gates + box->first[ROWS_EXPERT] + e;
            chosen[t * experts + e] = shares[at] != 0;
        }
    }
    return true;
}

static void know_box(struct expert_rows *rows, const struct held *box)
{
    memcpy(rows->first, box->first, sizeof rows->first);
    memcpy(rows->count, box->count, sizeof rows->count);
}

// The box round all members' boxes, which fill it; some may be empty.
static void know_boxes(struct expert_rows *rows, const struct held *boxes, int count)
{
    int64_t filled = 0, all = 1;
    for (int m = 0; m < count; m++) {
        if (choice_count(&boxes[m]) == 0) continue;
        if (filled == 0) know_box(rows, &boxes[m]);
        filled += choice_count(&boxes[m]);
        for (int d = 0; d < ROWS_COLUMN; d++) {
            int64_t first = boxes[m].first[d], end = first + boxes[m].count[d];
            int64_t known_end = rows->first[d] + rows->count[d];
            if (first < rows->first[d]) rows->first[d] = first;
            rows->count[d] = (end > known_end ? end : known_end) - rows->first[d];
        }
    }
    for (int d = 0; d < ROWS_COLUMN; d++)
        all *= rows->count[d];
    assert((filled == 0 || filled == all) && "the tokens of a group do not lie together");
}

static void pack_bits(const bool *chosen, int64_t count, int64_t *words)
{
    for (int64_t i = 0; i < count; i++)
        words[i / 64] = (int64_t)((uint64_t)words[i / 64] | (uint64_t)chosen[i] << i % 64);
}

static void place_bits(const struct expert_rows *rows, const struct held *box, const int64_t *words,
                       bool *chosen)
{
    int64_t seqs = box->count[ROWS_SEQ], experts = box->count[ROWS_EXPERT];
    for (int64_t i = 0; i < choice_count(box); i++) {
        int64_t token = i / experts;
        int64_t batch = box->first[ROWS_BATCH] - rows->first[ROWS_BATCH] + token / seqs;
        int64_t seq = box->first[ROWS_SEQ] - rows->first[ROWS_SEQ] + token % seqs;
        int64_t expert = box->first[ROWS_EXPERT] - rows->first[ROWS_EXPERT] + i % experts;
        chosen[(batch * rows->count[ROWS_SEQ] + seq) * rows->count[ROWS_EXPERT] + expert] =
            (uint64_t)words[i / 64] >> i % 64 & 1;
    }
}

// Members tell each other what their tokens chose. `task` is what is measured.
static bool gather_choices(struct engine *engine, int task, int dispatch)
{
    int buffer;
    const struct layout *layout = dispatched_layout(engine, dispatch, &buffer);
    const struct block_program *block = engine_block(engine, &engine->script->tasks[dispatch]);
    struct expert_rows *rows = experts_rows(engine, dispatch);
    struct member_group *group = engine_group(engine, gather_axes(engine, layout), "choices");
    if (!group) return false;
    struct held *boxes = ARENA_NEW(engine->scratch, struct held, group->count);
    int64_t words = 0;
    for (int m = 0; m < group->count; m++) {
        boxes[m] = held_of_buffer(engine->program, block, buffer, group->ranks[m]);
        int64_t wanted = (choice_count(&boxes[m]) + 63) / 64;
        if (wanted > words) words = wanted;
    }
    const struct held *own = &boxes[group->index];
    bool *chosen = ARENA_NEW(engine->scratch, bool, choice_count(own) + 1);
    expert_rows_read(rows, own, chosen);
    int64_t *mine = ARENA_NEW(engine->scratch, int64_t, words + 1);
    int64_t *all = ARENA_NEW(engine->scratch, int64_t, words * group->count + 1);
    pack_bits(chosen, choice_count(own), mine);
    int64_t bytes = words * group->count * (int64_t)sizeof *all;
    measure_bytes(engine, task, bytes);
    traffic_ring(engine, group, COLLECTIVE_ALL_GATHER, bytes);
    const char *fault = engine->transport->host_gather(group->group, mine, all, (int)words);
    if (!engine_ok(engine, task, fault)) return false;
    know_boxes(rows, boxes, group->count);
    int64_t known = rows->count[ROWS_BATCH] * rows->count[ROWS_SEQ] * rows->count[ROWS_EXPERT];
    chosen = ARENA_NEW(engine->scratch, bool, known + 1);
    for (int m = 0; m < group->count; m++)
        place_bits(rows, &boxes[m], all + m * words, chosen);
    expert_rows_make(engine->arena, rows, chosen);
    return true;
}

// The exchange of choices inside a dispatch.
static int exchange_of(const struct engine *engine, int dispatch)
{
    int task = dispatch + 1;
    while (engine->prepared[task].owner != dispatch)
        task++;
    assert(engine->script->tasks[task].slot == engine->script->tasks[dispatch].slot);
    return task;
}

// What has no room: known before the dispatch, since its tokens are not copied.
static void drop(const struct engine *engine, int dispatch, struct expert_rows *rows)
{
    int buffer;
    dispatched_layout(engine, dispatch, &buffer);
    const struct block_program *block = engine_block(engine, &engine->script->tasks[dispatch]);
    const struct tensor *tensor = &block->block->tensors[block->buffers[buffer].tensor];
    const struct workload *workload = &engine->program->workload;
    assert(rows->count[ROWS_SEQ] == workload->seq_len || rows->count[ROWS_SEQ] == 0);
    expert_rows_drop(
        rows, density_capacity(tensor->density, workload->capacity_factor, workload->seq_len));
}

bool experts_choose(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (!dispatches(engine, of) || instr_of(engine, of)->recompute) return true;
    int buffer;
    dispatched_layout(engine, task, &buffer);
    struct held own =
        held_of_buffer(engine->program, engine_block(engine, of), buffer, engine->rank);
    bool *chosen = ARENA_NEW(engine->scratch, bool, choice_count(&own) + 1);
    if (!read_choices(engine, task, &own, chosen)) return false;
    struct expert_rows *rows = experts_rows(engine, task);
    know_box(rows, &own);
    expert_rows_make(engine->arena, rows, chosen);
    if (experts_wait(engine, task) && !gather_choices(engine, exchange_of(engine, task), task))
        return false;
    if (drops(engine)) drop(engine, task, rows);
    return true;
}

bool experts_exchange_choices(struct engine *engine, int task)
{
    int dispatch = engine->prepared[task].owner;
    return drops_over_parts(engine, dispatch) || gather_choices(engine, task, dispatch);
}

bool experts_fit(struct engine *engine, int task, const struct script_operand *operand)
{
    const struct script_task *of = &engine->script->tasks[task];
    struct held box =
        held_of_buffer(engine->program, engine_block(engine, of), operand->buffer, engine->rank);
    int64_t count = expert_rows_count(experts_rows(engine, task), &box);
    int64_t row_bytes = box.count[ROWS_COLUMN] * engine->plan_bytes;
    if (count * row_bytes <= operand->bytes) return true;
    const char *text = arena_print(
        engine->scratch,
        "the tokens chose %lld rows of this rank's experts in layer %d, and there is room for "
        "%lld: plan with a larger expert imbalance",
        (long long)count, engine_sequence(engine, of), (long long)(operand->bytes / row_bytes));
    return engine_ok(engine, task, text);
}

bool experts_show(struct engine *engine, int task, struct kernel_call *call)
{
    const struct script_task *of = &engine->script->tasks[task];
    int buffer = ragged_buffer(engine, of);
    if (buffer < 0) return true;
    struct held box =
        held_of_buffer(engine->program, engine_block(engine, of), buffer, engine->rank);
    if (!engine->memory) {  // a dry run
        call->routing = ARENA_NEW(engine->scratch, struct kernel_routing, 1);
        return true;
    }
    for (int i = 0; i < of->output_count; i++) {
        bool has_rows = block_program_is_ragged(engine_block(engine, of), of->outputs[i].buffer);
        if (has_rows && !experts_fit(engine, task, &of->outputs[i])) return false;
    }
    call->routing = expert_rows_routing(engine->scratch, experts_rows(engine, task), &box);
    return true;
}
