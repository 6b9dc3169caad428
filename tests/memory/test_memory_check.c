#include "memory/check.h"
#include "tests/support/test.h"

#include <string.h>

// The checker sees every way in which an answer can be wrong: a right one is broken in one place.

// x is there from the start; a makes y of x, b overwrites y by z, c reads z and makes the kept r.
// w is persistent; b needs workspace.
enum { X, W, Y, Z, R, TENSOR_COUNT };
enum { A, B, C, OPERATOR_COUNT };

struct check_setup {
    struct arena arena;
    struct memory_graph *graph;
    struct memory_problem *problem;
    struct memory_schedule schedule;
    int order[OPERATOR_COUNT];
    int64_t *birth, *death, *offsets;
};

static struct memory_graph *graph_of(struct arena *arena)
{
    static const int A_IN[] = {X, W}, A_OUT[] = {Y}, B_IN[] = {Y}, B_OUT[] = {Z}, C_IN[] = {Z},
                     C_OUT[] = {R};
    const struct memory_tensor tensors[] = {
        [X] = {.name = "x", .bytes = 100, .producer = -1, .shares = -1},
        [W] = {.name = "w", .bytes = 5000, .producer = -1, .shares = -1, .persistent = true},
        [Y] = {.name = "y", .bytes = 64, .producer = A, .shares = -1},
        [Z] = {.name = "z", .bytes = 64, .producer = B, .shares = Y, .overwrites = true},
        [R] = {.name = "r", .bytes = 10, .producer = C, .shares = -1, .kept = true},
    };
    const struct memory_operator operators[] = {
        [A] = {.name = "a", A_IN, A_OUT, 2, 1},
        [B] = {.name = "b", B_IN, B_OUT, 1, 1, .workspace_bytes = 40},
        [C] = {.name = "c", C_IN, C_OUT, 1, 1},
    };
    struct memory_graph *graph = ARENA_NEW(arena, struct memory_graph, 1);
    graph->name = "three";
    graph->operators = ARENA_NEW(arena, struct memory_operator, OPERATOR_COUNT);
    graph->operator_count = OPERATOR_COUNT;
    graph->tensors = ARENA_NEW(arena, struct memory_tensor, TENSOR_COUNT);
    graph->tensor_count = TENSOR_COUNT;
    memcpy(graph->operators, operators, sizeof operators);
    memcpy(graph->tensors, tensors, sizeof tensors);
    struct err err = {0};
    assert_true(memory_graph_finish(arena, graph, "three", &err));
    return graph;
}

static int buffer_of(const struct check_setup *setup, int tensor)
{
    for (int b = 0; b < setup->problem->buffer_count; b++) {
        if (setup->problem->buffers[b].tensor == tensor) return b;
    }
    fail();
    return -1;
}

// x 112 bytes in step 0, y and z 64 in steps 0 to 2, workspace 48 in step 1, r 16 in step 2.
static void set_up(struct check_setup *setup)
{
    *setup = (struct check_setup){.order = {A, B, C}};
    struct arena *arena = &setup->arena;
    setup->graph = graph_of(arena);
    setup->problem = memory_problem_make(arena, setup->graph, 16);
    int count = setup->problem->buffer_count;
    assert_int_equal(count, 4);
    setup->birth = ARENA_NEW(arena, int64_t, count);
    setup->death = ARENA_NEW(arena, int64_t, count);
    setup->offsets = ARENA_NEW(arena, int64_t, count);
    int x = buffer_of(setup, X), y = buffer_of(setup, Y), r = buffer_of(setup, R),
        workspace = buffer_of(setup, -1);
    const struct {
        int buffer, birth, death, offset;
    } rows[] = {{x, 0, 1, 64}, {y, 0, 3, 0}, {r, 2, 3, 64}, {workspace, 1, 2, 64}};
    for (int i = 0; i < 4; i++) {
        setup->birth[rows[i].buffer] = rows[i].birth;
        setup->death[rows[i].buffer] = rows[i].death;
        setup->offsets[rows[i].buffer] = rows[i].offset;
    }
    setup->schedule = (struct memory_schedule){
        .method = MEMORY_ROAM,
        .order = setup->order,
        .birth = setup->birth,
        .death = setup->death,
        .offsets = setup->offsets,
        .buffer_count = count,
        .live_bytes = 176,
        .arena_bytes = 176,
        .bound_bytes = 176,
        .fits = true,
    };
}

static bool holds(struct check_setup *setup, int64_t capacity, const char *wanted)
{
    const char *why = "";
    bool ok = check_graph(&setup->arena, setup->graph, setup->problem, 16, capacity,
                          &setup->schedule, &why);
    if (!ok && wanted && !strstr(why, wanted)) fail_msg("expected %s, found %s", wanted, why);
    return ok;
}

static void a_right_answer_passes(void **state)
{
    (void)state;
    struct check_setup setup;
    set_up(&setup);
    if (!holds(&setup, 176, "-")) fail();
    arena_free(&setup.arena);
}

