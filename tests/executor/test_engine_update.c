#include "tests/support/exchange_bench.h"

#include <math.h>

// What is done once a step, of one bucket of two units, 7 and 4 numbers, on rank 1 of three: the
// ranges that are reduced, taken the norm of, updated and gathered.

static struct real_array squared[4];
static int squared_count, update_count;
static struct update_call updates[4];
static double others_sum;
static struct run_options *options;

static const char *sum_squares(struct device *device, enum stream stream, const void *reals,
                               int64_t count, double *sum)
{
    (void)device, (void)stream;
    squared[squared_count++] = (struct real_array){(void *)(uintptr_t)reals, count};
    for (int64_t i = 0; i < count; i++)
        *sum += ((const double *)reals)[i] * ((const double *)reals)[i];
    return said.fault;
}

static const char *update(struct device *device, enum stream stream, const struct update_call *call)
{
    (void)device;
    assert_int_equal(stream, STREAM_COMPUTE);
    updates[update_count++] = *call;
    return said.fault;
}

static const char *host_sum(struct group *group, double *values, int count)
{
    (void)group;
    for (int i = 0; i < count; i++)
        values[i] += others_sum;
    return NULL;
}

static struct engine *update_bench(struct arena *arena, struct exchange_bench *bench,
                                   enum task_kind kind)
{
    struct engine *engine = exchange_open_bucket(arena, bench, kind);
    options = &bench->rank.options;
    options->weight_decay = 0.1;
    bench->rank.backend.sum_squares = sum_squares;
    bench->rank.backend.update = update;
    bench->rank.transport.host_sum = host_sum;
    bench->known[1].decayed = true;
    squared_count = update_count = 0;
    others_sum = 0;
    return engine;
}

static void a_bucket_is_summed_as_one(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = update_bench(*state, &bench, TASK_GRADIENT_REDUCE);
    assert_true(update_run(engine, 0));
    assert_true(said.called == 'r' && said.element_of == ELEMENT_FP32);
    assert_true(said.combined == COMBINE_SUM && said.to_of == bench.from + 3);
    assert_int_equal(said.count_of, 11);
    exchange_check_sent(&bench, 88, 0, 117);  // 2 * 88 * 2 / 3
    assert_int_equal(update_staging(engine, 0), 0);
    said.fault = "no wire";
    assert_false(update_run(engine, 0));
}

// Where the states are in shards the rank's comes to lie where it does among the whole: 4, 4 and 3.
static void a_bucket_is_scattered_to_its_shard(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = update_bench(*state, &bench, TASK_GRADIENT_REDUCE);
    exchange_set_storage(&bench, (struct storage){.optimizer_axes = 1});
    assert_true(update_run(engine, 0));
    assert_true(said.called == 's' && said.from_of == bench.from + 3);
    exchange_check_counts(said.counts_of, 4, 4, 3);
    assert_ptr_equal(said.to_of, bench.staged[0]);
    assert_true(bench.from[6] == 6 && bench.from[7] == 1000 && bench.from[10] == 1003);
    assert_true(bench.from[11] == 11 && said.copied_bytes == 32);
    exchange_check_sent(&bench, 88, 0, 58);
    assert_int_equal(update_staging(engine, 0), 88);
    // What is scattered already is left alone.
    engine = update_bench(*state, &bench, TASK_GRADIENT_REDUCE);
    exchange_set_storage(&bench, (struct storage){.gradient_axes = 1, .optimizer_axes = 1});
    assert_true(update_run(engine, 0));
    assert_int_equal(said.called, 0);
    assert_int_equal(update_staging(engine, 0), 0);
}

