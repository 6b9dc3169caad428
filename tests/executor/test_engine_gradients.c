#include "tests/support/exchange_bench.h"

// Gradients before they are written: whose room begins to be used where, what is filled with NaN
// then, and the zeros that a short part leaves behind it. Of a bucket of 7 and 4 numbers from 3 on.

static bool is_poison(const double *numbers, int count)
{
    const unsigned char *bytes = (const unsigned char *)numbers;
    for (int i = 0; i < 8 * count; i++)
        if (bytes[i] != 0xFF) return false;
    return true;
}

static struct engine *open_gradients(struct arena *arena, struct exchange_bench *bench)
{
    struct engine *engine = exchange_open_bucket(arena, bench, TASK_INSTR);
    bench->task.unit = -1;
    bench->bucket.room = 0;
    bench->buffers[1].tensor = 0;
    bench->tensor.extents[1].size = 4;
    bench->outputs[0] = (struct script_operand){
        .place = PLACE_GRADIENT, .buffer = 1, .parameter = 1};  // from 10 on
    bench->rank.options.poison = true;
    engine->state.gradient_count = 30;
    gradients_prepare(engine);
    return engine;
}

static void the_first_that_writes_enters_a_room(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_gradients(*state, &bench);
    assert_int_equal(bench.prepared[0].enters, 1);
    assert_true(gradients_begin(engine, 0));
    // All of both units and nothing beside them.
    assert_true(bench.from[2] == 2 && is_poison(bench.from + 3, 11) && bench.from[14] == 14);
    assert_int_equal(said.filled_bytes, 88);
    // Shards: of 7 the rank has 3, of 4 it has 2.
    engine = open_gradients(*state, &bench);
    exchange_set_storage(&bench, (struct storage){.gradient_axes = 1});
    bench.outputs[0].adds = true;
    assert_true(gradients_begin(engine, 0));
    assert_true(is_poison(bench.from + 3, 3) && bench.from[6] == 6 && bench.from[9] == 9);
    assert_true(is_poison(bench.from + 10, 2) && bench.from[12] == 12);
}

static void who_does_not_poison_leaves_rooms_as_they_are(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_gradients(*state, &bench);
    bench.rank.options.poison = false;
    assert_true(gradients_start(engine) && gradients_begin(engine, 0));
    assert_true(said.filled_bytes == 0 && bench.from[3] == 3);
}

static void rooms_are_entered_once_and_state_has_none(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_gradients(*state, &bench);
    struct script_task tasks[] = {bench.task, bench.task};
    struct prepared prepared[2] = {{0}, {0}};
    bench.rank.script.tasks = tasks;
    bench.rank.script.task_count = 2;
    engine->prepared = prepared;
    gradients_prepare(engine);
    assert_true(prepared[0].enters == 1 && prepared[1].enters == 0);
    // What is made in the arena enters none, nor what the state keeps.
    struct script_operand first = bench.outputs[0];
    struct script_task inside = bench.task;
    struct script_operand arena = {.parameter = 1, .offset = 8};
    inside.outputs = &arena;
    tasks[0] = inside;
    memset(prepared, 0, sizeof prepared);
    gradients_prepare(engine);
    assert_true(prepared[0].enters == 0 && prepared[1].enters == 1);
    bench.bucket.room = -1;
    memset(prepared, 0, sizeof prepared);
    gradients_prepare(engine);
    assert_true(prepared[0].enters == 0 && prepared[1].enters == 0);
    // Of a tie the room is that of the first.
    bench.bucket.room = 0;
    bench.units[1].bucket = -1;
    bench.parameters[1].same_as = 0;
    memset(prepared, 0, sizeof prepared);
    gradients_prepare(engine);
    assert_true(prepared[1].enters == 1 && first.parameter == 1);
}

static const char *fill_on_compute(struct device *device, enum stream stream, void *data, int byte,
                                   int64_t bytes)
{
    (void)device;
    assert_int_equal(stream, STREAM_COMPUTE);
    memset(data, byte, (size_t)bytes);
    said.filled_bytes += (int)bytes;
    return said.fault;
}

static void a_step_begins_with_nothing_written(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_gradients(*state, &bench);
    bench.rank.backend.fill = fill_on_compute;
    assert_true(gradients_start(engine));
    assert_true(is_poison(bench.from, 30) && bench.from[30] == 30);
    said.fault = "no memory";
    assert_false(gradients_start(engine));
}

// A rank that has three of four numbers writes them, and a zero behind; who adds leaves it.
static void what_is_left_over_is_zero(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = open_gradients(*state, &bench);
    bench.rank.options.poison = false;
    bench.tensor.extents[1].size = 3;
    assert_true(gradients_begin(engine, 0));
    assert_true(bench.from[12] == 12 && bench.from[13] == 0 && bench.from[14] == 14);
    assert_int_equal(said.filled_bytes, 8);
    engine = open_gradients(*state, &bench);
    bench.rank.options.poison = false;
    bench.tensor.extents[1].size = 3;
    bench.outputs[0].adds = true;
    assert_true(gradients_begin(engine, 0));
    bench.outputs[0].adds = false;
    bench.outputs[0].parameter = -1;
    assert_true(gradients_begin(engine, 0));
    bench.outputs[0].parameter = 1;
    bench.task.unit = 0;
    assert_true(gradients_begin(engine, 0));
    bench.task.unit = -1;
    bench.task.kind = TASK_UPDATE;
    assert_true(gradients_begin(engine, 0));
    assert_true(said.filled_bytes == 0 && bench.from[13] == 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_writes_enters_a_room),
        cmocka_unit_test(who_does_not_poison_leaves_rooms_as_they_are),
        cmocka_unit_test(rooms_are_entered_once_and_state_has_none),
        cmocka_unit_test(a_step_begins_with_nothing_written),
        cmocka_unit_test(what_is_left_over_is_zero),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
