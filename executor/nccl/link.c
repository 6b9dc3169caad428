#include "executor/nccl/transport.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// NCCL has no channels: messages of one communicator arrive in the order in which they were sent,
// and a kernel that sends waits for the one that receives. Here a message may wait for a receiver
// that first sends something itself, so each direction of a channel has a communicator and a stream
// of its own, and the receiver never makes the sender's streams wait. A link is made when the first
// message goes over it; the receiver gets its id by the other transport.

enum { ID_CHANNEL_FIRST = 1 << 20 };  // channels of the other transport, for ids
enum { ID_REALS = NCCL_UNIQUE_ID_BYTES / 4 };

// A list: a rank has a few neighbours and channels.
static struct nccl_link *find_link(const struct communicator *communicator, int peer, int channel,
                                   bool sends)
{
    struct nccl_link *link = communicator->links;
    while (link && (link->peer != peer || link->channel != channel || link->sends != sends))
        link = link->next;
    return link;
}

static const char *check_cuda(struct communicator *communicator, cudaError_t error)
{
    if (error == cudaSuccess) return NULL;
    return nccl_fail(communicator, "rank %d: a link between ranks: %s", communicator->rank,
                     cudaGetErrorString(error));
}

// The id as reals of the device: the way in which the other transport carries messages.
static const char *pass_id(struct communicator *communicator, struct nccl_link *link,
                           ncclUniqueId *id)
{
    const struct backend *backend = communicator->backend;
    const struct transport *beside = communicator->beside;
    int channel = ID_CHANNEL_FIRST + link->channel;
    int64_t count = ID_REALS * 4 / backend->real_bytes;
    assert(count * backend->real_bytes == (int64_t)sizeof *id);
    void *room = NULL;
    const char *failure = backend->allocate(communicator->device, sizeof *id, &room);
    if (failure) return nccl_fail(communicator, "%s", failure);
    if (link->sends) {
        failure =
            backend->copy(communicator->device, STREAM_PP, COPY_FROM_HOST, room, id, sizeof *id);
        if (!failure)
            failure = beside->send(communicator->beside_communicator, STREAM_PP, ELEMENT_FP32,
                                   link->peer, channel, room, count);
    } else {
        failure = beside->receive(communicator->beside_communicator, STREAM_PP, ELEMENT_FP32,
                                  link->peer, channel, room, count);
        if (!failure)
            failure =
                backend->copy(communicator->device, STREAM_PP, COPY_TO_HOST, id, room, sizeof *id);
    }
    if (!failure) failure = backend->synchronize(communicator->device, STREAM_PP);
    backend->release(communicator->device, room);
    return failure ? nccl_fail(communicator, "%s", failure) : NULL;
}

static const char *open_slots(struct communicator *communicator, struct nccl_link *link)
{
    const char *failure = check_cuda(communicator, nccl_stream_new(&link->stream));
    for (int i = 0; i < communicator->message_count && !failure; i++) {
        struct link_slot *slot = &link->slots[i];
        failure = check_cuda(communicator,
                             cudaEventCreateWithFlags(&slot->copied, cudaEventDisableTiming));
        if (!failure)
            failure = check_cuda(communicator,
                                 cudaEventCreateWithFlags(&slot->sent, cudaEventDisableTiming));
    }
    return failure;
}

// NULL after a failure, which the communicator keeps.
static struct nccl_link *link_make(struct communicator *communicator, int peer, int channel,
                                   bool sends)
{
    struct nccl_link *link = calloc(1, sizeof *link);
    struct link_slot *slots = calloc((size_t)communicator->message_count, sizeof *slots);
    if (!link || !slots) {
        free(link);
        free(slots);
        nccl_fail(communicator, "out of memory for a link to rank %d", peer);
        return NULL;
    }
    *link = (struct nccl_link){.peer = peer, .channel = channel, .sends = sends, .slots = slots};
    // Known from here on, so that whatever fails is taken down with the others.
    pthread_mutex_lock(&communicator->lock);
    link->next = communicator->links;
    communicator->links = link;
    pthread_mutex_unlock(&communicator->lock);
    assert(peer != communicator->rank && communicator->message_count > 0);
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    const char *failure = NULL;
    if (sends) failure = open_slots(communicator, link);
    if (!failure && sends)
        failure = nccl_check(communicator, ncclGetUniqueId(&id), "an id", "messages");
    if (!failure) failure = pass_id(communicator, link, &id);
    if (!failure)
        failure = nccl_comm_begin(communicator, &id, 2, sends ? 0 : 1, "messages", &link->comm);
    return failure ? NULL : link;
}

