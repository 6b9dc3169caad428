#include "tests/support/rank_bench.h"

#include "executor/nvme.h"

#include <unistd.h>

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
    // Of one step what it had, of none nothing.
    assert_true(traffic_open(engine));
    bench.world.turn = 0;
    assert_true(traffic_finish(engine, &result));
    assert_int_equal(result.traffic_bytes[6], 0);
    traffic_start_step(engine);
    traffic_to(engine, 2, 7);
    traffic_end_step(engine);
    bench.world.turn = 0;
    assert_true(traffic_finish(engine, &result));
    assert_int_equal(result.traffic_bytes[6], 7);
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

static int64_t own_bytes(struct device *device)
{
    (void)device;
    return 43;
}

// Twice as wide as in the plan: the arena up to the highest byte that a task writes, and the state,
// of which weights are narrower than reals.
static void what_a_rank_holds_is_added_up(void **state)
{
    struct script_operand low[] = {{.place = PLACE_ARENA, .offset = 100, .bytes = 11},
                                   {.place = PLACE_GRADIENT, .offset = 900, .bytes = 900},
                                   {.place = PLACE_ARENA, .offset = 5000, .bytes = 5000}};
    struct script_operand high[] = {{.place = PLACE_ARENA, .offset = 70, .bytes = 43},
                                    {.place = PLACE_ARENA, .offset = 5000, .bytes = 5000}};
    struct script_task tasks[] = {{.outputs = low, .output_count = 2, .kind = TASK_SEED},
                                  {.outputs = high, .output_count = 1, .kind = TASK_SEED},
                                  {.outputs = high, .output_count = 2, .kind = TASK_SEED}};
    struct prepared prepared[] = {{.is_joined = true}, {.is_joined = true}, {.is_joined = true}};
    struct rank_bench bench;
    struct run_result result = {.joined_count = 9, .replay_count = 9};
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.script.tasks = tasks;
    bench.script.task_count = 2;
    bench.script.arena_bytes = 150;
    engine->prepared = prepared;
    engine->widen = 2;
    engine->compute_bytes = 2;
    engine->real_bytes = 4;
    engine->staging_bytes = 17;
    engine->state = (struct state){.weight_count = 1000, .gradient_count = 300, .moment_count = 70};
    assert_true(weight_casts_open(engine) && segments_open(engine));
    memory_fill(engine, &result);
    assert_int_equal(result.arena_bytes, 300);
    assert_int_equal(result.arena_used_bytes, 226);
    assert_int_equal(result.state_bytes, 2000 + 4 * 300);
    assert_int_equal(result.staging_bytes, 17);
    assert_int_equal(result.joined_count, 2);
    assert_int_equal(result.replay_count, 0);
    char memory[1];
    engine->state.masters = memory;
    bench.backend.own_bytes = own_bytes;
    memory_fill(engine, &result);
    assert_int_equal(result.state_bytes, 2000 + 4 * 370);
    assert_int_equal(result.staging_bytes, 60);
    engine->state.first_moments = memory;
    engine->state.second_moments = memory;
    memory_fill(engine, &result);
    assert_int_equal(result.state_bytes, 2000 + 4 * (300 + 3 * 70));
    bench.script.task_count = 0;
    memory_fill(engine, &result);
    assert_int_equal(result.arena_used_bytes, 0);
}

static const char *sum_alone(struct group *group, double *values, int count)
{
    (void)group;
    (void)values;
    (void)count;
    return NULL;
}

