#include "tests/support/exchange_bench.h"

#include "executor/engine/away.h"
#include "executor/engine/moved.h"

#include <stdlib.h>
#include <unistd.h>

// What leaves the device and comes back: activations to rooms of the host, and parameters from a
// drive, which are read ahead.

enum { TASKS = 6 };

// Values of 2 rows and 3 columns at the numbers 0 .. 5 and 10 .. 15; each task is of a micro-batch.
static struct engine *open_copies(struct arena *arena, struct exchange_bench *bench,
                                  struct script_task *tasks, const int *micro_batches, int count)
{
    static struct prepared prepared[TASKS];
    struct engine *engine = exchange_open(arena, bench, 2, 3);
    for (int t = 0; t < count; t++) {
        bool leaves = micro_batches[t] > 0;  // negative: comes back
        tasks[t] = bench->task;
        tasks[t].kind = leaves ? TASK_COPY_OUT : TASK_COPY_IN;
        tasks[t].micro_batch = abs(micro_batches[t]);
        tasks[t].input_count = leaves ? 2 : 0;
        tasks[t].output_count = leaves ? 0 : 2;
        tasks[t].outputs = bench->inputs;
        tasks[t].in_graph = 0;
        prepared[t] = (struct prepared){.source = -1, .rows = -1};
    }
    bench->inputs[0] = (struct script_operand){.buffer = 0, .parameter = -1, .bytes = 48};
    bench->inputs[1] =
        (struct script_operand){.buffer = 1, .parameter = -1, .offset = 80, .bytes = 56};
    bench->rank.script.tasks = tasks;
    bench->rank.script.task_count = count;
    engine->prepared = prepared;
    assert_true(measure_open(engine));
    return engine;
}

static void fill(struct exchange_bench *bench, double base)
{
    for (int i = 0; i < 20; i++)
        bench->from[i] = base + i;
}

static void check_back(const struct exchange_bench *bench, double base, double beside)
{
    for (int i = 0; i < 20; i++) {
        bool is_value = i < 6 || (i >= 10 && i < 16);
        assert_true(bench->from[i] == (is_value ? base : beside) + i);
    }
}

// Two are away at a time; the third takes the room of what came back.
static void rooms_of_what_came_back_are_used_again(void **state)
{
    static const int ORDER[TASKS] = {1, 2, -2, 3, -1, -3};
    struct exchange_bench bench;
    struct script_task tasks[TASKS];
    struct engine *engine = open_copies(*state, &bench, tasks, ORDER, TASKS);
    for (int t = 0; t < TASKS; t++) {
        fill(&bench, ORDER[t] > 0 ? 100 * ORDER[t] : -1000);
        assert_true(offload_run(engine, t));
        assert_int_equal(said.copied, ORDER[t] > 0 ? COPY_TO_HOST : COPY_FROM_HOST);
        if (ORDER[t] < 0) check_back(&bench, -100 * ORDER[t], -1000);
        // A room is as wide as the places in the arena, 48 and 56 bytes.
        assert_int_equal(engine->host_bytes, 104 * (t == 0 ? 1 : 2));
    }
    // Of either value 48 bytes are filled and moved.
    assert_true(said.copies == 2 * TASKS && said.copied_bytes == TASKS * 96);
    exchange_check_sent(&bench, TASKS * 96, 0, 0);
    assert_true(moved_bytes(engine, 0) == 104);
}

static void places_and_chunks_are_told_apart(void **state)
{
    static const int ORDER[TASKS] = {1, 1, 1, -1, -1, -1};
    struct exchange_bench bench;
    struct script_task tasks[TASKS];
    struct engine *engine = open_copies(*state, &bench, tasks, ORDER, TASKS);
    tasks[1].chunk = tasks[3].chunk = 1;
    tasks[2].position = tasks[4].position = 2;
    for (int t = 0; t < TASKS; t++) {
        static const double BASES[TASKS] = {100, 200, 300, 200, 300, 100};
        fill(&bench, t < 3 ? BASES[t] : -1000);
        assert_true(offload_run(engine, t));
        if (t >= 3) check_back(&bench, BASES[t], -1000);
    }
    assert_int_equal(engine->host_bytes, 3 * 104);
}