static void break_order(struct check_setup *setup)
{
    setup->order[0] = B;
    setup->order[1] = A;
}
static void run_twice(struct check_setup *setup)
{
    setup->order[2] = A;
}
static void overlap(struct check_setup *setup)
{
    setup->offsets[buffer_of(setup, X)] = 48;
}
static void misalign(struct check_setup *setup)
{
    setup->offsets[buffer_of(setup, R)] = 65;
}
static void sink(struct check_setup *setup)
{
    setup->offsets[buffer_of(setup, R)] = -16;
}
static void understate_live(struct check_setup *setup)
{
    setup->schedule.live_bytes = 160;
    setup->schedule.bound_bytes = 160;
}
static void understate_arena(struct check_setup *setup)
{
    setup->schedule.arena_bytes = 160;
}
static void overstate_bound(struct check_setup *setup)
{
    setup->schedule.bound_bytes = 192;
    setup->schedule.arena_bytes = 192;
}
static void free_early(struct check_setup *setup)
{
    setup->death[buffer_of(setup, Y)] = 2;
}
static void make_late(struct check_setup *setup)
{
    setup->birth[buffer_of(setup, X)] = 1;
}
static void claim_not_to_fit(struct check_setup *setup)
{
    setup->schedule.fits = false;
}
static void lose_a_buffer(struct check_setup *setup)
{
    setup->schedule.buffer_count--;
}
// An in-place result is only right when nobody reads the old value afterwards.
static void read_the_overwritten(struct check_setup *setup)
{
    static const int C_IN[] = {Y, Z};
    setup->graph->operators[C].inputs = C_IN;
    setup->graph->operators[C].input_count = 2;
}
static void come_before(struct check_setup *setup)
{
    static const int AFTER[] = {C};
    setup->graph->operators[A].after = AFTER;
    setup->graph->operators[A].after_count = 1;
}

static void every_fault_is_seen(void **state)
{
    (void)state;
    const struct {
        void (*damage)(struct check_setup *);
        const char *why;
    } rows[] = {
        {break_order, "before its input"},
        {run_twice, "run twice"},
        {overlap, "overlap"},
        {misalign, "not aligned"},
        {sink, "negative offset"},
        {understate_live, "bytes alive at once"},
        {understate_arena, "arena below"},
        {overstate_bound, "bound above"},
        {free_early, "lifetime"},
        {make_late, "lifetime"},
        {claim_not_to_fit, "fits"},
        {lose_a_buffer, "buffers"},
        {read_the_overwritten, "overwritten"},
        {come_before, "comes after"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct check_setup setup;
        set_up(&setup);
        rows[i].damage(&setup);
        if (holds(&setup, 0, rows[i].why)) fail_msg("not seen: %s", rows[i].why);
        arena_free(&setup.arena);
    }
}

static void a_capacity_that_is_passed_is_seen(void **state)
{
    (void)state;
    struct check_setup setup;
    set_up(&setup);
    assert_false(holds(&setup, 175, "fits"));
    setup.schedule.fits = false;
    assert_true(holds(&setup, 175, NULL));
    setup.schedule.infeasible = true;
    assert_true(holds(&setup, 175, NULL));
    setup.schedule.fits = true;
    assert_false(holds(&setup, 176, "infeasible"));
    arena_free(&setup.arena);
}

static bool packing_holds(const struct pack_problem *problem, const int64_t *offsets,
                          int64_t live_bytes, int64_t arena_bytes, const char *wanted)
{
    struct arena scratch = {0};
    const struct memory_schedule schedule = {
        .method = MEMORY_ROAM,
        .offsets = offsets,
        .buffer_count = problem->count,
        .live_bytes = live_bytes,
        .bound_bytes = live_bytes,
        .arena_bytes = arena_bytes,
        .fits = problem->capacity == 0 || arena_bytes <= problem->capacity,
    };
    const char *why = "";
    bool ok = check_packing(&scratch, problem, &schedule, &why);
    if (!ok && !strstr(why, wanted)) fail_msg("expected %s, found %s", wanted, why);
    arena_free(&scratch);
    return ok;
}

static void packings_are_judged_as_well(void **state)
{
    (void)state;
    // The third begins when the first ends; the last never lives.
    const struct pack_buffer buffers[] = {
        {.lower = -5, .upper = 10, .size = 4, .alignment = 1, .fixed_offset = -1},
        {.lower = 0, .upper = 20, .size = 3, .alignment = 2, .fixed_offset = 4},
        {.lower = 10, .upper = 11, .size = 4, .alignment = 1, .fixed_offset = -1},
        {.lower = 7, .upper = 7, .size = 900, .alignment = 1, .fixed_offset = -1},
    };
    const struct pack_problem problem = {buffers, 4, 7};
    const int64_t right[] = {0, 4, 0, 0}, meets[] = {0, 4, 1, 0}, odd[] = {0, 5, 0, 0},
                  moved[] = {0, 6, 0, 0}, high[] = {0, 4, 7, 0};
    assert_true(packing_holds(&problem, right, 7, 7, ""));
    assert_false(packing_holds(&problem, meets, 7, 7, "overlap"));
    assert_false(packing_holds(&problem, odd, 7, 7, "aligned"));
    assert_false(packing_holds(&problem, moved, 7, 9, "pre-placed"));
    assert_false(packing_holds(&problem, high, 7, 7, "arena below"));
    assert_false(packing_holds(&problem, right, 6, 7, "bytes alive"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_answer_passes),
        cmocka_unit_test(every_fault_is_seen),
        cmocka_unit_test(a_capacity_that_is_passed_is_seen),
        cmocka_unit_test(packings_are_judged_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