// What its operands hold: of 16-bit and 32-bit ones, and of a cast a byte an element.
static void a_call_moves_what_its_operands_hold(void **state)
{
    static const struct kernel_array SMALL = {
        .rank = 2, .sizes = {3, 7}, .dims = {DIM_BATCH, DIM_HIDDEN}, .element = ELEMENT_COMPUTE};
    struct script_task task = {.kind = TASK_SEED};
    struct step_graph graph = {.number_count = 1};
    struct prepared prepared = {.rows = -1};
    struct kernel_call call = {.input_count = 2, .output_count = 1};
    call.inputs[0] = call.inputs[1] = call.inputs[2] = call.outputs[0] = SMALL;
    call.outputs[1] = call.cast_from = SMALL;
    call.inputs[1].sizes[1] = 5;
    call.outputs[0].sizes[0] = 11;
    call.outputs[0].element = ELEMENT_FP32;
    call.cast_from.sizes[0] = 13;
    for (int casts = 0; casts < 2; casts++) {
        struct rank_bench bench;
        struct run_result result = {0};
        struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
        bench.transport.host_sum = sum_alone;
        bench.script.tasks = &task;
        bench.script.task_count = 1;
        bench.script.graph = &graph;
        bench.program.shape.chunk_count = 1;
        bench.options.steps = 1;
        engine->prepared = &prepared;
        engine->compute_bytes = 2;
        engine->real_bytes = 4;
        if (casts) call.cast_to = &call;
        assert_true(measure_open(engine) && measure_start_step(engine));
        tasks_measure_call(engine, 0, &call);
        tasks_ran(engine, 0, 1);
        assert_true(measure_step(engine, 1) && tasks_finish(engine, 1, &result));
        assert_int_equal(result.task_count, 1);
        assert_true(result.tasks[0].bytes == 2 * 21 + 2 * 15 + 4 * 77 + casts * 91);
        assert_true(result.tasks[0].count == 1);
    }
}

// The drives of a rank: bytes of all its files over the seconds of all.
static void files_of_a_drive_are_one(void **state)
{
    struct rank_bench bench;
    struct run_result result = {0};
    char folder[] = "/tmp/meshwright-figures-XXXXXX", room[4096] = {1};
    assert_non_null(mkdtemp(folder));
    static const int64_t SAID[2] = {0, 0};
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.world.said[0] = SAID, bench.world.counts[0] = 2;
    struct nvme_moved sum = {0, 0};
    engine->drive_count = 2;
    for (int i = 0; i < 2; i++) {
        engine->drives[i] = nvme_open(*state, folder, sizeof room, &bench.err);
        assert_non_null(engine->drives[i]);
        int64_t number = nvme_start(engine->drives[i], NVME_WRITE, room, 1024 << i, 0);
        assert_null(nvme_wait(engine->drives[i], number));
        struct nvme_moved one = nvme_moved(engine->drives[i]);
        assert_true(one.bytes == 1024 << i && one.s > 0);
        sum.bytes += one.bytes;
        sum.s += one.s;
    }
    assert_true(moving_finish(engine, 1, &result));
    assert_true(result.nvme_bytes_per_s == (double)(int64_t)(sum.bytes / sum.s));
    for (int i = 0; i < 2; i++)
        nvme_close(engine->drives[i]);
    assert_int_equal(rmdir(folder), 0);
}

static void levels_are_what_lives_while_each_task_runs(void **state)
{
    // Twice as wide here: 1000 of the state; values of 5, 7, 3, 11 and 13 bytes of the plan.
    static struct value_end ends[] = {{.first = 0, .task = 0, .bytes = 5},
                                      {.first = 1, .task = 3, .bytes = 7},
                                      {.first = 3, .task = 4, .bytes = 3},
                                      {.first = 3, .task = 3, .bytes = 11},
                                      {.first = 6, .task = 6, .bytes = 13},
                                      {.first = 2, .task = 5, .bytes = 100}};  // not one of them
    const double starts[] = {0, 1e-6, 2e-6, 4e-6, 8.0004e-6, 16e-6, 32e-6, 64e-6};
    static const int64_t COUNTS[] = {2, -1};
    static const int64_t SAID[] = {17, 4, 19, 6, 0, 0, 0, 0, 0, 0, 0, 0};
    struct rank_bench bench;
    struct trace trace = {0};
    struct engine *engine = rank_bench_open(*state, &bench, 1, 2);
    bench.script.task_count = 7;
    engine->widen = 2;
    engine->ends = ends;
    engine->end_count = 5;
    bench.world.said[0] = COUNTS, bench.world.counts[0] = 1;
    bench.world.said[1] = SAID, bench.world.counts[1] = 12;
    assert_true(levels_gather(engine, starts, 100, 1000, &trace));
    // Nothing changes at task 2.
    const struct trace_level wanted[] = {{0, 17, 4},       {0, 19, 6},      {1, 100, 1010},
                                         {1, 1100, 1014},  {1, 4100, 1042}, {1, 8100, 1006},
                                         {1, 16100, 1000}, {1, 32100, 1026}};
    assert_int_equal(trace.level_count, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(trace.levels[i].rank, wanted[i].rank);
        assert_int_equal(trace.levels[i].at_ns, wanted[i].at_ns);
        assert_true(trace.levels[i].bytes == wanted[i].bytes);
    }
    trace = (struct trace){0};
    bench.backend.is_asynchronous = true;
    assert_true(levels_gather(engine, starts, 100, 1000, &trace));
    assert_int_equal(trace.level_count, 0);
}

