#include "executor/communicator.h"
#include "executor/communicator_sum.h"

#include <assert.h>

// One rank of many alone, for timing and memory: the others are taken to hold what this one holds.
// Sums over reals are left as they are, and messages that would come are zeros.

struct communicator {
    struct arena arena;
    const struct backend *backend;
    struct device *device;
    int rank, rank_count;
};

struct group {
    struct communicator *communicator;
    int count, me;
};

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
    *group = (struct group){communicator, count, -1};
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
    (void)group, (void)stream, (void)element, (void)data, (void)count, (void)combine;
    return NULL;
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
    return failure;
}

static const char *mock_reduce_scatter(struct group *group, enum stream stream,
                                       enum element element, const void *all, void *mine,
                                       const int64_t *counts)
{
    int64_t part = 0, count = counts[group->me];
    for (int member = 0; member < group->me; member++)
        part += counts[member];
    return put(group->communicator, stream, element, mine, count,
               shift(group->communicator, element, all, part), count);
}

static const char *mock_all_to_all(struct group *group, enum stream stream, enum element element,
                                   const void *from, const int64_t *sent, void *to,
                                   const int64_t *received)
{
    int64_t sent_count = 0, received_count = 0;
    for (int member = 0; member < group->count; member++) {
        sent_count += sent[member];
        received_count += received[member];
    }
    return put(group->communicator, stream, element, to, received_count, from, sent_count);
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
        values[i] *= group->count;
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
    (void)rank, (void)channel;
    return put(communicator, stream, element, data, count, NULL, 0);
}

static const char *mock_barrier(struct communicator *communicator)
{
    (void)communicator;
    return NULL;
}

static void mock_abort(struct communicator *communicator, const char *reason)
{
    (void)communicator, (void)reason;
}

static const struct transport MOCK_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "mock",
    .is_deterministic = true,
    .close = mock_close,
    .group = mock_group,
    .all_reduce = mock_all_reduce,
    .all_gather = mock_all_gather,
    .reduce_scatter = mock_reduce_scatter,
    .all_to_all = mock_all_to_all,
    .host_gather = mock_host_gather,
    .host_sum = mock_host_sum,
    .send = mock_send,
    .receive = mock_receive,
    .barrier = mock_barrier,
    .abort = mock_abort,
};

const struct transport *communicator_mock(const struct communicator_request *request,
                                          struct communicator **opened, struct err *err)
{
    (void)err;
    assert(request->rank >= 0 && request->rank < request->rank_count);
    struct arena arena = {0};
    struct communicator *communicator = ARENA_NEW(&arena, struct communicator, 1);
    *communicator = (struct communicator){.backend = request->backend,
                                          .device = request->device,
                                          .rank = request->rank,
                                          .rank_count = request->rank_count};
    communicator->arena = arena;
    *opened = communicator;
    return &MOCK_TRANSPORT;
}
