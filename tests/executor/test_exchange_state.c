#include "tests/support/exchange_bench.h"

// Exchanges into gradients of the state, of parts that are handed on, of whole units and of what is
// done once a step: what is handed over and what becomes of what comes.

// The output is a gradient of the state that begins at its fifth number.
static struct engine *gradient_bench(struct arena *arena, struct exchange_bench *bench)
{
    struct engine *engine = exchange_open(arena, bench, 2, 7);
    bench->instr.collective = COLLECTIVE_REDUCE_SCATTER;
    bench->buffers[0].layout.of[0] = LAYOUT_SUM;
    bench->buffers[1].layout.of[0] = DIM_WIDTH;
    bench->outputs[0].place = PLACE_GRADIENT;
    bench->outputs[0].parameter = 0;
    bench->parameters[0] = (struct script_parameter){.elements = 6, .same_as = -1};
    bench->units[0] = (struct script_unit){.elements = 6, .same_as = -1};
    engine->state.gradients = (char *)bench->to;
    engine->state.gradient_at = ARENA_NEW(arena, int64_t, 1);
    engine->state.gradient_at[0] = 5;
    for (int i = 0; i < EXCHANGE_ROOM; i++)
        bench->to[i] = 1;
    return engine;
}

static void gradients_are_scattered_into_the_state_as_reals(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = gradient_bench(*state, &bench);
    assert_true(exchange_run(engine, 0));
    assert_true(said.element_of == ELEMENT_FP32 && said.from_of == bench.staged[0] &&
                said.to_of == bench.to + 5);
    assert_true(bench.to[4] == 1 && bench.to[5] == 1000 && bench.to[10] == 1005);
    assert_true(bench.to[11] == 1 && said.widened_count == 0);
    assert_int_equal(exchange_staging(engine, 0), 14 * 8);
    // Added to what is there: what is reduced is in one room, so that the sum is in the other.
    engine = gradient_bench(*state, &bench);
    bench.outputs[0].adds = true;
    assert_true(exchange_run(engine, 0));
    assert_true(said.from_of == bench.staged[0] && said.to_of == bench.staged[1]);
    assert_true(bench.to[4] == 1 && bench.to[5] == 1001 && bench.to[10] == 1006);
    assert_true(bench.to[11] == 1);
}

static void gradients_of_half_the_width_are_widened_first(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = gradient_bench(*state, &bench);
    float *halves = (float *)(void *)bench.from;
    engine->compute_bytes = 4;
    bench.tensor.extents[1].size = 1;  // rows stay in order: 1, 1 and none
    bench.buffers[1].layout.of[0] = DIM_HEIGHT;
    halves[0] = 2.5;
    halves[1] = -3;
    bench.outputs[0].adds = true;
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 1, 1, 0);
    assert_int_equal(said.widened_count, 2);
    assert_true(said.from_of == bench.staged[1] && said.to_of == bench.staged[0]);
    assert_true(said.handed[0] == 2.5 && said.handed[1] == -3);
    assert_true(bench.to[5] == 1001 && bench.to[6] == 1);
    assert_int_equal(exchange_staging(engine, 0), 2 * 8);
}

// The part of the member behind comes, and the own one leaves for the member in front: 7 rows of 2
// are parts of 6, 6 and 2 numbers.
static void parts_are_handed_round(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 7, 2);
    bench.instr.collective = COLLECTIVE_SEND_RECV;
    bench.instr.relay = 1;
    for (int b = 0; b < 2; b++) {
        bench.buffers[b].layout.of[0] = DIM_HEIGHT;
        bench.buffers[b].relay_axes = 1;
        bench.buffers[b].behind = b + 1;
    }
    assert_true(exchange_run(engine, 0));
    assert_true(said.sent_to == 2 && said.received_from == 0 &&
                said.channels[0] == said.channels[1]);
    // The one behind rank 1 is rank 0, the one behind that rank 2.
    assert_true(said.sent_count == 6 && said.received_count == 2);
    assert_true(said.from_of == bench.from && said.to_of == bench.to);
    exchange_check_sent(&bench, 48, 0, 48);
    assert_int_equal(exchange_staging(engine, 0), 0);
    // Three steps round: to oneself nothing is sent.
    said.sent_to = -1;
    bench.buffers[1].behind = 4;
    assert_true(exchange_run(engine, 0));
    assert_int_equal(said.sent_to, -1);
    exchange_check_numbers(bench.to, bench.from, 6);
}

