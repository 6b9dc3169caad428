#include "executor/launcher/launch.h"
#include "tests/support/rank_bench.h"

// Where an engine finds what a task names, who works with it, and what streams wait for: on engines
// that have a mesh or a few tasks and nothing else.

static void elements_have_their_bytes_and_addresses(void **state)
{
    static char memory[64];
    static const struct tensor TENSORS[] = {{.element = ELEMENT_INT64}, {.element = ELEMENT_FP32}};
    struct buffer buffers[] = {{.tensor = -1}, {.tensor = 1}, {.tensor = 1, .cast = true}};
    struct block block = {.tensors = (struct tensor *)(uintptr_t)TENSORS, .tensor_count = 2};
    struct block_program program = {.block = &block, .buffers = buffers, .buffer_count = 3};
    struct block_program *blocks[] = {NULL, &program};
    struct script_task task = {.block = 1};
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.program.blocks = (void *)blocks;
    engine->compute_bytes = 2;
    engine->real_bytes = 4;
    engine->widen = 3;
    engine->memory = memory;
    assert_int_equal(engine_element_bytes(engine, ELEMENT_INT64), 8);
    assert_int_equal(engine_element_bytes(engine, ELEMENT_BYTE), 1);
    assert_int_equal(engine_element_bytes(engine, ELEMENT_COMPUTE), 2);
    assert_int_equal(engine_element_bytes(engine, ELEMENT_FP32), 4);
    struct script_operand operand = {.place = PLACE_ARENA, .offset = 7};
    assert_ptr_equal(engine_address(engine, &task, &operand), memory + 21);
    assert_int_equal(engine_element(engine, &task, &operand), ELEMENT_COMPUTE);
    operand.buffer = 1;
    assert_int_equal(engine_element(engine, &task, &operand), ELEMENT_FP32);
    operand.buffer = 2;
    assert_int_equal(engine_element(engine, &task, &operand), ELEMENT_BYTE);
    operand.place = PLACE_GRADIENT;
    assert_int_equal(engine_element(engine, &task, &operand), ELEMENT_FP32);
    // Positions count from the first block of the chunk.
    struct chunk_span spans[] = {{.first = 0}, {.first = 3}, {.first = 5}, {.first = 11}};
    bench.program.spans = spans;
    bench.program.shape.chunk_count = 2;
    engine->stage = 1;
    task.chunk = 1;
    task.position = 4;
    assert_int_equal(engine_sequence(engine, &task), 15);
    task.chunk = 0;
    assert_int_equal(engine_sequence(engine, &task), 9);
}

static const char *last_purpose;
static int asked_ranks[16], asked_count, asks;
static const char *refuses;
static const char *make_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **group)
{
    (void)communicator;
    last_purpose = purpose;
    asked_count = count;
    memcpy(asked_ranks, ranks, (size_t)count * sizeof *ranks);
    asks++;
    *group = NULL;
    return refuses;
}

static unsigned axes_of(const struct mesh *mesh, enum axis parent)
{
    unsigned axes = 0;
    for (int i = 0; i < mesh->axis_count; i++)
        if (mesh->axes[i].parent == parent) axes |= 1u << i;
    return axes;
}

static void check_members(struct member_group *group, int index, int count, const int *ranks)
{
    assert_non_null(group);
    assert_int_equal(group->count, count);
    assert_int_equal(group->index, index);
    assert_memory_equal(group->ranks, ranks, (size_t)count * sizeof *ranks);
    assert_int_equal(asked_count, count);
    assert_memory_equal(asked_ranks, ranks, (size_t)count * sizeof *ranks);
}

