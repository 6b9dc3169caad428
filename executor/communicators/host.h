#pragma once
#include "core/arena.h"
#include "executor/communicators/sum.h"

#include <stdalign.h>
#include <stdatomic.h>

// Inside of the transport `host`: what lies in shared memory, and how ranks wait for each other.
//
// There are no locks. Counters only count up; who waits for a counter spins shortly, gives way, and
// then sleeps on it (futex), because ranks may be many more than cores. A rank shows its data to
// the members of a group in its window, in two halves that take turns:
//
//     copy into my half - barrier - read the others' halves - (next round, other half)
//
// One barrier a round suffices: who writes into a half again has passed the barrier of the round
// between, at which all arrived after they had read. A window serves all groups of its rank: going
// from one group to another waits until the members of the former have left (`left`).

struct host_counter {
    alignas(64) _Atomic uint32_t value;  // wraps
    _Atomic uint32_t sleeper_count;
};

struct host_group_shared {
    _Atomic uint64_t key;  // of ranks, purpose and which of several; 0: free
    struct host_counter arrived, left;
};

// What a rank is at, for messages about it.
enum host_operation {
    HOST_NOTHING,
    HOST_ALL_REDUCE,
    HOST_ALL_GATHER,
    HOST_REDUCE_SCATTER,
    HOST_ALL_TO_ALL,
    HOST_GATHER,
    HOST_SUM,
    HOST_SEND,
    HOST_RECEIVE,
    HOST_BARRIER
};

struct host_rank {
    alignas(64) _Atomic int pid;
    _Atomic int operation;
};

enum { HOST_REASON_BYTES = 256 };
enum host_abort { HOST_GOES_ON, HOST_ABORT_WRITING, HOST_ABORTED };

struct host_segment {
    _Atomic uint64_t shape;  // of the request; all ranks must agree
    _Atomic int abort_state;
    char reason[HOST_REASON_BYTES];
    struct host_counter world;
};

// One direction between two ranks: pieces of messages in slots.
struct host_slot {
    _Atomic int is_full;
    int channel;
    uint64_t sequence;  // of the piece on this link
    int64_t bytes;      // of the piece
    int64_t count;      // numbers of the whole message
};
struct host_link {
    struct host_counter sent, taken;  // pieces
};

// At the start of a window's half: what the member is about, so that members that are not in the
// same operation find out instead of mixing data up.
struct host_header {
    uint64_t signature;
    int operation;
    int has_more;  // all-to-all: rounds follow
};

// Where things are, in bytes from the start of the segment.
struct host_map {
    int64_t ranks, groups, links, slots, windows, messages, total;
    int64_t half_bytes, header_bytes, message_bytes;
    int group_slots, message_count;
};

// A piece outside the slots: one that found none free, and waits at the sender; or one of another
// channel than the one that the receiver waits for, which takes it out so that others can come.
struct host_piece {
    struct host_piece *next;
    int rank, channel;  // rank: the other end
    int64_t bytes, count;
    unsigned char data[];
};

struct communicator {
    struct arena arena;
    const struct backend *backend;
    struct device *device;
    struct heartbeat *heartbeat;
    void (*idle)(void *context);
    void *idle_context;
    int rank, rank_count, spin_count;
    const int *job_ranks;  // NULL: the same numbers
    double looked_s;       // when it was last seen whether all live
    bool has_attached, was_told;
    struct host_map map;
    unsigned char *memory;
    struct host_segment *segment;
    struct group *groups;       // newest first
    struct group *window_user;  // group whose members may still read the window
    uint64_t *sent;             // pieces to each rank
    struct host_piece *pieces;  // kept by the sender, oldest first
    struct host_piece *early;   // taken out by the receiver, oldest first
    bool *is_full;              // of each rank's link, while pieces are posted
    uint32_t barrier_count;
    void *staging;  // of data that is not in the host's memory
    int64_t staging_bytes;
    char text[HOST_REASON_BYTES];  // of the last failure
};

