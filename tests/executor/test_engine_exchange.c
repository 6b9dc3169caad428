#include "tests/support/exchange_bench.h"

// Changes of layout: what a rank hands over, in which order, where it puts what comes, and what is
// counted of it. A 7 is split in 3, 3 and 1, a 5 in 2, 2 and 1.

static void rows_are_gathered_where_they_belong(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 7, 2);
    static const double WANTED[] = {100, 101, 102, 103, 104, 105, 200,
                                    201, 202, 203, 204, 205, 300, 301};
    bench.buffers[0].layout.of[0] = DIM_HEIGHT;
    assert_true(exchange_run(engine, 0));
    assert_true(said.called == 'g' && said.element_of == ELEMENT_COMPUTE);
    exchange_check_counts(said.counts_of, 6, 6, 2);
    assert_ptr_equal(said.from_of, bench.from);
    assert_ptr_equal(said.to_of, bench.to);
    exchange_check_numbers(bench.to, WANTED, 14);
    // 14 numbers go round, of which each passes two of three parts on to the next: 112 * 2 / 3.
    exchange_check_sent(&bench, 112, 0, 74);
    assert_int_equal(exchange_staging(engine, 0), 14 * 8);
    said.fault = "no wire";
    assert_false(exchange_run(engine, 0));
    assert_non_null(strstr(bench.rank.err.text, "no wire"));
}

// Before the columns the rows would be in the way: they are put in order behind the gathering.
static void columns_are_put_in_order(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 2, 7);
    static const double WANTED[] = {100, 101, 102, 200, 201, 202, 300,
                                    103, 104, 105, 203, 204, 205, 301};
    bench.buffers[0].layout.of[0] = DIM_WIDTH;
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 6, 6, 2);
    assert_ptr_equal(said.to_of, bench.staged[0]);
    exchange_check_numbers(bench.to, WANTED, 14);
    assert_true(bench.to[14] == 0);
    // One row of them is in order as it is.
    engine = exchange_open(*state, &bench, 1, 7);
    bench.buffers[0].layout.of[0] = DIM_WIDTH;
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 3, 3, 1);
    assert_ptr_equal(said.to_of, bench.to);
}

static void sums_are_packed_by_who_keeps_them(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 2, 7);
    static const double PACKED[] = {0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15, 6, 16};
    static const double KEPT[] = {1000, 1001, 1002, 1003, 1004, 1005, 0};
    bench.instr.collective = COLLECTIVE_REDUCE_SCATTER;
    bench.buffers[0].layout.of[0] = LAYOUT_SUM;
    bench.buffers[1].layout.of[0] = DIM_WIDTH;
    assert_true(exchange_run(engine, 0));
    assert_true(said.called == 's' && said.element_of == ELEMENT_COMPUTE);
    exchange_check_counts(said.counts_of, 6, 6, 2);
    exchange_check_numbers(said.handed, PACKED, 14);
    exchange_check_numbers(bench.to, KEPT, 7);
    exchange_check_sent(&bench, 112, 0, 74);  // 14 numbers before it
    assert_int_equal(exchange_staging(engine, 0), 14 * 8);
    engine = exchange_open(*state, &bench, 7, 2);
    bench.instr.collective = COLLECTIVE_REDUCE_SCATTER;
    bench.buffers[0].layout.of[0] = LAYOUT_SUM;
    bench.buffers[1].layout.of[0] = DIM_HEIGHT;
    assert_true(exchange_run(engine, 0));
    assert_ptr_equal(said.from_of, bench.from);
    exchange_check_counts(said.counts_of, 6, 6, 2);
}

// Rows 2 and 3 of five become columns 3 .. 5 of seven: 6 numbers go to the first rank, 2 to the
// last, 6 stay, and 3 come from the last, which has one row.
static void rows_become_columns(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 5, 7);
    static const double LEFT[] = {0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15, 6, 16};
    static const double WANTED[] = {100, 101, 102, 103, 104, 105, 200, 201,
                                    202, 203, 204, 205, 300, 301, 302};
    bench.instr.collective = COLLECTIVE_ALL_TO_ALL;
    bench.buffers[0].layout.of[0] = DIM_HEIGHT;
    bench.buffers[1].layout.of[0] = DIM_WIDTH;
    assert_true(exchange_run(engine, 0));
    assert_int_equal(said.called, 'a');
    // What comes has a room of its own.
    assert_true(said.from_of == bench.staged[0] && bench.staged[1][0] == 100);
    exchange_check_counts(said.counts_of, 6, 6, 2);
    exchange_check_counts(said.received_of, 6, 6, 3);
    exchange_check_numbers(said.handed, LEFT, 14);
    exchange_check_numbers(bench.to, WANTED, 15);
    exchange_check_sent(&bench, 120, 48, 16);
    assert_int_equal(exchange_staging(engine, 0), 15 * 8);
    // And back: 15 numbers before, 14 behind.
    engine = exchange_open(*state, &bench, 5, 7);
    static const double BACK[] = {100, 101, 102, 200, 201, 202, 300,
                                  103, 104, 105, 203, 204, 205, 301};
    bench.instr.collective = COLLECTIVE_ALL_TO_ALL;
    bench.buffers[0].layout.of[0] = DIM_WIDTH;
    bench.buffers[1].layout.of[0] = DIM_HEIGHT;
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 6, 6, 3);
    exchange_check_counts(said.received_of, 6, 6, 2);
    exchange_check_numbers(bench.to, BACK, 14);
    exchange_check_sent(&bench, 120, 48, 24);
}

