#include "executor/communicators/communicator.h"
#include "executor/communicators/sum.h"

#include "core/progress.h"
#include "plan/layout/layout.h"

#include <assert.h>
#include <string.h>
#include <time.h>

// One rank alone. Of a job of one (`self`) groups are itself, and exchanges are copies on the
// device, or nothing. Of many (`mock`), for timing and memory: the others are taken to hold what
// this one holds. Sums over reals are left as they are, and messages that would come are zeros.
// What an exchange takes is what the request's delays say, passed on its stream, where there are
// any.

struct communicator {
    struct arena arena;
    const struct backend *backend;
    struct device *device;
    int rank, rank_count;
    const struct communicator_delays *delays;  // NULL: none
    double began_s;                            // the step, on the host
    int received_count;                        // messages of it from other stages
};

struct group {
    struct communicator *communicator;
    const int *ranks;
    int count, me;
};

// On the host, in the place of a device. Sleep ends late by more than a short exchange takes: the
// end of it is waited for awake.
static void wait_until(double when_s)
{
    enum { NS = 1000000000 };
    static const double AWAKE_S = 3e-4;
    double asleep_s = when_s - clock_s() - AWAKE_S;
    if (asleep_s > 0) {
        int64_t ns = (int64_t)(asleep_s * NS);
        struct timespec left = {.tv_sec = ns / NS, .tv_nsec = ns % NS};
        while (nanosleep(&left, &left) != 0) {
        }
    }
    while (clock_s() < when_s) {
    }
}

static const char *pass(struct communicator *communicator, enum stream stream, double seconds)
{
    const struct backend *backend = communicator->backend;
    if (seconds <= 0) return NULL;
    if (backend->delay)
        return backend->delay(communicator->device, stream, seconds,
                              communicator->delays->multiprocessors);
    wait_until(clock_s() + seconds);
    return NULL;
}

static int64_t bytes_of(const struct communicator *communicator, enum element element,
                        int64_t count)
{
    return count * number_bytes(number_of(communicator->backend, element));
}

static const char *delay_collective(struct group *group, enum stream stream,
                                    enum collective collective, int64_t bytes)
{
    const struct communicator_delays *delays = group->communicator->delays;
    if (!delays) return NULL;
    double s =
        delays->exchange_s(delays->context, (int)collective, group->ranks, group->count, bytes);
    return pass(group->communicator, stream, s);
}

// What another stage sends is there when its rank has it; what goes round among ranks of one stage
// takes its time.
static const char *delay_message(struct communicator *communicator, enum stream stream, int rank,
                                 int64_t bytes)
{
    const struct communicator_delays *delays = communicator->delays;
    const struct backend *backend = communicator->backend;
    if (!delays) return NULL;
    if (stream != STREAM_PP) {
        double s = delays->exchange_s(delays->context, COLLECTIVE_SEND_RECV, &rank, 1, bytes);
        return pass(communicator, stream, s);
    }
    if (communicator->received_count >= delays->arrival_count) return "a message too many";
    double arrival_s = delays->arrival_s[communicator->received_count++];
    if (backend->delay_until)
        return backend->delay_until(communicator->device, stream, arrival_s, 1);
    wait_until(communicator->began_s + arrival_s);
    return NULL;
}

static void mock_close(struct communicator *communicator)
{
    struct arena arena = communicator->arena;
    arena_free(&arena);
}

static const char *mock_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **made)
{
    (void)purpose;
    struct group *group = ARENA_NEW(&communicator->arena, struct group, 1);
    int *own = ARENA_COPY(&communicator->arena, int, ranks, count);
    *group = (struct group){communicator, own, count, -1};
    for (int i = 0; i < count; i++) {
        assert(ranks[i] >= 0 && ranks[i] < communicator->rank_count);
        if (ranks[i] == communicator->rank) group->me = i;
    }
    assert(group->me >= 0);
    *made = group;
    return NULL;
}

