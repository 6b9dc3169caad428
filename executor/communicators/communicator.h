#pragma once
#include "executor/backend.h"

// Ranks that talk to each other. One table of functions a transport: `self` (one rank), `host`
// (ranks of one host through shared memory, in rank order: deterministic), `mpi` (plug-in
// exec_mpi.so: MPI between hosts, `host` inside one where possible), `mock` (one rank of many
// alone: what it would receive is what it sent, so that shapes and bytes are right and values are
// not; timing and memory only), `nccl` (plug-in exec_nccl.so: between GPUs; host_gather, host_sum
// and barrier go the way of the others where there is one), `file` (ranks of several hosts without
// MPI meet by files: for what `nccl` needs to begin, and nothing else).
//
// Collectives and messages take flat arrays in device memory, of ELEMENT_COMPUTE or ELEMENT_FP32:
// numbers as wide as the back end says, the same on every rank. Parts may be of any size, 0 too.
// Sums are added in the order of the group's ranks, on every transport that says it is
// deterministic, so that a reduce-scatter followed by an all-gather has the bits of the all-reduce;
// numbers of 16 bits are added in fp32 and the sum is rounded once. What fails returns a text: the
// peer by rank and what it did last, as far as known.

enum { COMMUNICATOR_VERSION = 7 };

struct communicator;
struct group;
struct heartbeat;

// Purpose of a group that host_gather, host_sum and host_broadcast are for and nothing else: it
// takes no memory of the device.
#define GROUP_OF_NUMBERS "numbers"

enum combine { COMBINE_SUM, COMBINE_MAX };

// Bytes counted where collectives are called, as the simulator counts payloads (struct instr).
struct transport {
    int version;
    const char *name;
    bool only_meets;  // has close, group, host_gather, send, receive, progress and abort alone,
                      // and is slow
    void (*close)(struct communicator *communicator);
    // Each rank once, this one among them; all members give one order. Every rank of it makes its
    // groups in one order. `purpose` keeps groups of equal ranks apart ("tp", "dp-expert").
    const char *(*group)(struct communicator *communicator, const int *ranks, int count,
                         const char *purpose, struct group **group);
    const char *(*all_reduce)(struct group *group, enum stream stream, enum element element,
                              void *data, int64_t count, enum combine combine);
    // counts[member]: numbers of each part. `all` may hold `mine` in its place.
    const char *(*all_gather)(struct group *group, enum stream stream, enum element element,
                              const void *mine, void *all, const int64_t *counts);
    const char *(*reduce_scatter)(struct group *group, enum stream stream, enum element element,
                                  const void *all, void *mine, const int64_t *counts);
    // One after another: sent[member] numbers to each, received[member] from each.
    const char *(*all_to_all)(struct group *group, enum stream stream, enum element element,
                              const void *from, const int64_t *sent, void *to,
                              const int64_t *received);
    // Numbers on the host, for counts, norms and losses; double sums in rank order.
    const char *(*host_gather)(struct group *group, const int64_t *mine, int64_t *all, int count);
    const char *(*host_sum)(struct group *group, double *values, int count);
    // The numbers of member `from` become those of all. Each gets them from that member: a tree is
    // the caller's, of groups of two.
    const char *(*host_broadcast)(struct group *group, int64_t *numbers, int64_t count, int from);
    // Point to point, by rank of the job; messages of one (sender, receiver, channel) arrive in
    // order. Sending copies and does not wait.
    const char *(*send)(struct communicator *communicator, enum stream stream, enum element element,
                        int rank, int channel, const void *data, int64_t count);
    const char *(*receive)(struct communicator *communicator, enum stream stream,
                           enum element element, int rank, int channel, void *data, int64_t count);
    const char *(*barrier)(struct communicator *communicator);
    // Moves messages on that were copied and are not out yet, as every call that waits does; for
    // who waits elsewhere. NULL: there are none.
    void (*progress)(struct communicator *communicator);
    // Ends all that wait, here and on the other ranks, for this reason.
    void (*abort)(struct communicator *communicator, const char *reason);
    // Whether what failed is a failure of another rank, which says it itself. NULL: not known.
    bool (*was_told)(const struct communicator *communicator);
    // Memory of the device that data will often be in, so that the transport can make it known to
    // what moves it; NULL before it is released. Not having that is no failure. NULL: no use.
    void (*adopt)(struct communicator *communicator, void *memory, int64_t bytes);
};

