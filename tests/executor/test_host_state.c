#include "tests/support/exchange_bench.h"

#include "executor/engine/host_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// States on the host of one bucket of 7 and 4 numbers, in shards: rank 1 of three has the numbers
// 4 .. 6 of the first unit and the first of the second, 3 and 1. Of a number there are its weight
// and two moments, of a unit all weights, then all first and all second moments.

static struct update_call last;
static int update_count;

// Weights lose gradients, the first moment becomes the gradient, the second its square.
static const char *update(struct device *device, enum stream stream, const struct update_call *call)
{
    (void)device;
    assert_int_equal(stream, STREAM_COMPUTE);
    last = *call;
    update_count++;
    double *weights = call->weights, *gradients = call->gradients;
    for (int64_t i = 0; i < call->count; i++) {
        weights[i] -= gradients[i];
        ((double *)call->first_moments)[i] += gradients[i];
        ((double *)call->second_moments)[i] += gradients[i] * gradients[i];
    }
    return said.fault;
}

static const char *sum_squares(struct device *device, enum stream stream, const void *reals,
                               int64_t count, double *sum)
{
    (void)device, (void)stream;
    for (int64_t i = 0; i < count; i++)
        *sum += ((const double *)reals)[i] * ((const double *)reals)[i];
    return NULL;
}

// `nvme`: a folder, or NULL.
static struct engine *open_host(struct arena *arena, struct exchange_bench *bench,
                                enum task_kind kind, const char *nvme)
{
    struct engine *engine = exchange_open_bucket(arena, bench, kind);
    struct rank_bench *rank = &bench->rank;
    bool moves_gradients = kind != TASK_UPDATE;
    exchange_set_storage(bench, (struct storage){.optimizer_axes = 1});
    bench->bucket.storage.away = AWAY_STATES;
    if (moves_gradients) {
        bench->bucket.storage.away |= AWAY_GRADIENTS;
        bench->bucket.room = 0;
        rank->program.parallel.offload.gradients = true;
    }
    rank->backend.update = update;
    rank->backend.sum_squares = sum_squares;
    rank->backend.is_host = true;
    rank->backend.real_bytes = rank->backend.compute_bytes = 8;
    rank->options.nvme = nvme;
    rank->program.workload.optimizer = OPTIMIZER_ADAMW;
    rank->program.parallel.offload.optimizer = nvme ? TIER_NVME : TIER_HOST;
    engine->state.moment_at[0] = 0;
    engine->state.moment_at[1] = 3;
    engine->state.away_count = 4;
    update_count = 0;
    assert_true(host_state_open(engine));
    return engine;
}

static void check_states(struct engine *engine, int parameter, int array, const double *wanted,
                         int count)
{
    double found[8] = {0};
    assert_true(host_state_copy(engine, parameter, array, true, (char *)found));
    exchange_check_numbers(found, wanted, count);
    assert_true(found[count] == 0);
}

// Of 1 .. 7 the rank keeps 5, 6 and 7, of 11 .. 14 the first; pieces of them go where they belong.
static void check_put_and_get(struct engine *engine)
{
    static const double FIRST[] = {1, 2, 3, 4, 5, 6, 7}, SECOND[] = {11, 12, 13, 14};
    double found[8] = {0};
    assert_true(host_state_put(engine, 0, 0, 2, FIRST));
    assert_true(host_state_put(engine, 0, 2, 3, FIRST + 2));
    assert_true(host_state_put(engine, 0, 5, 2, FIRST + 5));
    assert_true(host_state_put(engine, 1, 0, 4, SECOND));
    assert_true(host_state_get(engine, 0, found));
    assert_true(found[0] == 5 && found[1] == 6 && found[2] == 7 && found[3] == 0);
    assert_true(host_state_get(engine, 1, found));
    assert_true(found[0] == 11 && found[1] == 6);
    check_states(engine, 0, 0, FIRST + 4, 3);
    check_states(engine, 1, 0, SECOND, 1);
    static const double MOMENTS[] = {0.5, 0.25, 0.125}, NONE[] = {0, 0, 0};
    check_states(engine, 0, 2, NONE, 3);
    assert_true(host_state_copy(engine, 0, 2, false, (char *)(uintptr_t)MOMENTS));
    check_states(engine, 0, 2, MOMENTS, 3);
    check_states(engine, 0, 1, NONE, 3);
    check_states(engine, 1, 0, SECOND, 1);
    assert_true(host_state_copy(engine, 0, 2, false, (char *)(uintptr_t)NONE));
}

