#include "plan/script/check.h"
#include "tests/support/script_case.h"
#include "tests/support/script_change.h"
#include "tests/support/test.h"

// Whatever is broken in right scripts is found. Every kind of fault is put into scripts of random
// plans, one at a time.

static bool is_right(struct script_case *of, struct err *err)
{
    struct arena scratch = {0};
    bool right = script_check(&scratch, (const struct script *const *)of->scripts,
                              of->program->shape.stage_count, err);
    arena_free(&scratch);
    return right;
}

// What a fault is put into: a stage's script, whose tasks may be changed and have room for more.
struct victim {
    struct draw *draw;
    struct script_case *of;
    struct script *script;
};

static int pick(struct victim *victim, bool (*fits)(const struct victim *victim, int task))
{
    int *found = ARENA_NEW(victim->of->arena, int, victim->script->task_count), count = 0;
    for (int i = 0; i < victim->script->task_count; i++) {
        if (fits(victim, i)) found[count++] = i;
    }
    return count ? found[draw_int(victim->draw, 0, count - 1)] : -1;
}

static void drop(struct script *script, int task)
{
    script_change_drop(script, task);
}

static void insert(struct victim *victim, int at, struct script_task task)
{
    script_change_insert(victim->of->arena, victim->script, at, task);
}

static void move(struct victim *victim, int from, int to)
{
    struct script_task task = victim->script->tasks[from];
    drop(victim->script, from);
    insert(victim, to, task);
}

static bool any(const struct victim *victim, int task)
{
    (void)victim;
    return task >= 0;
}

static bool drops_a_task(struct victim *victim)
{
    drop(victim->script, pick(victim, any));
    return true;
}

static bool repeats_a_task(struct victim *victim)
{
    int task = pick(victim, any);
    insert(victim, draw_int(victim->draw, task, victim->script->task_count),
           victim->script->tasks[task]);
    return true;
}

static bool is_message(const struct victim *victim, int task)
{
    enum task_kind kind = victim->script->tasks[task].kind;
    return kind == TASK_SEND || kind == TASK_RECEIVE;
}

static bool drops_a_message(struct victim *victim)
{
    int task = pick(victim, is_message);
    if (task >= 0) drop(victim->script, task);
    return task >= 0;
}

static bool repeats_a_message(struct victim *victim)
{
    int task = pick(victim, is_message);
    if (task >= 0) insert(victim, task + 1, victim->script->tasks[task]);
    return task >= 0;
}

// Two messages of one channel change places.
static bool reorders_messages(struct victim *victim)
{
    int task = pick(victim, is_message), other = task + 1;
    if (task < 0) return false;
    struct script_task *tasks = victim->script->tasks;
    while (other < victim->script->task_count &&
           (tasks[other].kind != tasks[task].kind || tasks[other].channel != tasks[task].channel ||
            tasks[other].peer_stage != tasks[task].peer_stage))
        other++;
    if (other == victim->script->task_count) return false;
    struct script_task first = tasks[task];
    tasks[task] = tasks[other];
    tasks[other] = first;
    return true;
}

static bool is_gradient_message(const struct victim *victim, int task)
{
    const struct script_task *of = &victim->script->tasks[task];
    return of->kind == TASK_RECEIVE && of->slot_kind == TASK_BACKWARD;
}

// A gradient is waited for before the activations that it follows from are sent.
static bool waits_in_a_circle(struct victim *victim)
{
    int task = pick(victim, is_gradient_message);
    if (task < 0) return false;
    move(victim, task, 0);
    return true;
}

static bool sends_elsewhere(struct victim *victim)
{
    int task = pick(victim, is_message);
    if (task < 0) return false;
    struct script_task *of = &victim->script->tasks[task];
    int *fields[] = {&of->peer_stage, &of->peer_chunk, &of->channel, &of->micro_batch};
    int *field = fields[draw_int(victim->draw, 0, 3)];
    *field += draw_int(victim->draw, 0, 1) ? 1 : -1;
    return true;
}

static bool has_input(const struct victim *victim, int task)
{
    const struct script_task *of = &victim->script->tasks[task];
    for (int i = 0; i < of->input_count; i++) {
        if (of->inputs[i].place == PLACE_ARENA && of->inputs[i].bytes > 0) return true;
    }
    return false;
}

