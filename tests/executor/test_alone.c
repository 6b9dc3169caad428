#include "executor/communicators/communicator.h"
#include "tests/support/test.h"

#include "core/progress.h"
#include "plan/layout/layout.h"

#include <math.h>

// One rank alone: what it takes the others to hold, and what it waits in the place of exchanges.
// Numbers are of eight bytes; the device notes what is asked of it.

enum { RANKS = 5, ME = 3, ALL = 64 };

static const int GROUP[] = {4, 3, 1};  // this rank is its second member
static const int64_t COUNTS[] = {2, 3, 4};

static struct asked {
    int copies, fills, delays, origins;
    const char *copy_fault, *fill_fault, *delay_fault;
    enum stream stream;  // of the last of each
    double delay_s, until_s;
    int multiprocessors;
    int64_t bytes;  // of the last exchange that seconds were asked of
    int collective, members;
    int ranks[RANKS];
} asked;

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device;
    assert_int_equal(kind, COPY_DEVICE);
    assert_true(bytes > 0 && to != from);
    memmove(to, from, (size_t)bytes);
    asked.copies++;
    asked.stream = stream;
    return asked.copy_fault;
}

static const char *fill(struct device *device, enum stream stream, void *to, int byte,
                        int64_t bytes)
{
    (void)device;
    assert_true(bytes > 0);
    memset(to, byte, (size_t)bytes);
    asked.fills++;
    asked.stream = stream;
    return asked.fill_fault;
}

static const char *delay(struct device *device, enum stream stream, double seconds,
                         int multiprocessors)
{
    (void)device;
    asked.delays++;
    asked.stream = stream;
    asked.delay_s = seconds;
    asked.multiprocessors = multiprocessors;
    return asked.delay_fault;
}

static const char *delay_until(struct device *device, enum stream stream, double seconds,
                               int multiprocessors)
{
    (void)device;
    asked.stream = stream;
    asked.until_s = seconds;
    asked.multiprocessors = multiprocessors;
    return NULL;
}

static const char *delay_origin(struct device *device, enum stream stream)
{
    (void)device;
    assert_int_equal(stream, STREAM_COMPUTE);
    asked.origins++;
    return NULL;
}

static double exchange_s(void *context, int collective, const int *ranks, int count, int64_t bytes)
{
    assert_ptr_equal(context, &asked);
    asked.collective = collective;
    asked.members = count;
    asked.bytes = bytes;
    memcpy(asked.ranks, ranks, (size_t)count * sizeof *ranks);
    return 1e-6 * (double)bytes;
}

static const double ARRIVALS[] = {0.002, 0.001};
static const struct communicator_delays DELAYS = {exchange_s, &asked, ARRIVALS, 2, 7};

static const struct backend DEVICE = {.copy = copy,
                                      .fill = fill,
                                      .delay = delay,
                                      .delay_until = delay_until,
                                      .delay_origin = delay_origin,
                                      .real_bytes = 8,
                                      .compute_bytes = 8};

struct alone {
    const struct transport *transport;
    struct communicator *communicator;
    struct group *group;
    double from[ALL], to[ALL];
};

static void open_alone(struct alone *alone, const struct backend *backend,
                       const struct communicator_delays *delays)
{
    struct err err = {0};
    const struct communicator_request request = {
        .backend = backend, .rank = ME, .rank_count = RANKS, .delays = delays};
    *alone = (struct alone){0};
    asked = (struct asked){0};
    alone->transport = communicator_mock(&request, &alone->communicator, &err);
    assert_non_null(alone->transport);
    assert_string_equal(alone->transport->name, "mock");
    assert_null(alone->transport->group(alone->communicator, GROUP, 3, "tp", &alone->group));
    for (int i = 0; i < ALL; i++)
        alone->from[i] = 1 + i, alone->to[i] = -1;
}

static void close_alone(struct alone *alone)
{
    alone->transport->close(alone->communicator);
}

static void check_to(const struct alone *alone, const double *wanted, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(alone->to[i] == wanted[i]);
    assert_true(alone->to[count] == -1);
}

// Of an exchange that was just done: what it was, and of how many bytes; its microseconds passed.
static void check_asked(enum collective collective, int64_t bytes)
{
    assert_int_equal(asked.collective, collective);
    assert_int_equal(asked.bytes, bytes);
    assert_int_equal(asked.members, 3);
    assert_memory_equal(asked.ranks, GROUP, sizeof GROUP);
    assert_true(asked.delay_s == 1e-6 * (double)bytes && asked.multiprocessors == 7);
    assert_int_equal(asked.stream, STREAM_TP);
}

#define LIST(...) ((const double[]){__VA_ARGS__})

static void open_again(struct alone *alone)
{
    close_alone(alone);
    open_alone(alone, &DEVICE, &DELAYS);
}

