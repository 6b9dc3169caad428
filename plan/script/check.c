#include "plan/script/check.h"

#include "plan/script/checking.h"

#include <stdarg.h>
#include <string.h>

// All stages side by side, each as far as it gets: sends do not wait, receives wait for their
// message, and what stages do together for all of them.

const struct script_task *check_task(const struct check_stage *stage)
{
    return &stage->script->tasks[stage->next];
}

bool check_fail(const struct checking *checking, const struct check_stage *stage,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprint(checking->arena, format, args);
    va_end(args);
    bool is_over = stage->next >= stage->script->task_count;
    const char *task =
        is_over ? "at its end" : script_task_name(checking->arena, stage->script, stage->next);
    return err_set(checking->err, ERR_INPUT, "stage %d, %s: %s", stage->script->stage, task, text);
}

bool check_fail_unit(const struct checking *checking, const struct check_stage *stage, int unit,
                     const char *what)
{
    return err_set(checking->err, ERR_INPUT, "stage %d, unit %d: %s", stage->script->stage, unit,
                   what);
}

const struct parameter *check_described(const struct script *script, int index)
{
    const struct script_parameter *of = &script->parameters[index];
    return &script->program->blocks[of->block]->parameters[of->index];
}

int check_stored(const struct script *script, int unit)
{
    return script->units[unit].same_as >= 0 ? script->units[unit].same_as : unit;
}

const char *check_buffer_name(const struct block_program *block, int buffer)
{
    if (buffer < 0 || buffer >= block->buffer_count) return "a buffer that is not there";
    int tensor = block->buffers[buffer].tensor;
    return tensor < 0 ? "a flat buffer" : block->block->tensors[tensor].name;
}

static struct check_link *links_of(const struct checking *checking, int from, int to)
{
    return &checking->links[(from * checking->stage_count + to) * checking->channel_count];
}

// Of a message, by its receiver's chunk and direction.
static struct check_link *link_of(const struct checking *checking,
                                  const struct boundary_message *message)
{
    int channel = 2 * message->to_chunk + message->is_backward;
    return &links_of(checking, message->from_stage, message->to_stage)[channel];
}

static void link_add(struct arena *arena, struct check_link *link, int task)
{
    ARENA_GROW(arena, link->tasks, link->count, link->capacity);
    link->tasks[link->count++] = task;
}

// Whether the stage and chunk that a task names are those of its first message.
static bool is_neighbour(const struct check_stage *stage, const struct script_task *task)
{
    struct boundary_message message;
    bool is_send = task->kind == TASK_SEND;
    if (!script_message(stage->script, task, 0, &message)) return false;
    return task->peer_stage == (is_send ? message.to_stage : message.from_stage) &&
           task->peer_chunk == (is_send ? message.to_chunk : message.from_chunk);
}

static bool has_channel(const struct script_task *task, int own_chunk, bool is_send)
{
    int chunk = is_send ? task->peer_chunk : own_chunk;
    return task->channel == 2 * chunk + (task->slot_kind != TASK_FORWARD);
}

// Operands of a task in front of those of a message.
static int operands_before(const struct script *script, const struct script_task *task,
                           const struct boundary_message *message)
{
    struct boundary_message other;
    int count = 0;
    for (int n = 0; script_message(script, task, n, &other); n++) {
        if (other.from_stage == message->from_stage && other.to_stage == message->to_stage) break;
        count += boundary_tensor_count(script->program, &other);
    }
    return count;
}

// Tensors of a message as the two ends name them.
static bool is_same_payload(const struct checking *checking, const struct check_stage *stage,
                            const struct script_task *sent, const struct boundary_message *message)
{
    const struct script *sender = checking->scripts[message->from_stage];
    const struct script_task *got = check_task(stage);
    int count = boundary_tensor_count(checking->program, message);
    int first = operands_before(sender, sent, message);
    int first_got = operands_before(stage->script, got, message);
    if (first + count > sent->input_count || first_got + count > got->output_count) return false;
    const struct block_program *from = checking->program->blocks[sent->block];
    const struct block_program *to = checking->program->blocks[got->block];
    for (int i = 0; i < count; i++) {
        const struct script_operand *a = &sent->inputs[first + i];
        const struct script_operand *b = &got->outputs[first_got + i];
        const struct buffer *left = &from->buffers[a->buffer], *right = &to->buffers[b->buffer];
        bool is_alike = a->bytes == b->bytes && layout_equal(&left->layout, &right->layout);
        if (!is_alike && !check_is_resharded(checking, sent->block, left, got->block, right))
            return false;
    }
    return true;
}

