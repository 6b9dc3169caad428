#pragma once
#include "executor/communicators/sum.h"

// What a transport is whose ranks are on several hosts (`mpi`), but for the messages. Ranks of one
// host talk through `host`; between hosts all exchanges are messages over a wire, and sums are made
// here, in the order of the group's ranks, so that they have the bits that `host` gives them. Part
// of exec_mpi.so: no symbols of the binary.

enum { BETWEEN_TEXT_BYTES = 512 };

// One part of an exchange with each member.
struct piece {
    void *data;
    int64_t bytes;
};

// What a transport is to bring. Functions return NULL or what between_fail returned.
struct wire {
    // Of a group that is on several hosts: group->of_wire.
    const char *(*group_open)(struct group *group);
    void (*group_close)(struct group *group);
    // Sends out[member] to each other and takes in[member] from each; in[me] has been done.
    const char *(*exchange)(struct group *group, const struct piece *out, const struct piece *in,
                            const char *what);
    // Messages to and from ranks of other hosts; posting copies and does not wait.
    const char *(*post)(struct communicator *communicator, int rank, int channel, const void *data,
                        int64_t bytes);
    const char *(*take)(struct communicator *communicator, int rank, int channel, void *data,
                        int64_t bytes);
    void (*idle)(struct communicator *communicator);  // moves on what can be moved on
};

struct group {
    struct communicator *communicator;
    struct group *next;
    struct group *inside;  // of `host`, when all members are on this host; NULL
    void *of_wire;         // else
    char *purpose;
    int *ranks;
    int count, me;
};

struct communicator {
    const struct wire *wire;
    void *of_wire;
    const struct backend *backend;
    struct device *device;
    struct heartbeat *heartbeat;
    int rank, rank_count;
    const struct transport *host;  // NULL: alone on this host
    struct communicator *inside;
    int *host_of;       // first rank on the host of each rank
    int *place_of;      // rank among those of its host
    int *inside_ranks;  // of this host, by their place: for `host`
    struct group *groups;
    bool has_failed, has_aborted, was_told;
    char text[BETWEEN_TEXT_BYTES];  // of the last failure, or of who aborted
};

// NULL: no memory. Closing closes the groups and `host`, and frees it.
struct communicator *between_new(const struct wire *wire,
                                 const struct communicator_request *request);
void between_free(struct communicator *communicator);
// Once host_of and place_of are known.
const int *between_inside_ranks(struct communicator *communicator);

// Keeps the first failure: who has aborted is the better reason than what came of it.
__attribute__((returns_nonnull)) const char *between_fail(struct communicator *communicator,
                                                          const char *format, ...)
    PRINTF_LIKE(2, 3);
// What `host` says is kept as a failure of this transport.
const char *between_relay(struct communicator *communicator, const char *failure);
const char *between_exchange(struct group *group, const struct piece *out, const struct piece *in,
                             const char *what);
// Data of devices with memory of their own is copied over and back; the caller frees *host, which
// is NULL where it is the data itself.
const char *between_from_device(struct communicator *communicator, enum stream stream,
                                const void *device, int64_t bytes, void **host);
const char *between_to_device(struct communicator *communicator, enum stream stream, void *device,
                              const void *host, int64_t bytes);

// Of struct transport.
const char *between_group(struct communicator *communicator, const int *ranks, int count,
                          const char *purpose, struct group **made);
const char *between_all_reduce(struct group *group, enum stream stream, enum element element,
                               void *data, int64_t count, enum combine combine);
const char *between_all_gather(struct group *group, enum stream stream, enum element element,
                               const void *mine, void *all, const int64_t *counts);
const char *between_reduce_scatter(struct group *group, enum stream stream, enum element element,
                                   const void *all, void *mine, const int64_t *counts);
const char *between_all_to_all(struct group *group, enum stream stream, enum element element,
                               const void *from, const int64_t *sent, void *to,
                               const int64_t *received);
const char *between_host_gather(struct group *group, const int64_t *mine, int64_t *all, int count);
const char *between_host_sum(struct group *group, double *values, int count);
const char *between_host_broadcast(struct group *group, int64_t *numbers, int64_t count, int from);
const char *between_send(struct communicator *communicator, enum stream stream,
                         enum element element, int rank, int channel, const void *data,
                         int64_t count);
const char *between_receive(struct communicator *communicator, enum stream stream,
                            enum element element, int rank, int channel, void *data, int64_t count);
void between_progress(struct communicator *communicator);
bool between_was_told(const struct communicator *communicator);