static struct nccl_link *link_of(struct communicator *communicator, int rank, int channel,
                                 bool sends)
{
    if (rank < 0 || rank >= communicator->rank_count || rank == communicator->rank)
        nccl_fail(communicator, "rank %d has no link to rank %d", communicator->rank, rank);
    if (atomic_load(&communicator->has_failed)) return NULL;
    struct nccl_link *link = find_link(communicator, rank, channel, sends);
    return link ? link : link_make(communicator, rank, channel, sends);
}

static void slot_release(struct communicator *communicator, struct link_slot *slot)
{
    if (slot->memory && slot->is_nccls)
        ncclMemFree(slot->memory);
    else if (slot->memory)
        communicator->backend->release(communicator->device, slot->memory);
    slot->memory = NULL;
    slot->memory_bytes = 0;
}

// Memory that NCCL knows goes out without another copy, where NCCL can have it.
static const char *slot_reserve(struct communicator *communicator, struct link_slot *slot,
                                int64_t bytes)
{
    if (bytes <= slot->memory_bytes) return NULL;
    slot_release(communicator, slot);
    int64_t wanted = bytes > communicator->message_bytes ? bytes : communicator->message_bytes;
    slot->is_nccls = ncclMemAlloc(&slot->memory, (size_t)wanted) == ncclSuccess;
    const char *failure = slot->is_nccls ? NULL
                                         : communicator->backend->allocate(communicator->device,
                                                                           wanted, &slot->memory);
    if (failure) return nccl_fail(communicator, "%s", failure);
    slot->memory_bytes = wanted;
    return NULL;
}

// `lock` is held. One call of a communicator at a time: the next begins when that has been taken by
// the device, and only then does the event behind it mean something.
static void pump_link(struct communicator *communicator, struct nccl_link *link)
{
    ncclResult_t state = ncclSuccess;
    while (link->comm && !atomic_load(&communicator->has_failed)) {
        struct link_slot *slot = &link->slots[link->next_out];
        assert(link->sends);
        bool is_waiting = slot->state == SLOT_WAITING || slot->state == SLOT_LAUNCHING;
        if (!is_waiting) return;
        if (ncclCommGetAsyncError(link->comm, &state) != ncclSuccess || state != ncclSuccess)
            return;  // not yet, or a failure that the watcher tells
        if (slot->state == SLOT_LAUNCHING) {
            // Recorded only now: while NCCL is still launching, an event would be ahead of the
            // send.
            cudaEventRecord(slot->sent, link->stream);
            slot->state = SLOT_UNDER_WAY;
            link->next_out = (link->next_out + 1) % communicator->message_count;
            continue;
        }
        // The link's stream waits for the copy on the device; no thread of the host does.
        cudaStreamWaitEvent(link->stream, slot->copied, 0);
        ncclResult_t result =
            ncclSend(slot->memory, (size_t)slot->count, slot->type, 1, link->comm, link->stream);
        slot->state = SLOT_LAUNCHING;
        if (result != ncclSuccess && result != ncclInProgress)
            nccl_fail_locked(communicator, "rank %d: NCCL, a message to rank %d: %s",
                             communicator->rank, link->peer, ncclGetErrorString(result));
    }
}

void nccl_links_pump(struct communicator *communicator)
{
    for (struct nccl_link *link = communicator->links; link; link = link->next) {
        if (link->sends) pump_link(communicator, link);
    }
}

// What is under way is over when the device has passed the event behind it.
static bool slot_is_free(struct link_slot *slot)
{
    if (slot->state == SLOT_UNDER_WAY && cudaEventQuery(slot->sent) == cudaSuccess)
        slot->state = SLOT_FREE;
    return slot->state == SLOT_FREE;
}