static bool receive_message(const struct checking *checking, struct check_stage *stage,
                            const struct boundary_message *message)
{
    const struct script_task *task = check_task(stage);
    struct check_link *link = link_of(checking, message);
    const struct script *other = checking->scripts[message->from_stage];
    int number = link->tasks[link->taken++];
    const struct script_task *sent = &other->tasks[number];
    bool is_wanted = sent->micro_batch == task->micro_batch && sent->chunk == message->from_chunk &&
                     sent->slot_kind == task->slot_kind;
    if (!is_wanted)
        return check_fail(checking, stage, "the next message from stage %d is that of %s",
                          message->from_stage, script_task_name(checking->arena, other, number));
    if (!is_same_payload(checking, stage, sent, message))
        return check_fail(checking, stage, "its tensors, bytes or layouts are not those of %s",
                          script_task_name(checking->arena, other, number));
    return true;
}

static bool receive(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    struct boundary_message message;
    int count = 0;
    for (int n = 0; script_message(stage->script, task, n, &message); n++) {
        if (!receive_message(checking, stage, &message)) return false;
        count += boundary_tensor_count(checking->program, &message);
    }
    return count == task->output_count ||
           check_fail(checking, stage, "gets %d tensors, of which %d are sent", task->output_count,
                      count);
}

static void send(const struct checking *checking, const struct check_stage *stage)
{
    struct boundary_message message;
    for (int n = 0; script_message(stage->script, check_task(stage), n, &message); n++)
        link_add(checking->arena, link_of(checking, &message), stage->next);
}

// Whether all messages that a task gets are under way.
static bool has_come(const struct checking *checking, const struct check_stage *stage)
{
    struct boundary_message message;
    for (int n = 0; script_message(stage->script, check_task(stage), n, &message); n++) {
        const struct check_link *link = link_of(checking, &message);
        if (link->taken == link->count) return false;
    }
    return true;
}

static bool is_peer(const struct checking *checking, const struct script_task *task)
{
    return task->chunk >= 0 && task->chunk < checking->program->shape.chunk_count &&
           task->peer_stage >= 0 && task->peer_stage < checking->stage_count &&
           task->channel < checking->channel_count && task->channel >= 0;
}

// The tie that the next task of a stage sums; NULL: none.
static const struct tied *tie_of(const struct checking *checking, const struct check_stage *stage)
{
    if (stage->next >= stage->script->task_count) return NULL;
    const struct script_task *task = check_task(stage);
    bool is_of = task->kind == TASK_TIED_REDUCE && task->bucket >= 0 &&
                 task->bucket < stage->script->bucket_count;
    int tied = is_of ? stage->script->buckets[task->bucket].tied : -1;
    return tied < 0 || tied >= checking->program->tie_count ? NULL : &checking->program->ties[tied];
}

// Whether the next task of a stage need not wait for others.
static bool is_ready(const struct checking *checking, const struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    if (task->kind == TASK_RECEIVE && is_peer(checking, task)) return has_come(checking, stage);
    const struct tied *tied = tie_of(checking, stage);
    for (int i = 0; tied && i < tied->stage_count; i++)
        if (tie_of(checking, &checking->stages[tied->stages[i]]) != tied) return false;
    for (int s = 0; task->kind == TASK_NORM && s < checking->stage_count; s++) {
        const struct check_stage *other = &checking->stages[s];
        bool is_there =
            other->next < other->script->task_count && check_task(other)->kind == TASK_NORM;
        if (!is_there) return false;
    }
    return true;
}

