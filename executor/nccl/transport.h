#pragma once
#include "executor/communicators/plugin.h"
#include "executor/communicators/sum.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

// Inside of the transport `nccl`: data between GPUs. Every group has an NCCL communicator of its
// own, made where the group is made, in the same order on all ranks, and every direction of a
// channel between two ranks another (executor/nccl/link.c). Sums are added in NCCL's order: not
// that of the ranks, and sums of 16 bits may be rounded on their way.
//
// Communicators of groups block: a call returns when its kernel is on the stream, in the rank's own
// thread (of one that does not block NCCL starts a thread for every call, and somebody has to ask
// whether it is done). Those of links and of numbers do not: the first message of a link waits for
// a receiver that may have to hear from this rank first. One thread beside the rank's
// (executor/nccl/watch.c) looks at all of them, because the rank may wait for the device, where a
// failure would never be seen, or stand in a call: it aborts all communicators, which ends both.
// `lock` guards the lists, and calls on communicators that do not block; nobody waits while holding
// it, nor stands in a call that blocks.

enum { NCCL_TEXT_BYTES = 512, STATE_PAUSE_NS = 50000 };

struct nccl_link;

struct nccl_numbers {
    bool is_open;
    cudaStream_t stream;
    cudaEvent_t there;
    void *room;  // of the device
    int64_t room_bytes;
};

struct communicator {
    const struct communicator_services *services;
    const struct backend *backend;
    struct device *device;
    struct heartbeat *heartbeat;
    int rank, rank_count, device_ordinal;
    int block_count;                 // limit of a collective, 0: none
    int64_t message_bytes;           // of a link's slots at first
    int message_count;               // slots of a link
    const struct transport *beside;  // to meet, and for numbers of the host unless it only meets
    struct communicator *beside_communicator;
    struct nccl_numbers numbers;  // where it does
    struct group *world;          // then the barrier's
    pthread_mutex_t lock;
    pthread_t watcher;
    bool has_lock, has_watcher;
    _Atomic int is_closing, has_failed;
    double close_until_s;  // the watcher aborts what takes longer; 0: nothing is taken down yet
    struct group *groups;  // newest first
    struct nccl_link *links;
    void *adopted;
    int64_t adopted_bytes;
    char text[NCCL_TEXT_BYTES];  // of the first failure
};

struct group {
    struct communicator *communicator;
    struct group *next;
    struct group *beside;   // the same ranks in the other transport
    ncclComm_t comm;        // NULL: one rank alone, or aborted
    _Atomic int is_inside;  // the rank is in a call on `comm` that blocks, or about to be
    ncclComm_t numbers;     // executor/nccl/numbers.c; NULL: none yet
    char *purpose;
    int count, me;
    void *registration;  // of adopted memory; NULL: there is none, or NCCL has no use for it
};

// executor/nccl/watch.c
// Keeps the first failure, and aborts all communicators. Returns what is kept.
__attribute__((returns_nonnull)) const char *nccl_fail(struct communicator *communicator,
                                                       const char *format, ...) PRINTF_LIKE(2, 3);
// The same where `lock` is held.
void nccl_fail_locked(struct communicator *communicator, const char *format, ...) PRINTF_LIKE(2, 3);
// Of a call on a communicator: NULL, or NCCL's own words.
const char *nccl_check(struct communicator *communicator, ncclResult_t result, const char *what,
                       const char *purpose);
// Until what was asked of *comm has been taken by the device.
const char *nccl_settle(struct communicator *communicator, ncclComm_t const *comm, const char *what,
                        const char *purpose);
// Begins to make a communicator, of those that do not block; nccl_settle waits until it is there.
const char *nccl_comm_begin(struct communicator *communicator, const ncclUniqueId *id, int count,
                            int me, const char *purpose, ncclComm_t *comm);
// Makes a communicator that blocks.
const char *nccl_comm_make(struct communicator *communicator, const ncclUniqueId *id, int count,
                           int me, const char *purpose, ncclComm_t *comm);
const char *nccl_watch_start(struct communicator *communicator);
void nccl_watch_end(struct communicator *communicator);
// Finishes what is under way and takes all communicators down, or aborts them after a failure.
void nccl_comms_close(struct communicator *communicator);
void nccl_pause(void);

// executor/nccl/transport.c: makes a communicator of the group's ranks; all of them call it.
const char *nccl_open_comm(struct group *group, bool blocks, ncclComm_t *comm);

// executor/nccl/numbers.c: words of 8 bytes; doubles, summed in the order of the ranks.
const char *nccl_gather_numbers(struct group *group, const void *mine, void *all, int count);
const char *nccl_broadcast_numbers(struct group *group, void *numbers, int64_t count, int from);
const char *nccl_sum_numbers(struct group *group, double *values, int count);
void nccl_numbers_free(struct communicator *communicator);

// executor/nccl/collective.c
ncclDataType_t nccl_type(const struct backend *backend, enum element element);
// Before all that computes, as the back end's own streams of communication.
cudaError_t nccl_stream_new(cudaStream_t *stream);
cudaStream_t nccl_stream(const struct communicator *communicator, enum stream stream);
const char *nccl_all_reduce(struct group *group, enum stream stream, enum element element,
                            void *data, int64_t count, enum combine combine);
const char *nccl_all_gather(struct group *group, enum stream stream, enum element element,
                            const void *mine, void *all, const int64_t *counts);
const char *nccl_reduce_scatter(struct group *group, enum stream stream, enum element element,
                                const void *all, void *mine, const int64_t *counts);
const char *nccl_all_to_all(struct group *group, enum stream stream, enum element element,
                            const void *from, const int64_t *sent, void *to,
                            const int64_t *received);

// executor/nccl/link.c
struct link_slot {
    enum slot_state { SLOT_FREE, SLOT_WAITING, SLOT_LAUNCHING, SLOT_UNDER_WAY } state;
    void *memory;
    int64_t memory_bytes;
    bool is_nccls;  // memory of ncclMemAlloc
    ncclDataType_t type;
    int64_t count;
    cudaEvent_t copied;
    cudaEvent_t sent;
};

// One direction of a channel between two ranks. What is sent is copied into a slot and leaves from
// there on a stream of its own, so that the rank's streams never wait for the receiver.
struct nccl_link {
    struct nccl_link *next;
    int peer, channel;
    bool sends;
    ncclComm_t comm;
    cudaStream_t stream;
    struct link_slot *slots;  // [message_count], used in turn
    int next_slot, next_out;
};
const char *nccl_send(struct communicator *communicator, enum stream stream, enum element element,
                      int rank, int channel, const void *data, int64_t count);
const char *nccl_receive(struct communicator *communicator, enum stream stream,
                         enum element element, int rank, int channel, void *data, int64_t count);
// Sends what waits and can go; `lock` is held.
void nccl_links_pump(struct communicator *communicator);
// Whether everything has left; `lock` is held.
bool nccl_links_are_idle(const struct communicator *communicator);
void nccl_links_free(struct communicator *communicator);