bool nccl_links_are_idle(const struct communicator *communicator)
{
    for (const struct nccl_link *link = communicator->links; link; link = link->next) {
        for (int i = 0; i < communicator->message_count && link->sends; i++) {
            if (!slot_is_free(&link->slots[i])) return false;
        }
    }
    return true;
}

// The next slot in turn, when what was in it has left.
static const char *slot_take(struct communicator *communicator, struct nccl_link *link,
                             struct link_slot **taken)
{
    struct link_slot *slot = &link->slots[link->next_slot];
    for (;;) {
        pthread_mutex_lock(&communicator->lock);
        nccl_links_pump(communicator);
        bool is_free = slot_is_free(slot);
        pthread_mutex_unlock(&communicator->lock);
        if (atomic_load(&communicator->has_failed)) return communicator->text;
        if (is_free) break;
        if (communicator->beside->progress)
            communicator->beside->progress(communicator->beside_communicator);
        nccl_pause();
    }
    link->next_slot = (link->next_slot + 1) % communicator->message_count;
    assert(slot->state == SLOT_FREE);
    *taken = slot;
    return NULL;
}

const char *nccl_send(struct communicator *communicator, enum stream stream, enum element element,
                      int rank, int channel, const void *data, int64_t count)
{
    struct nccl_link *link = link_of(communicator, rank, channel, true);
    struct link_slot *slot = NULL;
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element));
    if (!link) return communicator->text;
    if (count == 0) return NULL;
    const char *failure = slot_take(communicator, link, &slot);
    if (!failure) failure = slot_reserve(communicator, slot, bytes);
    if (failure) return failure;
    failure = communicator->backend->copy(communicator->device, stream, COPY_DEVICE, slot->memory,
                                          data, bytes);
    if (failure) return nccl_fail(communicator, "%s", failure);
    failure =
        check_cuda(communicator, cudaEventRecord(slot->copied, nccl_stream(communicator, stream)));
    if (failure) return failure;
    // The slot is the rank's own until its state says that it waits.
    pthread_mutex_lock(&communicator->lock);
    slot->type = nccl_type(communicator->backend, element);
    assert(slot->state == SLOT_FREE && bytes <= slot->memory_bytes);
    slot->count = count;
    slot->state = SLOT_WAITING;
    nccl_links_pump(communicator);
    pthread_mutex_unlock(&communicator->lock);
    return NULL;
}

const char *nccl_receive(struct communicator *communicator, enum stream stream,
                         enum element element, int rank, int channel, void *data, int64_t count)
{
    struct nccl_link *link = link_of(communicator, rank, channel, false);
    if (!link) return communicator->text;
    if (count == 0) return NULL;
    const char *failure =
        nccl_settle(communicator, &link->comm, "making the communicator", "messages");
    if (failure) return failure;
    ncclResult_t result = ncclSuccess;
    pthread_mutex_lock(&communicator->lock);
    if (link->comm)
        result = ncclRecv(data, (size_t)count, nccl_type(communicator->backend, element), 0,
                          link->comm, nccl_stream(communicator, stream));
    pthread_mutex_unlock(&communicator->lock);
    failure = nccl_check(communicator, result, "receive", "messages");
    return failure ? failure : nccl_settle(communicator, &link->comm, "receive", "messages");
}

// After nccl_comms_close: nothing of NCCL's reads the slots any longer.
void nccl_links_free(struct communicator *communicator)
{
    for (struct nccl_link *link = communicator->links; link;) {
        struct nccl_link *next = link->next;
        for (int i = 0; i < communicator->message_count; i++) {
            struct link_slot *slot = &link->slots[i];
            slot_release(communicator, slot);
            if (slot->copied) cudaEventDestroy(slot->copied);
            if (slot->sent) cudaEventDestroy(slot->sent);
        }
        if (link->stream) cudaStreamDestroy(link->stream);
        free(link->slots);
        free(link);
        link = next;
    }
    communicator->links = NULL;
}