// One task done. Those that several stages do together are done by all of them.
static bool advance(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    bool is_send = task->kind == TASK_SEND, is_message = is_send || task->kind == TASK_RECEIVE;
    bool has_neighbour = is_message && is_peer(checking, task) && is_neighbour(stage, task) &&
                         has_channel(task, task->chunk, is_send);
    if (is_message && !has_neighbour)
        return check_fail(checking, stage,
                          "goes to or comes from chunk %d of stage %d, which is "
                          "no neighbour",
                          task->peer_chunk, task->peer_stage);
    bool is_step = task_kind_is_once(task->kind);
    if (!check_begin(checking, stage)) return false;
    bool is_right = is_step ? check_step_task(checking, stage) : check_flow_task(checking, stage);
    if (!is_right) return false;
    if (task->kind == TASK_RECEIVE && !receive(checking, stage)) return false;
    if (is_send) send(checking, stage);
    stage->next++;
    return true;
}

// The stages that a task is done together with, this one among them.
static bool advance_together(const struct checking *checking, struct check_stage *stage)
{
    enum task_kind kind = check_task(stage)->kind;
    const struct tied *tied = tie_of(checking, stage);
    for (int i = 0; tied && i < tied->stage_count; i++)
        if (!advance(checking, &checking->stages[tied->stages[i]])) return false;
    if (tied) return true;
    for (int s = 0; kind == TASK_NORM && s < checking->stage_count; s++) {
        if (!advance(checking, &checking->stages[s])) return false;
    }
    return kind == TASK_NORM || advance(checking, stage);
}

static bool stuck(const struct checking *checking)
{
    const char *text = NULL;
    for (int s = 0; s < checking->stage_count; s++) {
        const struct check_stage *stage = &checking->stages[s];
        if (stage->next >= stage->script->task_count) continue;
        const char *task = script_task_name(checking->arena, stage->script, stage->next);
        const char *here = arena_print(checking->arena, "stage %d at %s", s, task);
        text = text ? arena_print(checking->arena, "%s, %s", text, here) : here;
    }
    return err_set(checking->err, ERR_INPUT, "waiting for ever: %.900s", text);
}

static bool play(const struct checking *checking)
{
    for (;;) {
        bool is_over = true, has_moved = false;
        for (int s = 0; s < checking->stage_count; s++) {
            struct check_stage *stage = &checking->stages[s];
            while (stage->next < stage->script->task_count && is_ready(checking, stage)) {
                if (!advance_together(checking, stage)) return false;
                has_moved = true;
            }
            is_over = is_over && stage->next == stage->script->task_count;
        }
        if (is_over) return true;
        if (!has_moved) return stuck(checking);
    }
}

static bool check_taken(const struct checking *checking, int from, int to)
{
    for (int c = 0; c < checking->channel_count; c++) {
        const struct check_link *link = &links_of(checking, from, to)[c];
        if (link->taken == link->count) continue;
        return err_set(
            checking->err, ERR_INPUT, "stage %d, %s: nobody receives it", from,
            script_task_name(checking->arena, checking->scripts[from], link->tasks[link->taken]));
    }
    return true;
}

static bool check_ends(const struct checking *checking)
{
    for (int from = 0; from < checking->stage_count; from++) {
        for (int to = 0; to < checking->stage_count; to++) {
            if (!check_taken(checking, from, to)) return false;
        }
        if (!check_step_end(checking, &checking->stages[from])) return false;
    }
    return true;
}

static void read_chunks(const struct checking *checking, struct check_stage *stage)
{
    const struct program *program = checking->program;
    int chunks = program->shape.chunk_count;
    stage->block_at = ARENA_NEW(checking->arena, int *, chunks);
    stage->moved_at = ARENA_NEW(checking->arena, unsigned *, chunks);
    stage->first_parameter = ARENA_NEW(checking->arena, int *, chunks);
    stage->block_count = ARENA_NEW(checking->arena, int, chunks);
    for (int c = 0; c < chunks; c++) {
        int at = stage->script->stage * chunks + c, count = program->spans[at].count;
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        stage->block_at[c] = ARENA_NEW(checking->arena, int, count);
        stage->moved_at[c] = ARENA_NEW(checking->arena, unsigned, count);
        stage->first_parameter[c] = ARENA_NEW(checking->arena, int, count);
        for (int u = 0; u < chunk->use_count; u++) {
            for (int i = 0; i < chunk->uses[u].count; i++) {
                int position = stage->block_count[c]++;
                stage->block_at[c][position] = chunk->uses[u].block_program;
                stage->moved_at[c][position] = chunk->uses[u].moved;
            }
        }
    }
}