static void others_hold_what_this_one_holds(void **state)
{
    struct alone alone;
    (void)state;
    open_alone(&alone, &DEVICE, &DELAYS);
    const struct transport *transport = alone.transport;
    // Parts of 2, 3 and 4 of its own 3: cut, as they are, and filled up.
    assert_null(transport->all_gather(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.from, alone.to,
                                      COUNTS));
    check_to(&alone, LIST(1, 2, 1, 2, 3, 1, 2, 3, 0), 9);
    check_asked(COLLECTIVE_ALL_GATHER, 9 * 8);
    assert_true(asked.copies == 3 && asked.fills == 1 && asked.delays == 1);
    // Its part begins behind the first member's two.
    open_again(&alone);
    assert_null(transport->reduce_scatter(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.from,
                                          alone.to, COUNTS));
    check_to(&alone, LIST(3, 4, 5), 3);
    check_asked(COLLECTIVE_REDUCE_SCATTER, 9 * 8);
    assert_true(asked.copies == 1 && asked.fills == 0);
    // Nine are sent, six come; six sent, nine come.
    static const int64_t FEWER[] = {1, 2, 3};
    open_again(&alone);
    assert_null(transport->all_to_all(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.from, COUNTS,
                                      alone.to, FEWER));
    check_to(&alone, LIST(1, 2, 3, 4, 5, 6), 6);
    check_asked(COLLECTIVE_ALL_TO_ALL, 9 * 8);
    open_again(&alone);
    assert_null(transport->all_to_all(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.from, FEWER,
                                      alone.to, COUNTS));
    check_to(&alone, LIST(1, 2, 3, 4, 5, 6, 0, 0, 0), 9);
    check_asked(COLLECTIVE_ALL_TO_ALL, 6 * 8);
    // Sums stay what they are.
    open_again(&alone);
    assert_null(
        transport->all_reduce(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.to, 5, COMBINE_SUM));
    check_to(&alone, LIST(-1), 0);
    check_asked(COLLECTIVE_ALL_REDUCE, 5 * 8);
    assert_true(asked.copies == 0 && asked.fills == 0);
    close_alone(&alone);
}

// The part of this rank stays where it is, inside the whole.
static void what_is_in_place_is_not_copied(void **state)
{
    struct alone alone;
    (void)state;
    open_alone(&alone, &DEVICE, NULL);
    static const int64_t ALIKE[] = {2, 2, 2};
    assert_null(alone.transport->all_gather(alone.group, STREAM_DP, ELEMENT_COMPUTE, alone.from + 2,
                                            alone.from, ALIKE));
    assert_true(asked.copies == 2 && asked.fills == 0 && asked.delays == 0);
    for (int i = 0; i < 6; i++)
        assert_true(alone.from[i] == 3 + i % 2);
    assert_true(alone.from[6] == 7);
    close_alone(&alone);
}

static void numbers_on_the_host_are_those_of_all(void **state)
{
    struct alone alone;
    int64_t mine[] = {7, 8}, all[7] = {1, 2, 3, 4, 5, 6, 9};
    double sums[] = {2, 0.5, 11};
    (void)state;
    open_alone(&alone, &DEVICE, &DELAYS);
    assert_null(alone.transport->host_gather(alone.group, mine, all, 2));
    for (int i = 0; i < 6; i++)
        assert_int_equal(all[i], mine[i % 2]);
    assert_int_equal(all[6], 9);
    // Its own may be any of the parts.
    for (int part = 0; part < 3; part++) {
        int64_t own[6] = {10, 11, 20, 21, 30, 31};
        assert_null(alone.transport->host_gather(alone.group, own + 2 * part, own, 2));
        for (int i = 0; i < 6; i++)
            assert_int_equal(own[i], 10 * (part + 1) + i % 2);
    }
    assert_null(alone.transport->host_sum(alone.group, sums, 2));
    assert_true(sums[0] == 6 && sums[1] == 1.5 && sums[2] == 11);
    assert_null(alone.transport->host_broadcast(alone.group, mine, 2, 0));
    assert_true(mine[0] == 7 && mine[1] == 8);
    close_alone(&alone);
}

// Messages are zeros. Those of other stages are there when they are there, those that go round take
// their time.
static void messages_arrive_when_they_would(void **state)
{
    struct alone alone;
    (void)state;
    open_alone(&alone, &DEVICE, &DELAYS);
    const struct transport *transport = alone.transport;
    for (int step = 0; step < 2; step++) {
        assert_null(transport->barrier(alone.communicator));
        assert_int_equal(asked.origins, step + 1);
        for (int m = 0; m < 2; m++) {
            alone.to[3] = -1;
            assert_null(transport->receive(alone.communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0,
                                           alone.to, 3));
            check_to(&alone, LIST(0, 0, 0), 3);
            assert_true(asked.until_s == ARRIVALS[m] && asked.multiprocessors == 1);
            assert_int_equal(asked.stream, STREAM_PP);
        }
        assert_string_equal(
            transport->receive(alone.communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, alone.to, 3),
            "a message too many");
    }
    assert_int_equal(asked.delays, 0);
    assert_null(
        transport->receive(alone.communicator, STREAM_CP, ELEMENT_COMPUTE, 4, 0, alone.to, 3));
    assert_true(asked.delays == 1 && asked.delay_s == 1e-6 * 24 && asked.members == 1);
    assert_true(asked.collective == COLLECTIVE_SEND_RECV && asked.ranks[0] == 4);
    assert_null(
        transport->send(alone.communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, alone.from, 3));
    close_alone(&alone);
    // Without delays nothing is asked, and any number comes.
    open_alone(&alone, &DEVICE, NULL);
    assert_null(alone.transport->barrier(alone.communicator));
    for (int m = 0; m < 3; m++)
        assert_null(alone.transport->receive(alone.communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0,
                                             alone.to, 3));
    assert_true(asked.origins == 0 && asked.delays == 0 && asked.fills == 3);
    close_alone(&alone);
}

