#include "tests/support/rank_bench.h"

// What a rank counts and what all ranks tell each other of it at the end. The other ranks say what
// stands here; sums and largest ones are worked by hand.

static void payloads_are_counted_by_who_gets_them(void **state)
{
    // Rank 1 of four. Of 60 bytes a ring of three passes on 2/3, a reduction twice that.
    static const int64_t SAID[] = {0, 11, 12, 13, -1, -1, -1, -1, 21, 22, 0, 23, 31, 32, 33, 0};
    struct rank_bench bench;
    struct run_result result = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 1, 4);
    bench.world.said[0] = SAID, bench.world.counts[0] = 4;
    assert_true(traffic_open(engine));
    struct member_group last = {.ranks = (int[]){0, 3, 1}, .count = 3, .index = 2};
    struct member_group first = {.ranks = (int[]){1, 3, 0}, .count = 3, .index = 0};
    struct member_group one = {.ranks = (int[]){1}, .count = 1};
    traffic_start_step(engine);
    traffic_to(engine, 2, 7);
    traffic_to(engine, 2, 6);
    traffic_to(engine, 1, 1000);
    traffic_ring(engine, &last, COLLECTIVE_ALL_REDUCE, 60);
    traffic_ring(engine, &first, COLLECTIVE_REDUCE_SCATTER, 60);
    traffic_ring(engine, &one, COLLECTIVE_ALL_REDUCE, 60);
    traffic_end_step(engine);
    // A step that does not count, and one that does.
    traffic_start_step(engine);
    traffic_to(engine, 2, 5000);
    traffic_start_step(engine);
    traffic_to(engine, 2, 4);
    traffic_ring(engine, &first, COLLECTIVE_ALL_GATHER, 30);
    traffic_end_step(engine);
    assert_true(traffic_finish(engine, &result));
    const int64_t wanted[] = {0, 11, 12, 13, 40, 0, 9, 30, 21, 22, 0, 23, 31, 32, 33, 0};
    assert_memory_equal(result.traffic_bytes, wanted, sizeof wanted);
    engine->traffic = NULL;
    traffic_to(engine, 2, 7);  // nobody counts
    bench.world.fault = "cut off";
    assert_true(traffic_open(engine));
    assert_false(traffic_finish(engine, &result));
    assert_string_equal(bench.err.text, "rank 1, step 1, at starting: cut off");
    assert_int_equal(bench.err.kind, ERR_SYSTEM);
}

static int64_t peak_of_5000(struct device *device)
{
    (void)device;
    return 5000;
}

static int64_t limited_to;
static bool limited_for_trial;
static const char *limit(struct device *device, int64_t bytes, bool is_trial)
{
    (void)device;
    limited_to = bytes;
    limited_for_trial = is_trial;
    return NULL;
}

static void the_rank_that_holds_most_counts(void **state)
{
    static const int64_t SAID[] = {0, 0, 0, 0, 301, 23, 37, 5003, 299, 29, 31, 4999};
    struct rank_bench bench;
    struct run_result result = {.arena_used_bytes = 100, .state_bytes = 200};
    struct engine *engine = rank_bench_open(*state, &bench, 0, 3);
    bench.backend.peak_bytes = peak_of_5000;
    engine->host_bytes = 28;
    engine->nvme_bytes = 41;
    bench.world.said[0] = SAID, bench.world.counts[0] = 4;
    assert_true(memory_gather(engine, &result));
    assert_int_equal(result.peak_bytes, 301);
    assert_int_equal(result.host_peak_bytes, 29);
    assert_int_equal(result.nvme_bytes, 41);
    assert_int_equal(result.device_peak_bytes, 5003);
    // Of a device that is not limited it is not said.
    static const int64_t NOTHING[12] = {0};
    result = (struct run_result){.arena_used_bytes = 100, .state_bytes = 200};
    bench.world.turn = 0, bench.world.said[0] = NOTHING;
    assert_true(memory_gather(engine, &result));
    assert_int_equal(result.peak_bytes, 300);
    assert_int_equal(result.device_peak_bytes, 0);
    bench.options.device_memory_bytes = 6000;
    result = (struct run_result){0};
    bench.world.turn = 0;
    assert_true(memory_gather(engine, &result));
    assert_int_equal(result.device_peak_bytes, 5000);
}