// Two ranks of tp innermost, three of dp, two stages: rank 9 is 1, 1 and 1 of them.
static void groups_are_who_differs_in_their_axes_alone(void **state)
{
    struct rank_bench bench;
    struct parallel parallel = {.vpp = 1, .micro_batch = 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_TP] = 2;
    parallel.degree[AXIS_DP] = 3;
    parallel.degree[AXIS_PP] = 2;
    parallel_default_order(&parallel);
    struct engine *engine = rank_bench_open(*state, &bench, 9, 12);
    bench.transport.group = make_group;
    bench.program.parallel = parallel;
    bench.program.mesh = mesh_make(&parallel, 4);
    const struct mesh *mesh = &bench.program.mesh;
    unsigned tp = axes_of(mesh, AXIS_TP), dp = axes_of(mesh, AXIS_DP);
    assert_int_equal(mesh->rank_count, 12);
    asks = 0;
    refuses = NULL;
    check_members(engine_group(engine, tp, "tp"), 1, 2, (int[]){8, 9});
    assert_string_equal(last_purpose, "tp");
    struct member_group *data = engine_group(engine, dp, "dp");
    check_members(data, 1, 3, (int[]){7, 9, 11});
    check_members(engine_group(engine, tp | dp, "all"), 3, 6, (int[]){6, 7, 8, 9, 10, 11});
    check_members(engine_group(engine, 0, "alone"), 0, 1, (int[]){9});
    assert_int_equal(asks, 4);
    // Those that were made are found again, shards in order of the ranks as well.
    assert_ptr_equal(engine_group(engine, dp, "again"), data);
    assert_ptr_equal(engine_shard_group(engine, dp, "shards"), data);
    assert_true(data->is_ascending && !data->is_shard);
    assert_int_equal(asks, 4);
    assert_int_equal(engine->group_count, 4);
    assert_int_equal(engine_rank_at_stage(engine, 0), 3);
    assert_int_equal(engine_rank_at_stage(engine, 1), 9);
    refuses = "no such group";
    assert_null(engine_group(engine, axes_of(mesh, AXIS_PP), "pp"));
    assert_string_equal(bench.err.text, "rank 9, step 1, at starting: no such group");
    assert_int_equal(engine->group_count, 4);
}

static void who_watches_is_told_what_begins(void **state)
{
    enum { COMPUTE, GATHER, RING, SEED, SEND, RECEIVE, UPDATE, NORM, COUNT };
    struct instr instrs[] = {{.collective = COLLECTIVE_NONE},
                             {.collective = COLLECTIVE_ALL_GATHER},
                             {.collective = COLLECTIVE_NONE}};
    struct op ops[] = {{.name = "one"}, {.name = "two"}, {.name = "three"}};
    struct block block = {.ops = ops, .op_count = 3, .name = "layer"};
    struct block_program block_program = {.block = &block, .instrs = instrs, .instr_count = 3};
    struct block_program *blocks[] = {&block_program};
    struct script_task tasks[COUNT] = {[COMPUTE] = {.kind = TASK_INSTR},
                                       [GATHER] = {.kind = TASK_INSTR, .instr = 1},
                                       [RING] = {.kind = TASK_INSTR, .instr = 2},
                                       [SEED] = {.kind = TASK_SEED},
                                       [SEND] = {.kind = TASK_SEND},
                                       [RECEIVE] = {.kind = TASK_RECEIVE},
                                       [UPDATE] = {.kind = TASK_UPDATE, .unit = -1},
                                       [NORM] = {.kind = TASK_NORM, .unit = -1}};
    static const bool WAITS[COUNT] = {
        [GATHER] = true, [RING] = true, [RECEIVE] = true, [NORM] = true};
    struct prepared prepared[COUNT];
    struct heartbeat heartbeat = {.beat = 40};
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    for (int t = 0; t < COUNT; t++)
        prepared[t] = (struct prepared){.source = t == RING ? 0 : -1, .rows = -1};
    bench.program.blocks = (void *)blocks;
    bench.script.program = &bench.program;
    bench.script.tasks = tasks;
    bench.script.task_count = COUNT;
    engine->prepared = prepared;
    engine->step = 6;
    tasks[SEED].slot_kind = TASK_BACKWARD;
    tasks[SEED].micro_batch = 3;
    tasks[SEED].chunk = 1;
    tasks[SEED].position = 5;
    engine_beat(engine, SEED);  // nobody watches
    bench.request.heartbeat = &heartbeat;
    for (int t = 0; t < COUNT; t++) {
        assert_int_equal(engine_waits(engine, t), WAITS[t]);
        if (t <= RING) continue;  // named after their block
        engine_beat(engine, t);
        assert_int_equal(heartbeat.state, WAITS[t] ? HEARTBEAT_WAITING : HEARTBEAT_WORKING);
        assert_int_equal(heartbeat.task, t);
        assert_int_equal(heartbeat.step, 7);
        assert_int_equal(heartbeat.beat, 40 + t - RING);
        if (t == SEED) assert_string_equal(heartbeat.task_name, "B3.1 5 seed");
        if (t == NORM) assert_string_equal(heartbeat.task_name, "norm");
    }
    tasks[COMPUTE].kind = TASK_SEED;  // the first task has a name as well
    tasks[COMPUTE].slot_kind = TASK_FORWARD;
    engine_beat(engine, COMPUTE);
    assert_string_equal(heartbeat.task_name, "F0.0 0 seed");
    assert_true(engine_ok(engine, SEED, NULL) && bench.err.kind == ERR_NONE);
    assert_false(engine_ok(engine, SEED, "it burns"));
    assert_string_equal(bench.err.text, "rank 0, step 7, at B3.1 5 seed: it burns");
}

