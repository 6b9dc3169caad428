#include "plan/script/checking.h"
#include "tests/support/test.h"

#include <string.h>

// Bytes of the arena that tasks of several streams write and read: who has to wait for whom, on six
// tasks worked by hand. 0 and 1 have streams of their own; 2, on a third, waits for both; 3, on
// that of 0, for nobody; 4, on that of 1, for 2; 5, on that of 0, for 1.

enum { TASKS = 6 };

struct uses_case {
    struct script_task tasks[TASKS];
    struct script script;
    struct check_stage stage;
    struct checking checking;
    struct err err;
};

static const enum stream STREAMS[TASKS] = {0, 1, 2, 0, 1, 0};
static int WAITS[TASKS][2] = {{0}, {0}, {0, 1}, {0}, {2}, {1}};
static const int WAIT_COUNTS[TASKS] = {0, 0, 2, 0, 1, 1};

// What a task does with bytes [first, end), and whether it may.
struct step {
    int task;
    int64_t first, end;
    bool writes, is_right;
};

static void start(struct arena *arena, struct uses_case *of)
{
    memset(of, 0, sizeof *of);
    for (int t = 0; t < TASKS; t++) {
        of->tasks[t] = (struct script_task){.kind = TASK_NORM,
                                            .stream = STREAMS[t],
                                            .waits = WAITS[t],
                                            .wait_count = WAIT_COUNTS[t],
                                            .unit = -1};
    }
    of->script = (struct script){.tasks = of->tasks, .task_count = TASKS};
    of->stage = (struct check_stage){.script = &of->script};
    of->checking =
        (struct checking){.arena = arena, .stages = &of->stage, .stage_count = 1, .err = &of->err};
}

// All steps but the last are right; tasks without one begin and do nothing.
static void check(struct arena *arena, const char *name, const struct step *steps, int count)
{
    struct uses_case of;
    start(arena, &of);
    int at = 0;
    for (int t = 0; t < TASKS && at < count; t++) {
        of.stage.next = t;
        assert_true(check_begin(&of.checking, &of.stage));
        for (; at < count && steps[at].task == t; at++) {
            const struct step *step = &steps[at];
            bool done =
                check_use_bytes(&of.checking, &of.stage, step->first, step->end, step->writes);
            if (done != step->is_right) fail_msg("%s, step %d: %s", name, at, of.err.text);
        }
    }
    assert_int_equal(at, count);
}

#define CHECK(state, name, ...)                               \
    check(*(state), name, (const struct step[]){__VA_ARGS__}, \
          (int)(sizeof((const struct step[]){__VA_ARGS__}) / sizeof(struct step)))

static void who_reads_waits_for_who_wrote(void **state)
{
    CHECK(state, "for both", {0, 0, 8, true, true}, {1, 8, 16, true, true},
          {2, 0, 16, false, true});
    CHECK(state, "for one", {0, 0, 8, true, true}, {1, 0, 8, false, false});
    CHECK(state, "through another", {0, 0, 8, true, true}, {4, 0, 8, false, true});
    CHECK(state, "on its stream", {0, 0, 8, true, true}, {5, 2, 6, false, true});
    CHECK(state, "nobody", {1, 0, 8, true, true}, {2, 0, 8, true, true}, {5, 0, 8, false, false});
    // Beside what was written, and nothing at all.
    CHECK(state, "beside", {0, 0, 8, true, true}, {1, 8, 9, false, true}, {2, 4, 4, false, true});
    CHECK(state, "its last byte", {0, 0, 8, true, true}, {1, 7, 9, false, false});
    CHECK(state, "its first byte", {0, 4, 8, true, true}, {1, 0, 5, false, false});
}

// What is read in one go stays as many pieces, each with its own writer and readers.
static void who_reads_makes_nothing_one(void **state)
{
    CHECK(state, "second writer", {0, 0, 8, true, true}, {1, 8, 16, true, true},
          {2, 0, 16, false, true}, {3, 8, 16, false, false});
    CHECK(state, "first writer", {1, 0, 8, true, true}, {2, 8, 16, true, true},
          {2, 0, 16, false, true}, {5, 0, 8, false, true});
    CHECK(state, "second reader", {0, 0, 16, true, true}, {2, 8, 16, false, true},
          {3, 0, 8, true, true}, {3, 8, 16, true, false});
}

// What is written in one go has one writer, and nobody has read it since.
static void who_writes_makes_pieces_one(void **state)
{
    CHECK(state, "over both", {0, 0, 8, true, true}, {1, 8, 16, true, true}, {2, 0, 16, true, true},
          {4, 0, 16, false, true}, {5, 12, 13, false, false});
    CHECK(state, "over a reader", {0, 0, 16, true, true}, {2, 4, 8, false, true},
          {3, 0, 16, true, false});
    CHECK(state, "between", {0, 0, 16, true, true}, {2, 4, 8, true, true}, {4, 4, 8, false, true},
          {5, 0, 4, false, true}, {5, 8, 16, false, true}, {5, 3, 5, false, false});
    CHECK(state, "readers are gone", {0, 0, 16, true, true}, {2, 0, 16, true, true},
          {4, 0, 16, true, true});
    // What stands behind pieces that became one is as it was, and there once.
    CHECK(state, "kept", {0, 0, 4, true, true}, {0, 8, 12, true, true}, {1, 16, 20, true, true},
          {2, 2, 10, true, true}, {3, 16, 20, false, false});
    CHECK(state, "once", {0, 0, 4, true, true}, {0, 6, 8, true, true}, {1, 16, 20, true, true},
          {2, 10, 12, true, true}, {2, 2, 10, true, true}, {5, 16, 30, true, true});
    CHECK(state, "what follows", {0, 0, 4, true, true}, {0, 8, 12, true, true},
          {1, 16, 20, true, true}, {2, 2, 10, true, true}, {5, 16, 20, false, true},
          {5, 10, 12, true, true}, {5, 9, 10, false, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_reads_waits_for_who_wrote),
        cmocka_unit_test(who_reads_makes_nothing_one),
        cmocka_unit_test(who_writes_makes_pieces_one),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