static struct script_operand *input_of(struct victim *victim)
{
    int task = pick(victim, has_input);
    if (task < 0) return NULL;
    struct script_task *of = &victim->script->tasks[task];
    for (;;) {
        struct script_operand *operand =
            &of->inputs[draw_int(victim->draw, 0, of->input_count - 1)];
        if (operand->place == PLACE_ARENA && operand->bytes > 0) return operand;
    }
}

static bool reads_elsewhere(struct victim *victim)
{
    struct script_operand *operand = input_of(victim);
    if (!operand) return false;
    int64_t by = victim->script->alignment * draw_int(victim->draw, 1, 4);
    operand->offset += draw_int(victim->draw, 0, 1) ? by : -by;
    return true;
}

static bool reads_less_or_more(struct victim *victim)
{
    struct script_operand *operand = input_of(victim);
    if (!operand) return false;
    operand->bytes += draw_int(victim->draw, 0, 1) ? 4 : -4;
    return true;
}

static bool reads_another_buffer(struct victim *victim)
{
    struct script_operand *operand = input_of(victim);
    if (!operand) return false;
    operand->buffer += draw_int(victim->draw, 0, 1) ? 1 : -1;
    return true;
}

static bool has_output(const struct victim *victim, int task)
{
    const struct script_task *of = &victim->script->tasks[task];
    return of->output_count > 0 && of->outputs[0].place == PLACE_ARENA && of->outputs[0].bytes > 0;
}

static bool writes_another_buffer(struct victim *victim)
{
    struct script_task *task = &victim->script->tasks[pick(victim, has_output)];
    task->outputs[0].buffer += draw_int(victim->draw, 0, 1) ? 1 : -1;
    return true;
}

static bool makes_value(const struct victim *victim, int task)
{
    const struct script_task *of = &victim->script->tasks[task];
    return of->kind == TASK_INSTR && has_output(victim, task) && of->outputs[0].parameter < 0;
}

static bool writes_outside(struct victim *victim)
{
    int task = pick(victim, makes_value);
    if (task < 0) return false;
    struct script_operand *operand = &victim->script->tasks[task].outputs[0];
    int64_t arena = victim->script->arena_bytes;
    operand->offset =
        draw_int(victim->draw, 0, 1)
            ? -victim->script->alignment
            : (arena - operand->bytes) / victim->script->alignment * victim->script->alignment +
                  victim->script->alignment;
    return true;
}

static bool writes_unaligned(struct victim *victim)
{
    int task = pick(victim, makes_value);
    if (task < 0) return false;
    victim->script->tasks[task].outputs[0].offset += 4;
    return true;
}

static bool is_value(const struct script_task *task, const struct script_operand *operand,
                     const struct script_task *other, const struct script_operand *its)
{
    return its->place == PLACE_ARENA && its->buffer == operand->buffer &&
           its->offset == operand->offset && task->chunk == other->chunk &&
           task->position == other->position && task->micro_batch == other->micro_batch;
}

static void shift(struct script *script, struct script_task task, struct script_operand operand,
                  int64_t offset)
{
    for (int i = 0; i < script->task_count; i++) {
        struct script_task *other = &script->tasks[i];
        for (int k = 0; k < other->input_count; k++) {
            if (is_value(&task, &operand, other, &other->inputs[k]))
                other->inputs[k].offset = offset;
        }
        for (int k = 0; k < other->output_count; k++) {
            if (is_value(&task, &operand, other, &other->outputs[k]))
                other->outputs[k].offset = offset;
        }
    }
}

// The last task that reads the first output of `task`.
static int last_reader(const struct script *script, int task)
{
    int last = -1;
    const struct script_task *of = &script->tasks[task];
    for (int i = task + 1; i < script->task_count; i++) {
        const struct script_task *other = &script->tasks[i];
        for (int k = 0; k < other->input_count; k++) {
            if (is_value(of, &of->outputs[0], other, &other->inputs[k])) last = i;
        }
    }
    return last;
}

