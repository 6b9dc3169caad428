#pragma once
#include "executor/communicators/between.h"
#include "executor/communicators/plugin.h"

// Open MPI brings C++ declarations and warnings of its own.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

// Inside of the transport `mpi`: messages of MPI as the wire between hosts.

// A message that was copied and is on its way.
struct letter {
    struct letter *next;
    MPI_Request request;
    unsigned char bytes[];
};

struct mpi_wire {
    const struct communicator_services *services;
    MPI_Comm messages, control;
    struct letter *letters;
};

static inline struct mpi_wire *mpi_of(const struct communicator *communicator)
{
    return communicator->of_wire;
}

// executor/mpi/wait.c
// Of a call's result: NULL, or MPI's own words.
const char *mpi_check(struct communicator *communicator, int code, const char *what);
// Until all have ended; frees them. `what` is for the text.
const char *mpi_wait(struct communicator *communicator, MPI_Request *requests, int count,
                     MPI_Status *statuses, const char *what);
// Moves messages on and looks whether somebody has aborted.
void mpi_idle(struct communicator *communicator);
void mpi_abort(struct communicator *communicator, const char *reason);

// executor/mpi/exchange.c: of struct wire.
const char *mpi_exchange(struct group *group, const struct piece *out, const struct piece *in,
                         const char *what);
const char *mpi_post(struct communicator *communicator, int rank, int channel, const void *data,
                     int64_t bytes);
const char *mpi_take(struct communicator *communicator, int rank, int channel, void *data,
                     int64_t bytes);
void mpi_free_letters(struct communicator *communicator, bool all);