// Of the second unit alone, whose gradient is partial over other axes than its bucket's.
static void small_gradients_are_summed_beside_each_other(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = update_bench(*state, &bench, TASK_SMALL_REDUCE);
    bench.known[1].gradient_partial_axes = 1;
    assert_true(update_run(engine, 0));
    assert_true(said.called == 'r' && said.to_of == bench.staged[0] && said.count_of == 4);
    assert_true(bench.staged[0][0] == 10 && bench.staged[0][3] == 13 && bench.staged[0][4] == 0);
    exchange_check_sent(&bench, 32, 0, 42);  // 2 * 32 * 2 / 3
    assert_int_equal(update_staging(engine, 0), 32);
    // Of both, the first behind which the second stands; they come back to where they were.
    engine = update_bench(*state, &bench, TASK_SMALL_REDUCE);
    bench.known[0].gradient_partial_axes = bench.known[1].gradient_partial_axes = 1;
    assert_true(update_run(engine, 0));
    assert_true(said.count_of == 11 && said.copies == 4 && said.copied_bytes == 2 * 88);
    for (int i = 0; i < 11; i++)
        assert_true(bench.staged[0][i] == 3 + i && bench.from[3 + i] == 3 + i);
    assert_int_equal(update_staging(engine, 0), 88);
}

// Squares of 3 .. 9 and of 10 .. 13 are 280 and 534. A whole parameter is counted by the first rank
// of its axis, a split one by all; of one that is shared its owner is.
static void the_norm_counts_each_number_once(void **state)
{
    static const struct {
        bool is_split[2], is_shared;
        double sum;
    } CASES[] = {{{true, true}, false, 814},
                 {{true, false}, false, 280},
                 {{false, true}, false, 534},
                 {{false, false}, false, 0},
                 {{true, true}, true, 280}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct exchange_bench bench;
        struct engine *engine = update_bench(*state, &bench, TASK_NORM);
        for (int p = 0; p < 2; p++)
            if (CASES[i].is_split[p]) bench.known[p].layout.of[0] = DIM_FFN;
        if (CASES[i].is_shared) bench.parameters[1].same_as = 0;
        others_sum = 86;
        options->clip_norm = 15;
        engine->scale.now = 1;
        assert_true(update_run(engine, 0));
        assert_true(fabs(engine->norm - sqrt(CASES[i].sum + 86)) < 1e-12);
        double clipped = i == 0 ? 0.5 : fmin(1, 15 / sqrt(CASES[i].sum + 86));
        assert_true(fabs(engine->gradient_scale - clipped) < 1e-15);
        assert_int_equal(engine->update_count, 1);
        exchange_check_sent(&bench, 8, 0, 10);  // 2 * 8 * 2 / 3
    }
}

// Shards of the states of 4, 4 and 3: this rank has the numbers 4 .. 7 of the eleven, the last
// three of the first unit and the first of the second.
static void a_shard_is_what_is_updated(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = update_bench(*state, &bench, TASK_UPDATE);
    exchange_set_storage(&bench, (struct storage){.optimizer_axes = 1});
    bench.rank.program.workload.optimizer = OPTIMIZER_ADAMW;
    engine->gradient_scale = 0.25;
    engine->learning_rate = 0.5;
    engine->update_count = 9;
    engine->state.moment_at[1] = 63;
    assert_true(update_run(engine, 0));
    assert_int_equal(update_count, 2);
    const struct update_call *first = &updates[0], *second = &updates[1];
    assert_true(first->count == 3 && second->count == 1);
    assert_ptr_equal(first->gradients, bench.from + 3 + 4);
    assert_ptr_equal(second->gradients, bench.from + 10);
    assert_ptr_equal(first->weights, bench.from + 20 + 4);
    assert_ptr_equal(second->weights, bench.from + 27);
    assert_ptr_equal(first->first_moments, bench.from + 60);
    assert_ptr_equal(second->first_moments, bench.from + 63);
    assert_true(!first->second_moments && !first->rounded && !first->direction);
    assert_true(first->weight_decay == 0 && second->weight_decay == 0.1);
    assert_true(first->gradient_scale == 0.25 && first->learning_rate == 0.5 && first->step == 9);
    assert_int_equal(first->part, UPDATE_ALL);
    exchange_check_sent(&bench, 4 * 8 * 5, 0, 0);  // gradient, weight twice, one moment twice
    engine->scale.skips = true;
    assert_true(update_run(engine, 0));
    assert_int_equal(update_count, 2);
}

static void masters_are_updated_and_rounded_to_weights(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = update_bench(*state, &bench, TASK_UPDATE);
    engine->compute_bytes = 2;
    engine->state.masters = (char *)bench.to;
    engine->state.second_moments = (char *)bench.to;
    assert_true(update_run(engine, 0));
    assert_ptr_equal(updates[1].weights, bench.to + 67);
    assert_ptr_equal(updates[1].rounded, (char *)bench.from + 27 * 2);
    assert_ptr_equal(updates[1].second_moments, bench.to + 67);
    exchange_check_sent(&bench, 11 * 8 * 7, 0, 0);
}

