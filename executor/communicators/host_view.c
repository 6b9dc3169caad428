#include "executor/communicators/host.h"
#include "executor/launcher/launch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Copies go at full speed where the device can reach the host's memory by itself.
static const char *staging_reserve(struct communicator *communicator, int64_t bytes)
{
    const struct backend *backend = communicator->backend;
    if (bytes <= communicator->staging_bytes) return NULL;
    // What was in the old one is not kept: an exchange that needs staging copies its data in after.
    host_view_free(communicator);
    if (backend->allocate_host) {
        const char *failure =
            backend->allocate_host(communicator->device, bytes, &communicator->staging);
        if (failure) return failure;
    } else {
        communicator->staging = memory_get((size_t)bytes);
    }
    communicator->staging_bytes = bytes;
    return NULL;
}

void host_view_free(struct communicator *communicator)
{
    const struct backend *backend = communicator->backend;
    if (communicator->staging && backend->allocate_host)
        backend->release_host(communicator->device, communicator->staging);
    else
        free(communicator->staging);
    communicator->staging = NULL;
    communicator->staging_bytes = 0;
}

// Waits for the stream: the host reads what was copied, or its memory is used again, right after.
static const char *copy(struct communicator *communicator, enum stream stream, enum copy_kind kind,
                        void *to, const void *from, int64_t bytes)
{
    if (bytes == 0) return NULL;
    const char *failure =
        communicator->backend->copy(communicator->device, stream, kind, to, from, bytes);
    return failure ? failure : communicator->backend->synchronize(communicator->device, stream);
}

const char *host_view_open(struct communicator *communicator, enum stream stream,
                           struct host_view *view)
{
    view->from = view->device_from;
    view->to = view->device_to;
    if (communicator->backend->is_host) return NULL;
    int64_t to_first = view->device_to == view->device_from ? 0 : (view->from_bytes + 63) / 64 * 64;
    int64_t bytes = to_first + view->to_bytes;
    assert(view->from_bytes >= 0 && view->to_bytes >= 0);
    bytes = bytes > view->from_bytes ? bytes : view->from_bytes;
    const char *failure = staging_reserve(communicator, bytes);
    if (failure) return failure;
    view->from = communicator->staging;
    view->to = (char *)communicator->staging + to_first;
    return copy(communicator, stream, COPY_TO_HOST, communicator->staging, view->device_from,
                view->from_bytes);
}

const char *host_view_close(struct communicator *communicator, enum stream stream,
                            struct host_view *view)
{
    if (communicator->backend->is_host) return NULL;
    return copy(communicator, stream, COPY_FROM_HOST, view->device_to, view->to, view->to_bytes);
}

// The window is free once all members of the group that it served last have left.
const char *host_begin(struct group *group, enum host_operation operation, uint64_t signature)
{
    struct communicator *communicator = group->communicator;
    atomic_store_explicit(&host_rank(communicator, communicator->rank)->operation, (int)operation,
                          memory_order_relaxed);
    struct group *user = communicator->window_user;
    assert(group->me >= 0 && group->ranks[group->me] == communicator->rank);
    if (user && user != group) {
        // Operations of a group are counted alike by all its members, so this is what `left` comes
        // to when each has left as many as this rank has.
        uint32_t all_left = user->operation_count * (uint32_t)user->count;
        const char *failure = host_wait(communicator, &user->shared->left, all_left);
        if (failure) return failure;
    }
    communicator->window_user = group;
    *host_header(group, group->me) =
        (struct host_header){.signature = signature, .operation = (int)operation};
    return NULL;
}

const char *host_meet(struct group *group)
{
    return host_arrive(group->communicator, &group->shared->arrived, &group->barrier_count,
                       group->count);
}

const char *host_meet_first(struct group *group)
{
    const char *failure = host_meet(group);
    if (failure) return failure;
    const struct host_header *mine = host_header(group, group->me);
    for (int member = 0; member < group->count; member++) {
        const struct host_header *other = host_header(group, member);
        if (other->signature == mine->signature && other->operation == mine->operation) continue;
        const char *same = other->operation == mine->operation ? " of another size" : "";
        return host_fail(group->communicator, "group %s: rank %d is at: %s%s, rank %d at: %s",
                         group->purpose, host_job_rank(group->communicator, group->ranks[member]),
                         host_operation_name(other->operation), same,
                         host_job_rank(group->communicator, group->ranks[group->me]),
                         host_operation_name(mine->operation));
    }
    return NULL;
}

void host_round_end(struct group *group)
{
    group->round++;
    if (group->communicator->heartbeat) atomic_fetch_add(&group->communicator->heartbeat->beat, 1);
}

void host_end(struct group *group)
{
    // Left only after the last read: `left` is what lets another group's data into the windows.
    group->operation_count++;
    host_count_up(&group->shared->left, true);
    struct communicator *communicator = group->communicator;
    atomic_store_explicit(&host_rank(communicator, communicator->rank)->operation, HOST_NOTHING,
                          memory_order_relaxed);
}