struct event {
    int number;
};
static struct event events[16];
static int event_count, events_most, freed;
static struct logged {
    char what;  // 'r' records, 'w' waits, 's' settles
    enum stream stream;
    int event;
} logged[32];
static int log_count;

static struct event *event_new(struct device *device)
{
    (void)device;
    if (event_count == events_most) return NULL;
    events[event_count].number = event_count;
    return &events[event_count++];
}

static void event_free(struct device *device, struct event *event)
{
    (void)device;
    assert_non_null(event);
    freed++;
}

static const char *event_record(struct device *device, enum stream stream, struct event *event)
{
    (void)device;
    logged[log_count++] = (struct logged){'r', stream, event->number};
    return NULL;
}

static const char *event_wait(struct device *device, enum stream stream, struct event *event)
{
    (void)device;
    logged[log_count++] = (struct logged){'w', stream, event->number};
    return NULL;
}

static const char *settle(struct device *device, enum stream stream)
{
    (void)device;
    logged[log_count++] = (struct logged){'s', stream, -1};
    return NULL;
}

static void check_log(const struct logged *wanted, int count)
{
    assert_int_equal(log_count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(logged[i].what, wanted[i].what);
        assert_int_equal(logged[i].stream, wanted[i].stream);
        assert_int_equal(logged[i].event, wanted[i].event);
    }
    log_count = 0;
}

