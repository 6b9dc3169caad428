#include "tests/draw.h"
#include "tests/rank_sequence.h"
#include "tests/test.h"

#include <stdio.h>
#include <unistd.h>

// Ranks of several nodes that all are on this machine: inside of a node through shared memory,
// between nodes over connections.

static const enum precision COMPUTES[] = {PRECISION_FP32, PRECISION_BF16, PRECISION_FP16};

static bool sequence_passes(struct sequence *sequence, int ranks_a_node, bool is_host)
{
    struct backend backend = rank_backend_at(sequence->real_bytes, sequence->compute, is_host);
    struct rank_job job = {
        .rank_count = sequence->rank_count,
        .ranks_a_node = ranks_a_node,
        .request = {.backend = &backend, .window_bytes = 3000, .message_bytes = 256},
        .open = communicator_open,
        .body = sequence_run,
        .context = sequence,
    };
    return rank_job_run(&job);
}

static void operations_between_nodes_have_the_bits_of_plain_sums(void **state)
{
    (void)state;
    struct draw draw = draw_start("nodes", 31);
    for (int ranks = 2; ranks <= SEQUENCE_RANK_MAX; ranks += 2) {
        struct sequence sequence = {.real_bytes = ranks % 4 ? 4 : 8,
                                    .rank_count = ranks,
                                    .group_count = 6,
                                    .operation_count = 120,
                                    .compute = COMPUTES[ranks / 2 % 3],
                                    .longest = 900,
                                    .seed = draw_bits(&draw)};
        assert_true(sequence_passes(&sequence, draw_int(&draw, 1, ranks / 2), ranks % 4 != 2));
    }
}

// More than what connections hold by themselves, in both directions at once.
static void long_exchanges_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct sequence sequence = {.real_bytes = 8,
                                .rank_count = 3,
                                .group_count = 2,
                                .operation_count = 12,
                                .compute = PRECISION_FP32,
                                .longest = 200000,
                                .seed = 8};
    assert_true(sequence_passes(&sequence, 2, true));
}

// Rank 1 gives up while the others wait for a message, between nodes and inside one.
static bool give_up(const struct transport *transport, struct communicator *communicator, int rank,
                    void *context)
{
    (void)context;
    const char *reason = "rank 1 has no memory";
    float number = 0;
    if (rank == 1) {
        transport->abort(communicator, reason);
        transport->abort(communicator, "another reason");
        return true;
    }
    int peer = rank == 0 ? 1 : rank ^ 1;
    const char *failure =
        transport->receive(communicator, STREAM_PP, ELEMENT_FP32, peer, 3, &number, 1);
    RANK_CHECK(failure && strcmp(failure, reason) == 0, "rank %d: %s", rank, failure);
    return true;
}

static void an_abort_reaches_ranks_of_other_nodes(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, true);
    struct rank_job job = {.rank_count = 4,
                           .ranks_a_node = 2,
                           .request = {.backend = &backend},
                           .open = communicator_open,
                           .body = give_up};
    assert_true(rank_job_run(&job));
}

static bool send_too_little(const struct transport *transport, struct communicator *communicator,
                            int rank, void *context)
{
    (void)context;
    float numbers[4] = {0};
    if (rank == 0) {
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_FP32, 1, 0, numbers, 2));
        return true;
    }
    const char *failure =
        transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 0, 0, numbers, 4);
    RANK_CHECK(failure &&
                   strcmp(failure, "receive: rank 0 sent 8 bytes where rank 1 expects 16") == 0,
               "%s", failure);
    return true;
}

static bool leave_early(const struct transport *transport, struct communicator *communicator,
                        int rank, void *context)
{
    (void)context;
    float number = 0;
    if (rank == 0) return true;
    const char *failure =
        transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 0, 0, &number, 1);
    RANK_CHECK(failure && strcmp(failure, "rank 0 has ended while rank 1 waits for it") == 0, "%s",
               failure);
    return true;
}

static void ranks_that_do_not_agree_are_told(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, true);
    struct rank_job job = {.rank_count = 2,
                           .ranks_a_node = 1,
                           .request = {.backend = &backend},
                           .open = communicator_open,
                           .body = send_too_little};
    assert_true(rank_job_run(&job));
    job.body = leave_early;
    assert_true(rank_job_run(&job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_between_nodes_have_the_bits_of_plain_sums),
        cmocka_unit_test(long_exchanges_do_not_wait_for_each_other),
        cmocka_unit_test(an_abort_reaches_ranks_of_other_nodes),
        cmocka_unit_test(ranks_that_do_not_agree_are_told),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
