#pragma once
// MPI's own collectives on float, for comparison: a shared object of its own, because nothing else
// is linked with MPI. MPI is started already.

struct mpi_peer {
    void (*all_reduce)(void *data, int count);
    void (*all_gather)(const void *mine, void *all, int count);  // of each rank
    void (*reduce_scatter)(const void *all, void *mine, int count);
    void (*send_and_receive)(int peer, const void *out, void *in, int count);
    void (*barrier)(void);
};