static void what_came_is_added_or_begins(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 7, 2);
    bench.instr.collective = COLLECTIVE_SLICE;
    bench.instr.relay = 1;
    for (int b = 0; b < 2; b++)
        bench.buffers[b].layout.of[0] = DIM_HEIGHT;
    bench.to[5] = bench.to[6] = 7;
    assert_true(exchange_run(engine, 0));
    assert_true(bench.to[5] == 21 && bench.to[6] == 7);
    bench.instr.input_count = 2;
    bench.instr.combine = LAYOUT_SUM;
    assert_true(exchange_run(engine, 0));
    assert_true(bench.to[5] == 42 && bench.to[6] == 7);
    engine = gradient_bench(*state, &bench);
    bench.instr.collective = COLLECTIVE_SLICE;
    bench.instr.combine = LAYOUT_SUM;
    bench.instr.relay = 1;
    bench.buffers[0].layout.of[0] = DIM_WIDTH;
    bench.outputs[0].adds = true;
    assert_true(exchange_run(engine, 0));
    assert_true(bench.to[5] == 1 && bench.to[10] == 6 && bench.to[11] == 1);
    assert_int_equal(exchange_staging(engine, 0), 6 * 8);
}

// A flat task on two units, of 7 and of 4 numbers, which three ranks store as 3, 3, 1 and 2, 2, 0.
static struct engine *units_bench(struct arena *arena, struct exchange_bench *bench,
                                  enum collective collective)
{
    struct engine *engine = exchange_open(arena, bench, 1, 1);
    struct state *state = &engine->state;
    bench->instr.collective = collective;
    bench->buffers[0].tensor = -1;
    bench->task.unit = 0;
    bench->task.unit_count = 2;
    bench->units[0] = (struct script_unit){.elements = 7, .same_as = -1};
    bench->units[1] = (struct script_unit){.elements = 4, .same_as = -1};
    for (int u = 0; u < 2; u++)
        bench->units[u].storage = (struct storage){.weight_axes = 1, .gradient_axes = 1};
    state->weights = state->gradients = (char *)bench->staged[1];
    state->weight_at = ARENA_NEW(arena, int64_t, 2);
    state->gradient_at = ARENA_NEW(arena, int64_t, 2);
    state->weight_at[0] = state->gradient_at[0] = 40;
    state->weight_at[1] = state->gradient_at[1] = 50;
    return engine;
}

static void units_are_gathered_one_behind_another(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = units_bench(*state, &bench, COLLECTIVE_ALL_GATHER);
    static const double WANTED[] = {100, 101, 102, 200, 201, 202, 300, 100, 101, 200, 201, 0};
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 2, 2, 0);
    assert_ptr_equal(said.from_of, bench.staged[1] + 50);
    exchange_check_numbers(bench.to, WANTED, 12);
    exchange_check_sent(&bench, 88, 0, 37 + 21);  // two thirds of 56 and of 32 bytes
    assert_int_equal(exchange_staging(engine, 0), 7 * 8);
    bench.task.unit = -1;
    assert_int_equal(exchange_staging(engine, 0), 0);
}

static void units_come_from_the_host_whole(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = units_bench(*state, &bench, COLLECTIVE_FETCH);
    engine->state.away_weights = (char *)bench.staged[0];
    for (int i = 0; i < EXCHANGE_ROOM; i++)
        bench.staged[0][i] = i;
    bench.units[0].storage.weights_away = bench.units[1].storage.weights_away = true;
    assert_true(exchange_run(engine, 0));
    assert_true(said.copies == 2 && said.copied == COPY_FROM_HOST && said.copied_bytes == 88);
    assert_true(bench.to[0] == 40 && bench.to[6] == 46 && bench.to[7] == 50 && bench.to[10] == 53);
    assert_true(bench.to[11] == 0);
    exchange_check_sent(&bench, 88, 0, 0);
    assert_int_equal(exchange_staging(engine, 0), 0);
}