// Where the device has no delays of its own the host waits: no less.
static void the_host_waits_in_the_place_of_a_device(void **state)
{
    struct alone alone;
    struct backend host = DEVICE;
    (void)state;
    host.delay = NULL;
    host.delay_until = NULL;
    host.delay_origin = NULL;
    open_alone(&alone, &host, &DELAYS);
    double begin_s = clock_s();
    assert_null(alone.transport->all_reduce(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.to, 250,
                                            COMBINE_SUM));
    assert_true(clock_s() - begin_s >= 0.002);
    begin_s = clock_s();
    assert_null(alone.transport->barrier(alone.communicator));
    assert_null(alone.transport->receive(alone.communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0,
                                         alone.to, 3));
    assert_true(clock_s() - begin_s >= 0.002);
    close_alone(&alone);
}

static void faults_of_the_device_are_told(void **state)
{
    struct alone alone;
    (void)state;
    open_alone(&alone, &DEVICE, &DELAYS);
    const struct transport *transport = alone.transport;
    asked.copy_fault = "no copy";
    assert_string_equal(transport->all_gather(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.from,
                                              alone.to, COUNTS),
                        "no copy");
    assert_true(asked.copies == 1 && asked.fills == 0 && asked.delays == 0);
    assert_string_equal(transport->reduce_scatter(alone.group, STREAM_TP, ELEMENT_COMPUTE,
                                                  alone.from, alone.to, COUNTS),
                        "no copy");
    assert_string_equal(transport->all_to_all(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.from,
                                              COUNTS, alone.to, COUNTS),
                        "no copy");
    asked.copy_fault = NULL;
    asked.fill_fault = "no fill";
    assert_string_equal(
        transport->receive(alone.communicator, STREAM_CP, ELEMENT_COMPUTE, 4, 0, alone.to, 3),
        "no fill");
    assert_int_equal(asked.delays, 0);
    asked.delay_fault = "no delay";
    assert_string_equal(
        transport->all_reduce(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.to, 5, COMBINE_SUM),
        "no delay");
    // Nothing takes no time.
    assert_null(
        transport->all_reduce(alone.group, STREAM_TP, ELEMENT_COMPUTE, alone.to, 0, COMBINE_SUM));
    close_alone(&alone);
}

static void a_job_of_one_is_itself(void **state)
{
    struct err err = {0};
    struct communicator *communicator = NULL;
    struct group *group = NULL;
    double from[] = {1, 2, 3}, to[] = {0, 0, 0, -1};
    struct communicator_request request = {.backend = &DEVICE, .rank = 0, .rank_count = 2};
    (void)state;
    asked = (struct asked){0};
    assert_null(communicator_self(&request, &communicator, &err));
    assert_string_equal(err.text, "a job of 2 ranks cannot run as one");
    request.rank_count = 1;
    const struct transport *transport = communicator_self(&request, &communicator, &err);
    assert_string_equal(transport->name, "self");
    assert_null(transport->group(communicator, (const int[]){0}, 1, "dp", &group));
    const int64_t three[] = {3}, two[] = {2};
    assert_null(transport->all_to_all(group, STREAM_EP, ELEMENT_COMPUTE, from, three, to, three));
    assert_true(to[0] == 1 && to[1] == 2 && to[2] == 3 && to[3] == -1);
    assert_string_equal(
        transport->all_to_all(group, STREAM_EP, ELEMENT_COMPUTE, from, three, to, two),
        "rank 0 sends itself another size than it expects");
    assert_string_equal(transport->send(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, from, 1),
                        "a job of one rank has nobody to send to");
    assert_string_equal(transport->receive(communicator, STREAM_PP, ELEMENT_COMPUTE, 0, 0, to, 1),
                        "a job of one rank has nobody to receive from");
    transport->close(communicator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_hold_what_this_one_holds),
        cmocka_unit_test(what_is_in_place_is_not_copied),
        cmocka_unit_test(numbers_on_the_host_are_those_of_all),
        cmocka_unit_test(messages_arrive_when_they_would),
        cmocka_unit_test(the_host_waits_in_the_place_of_a_device),
        cmocka_unit_test(faults_of_the_device_are_told),
        cmocka_unit_test(a_job_of_one_is_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
