#include "executor/launcher/shared_memory.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <unistd.h>

// Messages between two ranks, and what is said when ranks do not fit together or are gone.

static struct rank_job job_of(int rank_count, const struct backend *backend,
                              bool (*body)(const struct transport *, struct communicator *, int,
                                           void *))
{
    return (struct rank_job){
        .rank_count = rank_count,
        .request = {.backend = backend, .message_bytes = 256, .message_count = 3},
        .open = communicator_host,
        .body = body,
    };
}

enum { CHANNEL_COUNT = 3, LONG = 10000 };

// Three messages are under way before the first is received, in another order of channels.
static bool cross_channels(const struct transport *transport, struct communicator *communicator,
                           int rank, void *context)
{
    (void)context;
    for (int round = 0; round < 200; round++) {
        float numbers[CHANNEL_COUNT] = {0};
        int other = 1 - rank;
        for (int channel = 0; channel < CHANNEL_COUNT; channel++) {
            float number = (float)(round * 10 + rank * 5 + channel);
            RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, other, channel,
                                    &number, 1));
        }
        for (int channel = CHANNEL_COUNT - 1; channel >= 0; channel--)
            RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, other, channel,
                                       &numbers[channel], 1));
        for (int channel = 0; channel < CHANNEL_COUNT; channel++)
            RANK_CHECK(numbers[channel] == (float)(round * 10 + other * 5 + channel),
                       "channel %d brought %g", channel, (double)numbers[channel]);
    }
    return true;
}

// The slot of the first message is free again for the fourth, before the third is received.
static bool overtake(const struct transport *transport, struct communicator *communicator, int rank,
                     void *context)
{
    (void)context;
    static const int CHANNELS[4] = {0, 1, 0, 0};
    float numbers[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4 && rank == 0; i++) {
        if (i == 3) RANK_OK(transport->barrier(communicator));
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 1, CHANNELS[i],
                                &numbers[i], 1));
    }
    if (rank == 0) return !transport->barrier(communicator);
    float came[4] = {0};
    RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, &came[0], 1));
    RANK_OK(transport->barrier(communicator));
    RANK_OK(transport->barrier(communicator));
    for (int i = 3; i > 0; i--)
        RANK_OK(
            transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, i == 2, &came[i], 1));
    RANK_CHECK(came[0] == 1 && came[3] == 3 && came[2] == 2 && came[1] == 4, "not in order");
    return true;
}

static bool send_round(const struct transport *transport, struct communicator *communicator,
                       int rank, void *context)
{
    const int *rank_count = context;
    float numbers[LONG];
    int next = (rank + 1) % *rank_count, last = (rank + *rank_count - 1) % *rank_count;
    for (int i = 0; i < LONG; i++)
        numbers[i] = (float)(rank + i);
    if (rank == 0)
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, next, 7, numbers, LONG));
    RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, last, 7, numbers, LONG));
    for (int i = 0; i < LONG; i++)
        RANK_CHECK(numbers[i] == (float)i, "element %d is %g", i, (double)numbers[i]);
    if (rank > 0)
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, next, 7, numbers, LONG));
    RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, next, 1, numbers, 0));
    RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, last, 1, numbers, 0));
    return true;
}

// All send before any receives, far more than there are slots for; then a collective, which must
// not keep the messages from going on, and at last one that nobody waits for but the receiver.
static bool send_all_first(const struct transport *transport, struct communicator *communicator,
                           int rank, void *context)
{
    const int *rank_count = context;
    float numbers[LONG], came[LONG];
    int next = (rank + 1) % *rank_count, last = (rank + *rank_count - 1) % *rank_count;
    for (int i = 0; i < LONG; i++)
        numbers[i] = (float)(rank * LONG + i);
    for (int round = 0; round < 3; round++)
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, next, round & 1, numbers,
                                LONG - round));
    RANK_OK(transport->barrier(communicator));
    // What stands in the slots is of the other channel.
    static const int ORDER[3] = {1, 0, 2};
    for (int i = 0; i < 3; i++) {
        int64_t count = LONG - ORDER[i];
        RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, last, ORDER[i] & 1,
                                   came, count));
        for (int at = 0; at < count; at++)
            RANK_CHECK(came[at] == (float)(last * LONG + at), "element %d is %g", at,
                       (double)came[at]);
    }
    RANK_OK(transport->barrier(communicator));
    if (rank == 0)
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 1, 0, numbers, LONG));
    if (rank == 1)
        RANK_OK(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, came, LONG));
    return true;
}