// Weights 20 .. 26 and 27 .. 30 have squares of 3731 and 3254, gradients 280 and 534. The
// directions are the gradients here, since the back end leaves them as they are.
static void layers_are_trusted_by_their_norms(void **state)
{
    for (int is_lars = 0; is_lars < 2; is_lars++) {
        struct exchange_bench bench;
        struct engine *engine = update_bench(*state, &bench, TASK_TRUST);
        bench.rank.program.workload.optimizer = is_lars ? OPTIMIZER_LARS : OPTIMIZER_LAMB;
        bench.known[0].layout.of[0] = bench.known[1].layout.of[0] = DIM_FFN;
        engine->gradient_scale = 0.5;
        assert_true(update_run(engine, 0));
        double first = sqrt(3731.0 / 280), second = sqrt(3254.0 / 534);
        if (is_lars) {
            first = 0.001 * sqrt(3731) / (0.5 * sqrt(280));
            second = 0.001 * sqrt(3254) / (0.5 * sqrt(534) + 0.1 * sqrt(3254));
        }
        assert_true(fabs(engine->state.trust[0] / first - 1) < 1e-14);
        assert_true(fabs(engine->state.trust[1] / second - 1) < 1e-14);
        assert_true(update_count == 2 && updates[0].part == UPDATE_DIRECTION);
        assert_ptr_equal(updates[0].direction, bench.from + 3);
        exchange_check_sent(&bench, 2 * 2 * 8, 0, 0);
        // Each is applied with its own ratio.
        bench.task.kind = TASK_UPDATE;
        update_count = 0;
        assert_true(update_run(engine, 0));
        assert_int_equal(update_count, 2);
        for (int p = 0; p < 2; p++) {
            assert_int_equal(updates[p].part, UPDATE_APPLY);
            assert_true(updates[p].trust_ratio == engine->state.trust[p]);
        }
        // Weights of zero take plain steps, and so do gradients of zero.
        memset(bench.from + (is_lars ? 3 : 20), 0, 7 * sizeof(double));
        bench.task.kind = TASK_TRUST;
        update_count = squared_count = 0;
        options->weight_decay = 0;
        assert_true(update_run(engine, 0));
        assert_true(engine->state.trust[0] == 1 && engine->state.trust[1] != 1);
    }
}

static void weights_are_gathered_in_one_go_or_by_units(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = update_bench(*state, &bench, TASK_PARAMETER_GATHER);
    exchange_set_storage(&bench, (struct storage){.optimizer_axes = 1});
    assert_true(script_bucket_is_flat(&bench.bucket));
    assert_true(update_run(engine, 0));
    assert_true(said.called == 'g' && said.element_of == ELEMENT_COMPUTE);
    exchange_check_counts(said.counts_of, 4, 4, 3);
    assert_true(said.from_of == bench.from + 24 && said.to_of == bench.from + 20);
    exchange_check_sent(&bench, 88, 0, 58);
    engine = update_bench(*state, &bench, TASK_PARAMETER_GATHER);
    exchange_set_storage(&bench, (struct storage){.optimizer_axes = 1, .gradient_axes = 1});
    assert_false(script_bucket_is_flat(&bench.bucket));
    bench.task.unit = 1;
    assert_true(update_run(engine, 0));
    exchange_check_counts(said.counts_of, 2, 2, 0);
    assert_true(said.from_of == bench.from + 29 && said.to_of == bench.from + 27);
    exchange_check_sent(&bench, 32, 0, 21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_summed_as_one),
        cmocka_unit_test(a_bucket_is_scattered_to_its_shard),
        cmocka_unit_test(small_gradients_are_summed_beside_each_other),
        cmocka_unit_test(the_norm_counts_each_number_once),
        cmocka_unit_test(a_shard_is_what_is_updated),
        cmocka_unit_test(masters_are_updated_and_rounded_to_weights),
        cmocka_unit_test(layers_are_trusted_by_their_norms),
        cmocka_unit_test(weights_are_gathered_in_one_go_or_by_units),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