// Rows of experts, casts and rooms may be filled up to the end.
static void what_is_no_box_moves_whole(void **state)
{
    static const int ORDER[] = {1};
    for (int turn = 0; turn < 4; turn++) {
        struct exchange_bench bench;
        struct script_task tasks[TASKS];
        struct engine *engine = open_copies(*state, &bench, tasks, ORDER, 1);
        if (turn == 0) bench.buffers[1].packed = true;
        if (turn == 1) bench.buffers[1].cast = true;
        if (turn == 2) bench.buffers[1].tensor = -1;
        if (turn == 3) bench.tensor.density = 0.5;
        assert_true(offload_run(engine, 0));
        assert_int_equal(said.copied_bytes, 48 + 56);
    }
}

// Units of 7 and 4 numbers in two blocks, which are fetched one after the other, twice a step.
static struct engine *open_away(struct arena *arena, struct exchange_bench *bench,
                                struct script_task *tasks, const char *folder)
{
    struct engine *engine = exchange_open_bucket(arena, bench, TASK_INSTR);
    bench->instr.collective = COLLECTIVE_FETCH;
    bench->units[0].storage.weights_away = bench->units[1].storage.weights_away = true;
    bench->units[1].position = 1;
    for (int t = 0; t < 4; t++) {
        tasks[t] = bench->task;
        tasks[t].unit = t % 2;
        tasks[t].unit_count = 1;
    }
    bench->rank.script.tasks = tasks;
    bench->rank.script.task_count = 4;
    bench->rank.options.nvme = folder;
    engine->state.weight_at[0] = 0;
    engine->state.weight_at[1] = 7;
    engine->state.away_weight_count = 11;
    assert_true(away_open(engine));
    return engine;
}

static void parameters_are_read_ahead_from_a_drive(void **state)
{
    char folder[] = "/tmp/meshwright-away-XXXXXX";
    struct exchange_bench bench;
    struct script_task tasks[4];
    double weights[11], back[11] = {0};
    assert_non_null(mkdtemp(folder));
    struct engine *engine = open_away(*state, &bench, tasks, folder);
    // Two rooms and what leaves, each as wide as the widest block.
    assert_int_equal(engine->host_bytes, 3 * 7 * 8);
    assert_int_equal(engine->nvme_bytes, 11 * 8);
    assert_int_equal(engine->drive_count, 1);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 11; i++)
            weights[i] = 100 * step + i;
        assert_true(away_put(engine, 0, (char *)weights, 0, 7 * 8));
        assert_true(away_put(engine, 0, (char *)(weights + 7), 7 * 8, 4 * 8));
        away_start(engine);
        for (int t = 0; t < 4; t++) {
            const double *room = (const double *)(void *)away_fetch(engine, t);
            assert_non_null(room);
            exchange_check_numbers(room, weights + (t % 2 ? 7 : 0), t % 2 ? 4 : 7);
        }
    }
    assert_true(away_get(engine, (char *)back, 8, 9 * 8));
    exchange_check_numbers(back, weights + 1, 9);
    assert_true(away_finish(engine));
    away_close(engine);
    assert_int_equal(rmdir(folder), 0);
}

// Units of one block stand in one room; what stays on the device takes none.
static void rooms_are_as_wide_as_the_widest_block(void **state)
{
    for (int turn = 0; turn < 3; turn++) {
        struct exchange_bench bench;
        struct script_task tasks[4];
        struct engine *engine = open_away(*state, &bench, tasks, "/tmp");
        away_close(engine);
        engine->host_bytes = engine->drive_count = 0;
        if (turn < 2) bench.units[1].position = 0;
        if (turn == 1) bench.units[0].storage.weights_away = false;
        if (turn == 2) bench.units[0].elements = 3;
        assert_true(away_open(engine));
        static const int64_t WIDEST[] = {11, 4, 4};
        assert_int_equal(engine->host_bytes, 3 * WIDEST[turn] * 8);
        away_close(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_of_what_came_back_are_used_again),
        cmocka_unit_test(places_and_chunks_are_told_apart),
        cmocka_unit_test(what_is_no_box_moves_whole),
        cmocka_unit_test(parameters_are_read_ahead_from_a_drive),
        cmocka_unit_test(rooms_are_as_wide_as_the_widest_block),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