static void messages_keep_to_their_channel_and_order(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, true);
    struct rank_job job = job_of(2, &backend, cross_channels);
    assert_true(rank_job_run(&job));
    job.body = overtake;
    assert_true(rank_job_run(&job));
}

static void long_messages_go_round_in_pieces(void **state)
{
    (void)state;
    for (int is_host = 0; is_host < 2; is_host++) {
        struct backend backend = rank_backend(4, is_host);
        int rank_count = 4;
        struct rank_job job = job_of(rank_count, &backend, send_round);
        job.context = &rank_count;
        assert_true(rank_job_run(&job));
        job.body = send_all_first;
        assert_true(rank_job_run(&job));
    }
}

static bool expect_failure(const char *failure, const char *wanted)
{
    RANK_CHECK(failure, "nothing failed");
    RANK_CHECK(strcmp(failure, wanted) == 0, "it says: %s", failure);
    return true;
}

static bool make_pair(const struct transport *transport, struct communicator *communicator,
                      struct group **pair)
{
    RANK_OK(transport->group(communicator, (int[]){0, 1}, 2, "pair", pair));
    return true;
}

static bool mismatch(const struct transport *transport, struct communicator *communicator, int rank,
                     void *context)
{
    (void)context;
    struct group *group = NULL;
    double sums[4] = {0};
    int64_t numbers[4] = {0};
    if (!make_pair(transport, communicator, &group)) return false;
    const char *failure = rank == 0 ? transport->host_sum(group, sums, 2)
                                    : transport->host_gather(group, numbers, numbers, 1);
    return expect_failure(failure, rank == 0 ? "group pair: rank 1 is at: gather, rank 0 at: sum"
                                             : "group pair: rank 0 is at: sum, rank 1 at: gather");
}

static bool other_size(const struct transport *transport, struct communicator *communicator,
                       int rank, void *context)
{
    (void)context;
    struct group *group = NULL;
    double sums[4] = {0};
    if (!make_pair(transport, communicator, &group)) return false;
    return expect_failure(transport->host_sum(group, sums, 2 + rank),
                          rank == 0
                              ? "group pair: rank 1 is at: sum of another size, rank 0 at: sum"
                              : "group pair: rank 0 is at: sum of another size, rank 1 at: "
                                "sum");
}

static bool other_parts(const struct transport *transport, struct communicator *communicator,
                        int rank, void *context)
{
    (void)context;
    struct group *group = NULL;
    float from[8] = {0}, to[8] = {0};
    int64_t sent[2] = {1, 3}, received[2] = {1, 3};
    if (!make_pair(transport, communicator, &group)) return false;
    if (rank == 1) sent[0] = 2, received[0] = 3;
    const char *failure =
        transport->all_to_all(group, STREAM_EP, ELEMENT_FP32, from, sent, to, received);
    if (rank == 1) return !failure;
    return expect_failure(failure, "group pair: rank 1 sends fewer reals than the 3 that rank 0 "
                                   "expects");
}

static bool other_message(const struct transport *transport, struct communicator *communicator,
                          int rank, void *context)
{
    (void)context;
    float numbers[8] = {0};
    if (rank == 0)
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 1, 0, numbers, 8));
    if (rank == 0)
        return expect_failure(
            transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, numbers, 8),
            "rank 0 has no link to rank 0");
    return expect_failure(
        transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, numbers, 6),
        "rank 0 sent 8 reals where rank 1 expects 6");
}

static bool other_width(const struct transport *transport, struct communicator *communicator,
                        int rank, void *context)
{
    (void)context;
    float numbers[8] = {0};
    if (rank == 0) {
        RANK_OK(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 1, 0, numbers, 8));
        return true;
    }
    return expect_failure(
        transport->receive(communicator, STREAM_PP, ELEMENT_FP32, 0, 0, numbers, 8),
        "rank 0 sent reals of another width than rank 1 expects");
}

