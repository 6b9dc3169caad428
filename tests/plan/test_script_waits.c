#include "plan/script/check.h"
#include "tests/support/script_case.h"
#include "tests/support/script_change.h"
#include "tests/support/test.h"

// Tasks wait for what they have to on other streams, and for nothing else: against all pairs of
// tasks, and by taking a wait away, which the verifier must miss. What an operator makes is read
// behind the sums inside it.

struct waiting_case {
    struct draw *draw;
    struct script_case *of;
    struct script *script;
};

// Runs body on `wanted` scripts of random plans; those that it has no use for do not count.
static void for_scripts(struct draw *draw, int wanted, bool (*body)(struct waiting_case *waiting))
{
    int done = 0;
    for (int tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 200 * wanted);
        if (script_case_draw(&arena, draw, &of)) {
            script_case_write(&of);
            int stage = draw_int(draw, 0, of.program->shape.stage_count - 1);
            struct waiting_case waiting = {draw, &of, of.scripts[stage]};
            done += body(&waiting);
        }
        arena_free(&arena);
    }
}

static bool share_bytes(const struct script_operand *a, const struct script_operand *b)
{
    return a->place == PLACE_ARENA && b->place == PLACE_ARENA && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static bool share_any(const struct script_operand *a, int count, const struct script_operand *b,
                      int others)
{
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < others; k++) {
            if (share_bytes(&a[i], &b[k])) return true;
        }
    }
    return false;
}

// Whether one writes in the arena where the other reads or writes.
static bool is_conflict(const struct script_task *a, const struct script_task *b)
{
    return share_any(a->outputs, a->output_count, b->inputs, b->input_count) ||
           share_any(a->outputs, a->output_count, b->outputs, b->output_count) ||
           share_any(a->inputs, a->input_count, b->outputs, b->output_count);
}

enum { TASKS_MOST = 1200 };

// By walking from each task to all that come behind it.
static bool every_conflict_is_ordered(struct waiting_case *waiting)
{
    const struct script *script = waiting->script;
    int count = script->task_count;
    if (count > TASKS_MOST) return false;
    bool *is_behind = ARENA_NEW(waiting->of->arena, bool, count);
    for (int t = 0; t < count; t++) {
        int last[STREAM_COUNT];
        for (int s = 0; s < STREAM_COUNT; s++)
            last[s] = -1;
        for (int o = t; o < count; o++) {
            const struct script_task *other = &script->tasks[o];
            is_behind[o] = o == t || (last[other->stream] >= 0 && is_behind[last[other->stream]]);
            for (int i = 0; i < other->wait_count; i++)
                is_behind[o] = is_behind[o] || (other->waits[i] >= t && is_behind[other->waits[i]]);
            last[other->stream] = o;
            if (is_behind[o] || !is_conflict(&script->tasks[t], other)) continue;
            script_case_print(waiting->of);
            fail_msg("%s is not behind %s", script_task_name(waiting->of->arena, script, o),
                     script_task_name(waiting->of->arena, script, t));
        }
    }
    return true;
}

static void tasks_that_share_bytes_are_in_order(void **state)
{
    (void)state;
    struct draw draw = draw_start("orders", 12);
    for_scripts(&draw, script_case_count(25), every_conflict_is_ordered);
}

static bool is_found(struct waiting_case *waiting)
{
    struct arena scratch = {0};
    struct err err = {0};
    bool is_right = script_check(&scratch, (const struct script *const *)waiting->of->scripts,
                                 waiting->of->program->shape.stage_count, &err);
    arena_free(&scratch);
    if (is_right) script_case_print(waiting->of);
    assert_false(is_right);
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "wait"));
    return true;
}

static struct script_task *pick(struct waiting_case *waiting)
{
    const struct script *script = waiting->script;
    int *found = ARENA_NEW(waiting->of->arena, int, script->task_count), count = 0;
    for (int t = 0; t < script->task_count; t++) {
        if (script->tasks[t].wait_count > 0) found[count++] = t;
    }
    return count ? &script->tasks[found[draw_int(waiting->draw, 0, count - 1)]] : NULL;
}

// No wait is there that another says: every single one is missed.
static bool forgets_a_wait(struct waiting_case *waiting)
{
    struct script_task *task = pick(waiting);
    if (!task) return false;
    int at = draw_int(waiting->draw, 0, task->wait_count - 1);
    task->waits[at] = task->waits[--task->wait_count];
    return is_found(waiting);
}

