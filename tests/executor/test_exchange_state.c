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
    exchange_check_sent(&bench, 0, 48);
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
    assert_true(exchange_run(engine, 0));
    assert_true(bench.to[5] == 42 && bench.to[6] == 7);
    engine = gradient_bench(*state, &bench);
    bench.instr.collective = COLLECTIVE_SLICE;
    bench.instr.relay = 1;
    bench.buffers[0].layout.of[0] = DIM_WIDTH;
    bench.outputs[0].adds = true;
    assert_true(exchange_run(engine, 0));
    assert_true(bench.to[5] == 1 && bench.to[10] == 6 && bench.to[11] == 1);
    assert_int_equal(exchange_staging(engine, 0), 6 * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_scattered_into_the_state_as_reals),
        cmocka_unit_test(gradients_of_half_the_width_are_widened_first),
        cmocka_unit_test(parts_are_handed_round),
        cmocka_unit_test(what_came_is_added_or_begins),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