static void *shift(struct communicator *communicator, enum element element, const void *data,
                   int64_t count)
{
    return bytes_at(data, count * number_bytes(number_of(communicator->backend, element)));
}

// `given` numbers where `wanted` are: cut, or filled up with zeros.
static const char *put(struct communicator *communicator, enum stream stream, enum element element,
                       void *to, int64_t wanted, const void *from, int64_t given)
{
    const struct backend *backend = communicator->backend;
    int64_t bytes = number_bytes(number_of(backend, element)),
            copied = given < wanted ? given : wanted;
    const char *failure = NULL;
    if (copied > 0 && to != from)
        failure =
            backend->copy(communicator->device, stream, COPY_DEVICE, to, from, copied * bytes);
    if (!failure && copied < wanted)
        failure =
            backend->fill(communicator->device, stream, shift(communicator, element, to, copied), 0,
                          (wanted - copied) * bytes);
    return failure;
}

static const char *mock_all_reduce(struct group *group, enum stream stream, enum element element,
                                   void *data, int64_t count, enum combine combine)
{
    (void)data, (void)combine;
    return delay_collective(group, stream, COLLECTIVE_ALL_REDUCE,
                            bytes_of(group->communicator, element, count));
}

static const char *mock_all_gather(struct group *group, enum stream stream, enum element element,
                                   const void *mine, void *all, const int64_t *counts)
{
    const char *failure = NULL;
    int64_t part = 0;
    for (int member = 0; member < group->count && !failure; member++) {
        failure = put(group->communicator, stream, element,
                      shift(group->communicator, element, all, part), counts[member], mine,
                      counts[group->me]);
        part += counts[member];
    }
    if (failure) return failure;
    return delay_collective(group, stream, COLLECTIVE_ALL_GATHER,
                            bytes_of(group->communicator, element, part));
}

static const char *mock_reduce_scatter(struct group *group, enum stream stream,
                                       enum element element, const void *all, void *mine,
                                       const int64_t *counts)
{
    int64_t part = counts_sum(counts, group->me), count = counts[group->me];
    const char *failure = put(group->communicator, stream, element, mine, count,
                              shift(group->communicator, element, all, part), count);
    if (failure) return failure;
    return delay_collective(
        group, stream, COLLECTIVE_REDUCE_SCATTER,
        bytes_of(group->communicator, element, counts_sum(counts, group->count)));
}

static const char *mock_all_to_all(struct group *group, enum stream stream, enum element element,
                                   const void *from, const int64_t *sent, void *to,
                                   const int64_t *received)
{
    const char *failure =
        put(group->communicator, stream, element, to, counts_sum(received, group->count), from,
            counts_sum(sent, group->count));
    if (failure) return failure;
    return delay_collective(group, stream, COLLECTIVE_ALL_TO_ALL,
                            bytes_of(group->communicator, element, counts_sum(sent, group->count)));
}

static const char *mock_host_gather(struct group *group, const int64_t *mine, int64_t *all,
                                    int count)
{
    // `mine` may be where one of the parts is.
    for (int member = group->count - 1; member >= 0; member--) {
        for (int i = 0; i < count && all + (int64_t)member * count != mine; i++)
            all[(int64_t)member * count + i] = mine[i];
    }
    return NULL;
}