// Six tasks: 1 waits for 0, 3 for 1 and 2, 4 for 2, 5 for 3, which it runs as one with. A mark is
// free for another from the last wait for it on, so that two do, behind the three of tasks on two
// streams.
static void marks_are_few_and_waited_for_where_they_are(void **state)
{
    enum { TASKS = 6, FIRST = MARK_COUNT };
    struct script_task tasks[TASKS] = {
        {.stream = STREAM_COMPUTE},
        {.stream = STREAM_TP, .waits = (int[]){0}, .wait_count = 1},
        {.stream = STREAM_COMPUTE},
        {.stream = STREAM_DP, .waits = (int[]){1, 2}, .wait_count = 2},
        {.stream = STREAM_TP, .waits = (int[]){2}, .wait_count = 1},
        {.stream = STREAM_COMPUTE, .waits = (int[]){3}, .wait_count = 1}};
    struct prepared prepared[TASKS] = {
        [3] = {.joined = 2, .members = (int[]){3, 5}}, [5] = {.is_joined = true}};
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.script.tasks = tasks;
    bench.script.task_count = TASKS;
    bench.backend = (struct backend){.is_asynchronous = true,
                                     .event_new = event_new,
                                     .event_free = event_free,
                                     .event_record = event_record,
                                     .event_wait = event_wait,
                                     .synchronize = settle};
    engine->prepared = prepared;
    event_count = freed = log_count = 0;
    events_most = 16;
    assert_true(streams_open(engine));
    assert_int_equal(event_count, FIRST + 2);
    for (int t = 0; t < TASKS; t++)
        assert_int_equal(streams_is_awaited(engine, t), t < 4);
    for (int t = 0; t < TASKS; t++)
        assert_true(streams_begin(engine, t) && streams_end(engine, t));
    check_log((struct logged[]){{'r', STREAM_COMPUTE, FIRST},
                                {'w', STREAM_TP, FIRST},
                                {'r', STREAM_TP, FIRST},
                                {'r', STREAM_COMPUTE, FIRST + 1},
                                {'w', STREAM_DP, FIRST},
                                {'w', STREAM_DP, FIRST + 1},
                                {'w', STREAM_COMPUTE, FIRST},
                                {'r', STREAM_DP, FIRST},
                                {'w', STREAM_TP, FIRST + 1}},
              9);
    assert_true(streams_join(engine, 0, STREAM_CP, STREAM_COMPUTE));
    check_log((struct logged[]){{'r', STREAM_COMPUTE, MARK_JOIN}, {'w', STREAM_CP, MARK_JOIN}}, 2);
    assert_true(streams_settle(engine));
    check_log((struct logged[]){{'s', STREAM_COMPUTE, -1},
                                {'s', STREAM_TP, -1},
                                {'s', STREAM_CP, -1},
                                {'s', STREAM_DP, -1}},
              4);
    streams_close(engine);
    assert_int_equal(freed, FIRST + 2);
    // Of a device that has no more of them those that were made are given back.
    event_count = freed = 0;
    events_most = FIRST + 1;
    assert_false(streams_open(engine));
    assert_string_equal(bench.err.text, "rank 0, step 1, at starting: no event left on the device");
    streams_close(engine);
    assert_int_equal(freed, FIRST + 1);
}

static void what_is_done_when_a_call_returns_waits_for_nothing(void **state)
{
    struct script_task tasks[2] = {{.stream = STREAM_COMPUTE},
                                   {.stream = STREAM_TP, .waits = (int[]){0}, .wait_count = 1}};
    struct prepared prepared[2] = {{.source = -1}, {.source = -1}};
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.script.tasks = tasks;
    bench.script.task_count = 2;
    bench.backend.synchronize = settle;
    engine->prepared = prepared;
    log_count = 0;
    assert_true(streams_open(engine));
    for (int t = 0; t < 2; t++)
        assert_true(streams_begin(engine, t) && !streams_is_awaited(engine, t) &&
                    streams_end(engine, t));
    assert_true(streams_join(engine, 0, STREAM_CP, STREAM_COMPUTE));
    assert_true(streams_settle(engine));
    check_log((struct logged[]){{'s', STREAM_COMPUTE, -1}}, 1);
    streams_close(engine);
    bench.backend.is_asynchronous = false;
    char rooms[STREAM_COUNT][2];
    for (int s = 0; s < STREAM_COUNT; s++)
        for (int i = 0; i < 2; i++)
            engine->staging[s][i] = &rooms[s][i];
    assert_ptr_equal(engine_staging(engine, STREAM_DP, 1), &rooms[STREAM_COMPUTE][1]);
    bench.backend.is_asynchronous = true;
    assert_ptr_equal(engine_staging(engine, STREAM_DP, 1), &rooms[STREAM_DP][1]);
}

static enum stream copied_on;
static enum copy_kind copied;
static const char *fails;
static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device;
    copied_on = stream;
    copied = kind;
    memcpy(to, from, (size_t)bytes);
    return fails;
}