// A value, with all who read it, is moved to where another lives at the same time.
static bool overlaps(struct victim *victim)
{
    int task = pick(victim, makes_value);
    if (task < 0) return false;
    struct script *script = victim->script;
    int last = last_reader(script, task);
    for (int i = task + 1; i < last; i++) {
        const struct script_task *other = &script->tasks[i];
        if (!makes_value(victim, i) || last_reader(script, i) < 0) continue;
        if (other->outputs[0].offset == script->tasks[task].outputs[0].offset) continue;
        int64_t offset = script->tasks[task].outputs[0].offset;
        if (offset + other->outputs[0].bytes > script->arena_bytes) continue;
        shift(script, *other, other->outputs[0], offset);
        return true;
    }
    return false;
}

// A task changes places with one whose result it reads.
static bool reads_before_the_write(struct victim *victim)
{
    int task = pick(victim, makes_value);
    if (task < 0) return false;
    struct script *script = victim->script;
    int last = last_reader(script, task);
    if (last < 0) return false;
    move(victim, task, last);
    return true;
}

static bool is_of_step(const struct victim *victim, int task)
{
    return task_kind_is_once(victim->script->tasks[task].kind);
}

static bool drops_work_of_the_step(struct victim *victim)
{
    drop(victim->script, pick(victim, is_of_step));
    return true;
}

static bool repeats_work_of_the_step(struct victim *victim)
{
    int task = pick(victim, is_of_step);
    insert(victim, victim->script->task_count, victim->script->tasks[task]);
    return true;
}

static bool works_on_another_unit(struct victim *victim)
{
    int task = pick(victim, is_of_step);
    struct script_task *of = &victim->script->tasks[task];
    if (of->bucket < 0) return false;
    of->bucket += draw_int(victim->draw, 0, 1) ? of->bucket_count : -of->bucket_count;
    return true;
}

// Work of the step comes before the last gradient.
static bool reduces_too_early(struct victim *victim)
{
    int task = pick(victim, is_of_step);
    move(victim, task, 0);
    return true;
}

static bool has_gradient(const struct victim *victim, int task)
{
    const struct script_task *of = &victim->script->tasks[task];
    for (int i = 0; i < of->output_count; i++) {
        if (of->outputs[i].adds || of->outputs[i].place == PLACE_GRADIENT) return true;
    }
    return false;
}

static bool loses_a_gradient(struct victim *victim)
{
    int task = pick(victim, has_gradient);
    struct script_task *of = task < 0 ? NULL : &victim->script->tasks[task];
    for (int i = 0; of && i < of->output_count; i++) {
        struct script_operand *operand = &of->outputs[i];
        if (!operand->adds && operand->place != PLACE_GRADIENT) continue;
        if (draw_int(victim->draw, 0, 1)) {
            operand->adds = !operand->adds;
        } else {
            operand->parameter += operand->parameter ? -1 : 1;
        }
        return true;
    }
    return false;
}

static bool reads_weights(const struct victim *victim, int task)
{
    const struct script_task *of = &victim->script->tasks[task];
    return of->input_count > 0 && of->inputs[of->input_count - 1].place == PLACE_WEIGHT;
}

static bool reads_another_weight(struct victim *victim)
{
    int task = pick(victim, reads_weights);
    if (task < 0) return false;
    struct script_task *of = &victim->script->tasks[task];
    of->inputs[of->input_count - 1].parameter++;
    return true;
}

static bool spoils_a_unit(struct victim *victim)
{
    struct script *script = victim->script;
    if (script->unit_count == 0) return false;
    struct script_unit *unit = &script->units[draw_int(victim->draw, 0, script->unit_count - 1)];
    switch (draw_int(victim->draw, 0, 7)) {
    case 0:
        unit->first_parameter++;
        return true;
    case 1:
        unit->elements++;
        return true;
    case 2:
        unit->reduce_axes ^= 1;
        return script->program->mesh.axis_count > 0;
    case 3:
        unit->storage.optimizer_axes ^= 1;
        return script->program->mesh.axis_count > 0;
    case 4:
        unit->same_as = unit->same_as < 0 ? 0 : -1;
        return true;
    case 5:
        unit->tied = unit->tied < 0 ? 0 : -1;
        return true;
    case 6:
        script->parameters[unit->first_parameter].first++;
        return true;
    default:
        script->parameters[unit->first_parameter].index ^= 1;
        return true;
    }
}