// What data goes over. AUTO: NCCL where each rank has a GPU of its own and the plug-in is there on
// all of them, else HOST under our launcher, else MPI. HOST is the memory that ranks of one host
// share: data of GPUs is copied over and back. Where launchers of several hosts have met by files
// there is NCCL alone.
enum transport_kind { TRANSPORT_AUTO, TRANSPORT_HOST, TRANSPORT_MPI, TRANSPORT_NCCL };

// What `mock` waits in the place of exchanges, on their streams: what somebody who knows the other
// ranks and the links says that they take.
struct communicator_delays {
    // Seconds of an exchange (enum collective) over these ranks (a message: over one, the other
    // end) of so many bytes (as in struct instr).
    double (*exchange_s)(void *context, int collective, const int *ranks, int count, int64_t bytes);
    void *context;
    // Of the n-th message that a step receives from another stage, when it is there, from the
    // step's begin, which is the barrier.
    const double *arrival_s;
    int arrival_count;
    int multiprocessors;  // that an exchange occupies meanwhile, on a device
};

struct communicator_request {
    enum transport_kind kind;
    const struct backend *backend;
    struct device *device;
    int rank, rank_count;
    int64_t window_bytes;   // of shared memory a rank may use for collectives; 0: 4 MiB
    int64_t message_bytes;  // of a message's piece; 0: 1 MiB
    int message_count;      // pieces under way on one link that need no second copy; 0: 4
    const char *host_name;  // of the launcher's memory (executor/launcher/shared_memory.h): `host`
                            // needs it, `mpi` makes its own
    const char *meeting;    // folder where the ranks of several hosts meet: `file`; NULL
    double meet_s;          // `file`: the longest wait for another rank; 0: 300 s
    int local_rank;         // among the ranks of its host
    const int *job_ranks;   // what messages call each rank, until closed; NULL: as it is numbered
    // `nccl`: the transport beside it, which it closes; whether ranks share GPUs, which NCCL knows
    // nothing of and has to be kept from finding out; blocks of threads that a collective may take
    // from the kernels, 0: NCCL's choice.
    const struct transport *beside;
    struct communicator *beside_communicator;
    bool shares_device;
    int block_count;
    const struct communicator_delays *delays;  // `mock`; NULL: everything is there at once
    const char **note;  // NULL, or where AUTO says why it is not NCCL between GPUs: static
    struct heartbeat
        *heartbeat;  // NULL: nobody watches; its beat counts the pieces of long exchanges
    void (*idle)(void *context);  // called now and then while `host` waits, for what else must go
    void *idle_context;           // on; NULL: nothing
};

// executor/communicators/*.c: each returns its table and opens *communicator.
// communicator_open chooses by the kind: all ranks alike, or NULL on all of them.
MUST_CHECK const struct transport *communicator_open(const struct communicator_request *request,
                                                     struct communicator **communicator,
                                                     struct err *err);
MUST_CHECK const struct transport *communicator_self(const struct communicator_request *request,
                                                     struct communicator **communicator,
                                                     struct err *err);
MUST_CHECK const struct transport *communicator_host(const struct communicator_request *request,
                                                     struct communicator **communicator,
                                                     struct err *err);
MUST_CHECK const struct transport *communicator_file(const struct communicator_request *request,
                                                     struct communicator **communicator,
                                                     struct err *err);
MUST_CHECK const struct transport *communicator_mpi(const struct communicator_request *request,
                                                    struct communicator **communicator,
                                                    struct err *err);
MUST_CHECK const struct transport *communicator_nccl(const struct communicator_request *request,
                                                     struct communicator **communicator,
                                                     struct err *err);
MUST_CHECK const struct transport *communicator_mock(const struct communicator_request *request,
                                                     struct communicator **communicator,
                                                     struct err *err);
