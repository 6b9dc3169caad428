#pragma once
#include "executor/communicator_plugin.h"
#include "executor/communicator_sum.h"

// Open MPI brings C++ declarations and warnings of its own.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

// Inside of the transport `mpi`. Ranks of one host talk through `host`; between hosts all exchanges
// are messages, and sums are made here, in the order of the group's ranks, so that they have the
// bits that `host` gives them.

enum { MPI_TEXT_BYTES = 512 };

struct group {
    struct communicator *communicator;
    struct group *next;
    struct group *inside;  // of `host`, when all members are on this host; NULL
    MPI_Comm comm;         // else
    char *purpose;
    int count, me;
};

// A message that was copied and is on its way.
struct letter {
    struct letter *next;
    MPI_Request request;
    unsigned char bytes[];
};

struct communicator {
    const struct communicator_services *services;
    const struct backend *backend;
    struct device *device;
    struct pulse *pulse;
    int rank, rank_count;
    const struct transport *host;  // NULL: alone on this host
    struct communicator *inside;
    int *host_of;   // first rank on the host of each rank
    int *place_of;  // rank among those of its host
    MPI_Comm messages, control;
    struct group *groups;
    struct letter *letters;
    bool has_failed, has_aborted;
    char text[MPI_TEXT_BYTES];  // of the last failure, or of who aborted
};

// One part of an exchange with each member.
struct piece {
    void *data;
    int64_t bytes;
};

// executor/mpi/wait.c
const char *mpi_fail(struct communicator *communicator, const char *format, ...) PRINTF_LIKE(2, 3);
// What `host` says is kept as a failure of this transport.
const char *mpi_relay(struct communicator *communicator, const char *failure);
// Of a call's result: NULL, or MPI's own words.
const char *mpi_check(struct communicator *communicator, int code, const char *what);
// Until all have ended; frees them. `what` is for the text.
const char *mpi_wait(struct communicator *communicator, MPI_Request *requests, int count,
                     MPI_Status *statuses, const char *what);
// Moves messages on and looks whether somebody has aborted.
void mpi_idle(void *context);  // the communicator
void mpi_abort(struct communicator *communicator, const char *reason);

// executor/mpi/exchange.c: sends out[member] to each and takes in[member] from each.
const char *mpi_exchange(struct group *group, const struct piece *out, const struct piece *in,
                         const char *what);
const char *mpi_send(struct communicator *communicator, enum stream stream, enum element element,
                     int rank, int channel, const void *data, int64_t count);
const char *mpi_receive(struct communicator *communicator, enum stream stream, enum element element,
                        int rank, int channel, void *data, int64_t count);
void mpi_free_letters(struct communicator *communicator, bool all);

// executor/mpi/collective.c
const char *mpi_all_reduce(struct group *group, enum stream stream, enum element element,
                           void *data, int64_t count, enum combine combine);
const char *mpi_all_gather(struct group *group, enum stream stream, enum element element,
                           const void *mine, void *all, const int64_t *counts);
const char *mpi_reduce_scatter(struct group *group, enum stream stream, enum element element,
                               const void *all, void *mine, const int64_t *counts);
const char *mpi_all_to_all(struct group *group, enum stream stream, enum element element,
                           const void *from, const int64_t *sent, void *to,
                           const int64_t *received);
const char *mpi_host_gather(struct group *group, const int64_t *mine, int64_t *all, int count);
const char *mpi_host_sum(struct group *group, double *values, int count);
// Data of devices with memory of their own is copied over and back; the caller frees *host, which
// is NULL where it is the data itself.
const char *mpi_from_device(struct communicator *communicator, enum stream stream,
                            const void *device, int64_t bytes, void **host);
const char *mpi_to_device(struct communicator *communicator, enum stream stream, void *device,
                          const void *host, int64_t bytes);