// Gradients of the shard are 7, 8, 9 and 10, from 4 numbers into those that begin at 3. Two steps:
// weights lose them twice.
static void check_steps(struct exchange_bench *bench)
{
    struct engine *engine = bench->engine;
    static const double WEIGHTS[] = {5 - 14, 6 - 16, 7 - 18}, FIRST[] = {14, 16, 18},
                        SECOND[] = {98, 128, 162}, LAST[] = {11 - 20}, SQUARE[] = {200};
    for (int step = 0; step < 2; step++) {
        said.copies = said.copied_bytes = 0;
        assert_true(host_state_update(engine, 0));
        assert_int_equal(said.copies, 4);  // each unit's gradients down and its weights up
        assert_int_equal(said.copied_bytes, 2 * 4 * 8);
        assert_int_equal(said.copied, COPY_FROM_HOST);
    }
    assert_int_equal(update_count, 4);
    assert_true(last.count == 1 && !last.rounded);
    // Weights lie where they do among the whole, from 20 on and from 27 on.
    const double *weights = bench->from + 20;
    assert_true(weights[3] == 23 && weights[4] == -9 && weights[5] == -10 && weights[6] == -11);
    assert_true(weights[7] == -9 && weights[8] == 28);
    check_states(engine, 0, 0, WEIGHTS, 3);
    check_states(engine, 0, 1, FIRST, 3);
    check_states(engine, 0, 2, SECOND, 3);
    check_states(engine, 1, 0, LAST, 1);
    check_states(engine, 1, 2, SQUARE, 1);
    // Gradient, weight and both moments, the latter three twice, of 4 numbers and two steps.
    exchange_check_sent(bench, 2 * 4 * 8 * 7, 0, 0);
}

static void states_are_kept_and_updated_on_the_host(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_host(*state, &bench, TASK_UPDATE, NULL);
    assert_int_equal(engine->host_bytes, 4 * 8 + 3 * 4 * 8);
    assert_int_equal(engine->nvme_bytes, 0);
    assert_true(host_state_leaves(engine, true) && !host_state_leaves(engine, false));
    assert_true(host_state_is_of(engine, 1) && !host_state_has(engine, 1));
    check_put_and_get(engine);
    check_steps(&bench);
    double gradients[4] = {0};
    host_state_gradients(engine, 0, gradients);
    assert_true(gradients[0] == 7 && gradients[2] == 9 && gradients[3] == 0);
    host_state_gradients(engine, 1, gradients);
    assert_true(gradients[0] == 10 && gradients[1] == 8);
    assert_true(host_state_finish(engine));
    host_state_close(engine);
}

static void states_on_a_drive_are_the_same(void **state)
{
    char folder[] = "/tmp/meshwright-states-XXXXXX";
    struct exchange_bench bench;
    assert_non_null(mkdtemp(folder));
    struct engine *engine = open_host(*state, &bench, TASK_UPDATE, folder);
    assert_int_equal(engine->host_bytes, 4 * 8);
    assert_int_equal(engine->nvme_bytes, 3 * 4 * 8);
    assert_int_equal(engine->drive_count, 1);
    check_put_and_get(engine);
    check_steps(&bench);
    assert_true(host_state_finish(engine));
    host_state_close(engine);
    assert_int_equal(rmdir(folder), 0);
}

// Whole gradients leave and come back, whatever of them the rank updates; their squares are taken
// of its part when they leave complete: 49 + 64 + 81 and 100.
static void gradients_are_kept_on_the_host_whole(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_host(*state, &bench, TASK_GRADIENT_OUT, NULL);
    assert_int_equal(engine->host_bytes, 11 * 8 + 3 * 4 * 8);
    assert_true(host_state_has(engine, 0));
    assert_true(host_state_take(engine, 0));
    assert_true(said.copies == 2 && said.copied_bytes == 88 && said.copied == COPY_TO_HOST);
    assert_true(host_state_squares(engine, 0) == 194 && host_state_squares(engine, 1) == 100);
    double gradients[4] = {0};
    host_state_gradients(engine, 0, gradients);
    assert_true(gradients[0] == 7 && gradients[2] == 9 && gradients[3] == 0);
    memset(bench.from + 3, 0, 11 * sizeof(double));
    assert_true(host_state_give(engine, 0));
    for (int i = 2; i < 15; i++)
        assert_true(bench.from[i] == i);
    assert_int_equal(said.copied, COPY_FROM_HOST);
    exchange_check_sent(&bench, 2 * 88, 0, 0);
    // They are updated without coming down once more.
    said.copies = 0;
    assert_true(host_state_update(engine, 0));
    assert_true(said.copies == 2 && bench.from[24] == -7 && bench.from[27] == -10);
}

// Where no norm is asked for nothing is squared, nor before gradients are complete.
static void squares_are_taken_where_the_norm_asks_for_them(void **state)
{
    for (int turn = 0; turn < 2; turn++) {
        struct exchange_bench bench;
        struct engine *engine = open_host(*state, &bench, TASK_GRADIENT_OUT, NULL);
        struct script_task tasks[] = {bench.task, bench.task};
        bench.rank.program.workload.unclipped = turn == 0;
        if (turn == 1) {
            bench.rank.script.tasks = tasks;
            bench.rank.script.task_count = 2;
            engine->measure = NULL;
            assert_true(host_state_open(engine));
        }
        assert_true(host_state_take(engine, 0));
        assert_true(host_state_squares(engine, 0) == 0);
        if (turn == 1) assert_true(host_state_take(engine, 1));
        assert_true(host_state_squares(engine, 0) == (turn ? 194 : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_kept_and_updated_on_the_host),
        cmocka_unit_test(states_on_a_drive_are_the_same),
        cmocka_unit_test(gradients_are_kept_on_the_host_whole),
        cmocka_unit_test(squares_are_taken_where_the_norm_asks_for_them),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