// The room has 1 .. 11; what waited for it are two numbers for the second unit's third and fourth,
// the first time in place of what is there, then added to it.
static void units_are_scattered_into_the_state(void **state)
{
    static const double ROOM[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (int turn = 0; turn < 2; turn++) {
        struct exchange_bench bench;
        struct engine *engine = units_bench(*state, &bench, COLLECTIVE_REDUCE_SCATTER);
        bench.task.input_count = bench.task.output_count = 2;
        bench.buffers[1].tensor = bench.buffers[2].tensor = 0;
        bench.tensor.extents[1].size = 2;
        bench.inputs[1] = (struct script_operand){
            .buffer = 2, .parameter = 1, .adds = turn, .offset = EXCHANGE_ROOM * 8};
        bench.parameters[1] =
            (struct script_parameter){.unit = 1, .first = 2, .elements = 2, .same_as = -1};
        bench.outputs[1].adds = true;
        memcpy(bench.from, ROOM, sizeof ROOM);
        bench.from[9] = 10;
        bench.from[10] = 11;
        bench.to[0] = 0.5;
        bench.to[1] = 0.25;
        for (int i = 40; i < 60; i++)
            bench.staged[1][i] = 3;
        assert_true(exchange_run(engine, 0));
        assert_int_equal(said.element_of, ELEMENT_FP32);
        // The last that was scattered is the second unit, into the staging.
        exchange_check_counts(said.counts_of, 2, 2, 0);
        assert_true(said.from_of == bench.from + 7 && said.to_of == bench.staged[0]);
        double third = turn ? 10.5 : 0.5, fourth = turn ? 11.25 : 0.25;
        const double wanted[] = {8, 9, third, fourth};
        exchange_check_numbers(said.handed, wanted, 4);
        const double *kept = bench.staged[1];
        assert_true(kept[39] == 0 && kept[40] == 1000 && kept[42] == 1002 && kept[43] == 3);
        assert_true(kept[50] == 1003 && kept[51] == 1004 && kept[52] == 3);
        assert_int_equal(said.filled_bytes, 0);
        exchange_check_sent(&bench, 88, 0, 37 + 21);
    }
}

// A rank whose part of an uneven split is short leaves zeros behind what it has.
static void what_a_short_part_leaves_over_is_zero(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = units_bench(*state, &bench, COLLECTIVE_REDUCE_SCATTER);
    bench.task.input_count = 2;
    bench.task.unit_count = 1;
    bench.buffers[1].tensor = bench.buffers[2].tensor = 0;
    bench.tensor.extents[1].size = 5;
    bench.inputs[1] =
        (struct script_operand){.buffer = 2, .parameter = 1, .offset = EXCHANGE_ROOM * 8};
    bench.parameters[1] = (struct script_parameter){.first = 1, .elements = 6, .same_as = -1};
    for (int i = 0; i < 7; i++) {
        bench.from[i] = 60 + i;
        bench.to[i] = i + 1;
    }
    assert_true(exchange_run(engine, 0));
    static const double WANTED[] = {60, 1, 2, 3, 4, 5, 0};
    exchange_check_numbers(said.handed, WANTED, 7);
    assert_int_equal(said.filled_bytes, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_scattered_into_the_state_as_reals),
        cmocka_unit_test(gradients_of_half_the_width_are_widened_first),
        cmocka_unit_test(parts_are_handed_round),
        cmocka_unit_test(what_came_is_added_or_begins),
        cmocka_unit_test(units_are_gathered_one_behind_another),
        cmocka_unit_test(units_come_from_the_host_whole),
        cmocka_unit_test(units_are_scattered_into_the_state),
        cmocka_unit_test(what_a_short_part_leaves_over_is_zero),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
