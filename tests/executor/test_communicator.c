#include "tests/support/draw.h"
#include "tests/support/rank_sequence.h"
#include "tests/support/test.h"

// Ranks are forked, more of them than there are cores.

static const enum precision COMPUTES[] = {PRECISION_FP32, PRECISION_BF16, PRECISION_FP16};

static bool sequence_passes(struct sequence *sequence, bool is_host, int64_t window_bytes,
                            int64_t message_bytes)
{
    struct backend backend = rank_backend_at(sequence->real_bytes, sequence->compute, is_host);
    struct rank_job job = {
        .rank_count = sequence->rank_count,
        .request = {.backend = &backend,
                    .window_bytes = window_bytes,
                    .message_bytes = message_bytes},
        .open = communicator_host,
        .body = sequence_run,
        .context = sequence,
    };
    return rank_job_run(&job);
}

static void operations_equal_plain_sums_on_one_to_eight_ranks(void **state)
{
    (void)state;
    struct draw draw = draw_start("operations", 11);
    for (int ranks = 1; ranks <= SEQUENCE_RANK_MAX; ranks++) {
        struct sequence sequence = {.real_bytes = ranks % 2 ? 4 : 8,
                                    .rank_count = ranks,
                                    .group_count = 1,
                                    .operation_count = 60,
                                    .compute = COMPUTES[ranks % 3],
                                    .longest = 700,
                                    .seed = draw_bits(&draw)};
        assert_true(sequence_passes(&sequence, true, 0, 0));
    }
}

// Small windows and messages make every operation run in many rounds.
static void long_exchanges_go_in_pieces(void **state)
{
    (void)state;
    struct draw draw = draw_start("pieces", 12);
    for (int ranks = 1; ranks <= SEQUENCE_RANK_MAX; ranks += 2) {
        struct sequence sequence = {.real_bytes = ranks % 3 ? 4 : 8,
                                    .rank_count = ranks,
                                    .group_count = 3,
                                    .operation_count = 40,
                                    .compute = COMPUTES[(ranks + 1) % 3],
                                    .longest = 5000,
                                    .seed = draw_bits(&draw)};
        assert_true(sequence_passes(&sequence, true, 1 << (9 + ranks), 64));
    }
}

static void random_sequences_over_several_groups_keep_apart(void **state)
{
    (void)state;
    const char *more = getenv("MESHWRIGHT_SEQUENCES");
    int sequence_count = more ? atoi(more) : 12;
    struct draw draw = draw_start("sequences", 13);
    for (int i = 0; i < sequence_count; i++) {
        struct sequence sequence = {.real_bytes = draw_int(&draw, 0, 1) ? 4 : 8,
                                    .rank_count = draw_int(&draw, 2, SEQUENCE_RANK_MAX),
                                    .group_count = draw_int(&draw, 2, 12),
                                    .operation_count = 250,
                                    .compute = COMPUTES[draw_int(&draw, 0, 2)],
                                    .longest = 90,
                                    .seed = draw_bits(&draw)};
        assert_true(sequence_passes(&sequence, true, draw_int(&draw, 1, 4) * 700, 256));
    }
}

static void data_outside_the_hosts_memory_is_copied_over(void **state)
{
    (void)state;
    struct sequence sequence = {.real_bytes = 4,
                                .compute = PRECISION_BF16,
                                .rank_count = 3,
                                .group_count = 3,
                                .operation_count = 100,
                                .longest = 900,
                                .seed = 5};
    assert_true(sequence_passes(&sequence, false, 4096, 1024));
}

// One rank has a transport of its own that copies at most; it must agree with the others.
static void one_rank_alone_keeps_what_it_has(void **state)
{
    (void)state;
    struct backend backend = rank_backend(8, true);
    struct sequence sequence = {.real_bytes = 8,
                                .rank_count = 1,
                                .group_count = 2,
                                .operation_count = 60,
                                .longest = 50,
                                .seed = 3};
    struct rank_job job = {.rank_count = 1,
                           .request = {.backend = &backend},
                           .open = communicator_self,
                           .body = sequence_run,
                           .context = &sequence};
    assert_true(rank_job_run(&job));
}

// Two parts where the other rank has more, so that something is missing.
static void a_mock_gives_back_what_it_was_given(void **state)
{
    (void)state;
    struct backend backend = rank_backend(8, true);
    struct communicator_request request = {.backend = &backend, .rank = 1, .rank_count = 4};
    struct communicator *communicator;
    struct group *group;
    struct err err = {0};
    const struct transport *mock = communicator_mock(&request, &communicator, &err);
    double mine[2] = {3, 4}, all[5] = {9, 9, 9, 9, 9}, sums[2] = {1, 2};
    int64_t counts[2] = {3, 2}, numbers[2] = {7, 8}, gathered[4], sent[2] = {0, 2};
    assert_null(mock->group(communicator, (int[]){0, 1}, 2, "pair", &group));
    assert_null(mock->all_gather(group, STREAM_TP, ELEMENT_FP32, mine, all, counts));
    assert_memory_equal(all, ((double[]){3, 4, 0, 3, 4}), sizeof all);
    all[4] = 5;
    assert_null(mock->reduce_scatter(group, STREAM_TP, ELEMENT_FP32, all, mine, counts));
    assert_memory_equal(mine, ((double[]){3, 5}), sizeof mine);
    assert_null(mock->all_to_all(group, STREAM_EP, ELEMENT_FP32, mine, sent, all, counts));
    assert_memory_equal(all, ((double[]){3, 5, 0, 0, 0}), sizeof all);
    assert_null(mock->all_reduce(group, STREAM_DP, ELEMENT_FP32, mine, 2, COMBINE_SUM));
    assert_null(mock->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 3, 0, mine, 2));
    assert_null(mock->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 3, 0, all, 2));
    assert_memory_equal(all, ((double[]){0, 0}), 2 * sizeof *all);
    assert_null(mock->host_gather(group, numbers, gathered, 2));
    assert_memory_equal(gathered, ((int64_t[]){7, 8, 7, 8}), sizeof gathered);
    assert_null(mock->host_sum(group, sums, 2));
    assert_memory_equal(sums, ((double[]){2, 4}), sizeof sums);
    assert_null(mock->barrier(communicator));
    mock->close(communicator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_equal_plain_sums_on_one_to_eight_ranks),
        cmocka_unit_test(long_exchanges_go_in_pieces),
        cmocka_unit_test(random_sequences_over_several_groups_keep_apart),
        cmocka_unit_test(data_outside_the_hosts_memory_is_copied_over),
        cmocka_unit_test(one_rank_alone_keeps_what_it_has),
        cmocka_unit_test(a_mock_gives_back_what_it_was_given),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