static void a_step_that_does_not_fit_says_how_much_would_do(void **state)
{
    static const int64_t SAID[] = {-1, 5003, 4999};
    struct rank_bench bench;
    struct run_result result = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 0, 3);
    bench.backend.peak_bytes = peak_of_5000;
    bench.backend.limit = limit;
    bench.world.said[0] = SAID, bench.world.counts[0] = 1;
    engine->first_step = engine->step = 4;
    limited_to = -1;
    assert_true(memory_limit(engine, &result) && memory_hold(engine));
    assert_int_equal(limited_to, -1);
    assert_int_equal(bench.world.turn, 0);
    bench.options.device_memory_bytes = 5003;
    assert_true(memory_limit(engine, &result));
    assert_int_equal(result.device_limit_bytes, 5003);
    assert_true(limited_to == 5003 && limited_for_trial);
    limited_to = -1;
    assert_true(memory_hold(engine));
    assert_true(limited_to == 5003 && !limited_for_trial);
    // Only behind the first step that is run.
    bench.options.device_memory_bytes = 5002;
    bench.world.turn = 0;
    engine->step = 5;
    assert_true(memory_hold(engine));
    assert_int_equal(bench.world.turn, 0);
    engine->step = 4;
    assert_false(memory_hold(engine));
    assert_string_equal(bench.err.text,
                        "a step does not fit into the 5002 bytes of device memory: 5003 are the "
                        "least");
    assert_int_equal(bench.err.kind, ERR_SYSTEM);
}

static void who_moves_longest_and_whose_drive_is_slowest_is_told(void **state)
{
    // Nanoseconds of a step, bytes a second; a rank without a drive has no rate.
    static const int64_t SAID[] = {3000, 700, -1, -1, 1000, 500, 2000, 0};
    struct rank_bench bench;
    struct run_result result = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 1, 4);
    bench.world.said[0] = SAID, bench.world.counts[0] = 2;
    engine->moved_sum_s = 14e-6;
    assert_true(moving_finish(engine, 4, &result));
    assert_true(result.moved_s > 3.4999e-6 && result.moved_s < 3.5001e-6);
    assert_true(result.nvme_bytes_per_s == 500);
    result = (struct run_result){0};
    bench.world.turn = 0;
    assert_true(moving_finish(engine, 0, &result));
    assert_true(result.moved_s > 2.9999e-6 && result.moved_s < 3.0001e-6);
    // Where copies run beside the work nothing is counted.
    engine->moved_s = 0;
    moving_begin(engine);
    moving_end(engine);
    assert_true(engine->moved_s >= 0 && engine->moved_s < 1);
    bench.backend.is_asynchronous = true;
    engine->moved_s = 11;
    engine->moving_began_s = -100;
    moving_begin(engine);
    assert_true(engine->moving_began_s == 0);
    moving_end(engine);
    assert_true(engine->moved_s == 11);
}

static struct attention_path PATHS[3];
static int paths_two(struct device *device, struct attention_path *paths)
{
    (void)device;
    paths[0] = PATHS[0];
    paths[1] = PATHS[1];
    return 2;
}
static int paths_none(struct device *device, struct attention_path *paths)
{
    (void)device;
    (void)paths;
    return 0;
}