// For the task before the right one on its stream.
static bool waits_for_too_little(struct waiting_case *waiting)
{
    struct script_task *task = pick(waiting);
    if (!task) return false;
    const struct script_task *tasks = waiting->script->tasks;
    int *wait = &task->waits[draw_int(waiting->draw, 0, task->wait_count - 1)], other = *wait - 1;
    while (other >= 0 && tasks[other].stream != tasks[*wait].stream)
        other--;
    if (other < 0) return false;
    *wait = other;
    return is_found(waiting);
}

static bool waits_for_what_comes(struct waiting_case *waiting)
{
    struct script_task *task = pick(waiting);
    if (!task) return false;
    int own = (int)(task - waiting->script->tasks);
    task->waits[0] = draw_int(waiting->draw, own, waiting->script->task_count - 1);
    return is_found(waiting);
}

static void a_wait_that_is_missing_or_wrong_is_found(void **state)
{
    (void)state;
    struct draw draw = draw_start("waits", 13);
    for_scripts(&draw, script_case_count(25), forgets_a_wait);
    for_scripts(&draw, script_case_count(25), waits_for_too_little);
    for_scripts(&draw, script_case_count(25), waits_for_what_comes);
}

static const struct instr *instr_of(const struct script *script, const struct script_task *task)
{
    return task->kind == TASK_INSTR ? &script->program->blocks[task->block]->instrs[task->instr]
                                    : NULL;
}

// The operator whose last sum task `at` is; NULL: it is none.
static const struct script_task *find_around(const struct script *script, int at)
{
    const struct script_task *task = &script->tasks[at];
    const struct instr *instr = instr_of(script, task);
    if (!instr || instr->inner == 0 || instr->collective != COLLECTIVE_ALL_REDUCE) return NULL;
    bool is_last = task->instr + 1 == script->program->blocks[task->block]->instr_count ||
                   instr[1].inner == 0 || instr[1].op != instr->op;
    if (!is_last) return NULL;
    for (int i = at - 1; i >= 0; i--) {
        const struct script_task *other = &script->tasks[i];
        const struct instr *op = instr_of(script, other);
        bool is_around = op && op->op == instr->op && !op->collective &&
                         op->phase == instr->phase && other->chunk == task->chunk &&
                         other->position == task->position &&
                         other->micro_batch == task->micro_batch;
        if (is_around) return other;
    }
    return NULL;
}

// The first behind task `at` that reads what an operator made where it stands; -1.
static int first_reader(const struct script *script, const struct script_task *of, int at)
{
    for (int i = at + 1; i < script->task_count; i++) {
        const struct script_task *other = &script->tasks[i];
        const struct instr *instr = instr_of(script, other);
        if (instr && instr->inner > 0) continue;
        if (share_any(of->outputs, of->output_count, other->outputs, other->output_count))
            return -1;
        if (share_any(of->outputs, of->output_count, other->inputs, other->input_count)) return i;
    }
    return -1;
}

// The sum inside an operator comes behind the first that reads what the operator makes.
static bool reads_inside_an_operator(struct waiting_case *waiting)
{
    struct script *script = waiting->script;
    int first = draw_int(waiting->draw, 0, script->task_count - 1), reader = -1, at = first;
    for (; at < script->task_count && reader < 0; at++) {
        const struct script_task *around = find_around(script, at);
        if (around) reader = first_reader(script, around, at);
    }
    if (reader < 0) return false;
    struct script_task task = script->tasks[--at];
    script_change_drop(script, at);
    script_change_insert(waiting->of->arena, script, reader, task);
    struct arena scratch = {0};
    struct err err = {0};
    bool is_right = script_check(&scratch, (const struct script *const *)waiting->of->scripts,
                                 waiting->of->program->shape.stage_count, &err);
    arena_free(&scratch);
    if (is_right) script_case_print(waiting->of);
    assert_false(is_right);
    return strstr(err.text, "before the exchanges inside") != NULL;
}

static void a_reader_inside_an_operator_is_found(void **state)
{
    (void)state;
    struct draw draw = draw_start("inside", 14);
    for_scripts(&draw, script_case_count(25), reads_inside_an_operator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_that_share_bytes_are_in_order),
        cmocka_unit_test(a_wait_that_is_missing_or_wrong_is_found),
        cmocka_unit_test(a_reader_inside_an_operator_is_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