static void ranks_that_do_not_fit_say_so(void **state)
{
    (void)state;
    struct backend backend = rank_backend_at(4, PRECISION_BF16, true);
    bool (*const bodies[])(const struct transport *, struct communicator *, int, void *) = {
        mismatch, other_size, other_parts, other_message, other_width};
    for (int i = 0; i < 5; i++) {
        struct rank_job job = job_of(2, &backend, bodies[i]);
        assert_true(rank_job_run(&job));
    }
}

static bool aborted(const struct transport *transport, struct communicator *communicator, int rank,
                    void *context)
{
    (void)context;
    float number;
    struct group *group = NULL;
    const char *reason = "rank 2 is out of memory in step 7";
    if (rank == 2) {
        usleep(30000);
        transport->abort(communicator, reason);
        transport->abort(communicator, "another reason");
        return true;
    }
    if (rank == 0)
        return expect_failure(
            transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 1, 0, &number, 1), reason);
    if (rank == 1) return expect_failure(transport->barrier(communicator), reason);
    RANK_OK(transport->group(communicator, (int[]){2, 3}, 2, "pair", &group));
    return expect_failure(
        transport->all_reduce(group, STREAM_DP, ELEMENT_FP32, &number, 0, COMBINE_SUM), reason);
}

static void an_abort_ends_all_that_wait(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, true);
    struct rank_job job = job_of(4, &backend, aborted);
    assert_true(rank_job_run(&job));
}

// The parent of the ranks reaps in order, so the last is still to be waited for when rank 0 ends.
static bool lost(const struct transport *transport, struct communicator *communicator, int rank,
                 void *context)
{
    (void)context;
    struct group *group = NULL;
    double sum = 1;
    if (!make_pair(transport, communicator, &group)) return false;
    RANK_OK(transport->host_sum(group, &sum, 1));
    if (rank == 0) _exit(0);
    return expect_failure(transport->host_sum(group, &sum, 1),
                          "rank 0 is gone; it was last at: nothing");
}

static void a_rank_that_is_gone_is_missed(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, true);
    struct rank_job job = job_of(2, &backend, lost);
    assert_true(rank_job_run(&job));
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    struct backend backend = rank_backend(4, true), wide = rank_backend(8, true);
    struct communicator *communicator = NULL, *other = NULL;
    struct shared_memory memory;
    struct err err = {0}, gone = {0}, alone = {0}, twice = {0}, differs = {0};
    assert_true(shared_memory_create(&memory, &err));
    struct communicator_request request = {
        .backend = &backend, .rank_count = 2, .host_name = memory.name};
    const struct transport *transport = communicator_host(&request, &communicator, &err);
    assert_non_null(transport);
    assert_null(communicator_host(&request, &other, &twice));
    assert_non_null(strstr(twice.text, "rank 0 is there twice: processes "));
    request.backend = &wide;
    request.rank = 1;
    assert_null(communicator_host(&request, &other, &differs));
    assert_string_equal(differs.text, "rank 1 was started with other sizes of messages, or "
                                      "precision, than the ranks before it");
    assert_null(communicator_self(&request, &other, &alone));
    assert_string_equal(alone.text, "a job of 2 ranks cannot run as one");
    request.host_name = "/proc/1/fd/99999";
    assert_null(communicator_host(&request, &other, &gone));
    assert_string_equal(gone.text, "shared memory of the ranks (/proc/1/fd/99999): No such file or "
                                   "directory");
    transport->close(communicator);
    shared_memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_to_their_channel_and_order),
        cmocka_unit_test(long_messages_go_round_in_pieces),
        cmocka_unit_test(ranks_that_do_not_fit_say_so),
        cmocka_unit_test(an_abort_ends_all_that_wait),
        cmocka_unit_test(a_rank_that_is_gone_is_missed),
        cmocka_unit_test(what_cannot_be_opened_says_why),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
