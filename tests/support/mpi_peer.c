#include "tests/support/mpi_peer.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

static void all_reduce(void *data, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(const void *mine, void *all, int count)
{
    MPI_Allgather(mine, count, MPI_FLOAT, all, count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(const void *all, void *mine, int count)
{
    MPI_Reduce_scatter_block(all, mine, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void send_and_receive(int peer, const void *out, void *in, int count)
{
    MPI_Sendrecv(out, count, MPI_FLOAT, peer, 0, in, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

const struct mpi_peer mpi_peer = {all_reduce, all_gather, reduce_scatter, send_and_receive,
                                  barrier};