// The block program itself says another layout for a tensor that has one of its dims split or
// could have.
static bool changes_a_layout(struct victim *victim)
{
    const struct program *program = victim->script->program;
    struct block_program *block =
        program->blocks[draw_int(victim->draw, 0, program->block_count - 1)];
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr =
            &block->instrs[draw_int(victim->draw, 0, block->instr_count - 1)];
        if (!instr->collective || block->buffers[instr->inputs[0]].tensor < 0) continue;
        for (int a = 0; a < program->mesh.axis_count; a++) {
            if (!(instr->axes >> a & 1)) continue;
            int8_t *of = &block->buffers[instr->outputs[0]].layout.of[a];
            *of = *of == LAYOUT_WHOLE ? DIM_BATCH : LAYOUT_WHOLE;
            return true;
        }
    }
    return false;
}

// The two ends of a message, or two blocks, take it in different layouts.
static bool changes_a_boundary(struct victim *victim)
{
    const struct program *program = victim->script->program;
    if (program->mesh.axis_count == 0) return false;
    struct block_program *block =
        program->blocks[draw_int(victim->draw, 0, program->block_count - 1)];
    if (block->block->role != BLOCK_LAYER) return false;
    int8_t *of = &block->buffers[block->inputs[0]].layout.of[0];
    *of = *of == LAYOUT_WHOLE ? DIM_SEQ : LAYOUT_WHOLE;
    return true;
}

static const struct {
    const char *name;
    bool (*apply)(struct victim *victim);
} FAULTS[] = {
    {"a task is missing", drops_a_task},
    {"a task is there twice", repeats_a_task},
    {"a message is missing", drops_a_message},
    {"a message is there twice", repeats_a_message},
    {"messages are out of order", reorders_messages},
    {"stages wait for each other", waits_in_a_circle},
    {"a message goes elsewhere", sends_elsewhere},
    {"an operand is read elsewhere", reads_elsewhere},
    {"an operand has another size", reads_less_or_more},
    {"an operand is another buffer", reads_another_buffer},
    {"a result is another buffer", writes_another_buffer},
    {"an operand is outside the arena", writes_outside},
    {"an operand is not aligned", writes_unaligned},
    {"two values overlap", overlaps},
    {"a value is read before it is written", reads_before_the_write},
    {"work of the step is missing", drops_work_of_the_step},
    {"work of the step is there twice", repeats_work_of_the_step},
    {"work of the step is on another bucket", works_on_another_unit},
    {"work of the step comes early", reduces_too_early},
    {"a gradient is lost", loses_a_gradient},
    {"another weight is read", reads_another_weight},
    {"a unit is wrong", spoils_a_unit},
    {"a layout is changed", changes_a_layout},
    {"a boundary is changed", changes_a_boundary},
};
enum { FAULT_COUNT = sizeof FAULTS / sizeof *FAULTS };

// Faults one after the other, each in fresh scripts of a fresh plan.
static void every_fault_is_found(void **state)
{
    (void)state;
    struct draw draw = draw_start("faults", 11);
    int found[FAULT_COUNT] = {0}, wanted = script_case_count(6);
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        for (int tries = 0; found[fault] < wanted; tries++) {
            struct arena arena = {0};
            struct script_case of;
            assert_true(tries < 200 * wanted);
            if (script_case_draw(&arena, &draw, &of)) {
                script_case_write(&of);
                int stage = draw_int(&draw, 0, of.program->shape.stage_count - 1);
                struct victim victim = {&draw, &of, of.scripts[stage]};
                struct err err = {0};
                bool is_broken = FAULTS[fault].apply(&victim);
                found[fault] += is_broken;
                if (is_broken && is_right(&of, &err)) {
                    script_case_print(&of);
                    fail_msg("not found in stage %d: %s", stage, FAULTS[fault].name);
                }
                assert_true(!is_broken || err.kind == ERR_INPUT);
                if (is_broken && getenv("MESHWRIGHT_LINES")) print_message("# %s\n", err.text);
            }
            arena_free(&arena);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_is_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