// Two rows of six each, and one of either neighbour around them.
static void strips_come_from_both_neighbours(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 6, 2);
    static const double LEFT[] = {0, 1, 10, 11};  // rows 2 and 3 of the whole
    static const double WANTED[] = {100, 101, 0, 1, 10, 11, 300, 301};
    bench.instr.collective = COLLECTIVE_SEND_RECV;
    bench.buffers[0].layout.of[0] = bench.buffers[1].layout.of[0] = DIM_HEIGHT;
    layout_halo(&bench.buffers[1].layout, DIM_HEIGHT)->lo = 1;
    layout_halo(&bench.buffers[1].layout, DIM_HEIGHT)->hi = 1;
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 2, 0, 2);
    exchange_check_counts(said.received_of, 2, 0, 2);
    exchange_check_numbers(said.handed, LEFT, 4);
    exchange_check_numbers(bench.to, WANTED, 8);
    assert_true(said.from_of == bench.staged[0] && bench.staged[1][0] == 100);
    exchange_check_sent(&bench, 32, 16, 16);
    // What was made of the neighbours' places goes back and is added there.
    engine = exchange_open(*state, &bench, 6, 2);
    static const double BACK[] = {0, 1, 30, 31};
    static const double ADDED[] = {110, 112, 320, 322};  // to 10, 11, 20, 21
    bench.instr.collective = COLLECTIVE_SEND_RECV;
    bench.instr.combine = LAYOUT_SUM;
    bench.buffers[0].layout.of[0] = bench.buffers[1].layout.of[0] = DIM_HEIGHT;
    *layout_halo(&bench.buffers[0].layout, DIM_HEIGHT) = (struct halo){1, 1, 1};
    assert_true(exchange_run(engine, 0));
    exchange_check_counts(said.counts_of, 2, 0, 2);
    exchange_check_numbers(said.handed, BACK, 4);
    exchange_check_numbers(bench.to, ADDED, 4);
}

static void sums_of_all_are_made_in_place_or_beside(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 3, 4);
    bench.instr.collective = COLLECTIVE_ALL_REDUCE;
    bench.instr.combine = LAYOUT_SUM;
    bench.buffers[0].layout.of[0] = LAYOUT_SUM;
    assert_true(exchange_run(engine, 0));
    assert_true(said.called == 'r' && said.combined == COMBINE_SUM && said.count_of == 12 &&
                said.to_of == bench.to);
    assert_true(said.copies == 1 && said.copied_bytes == 96 && bench.to[11] == 23);
    exchange_check_sent(&bench, 96, 0, 128);  // 96 bytes, of which two parts of three pass twice
    assert_int_equal(exchange_staging(engine, 0), 0);
    engine = exchange_open(*state, &bench, 3, 4);
    bench.instr.collective = COLLECTIVE_ALL_REDUCE;
    bench.instr.combine = LAYOUT_MAX;
    bench.outputs[0].offset = 0;
    assert_true(exchange_run(engine, 0));
    assert_true(said.combined == COMBINE_MAX && said.copies == 0 && said.to_of == bench.from);
}

static void a_slice_is_cut_out(void **state)
{
    struct exchange_bench bench;
    struct engine *engine = exchange_open(*state, &bench, 2, 7);
    static const double WANTED[] = {3, 4, 5, 13, 14, 15, 0};
    bench.instr.collective = COLLECTIVE_SLICE;
    bench.buffers[1].layout.of[0] = DIM_WIDTH;
    assert_true(exchange_run(engine, 0));
    assert_int_equal(said.called, 0);
    exchange_check_numbers(bench.to, WANTED, 7);
    exchange_check_sent(&bench, 0, 0, 0);
    assert_int_equal(exchange_staging(engine, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_gathered_where_they_belong),
        cmocka_unit_test(columns_are_put_in_order),
        cmocka_unit_test(sums_are_packed_by_who_keeps_them),
        cmocka_unit_test(rows_become_columns),
        cmocka_unit_test(strips_come_from_both_neighbours),
        cmocka_unit_test(sums_of_all_are_made_in_place_or_beside),
        cmocka_unit_test(a_slice_is_cut_out),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