struct group {
    struct communicator *communicator;
    struct group *next;
    struct host_group_shared *shared;
    const char *purpose;
    const int *ranks;
    int count, me;
    uint64_t base_key;  // of ranks and purpose alone
    uint32_t barrier_count, operation_count;
    unsigned round;
    const void **sources;  // room for one pointer a member
};

// An exchange's data as the host sees it: in place, or copied over where devices have memory of
// their own.
struct host_view {
    const void *device_from;
    void *device_to;  // the same as device_from: in place
    int64_t from_bytes, to_bytes;
    const void *from;
    void *to;
};

static inline int host_job_rank(const struct communicator *communicator, int rank)
{
    return communicator->job_ranks ? communicator->job_ranks[rank] : rank;
}

struct host_rank *host_rank(struct communicator *communicator, int rank);
unsigned char *host_half(struct group *group, int member);  // of this round, behind its header
struct host_header *host_header(struct group *group, int member);

static inline unsigned char *host_shift(const void *base, int64_t numbers, int64_t number_size)
{
    return bytes_at(base, numbers * number_size);
}

// executor/communicators/host_view.c
const char *host_view_open(struct communicator *communicator, enum stream stream,
                           struct host_view *view);
const char *host_view_close(struct communicator *communicator, enum stream stream,
                            struct host_view *view);
void host_view_free(struct communicator *communicator);
// Every operation of a group begins and ends so, with any number of rounds between; a round's
// barrier is host_meet, or host_meet_first in the first, which checks that all are about the same.
const char *host_begin(struct group *group, enum host_operation operation, uint64_t signature);
const char *host_meet_first(struct group *group);
const char *host_meet(struct group *group);
void host_round_end(struct group *group);
void host_end(struct group *group);
const char *host_operation_name(int operation);

// executor/communicators/host_wait.c
const char *host_fail(struct communicator *communicator, const char *format, ...) PRINTF_LIKE(2, 3);
const char *host_wait(struct communicator *communicator, struct host_counter *counter,
                      uint32_t value);
void host_count_up(struct host_counter *counter, bool wakes);
const char *host_arrive(struct communicator *communicator, struct host_counter *counter,
                        uint32_t *barrier_count, int count);
void host_abort(struct communicator *communicator, const char *reason);
bool host_was_told(const struct communicator *communicator);

// executor/communicators/host_post.c: pieces of messages go out in their order, at once or, where
// slots are taken, whenever this rank sends, receives or waits.
struct link_ends {
    struct host_link *link;
    struct host_slot *slots;
    unsigned char *data;  // of the first slot
};
struct link_ends host_link(struct communicator *communicator, int sender, int receiver);
void host_post(struct communicator *communicator, int rank, int channel, const unsigned char *data,
               int64_t bytes, int64_t count);
void host_post_kept(struct communicator *communicator);
// Appends a copy of the piece.
void host_keep(struct host_piece **pieces, int rank, int channel, const unsigned char *data,
               int64_t bytes, int64_t count);
void host_free_pieces(struct host_piece **pieces);
// Waits until nothing is kept, or the job has failed.
void host_drain(struct communicator *communicator);

// executor/communicators/host_collective.c
const char *host_all_reduce(struct group *group, enum stream stream, enum element element,
                            void *data, int64_t count, enum combine combine);
const char *host_all_gather(struct group *group, enum stream stream, enum element element,
                            const void *mine, void *all, const int64_t *counts);
const char *host_reduce_scatter(struct group *group, enum stream stream, enum element element,
                                const void *all, void *mine, const int64_t *counts);
const char *host_gather(struct group *group, const int64_t *mine, int64_t *all, int count);
const char *host_sum(struct group *group, double *values, int count);
const char *host_broadcast(struct group *group, int64_t *numbers, int64_t count, int from);
// executor/communicators/host_exchange.c
const char *host_all_to_all(struct group *group, enum stream stream, enum element element,
                            const void *from, const int64_t *sent, void *to,
                            const int64_t *received);
const char *host_send(struct communicator *communicator, enum stream stream, enum element element,
                      int rank, int channel, const void *data, int64_t count);
const char *host_receive(struct communicator *communicator, enum stream stream,
                         enum element element, int rank, int channel, void *data, int64_t count);