static const char *mock_host_sum(struct group *group, double *values, int count)
{
    for (int i = 0; i < count; i++)
        // Every member is taken to bring the same.
        values[i] *= group->count;
    return NULL;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the table's type
static const char *mock_host_broadcast(struct group *group, int64_t *numbers, int64_t count,
                                       int from)
{
    (void)group, (void)numbers, (void)count, (void)from;
    return NULL;
}

static const char *mock_send(struct communicator *communicator, enum stream stream,
                             enum element element, int rank, int channel, const void *data,
                             int64_t count)
{
    (void)communicator, (void)stream, (void)element, (void)rank, (void)channel, (void)data,
        (void)count;
    return NULL;
}

static const char *mock_receive(struct communicator *communicator, enum stream stream,
                                enum element element, int rank, int channel, void *data,
                                int64_t count)
{
    (void)channel;
    const char *failure = put(communicator, stream, element, data, count, NULL, 0);
    if (failure) return failure;
    return delay_message(communicator, stream, rank, bytes_of(communicator, element, count));
}

static const char *mock_barrier(struct communicator *communicator)
{
    communicator->received_count = 0;
    communicator->began_s = clock_s();
    if (!communicator->delays || !communicator->backend->delay_origin) return NULL;
    return communicator->backend->delay_origin(communicator->device, STREAM_COMPUTE);
}

static void mock_abort(struct communicator *communicator, const char *reason)
{
    (void)communicator, (void)reason;
}

static const char *self_all_to_all(struct group *group, enum stream stream, enum element element,
                                   const void *from, const int64_t *sent, void *to,
                                   const int64_t *received)
{
    if (sent[0] != received[0]) return "rank 0 sends itself another size than it expects";
    return mock_all_to_all(group, stream, element, from, sent, to, received);
}

static const char *self_send(struct communicator *communicator, enum stream stream,
                             enum element element, int rank, int channel, const void *data,
                             int64_t count)
{
    (void)communicator, (void)stream, (void)element, (void)rank, (void)channel, (void)data,
        (void)count;
    return "a job of one rank has nobody to send to";
}

static const char *self_receive(struct communicator *communicator, enum stream stream,
                                enum element element, int rank, int channel, void *data,
                                int64_t count)
{
    (void)communicator, (void)stream, (void)element, (void)rank, (void)channel, (void)data,
        (void)count;
    return "a job of one rank has nobody to receive from";
}

static const struct transport MOCK_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "mock",
    .close = mock_close,
    .group = mock_group,
    .all_reduce = mock_all_reduce,
    .all_gather = mock_all_gather,
    .reduce_scatter = mock_reduce_scatter,
    .all_to_all = mock_all_to_all,
    .host_gather = mock_host_gather,
    .host_sum = mock_host_sum,
    .host_broadcast = mock_host_broadcast,
    .send = mock_send,
    .receive = mock_receive,
    .barrier = mock_barrier,
    .abort = mock_abort,
};

static const struct transport SELF_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "self",
    .close = mock_close,
    .group = mock_group,
    .all_reduce = mock_all_reduce,
    .all_gather = mock_all_gather,
    .reduce_scatter = mock_reduce_scatter,
    .all_to_all = self_all_to_all,
    .host_gather = mock_host_gather,
    .host_sum = mock_host_sum,
    .host_broadcast = mock_host_broadcast,
    .send = self_send,
    .receive = self_receive,
    .barrier = mock_barrier,
    .abort = mock_abort,
};

static struct communicator *open_alone(const struct communicator_request *request)
{
    struct arena arena = {0};
    struct communicator *communicator = ARENA_NEW(&arena, struct communicator, 1);
    *communicator = (struct communicator){.backend = request->backend,
                                          .device = request->device,
                                          .rank = request->rank,
                                          .rank_count = request->rank_count,
                                          .delays = request->delays};
    communicator->arena = arena;
    return communicator;
}

const struct transport *communicator_mock(const struct communicator_request *request,
                                          struct communicator **opened, struct err *err)
{
    (void)err;
    assert(request->rank >= 0 && request->rank < request->rank_count);
    *opened = open_alone(request);
    return &MOCK_TRANSPORT;
}

const struct transport *communicator_self(const struct communicator_request *request,
                                          struct communicator **opened, struct err *err)
{
    if (request->rank_count != 1) {
        err_set(err, ERR_SYSTEM, "a job of %d ranks cannot run as one", request->rank_count);
        return NULL;
    }
    *opened = open_alone(request);
    return &SELF_TRANSPORT;
}