static void ways_of_attention_are_counted_by_ranks(void **state)
{
    enum { WORDS = sizeof(struct attention_path) / sizeof(int64_t) };
    static const int64_t COUNTS[] = {1, -1, 3};
    static struct attention_path said[9];
    struct rank_bench bench;
    struct run_result result = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 1, 3);
    assert_true(attentions_gather(engine, &result));  // one way alone
    assert_int_equal(bench.world.turn, 0);
    for (int i = 0; i < 3; i++)
        PATHS[i] = (struct attention_path){.is_refused = i % 2, .path = "unfused"};
    PATHS[2].path[0] = 'c';
    // Rank 0: the second; rank 1: the first and the second; rank 2: all, the third first.
    said[0] = PATHS[1];
    said[6] = PATHS[2], said[7] = PATHS[1], said[8] = PATHS[0];
    // Rank 1 has two of three.
    bench.backend.attention_paths = paths_two;
    bench.world.said[0] = COUNTS, bench.world.counts[0] = 1;
    bench.world.said[1] = (const int64_t *)(const void *)said;
    bench.world.counts[1] = 3 * WORDS;
    assert_true(attentions_gather(engine, &result));
    assert_int_equal(result.attention_count, 3);
    const int ranks[] = {3, 2, 1}, which[] = {1, 0, 2};
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(&result.attentions[i].way, &PATHS[which[i]], sizeof PATHS[0]);
        assert_int_equal(result.attentions[i].rank_count, ranks[i]);
    }
    static const int64_t NONE[] = {0, 0, 0};
    result = (struct run_result){0};
    bench.backend.attention_paths = paths_none;
    bench.world.turn = 0, bench.world.said[0] = NONE;
    assert_true(attentions_gather(engine, &result));
    assert_int_equal(result.attention_count, 0);
    assert_int_equal(bench.world.turn, 1);
}

static void levels_are_what_lives_while_each_task_runs(void **state)
{
    // Twice as wide here: 1000 of the state; values of 5, 7, 3 and 11 bytes of the plan.
    static struct value_end ends[] = {{.first = 0, .task = 0, .bytes = 5},
                                      {.first = 1, .task = 3, .bytes = 7},
                                      {.first = 3, .task = 4, .bytes = 3},
                                      {.first = 3, .task = 3, .bytes = 11}};
    const double starts[] = {0, 1e-6, 2e-6, 4e-6, 8.0004e-6, 16e-6, 32e-6};
    static const int64_t COUNTS[] = {2, -1};
    static const int64_t SAID[] = {17, 4, 19, 6, 0, 0, 0, 0, 0, 0};
    struct rank_bench bench;
    struct trace trace = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 1, 2);
    bench.script.task_count = 7;
    engine->widen = 2;
    engine->ends = ends;
    engine->end_count = 4;
    bench.world.said[0] = COUNTS, bench.world.counts[0] = 1;
    bench.world.said[1] = SAID, bench.world.counts[1] = 10;
    assert_true(levels_gather(engine, starts, 100, 1000, &trace));
    // Nothing changes at tasks 2 and 6.
    const struct trace_level wanted[] = {{0, 17, 4},      {0, 19, 6},      {1, 100, 1010},
                                         {1, 1100, 1014}, {1, 4100, 1042}, {1, 8100, 1006},
                                         {1, 16100, 1000}};
    assert_int_equal(trace.level_count, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(trace.levels[i].rank, wanted[i].rank);
        assert_int_equal(trace.levels[i].at_ns, wanted[i].at_ns);
        assert_true(trace.levels[i].bytes == wanted[i].bytes);
    }
    trace = (struct trace){0};
    bench.backend.is_asynchronous = true;
    assert_true(levels_gather(engine, starts, 100, 1000, &trace));
    assert_int_equal(trace.level_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_counted_by_who_gets_them),
        cmocka_unit_test(the_rank_that_holds_most_counts),
        cmocka_unit_test(a_step_that_does_not_fit_says_how_much_would_do),
        cmocka_unit_test(who_moves_longest_and_whose_drive_is_slowest_is_told),
        cmocka_unit_test(ways_of_attention_are_counted_by_ranks),
        cmocka_unit_test(levels_are_what_lives_while_each_task_runs),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