static struct checking start(struct arena *arena, const struct script *const *scripts,
                             int stage_count, struct err *err)
{
    const struct program *program = scripts[0]->program;
    int channels = 2 * program->shape.chunk_count;
    struct checking checking = {
        .arena = arena,
        .program = program,
        .scripts = scripts,
        .stage_count = stage_count,
        .stages = ARENA_NEW(arena, struct check_stage, stage_count),
        .blocks = ARENA_NEW(arena, struct check_block, program->block_count),
        .channel_count = channels,
        .links = ARENA_NEW(arena, struct check_link, stage_count * stage_count * channels),
        .err = err,
    };
    for (int b = 0; b < program->block_count; b++)
        checking.blocks[b] = check_block_make(arena, program, program->blocks[b]);
    int works = program->shape.micro_batch_count * program->shape.chunk_count;
    for (int s = 0; s < stage_count; s++) {
        struct check_stage *stage = &checking.stages[s];
        stage->script = scripts[s];
        stage->map.arena = arena;
        stage->works = ARENA_NEW(arena, struct check_work *, works);
        read_chunks(&checking, stage);
    }
    return checking;
}

bool script_check(struct arena *scratch, const struct script *const *scripts, int stage_count,
                  struct err *err)
{
    const struct program *program = scripts[0]->program;
    bool has_all = stage_count == program->shape.stage_count;
    for (int s = 0; s < stage_count && has_all; s++)
        has_all = program_is_same(scripts[s]->program, program) && scripts[s]->stage == s;
    if (!has_all) return err_set(err, ERR_INPUT, "not the scripts of all stages of one program");
    struct checking checking = start(scratch, scripts, stage_count, err);
    return check_layouts(&checking) && check_state(&checking) && play(&checking) &&
           check_ends(&checking);
}

// A task without looking into it. What stages do together comes behind the last message.
static bool go_on(const struct checking *checking, struct check_stage *stage)
{
    if (stage->next == stage->script->task_count) return false;
    const struct script_task *task = check_task(stage);
    if (task->kind == TASK_TIED_REDUCE || task->kind == TASK_NORM) {
        stage->next = stage->script->task_count;
        return true;
    }
    if (!is_ready(checking, stage)) return false;
    struct boundary_message message;
    for (int n = 0; task->kind == TASK_RECEIVE; n++) {
        if (!script_message(stage->script, task, n, &message)) break;
        link_of(checking, &message)->taken++;
    }
    if (task->kind == TASK_SEND) send(checking, stage);
    stage->next++;
    return true;
}

// Everybody else goes as far as they can before `last` does a task.
static int most_to(const struct checking *checking, int last)
{
    int most = 0;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int s = 0; s < checking->stage_count; s++) {
            while (s != last && go_on(checking, &checking->stages[s]))
                has_moved = true;
        }
        for (int s = 0; s < checking->stage_count; s++) {
            const struct check_link *links = links_of(checking, s, last);
            int under_way = 0;
            for (int c = 0; c < checking->channel_count; c++)
                under_way += links[c].count - links[c].taken;
            if (under_way > most) most = under_way;
        }
        if (!has_moved) has_moved = go_on(checking, &checking->stages[last]);
    }
    return most;
}

int script_messages_under_way(struct arena *scratch, const struct script *const *scripts,
                              int stage_count)
{
    int most = 0, channels = 2 * scripts[0]->program->shape.chunk_count;
    for (int last = 0; last < stage_count; last++) {
        struct arena_mark mark = arena_mark(scratch);
        struct checking checking = {
            .arena = scratch,
            .program = scripts[0]->program,
            .scripts = scripts,
            .stage_count = stage_count,
            .stages = ARENA_NEW(scratch, struct check_stage, stage_count),
            .channel_count = channels,
            .links = ARENA_NEW(scratch, struct check_link, stage_count * stage_count * channels),
        };
        for (int s = 0; s < stage_count; s++)
            checking.stages[s].script = scripts[s];
        int found = most_to(&checking, last);
        if (found > most) most = found;
        arena_reset(scratch, mark);
    }
    return most;
}
