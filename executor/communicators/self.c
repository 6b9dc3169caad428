#include "executor/communicators/communicator.h"
#include "executor/communicators/sum.h"

#include <assert.h>
#include <string.h>

// One rank: its groups are itself, and exchanges are copies on the device, or nothing.

struct communicator {
    struct arena arena;
    const struct backend *backend;
    struct device *device;
};

struct group {
    struct communicator *communicator;
};

static void self_close(struct communicator *communicator)
{
    struct arena arena = communicator->arena;
    arena_free(&arena);
}

static const char *self_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **group)
{
    (void)purpose;
    assert(count == 1 && ranks[0] == 0);
    *group = ARENA_NEW(&communicator->arena, struct group, 1);
    (*group)->communicator = communicator;
    return NULL;
}

static const char *copy(struct group *group, enum stream stream, enum element element, void *to,
                        const void *from, int64_t count)
{
    const struct backend *backend = group->communicator->backend;
    if (to == from || count == 0) return NULL;
    return backend->copy(group->communicator->device, stream, COPY_DEVICE, to, from,
                         count * number_bytes(number_of(backend, element)));
}

static const char *self_all_reduce(struct group *group, enum stream stream, enum element element,
                                   void *data, int64_t count, enum combine combine)
{
    (void)group, (void)stream, (void)element, (void)data, (void)count, (void)combine;
    return NULL;
}

static const char *self_all_gather(struct group *group, enum stream stream, enum element element,
                                   const void *mine, void *all, const int64_t *counts)
{
    return copy(group, stream, element, all, mine, counts[0]);
}

static const char *self_reduce_scatter(struct group *group, enum stream stream,
                                       enum element element, const void *all, void *mine,
                                       const int64_t *counts)
{
    return copy(group, stream, element, mine, all, counts[0]);
}

static const char *self_all_to_all(struct group *group, enum stream stream, enum element element,
                                   const void *from, const int64_t *sent, void *to,
                                   const int64_t *received)
{
    if (sent[0] != received[0]) return "rank 0 sends itself another size than it expects";
    return copy(group, stream, element, to, from, sent[0]);
}

static const char *self_host_gather(struct group *group, const int64_t *mine, int64_t *all,
                                    int count)
{
    (void)group;
    memmove(all, mine, (size_t)count * sizeof *all);
    return NULL;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the table's type
static const char *self_host_sum(struct group *group, double *values, int count)
{
    (void)group, (void)values, (void)count;
    return NULL;
}

// NOLINTNEXTLINE(readability-non-const-parameter): the table's type
static const char *self_host_broadcast(struct group *group, int64_t *numbers, int64_t count,
                                       int from)
{
    (void)group, (void)numbers, (void)count, (void)from;
    return NULL;
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

static const char *self_barrier(struct communicator *communicator)
{
    (void)communicator;
    return NULL;
}

static void self_abort(struct communicator *communicator, const char *reason)
{
    (void)communicator, (void)reason;
}

static const struct transport SELF_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "self",
    .is_deterministic = true,
    .close = self_close,
    .group = self_group,
    .all_reduce = self_all_reduce,
    .all_gather = self_all_gather,
    .reduce_scatter = self_reduce_scatter,
    .all_to_all = self_all_to_all,
    .host_gather = self_host_gather,
    .host_sum = self_host_sum,
    .host_broadcast = self_host_broadcast,
    .send = self_send,
    .receive = self_receive,
    .barrier = self_barrier,
    .abort = self_abort,
};

const struct transport *communicator_self(const struct communicator_request *request,
                                          struct communicator **opened, struct err *err)
{
    if (request->rank_count != 1) {
        err_set(err, ERR_SYSTEM, "a job of %d ranks cannot run as one", request->rank_count);
        return NULL;
    }
    struct arena arena = {0};
    struct communicator *communicator = ARENA_NEW(&arena, struct communicator, 1);
    *communicator = (struct communicator){.backend = request->backend, .device = request->device};
    communicator->arena = arena;
    *opened = communicator;
    return &SELF_TRANSPORT;
}
