#include "executor/communicators/between.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct communicator *between_new(const struct wire *wire,
                                 const struct communicator_request *request)
{
    struct communicator *communicator = calloc(1, sizeof *communicator);
    size_t count = (size_t)request->rank_count;
    int *host_of = malloc(count * sizeof *host_of), *place_of = malloc(count * sizeof *place_of);
    int *inside_ranks = malloc(count * sizeof *inside_ranks);
    if (!communicator || !host_of || !place_of || !inside_ranks) {
        free(inside_ranks);
        free(communicator);
        free(host_of);
        free(place_of);
        return NULL;
    }
    *communicator = (struct communicator){
        .wire = wire,
        .backend = request->backend,
        .device = request->device,
        .heartbeat = request->heartbeat,
        .rank = request->rank,
        .rank_count = request->rank_count,
        .host_of = host_of,
        .place_of = place_of,
        .inside_ranks = inside_ranks,
    };
    return communicator;
}

static void group_free(struct group *group)
{
    free(group->purpose);
    free(group->ranks);
    free(group);
}

void between_free(struct communicator *communicator)
{
    // Before the groups: what this rank sent inside the host may still have to leave, and the wait
    // for that moves the wire's messages on too.
    if (communicator->host) communicator->host->close(communicator->inside);
    for (struct group *group = communicator->groups; group;) {
        struct group *next = group->next;
        if (!group->inside) communicator->wire->group_close(group);
        group_free(group);
        group = next;
    }
    free(communicator->host_of);
    free(communicator->place_of);
    free(communicator->inside_ranks);
    free(communicator);
}

const int *between_inside_ranks(struct communicator *communicator)
{
    for (int rank = 0; rank < communicator->rank_count; rank++) {
        // Ranks of a host have their places in the order of the ranks.
        assert(communicator->place_of[rank] >= 0 && communicator->place_of[rank] <= rank);
        if (communicator->host_of[rank] == communicator->host_of[communicator->rank])
            communicator->inside_ranks[communicator->place_of[rank]] = rank;
    }
    return communicator->inside_ranks;
}

const char *between_fail(struct communicator *communicator, const char *format, ...)
{
    if (!communicator->has_failed) {
        va_list args;
        va_start(args, format);
        vsnprintf(communicator->text, sizeof communicator->text, format, args);
        va_end(args);
    }
    communicator->has_failed = true;
    return communicator->text;
}

const char *between_relay(struct communicator *communicator, const char *failure)
{
    return failure ? between_fail(communicator, "%s", failure) : NULL;
}

const char *between_exchange(struct group *group, const struct piece *out, const struct piece *in,
                             const char *what)
{
    int me = group->me;
    assert(in[me].bytes == 0 || in[me].bytes == out[me].bytes);
    if (in[me].bytes && in[me].data != out[me].data)
        memmove(in[me].data, out[me].data, (size_t)in[me].bytes);
    return group->communicator->wire->exchange(group, out, in, what);
}

static struct group *group_new(struct communicator *communicator, const int *ranks, int count,
                               const char *purpose)
{
    struct group *group = calloc(1, sizeof *group);
    int *own_ranks = malloc((size_t)count * sizeof *own_ranks);
    char *own_purpose = strdup(purpose);
    if (!group || !own_ranks || !own_purpose) {
        free(group);
        free(own_ranks);
        free(own_purpose);
        return NULL;
    }
    memcpy(own_ranks, ranks, (size_t)count * sizeof *own_ranks);
    *group = (struct group){.communicator = communicator,
                            .purpose = own_purpose,
                            .ranks = own_ranks,
                            .count = count,
                            .me = -1};
    for (int i = 0; i < count; i++) {
        if (ranks[i] == communicator->rank) group->me = i;
        assert(ranks[i] >= 0 && ranks[i] < communicator->rank_count);
        assert(i == 0 || ranks[i - 1] != ranks[i]);
    }
    assert(group->me >= 0);  // who is no member has no part in what it exchanges
    return group;
}