static void numbers_of_the_device_are_doubles_on_the_host(void **state)
{
    static const double GIVEN[] = {1.5, -2.25, 0, 96};
    struct script_task tasks[] = {{.kind = TASK_NORM, .stream = STREAM_DP, .unit = -1}};
    struct rank_bench bench;
    struct engine *engine = rank_bench_open(*state, &bench, 0, 1);
    bench.script.tasks = tasks;
    bench.backend = (struct backend){.copy = copy,
                                     .synchronize = settle,
                                     .real_bytes = 4,
                                     .compute_bytes = 2,
                                     .compute = PRECISION_BF16};
    float reals[4];
    uint16_t halves[5] = {0, 0, 0, 0, 77};
    double read[4];
    log_count = 0;
    fails = NULL;
    assert_true(numbers_write(engine, 0, ELEMENT_FP32, reals, 4, GIVEN));
    assert_true(copied_on == STREAM_DP && copied == COPY_FROM_HOST);
    assert_true(reals[0] == 1.5f && reals[1] == -2.25f && reals[3] == 96);
    assert_true(numbers_write(engine, -1, ELEMENT_COMPUTE, halves, 4, GIVEN));
    assert_true(copied_on == STREAM_COMPUTE && halves[0] == 0x3fc0 && halves[4] == 77);
    assert_true(numbers_read(engine, 0, ELEMENT_FP32, reals, 4, read));
    assert_true(copied_on == STREAM_DP && copied == COPY_TO_HOST);
    assert_memory_equal(read, GIVEN, sizeof GIVEN);
    assert_true(numbers_read(engine, -1, ELEMENT_COMPUTE, halves, 4, read));
    assert_memory_equal(read, GIVEN, sizeof GIVEN);
    check_log((struct logged[]){{'s', STREAM_DP, -1},
                                {'s', STREAM_COMPUTE, -1},
                                {'s', STREAM_DP, -1},
                                {'s', STREAM_COMPUTE, -1}},
              4);
    fails = "no copy";
    read[0] = 19;
    assert_false(numbers_read(engine, -1, ELEMENT_FP32, reals, 1, read));
    assert_true(read[0] == 19 && log_count == 0);
    assert_string_equal(bench.err.text, "rank 0, step 1, at starting: no copy");
    assert_false(numbers_write(engine, 0, ELEMENT_FP32, reals, 1, GIVEN));
}

// Rows 4, 5 and columns 7 .. 9 of an array that begins at 3, 5 with four columns, to one that
// begins at 4, 6 with eleven.
static void a_box_lies_in_two_others(void **state)
{
    static char from[1024], to[1024];
    const struct held part = {.rank = 2, .first = {4, 7}, .count = {2, 2}};
    const struct held source = {.rank = 2, .first = {3, 5}, .count = {3, 4}};
    const struct held target = {.rank = 2, .first = {4, 6}, .count = {2, 11}};
    (void)state;
    struct box_copy box = held_copy(&part, &source, from, &target, to, ELEMENT_FP32, 8);
    assert_int_equal((const char *)box.from - from, 8 * (4 + 2));
    assert_int_equal((char *)box.to - to, 8 * 1);
    assert_true(box.rank == 2 && box.sizes[0] == 2 && box.sizes[1] == 2);
    assert_true(box.from_strides[0] == 4 && box.from_strides[1] == 1);
    assert_true(box.to_strides[0] == 11 && box.to_strides[1] == 1);
    assert_true(box.element == ELEMENT_FP32 && box.combine == BOX_SET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_have_their_bytes_and_addresses),
        cmocka_unit_test(groups_are_who_differs_in_their_axes_alone),
        cmocka_unit_test(who_watches_is_told_what_begins),
        cmocka_unit_test(marks_are_few_and_waited_for_where_they_are),
        cmocka_unit_test(what_is_done_when_a_call_returns_waits_for_nothing),
        cmocka_unit_test(numbers_of_the_device_are_doubles_on_the_host),
        cmocka_unit_test(a_box_lies_in_two_others),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