static bool finish_traffic(struct engine *engine, struct run_result *result)
{
    return traffic_open(engine) && traffic_finish(engine, result);
}

static bool finish_moving(struct engine *engine, struct run_result *result)
{
    return moving_finish(engine, 1, result);
}

static bool finish_holding(struct engine *engine, struct run_result *result)
{
    (void)result;
    return memory_hold(engine);
}

static bool finish_levels(struct engine *engine, struct run_result *result)
{
    static struct value_end none[1];
    static const double STARTS[2];
    engine->ends = none;
    return levels_gather(engine, STARTS, 0, 0, &result->trace);
}

// What a question fails with is said, and nothing goes on behind it.
static void a_question_that_fails_ends_what_asks(void **state)
{
    static const struct {
        bool (*finish)(struct engine *engine, struct run_result *result);
        int turns, counts[2];
    } ASKS[] = {{finish_traffic, 1, {2}},   {finish_moving, 1, {2}},
                {finish_holding, 1, {1}},   {memory_gather, 1, {4}},
                {finish_levels, 2, {1, 2}}, {attentions_gather, 2, {1, 28}}};
    static const int64_t SAID[64] = {0};
    for (size_t i = 0; i < sizeof ASKS / sizeof *ASKS; i++) {
        for (int turn = 0; turn <= ASKS[i].turns; turn++) {
            struct rank_bench bench;
            struct run_result result = {0};
            struct engine *engine = rank_bench_open(*state, &bench, 1, 2);
            bench.backend.peak_bytes = peak_of_5000;
            bench.backend.limit = limit;
            bench.backend.attention_paths = paths_two;
            bench.options.device_memory_bytes = 5000;
            bench.script.task_count = 1;
            engine->widen = 1;
            bool is_attention = ASKS[i].finish == attentions_gather;
            for (int t = 0; t < ASKS[i].turns; t++) {
                bench.world.said[t] = SAID;
                bench.world.counts[t] = ASKS[i].counts[t];
            }
            if (is_attention)
                bench.world.counts[1] = 2 * (int)(sizeof(struct attention_path) / sizeof(int64_t));
            bench.world.fault = "cut off";
            bench.world.fault_turn = turn;
            bool is_whole = turn == ASKS[i].turns;
            assert_int_equal(ASKS[i].finish(engine, &result), is_whole);
            assert_int_equal(bench.world.turn, turn);
            if (is_whole) continue;
            assert_string_equal(bench.err.text, "rank 1, step 1, at starting: cut off");
            assert_int_equal(bench.err.kind, ERR_SYSTEM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_are_counted_by_who_gets_them),
        cmocka_unit_test(the_rank_that_holds_most_counts),
        cmocka_unit_test(a_step_that_does_not_fit_says_how_much_would_do),
        cmocka_unit_test(who_moves_longest_and_whose_drive_is_slowest_is_told),
        cmocka_unit_test(ways_of_attention_are_counted_by_ranks),
        cmocka_unit_test(what_a_rank_holds_is_added_up),
        cmocka_unit_test(a_call_moves_what_its_operands_hold),
        cmocka_unit_test(files_of_a_drive_are_one),
        cmocka_unit_test(a_question_that_fails_ends_what_asks),
        cmocka_unit_test(levels_are_what_lives_while_each_task_runs),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