static const char *open_inside(struct group *group)
{
    struct communicator *communicator = group->communicator;
    int *places = malloc((size_t)group->count * sizeof *places);
    if (!places) return between_fail(communicator, "out of memory for a group");
    for (int i = 0; i < group->count; i++)
        places[i] = communicator->place_of[group->ranks[i]];
    const char *failure = communicator->host->group(communicator->inside, places, group->count,
                                                    group->purpose, &group->inside);
    free(places);
    return between_relay(communicator, failure);
}

static bool between_is_near(const struct communicator *communicator, int rank)
{
    return communicator->host && rank >= 0 && rank < communicator->rank_count &&
           communicator->host_of[rank] == communicator->host_of[communicator->rank];
}

const char *between_group(struct communicator *communicator, const int *ranks, int count,
                          const char *purpose, struct group **made)
{
    struct group *group = group_new(communicator, ranks, count, purpose);
    if (!group) return between_fail(communicator, "out of memory for a group");
    bool is_inside = communicator->host != NULL;
    for (int i = 0; i < count && is_inside; i++)
        is_inside = between_is_near(communicator, ranks[i]);
    const char *failure = is_inside ? open_inside(group) : communicator->wire->group_open(group);
    if (failure) {
        group_free(group);
        return failure;
    }
    group->next = communicator->groups;
    communicator->groups = group;
    *made = group;
    return NULL;
}

const char *between_from_device(struct communicator *communicator, enum stream stream,
                                const void *device, int64_t bytes, void **host)
{
    const struct backend *backend = communicator->backend;
    *host = NULL;
    if (backend->is_host) return NULL;
    *host = malloc((size_t)bytes + 1);
    if (!*host) return between_fail(communicator, "out of memory for an exchange");
    const char *failure =
        bytes ? backend->copy(communicator->device, stream, COPY_TO_HOST, *host, device, bytes)
              : NULL;
    return failure ? failure : backend->synchronize(communicator->device, stream);
}

const char *between_to_device(struct communicator *communicator, enum stream stream, void *device,
                              const void *host, int64_t bytes)
{
    const struct backend *backend = communicator->backend;
    if (backend->is_host || bytes == 0) return NULL;
    const char *failure =
        backend->copy(communicator->device, stream, COPY_FROM_HOST, device, host, bytes);
    return failure ? failure : backend->synchronize(communicator->device, stream);
}

static const char *check_peer(struct communicator *communicator, int rank)
{
    if (rank >= 0 && rank < communicator->rank_count && rank != communicator->rank) return NULL;
    return between_fail(communicator, "rank %d has no link to rank %d", communicator->rank, rank);
}

const char *between_send(struct communicator *communicator, enum stream stream,
                         enum element element, int rank, int channel, const void *data,
                         int64_t count)
{
    const char *failure = check_peer(communicator, rank);
    if (failure) return failure;
    if (between_is_near(communicator, rank))
        return between_relay(communicator, communicator->host->send(
                                               communicator->inside, stream, element,
                                               communicator->place_of[rank], channel, data, count));
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element));
    void *copied = NULL;
    communicator->wire->idle(communicator);
    failure = between_from_device(communicator, stream, data, bytes, &copied);
    if (!failure)
        failure =
            communicator->wire->post(communicator, rank, channel, copied ? copied : data, bytes);
    free(copied);
    return failure;
}

const char *between_receive(struct communicator *communicator, enum stream stream,
                            enum element element, int rank, int channel, void *data, int64_t count)
{
    const char *failure = check_peer(communicator, rank);
    if (failure) return failure;
    if (between_is_near(communicator, rank))
        return between_relay(communicator, communicator->host->receive(
                                               communicator->inside, stream, element,
                                               communicator->place_of[rank], channel, data, count));
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element));
    bool is_host = communicator->backend->is_host;
    void *room = is_host ? NULL : malloc((size_t)bytes + 1);
    if (!is_host && !room) return between_fail(communicator, "out of memory for a message");
    void *to = is_host ? data : room;
    failure = communicator->wire->take(communicator, rank, channel, to, bytes);
    if (!failure) failure = between_to_device(communicator, stream, data, to, bytes);
    free(room);
    return failure;
}

void between_progress(struct communicator *communicator)
{
    communicator->wire->idle(communicator);
}

bool between_was_told(const struct communicator *communicator)
{
    return communicator->was_told ||
           (communicator->host && communicator->host->was_told(communicator->inside));
}
