#include "executor/mpi/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Treats so many neighbouring ranks of a host as a host of their own, so that the ways between
// hosts can be tested and measured on one.
static const char RANKS_A_HOST[] = "MESHWRIGHT_RANKS_PER_HOST";

// Made by its members alone, in the order in which all of them make their groups.
static const char *open_group(struct group *group)
{
    struct communicator *communicator = group->communicator;
    MPI_Group all, some;
    MPI_Comm *comm = malloc(sizeof *comm);
    if (!comm) return between_fail(communicator, "out of memory for a group");
    MPI_Comm_group(mpi_of(communicator)->messages, &all);
    MPI_Group_incl(all, group->count, group->ranks, &some);
    int code = MPI_Comm_create_group(mpi_of(communicator)->messages, some, 0, comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    if (code == MPI_SUCCESS) {
        MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
        group->of_wire = comm;
        return NULL;
    }
    free(comm);
    return mpi_check(communicator, code, "a group of ranks");
}

// Of a group whose members are on one host there is none: `inside` is that.
static void close_group(struct group *group)
{
    MPI_Comm *comm = group->of_wire;
    MPI_Comm_free(comm);
    free(comm);
}

static const struct wire MPI_WIRE = {
    .group_open = open_group,
    .group_close = close_group,
    .exchange = mpi_exchange,
    .post = mpi_post,
    .take = mpi_take,
    .idle = mpi_idle,
};

static const char *mpi_barrier(struct communicator *communicator)
{
    MPI_Request request;
    MPI_Status status;
    const char *failure =
        mpi_check(communicator, MPI_Ibarrier(mpi_of(communicator)->messages, &request), "barrier");
    return failure ? failure : mpi_wait(communicator, &request, 1, &status, "barrier");
}

// Letters that are still under way must leave before the communicators are taken down.
static void send_letters(struct communicator *communicator)
{
    while (mpi_of(communicator)->letters && !communicator->has_failed)
        mpi_idle(communicator);
    mpi_free_letters(communicator, true);
}

static void mpi_close(struct communicator *communicator)
{
    send_letters(communicator);
    // After a failure others may still wait, in this host or another. mpirun ends them when this
    // rank has ended without a farewell; srun has to be told.
    bool has_mpirun = getenv("OMPI_COMM_WORLD_SIZE") != NULL;
    if (communicator->has_failed && !has_mpirun) MPI_Abort(MPI_COMM_WORLD, ERR_SYSTEM);
    if (communicator->has_failed) return;
    struct mpi_wire *wire = mpi_of(communicator);
    between_free(communicator);
    MPI_Comm_free(&wire->messages);
    MPI_Comm_free(&wire->control);
    MPI_Finalize();
    free(wire);
}

static const struct transport MPI_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "mpi",
    .close = mpi_close,
    .group = between_group,
    .all_reduce = between_all_reduce,
    .all_gather = between_all_gather,
    .reduce_scatter = between_reduce_scatter,
    .all_to_all = between_all_to_all,
    .host_gather = between_host_gather,
    .host_sum = between_host_sum,
    .host_broadcast = between_host_broadcast,
    .send = between_send,
    .receive = between_receive,
    .barrier = mpi_barrier,
    .progress = between_progress,
    .abort = mpi_abort,
    .was_told = between_was_told,
};

// The ranks of this host, and where all ranks are.
static MPI_Comm find_hosts(struct communicator *communicator)
{
    MPI_Comm host, part;
    int place, first = communicator->rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, communicator->rank, MPI_INFO_NULL,
                        &host);
    const char *text = getenv(RANKS_A_HOST);
    int ranks_a_host = text ? (int)strtol(text, NULL, 10) : 0;
    MPI_Comm_rank(host, &place);
    MPI_Comm_split(host, ranks_a_host > 0 ? place / ranks_a_host : 0, communicator->rank, &part);
    MPI_Comm_free(&host);
    // The first rank of a host stands for it.
    MPI_Comm_rank(part, &place);
    MPI_Bcast(&first, 1, MPI_INT, 0, part);
    MPI_Allgather(&first, 1, MPI_INT, communicator->host_of, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&place, 1, MPI_INT, communicator->place_of, 1, MPI_INT, MPI_COMM_WORLD);
    assert(first <= communicator->rank && communicator->host_of[communicator->rank] == first);
    assert(communicator->host_of[first] == first && communicator->place_of[first] == 0);
    return part;
}

static void idle(void *context)
{
    mpi_idle(context);
}

// The first rank of the host makes the memory and keeps it until all have it.
static bool open_host(struct communicator *communicator, MPI_Comm part,
                      const struct communicator_request *request, struct err *err)
{
    struct shared_memory memory = {.file = -1};
    struct communicator_request inside = *request;
    int is_well = 1, all_well = 1;  // ints, as MPI takes the least of them
    MPI_Comm_rank(part, &inside.rank);
    MPI_Comm_size(part, &inside.rank_count);
    if (inside.rank_count > 1) {
        if (inside.rank == 0) is_well = mpi_of(communicator)->services->memory_create(&memory, err);
        MPI_Bcast(memory.name, sizeof memory.name, MPI_CHAR, 0, part);
        inside.host_name = memory.name;
        inside.job_ranks = between_inside_ranks(communicator);
        inside.idle = idle;
        inside.idle_context = communicator;
        if (is_well) {
            communicator->host =
                mpi_of(communicator)->services->open_host(&inside, &communicator->inside, err);
            is_well = communicator->host != NULL;
        }
    }
    MPI_Allreduce(&is_well, &all_well, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (inside.rank == 0) mpi_of(communicator)->services->memory_close(&memory);
    if (is_well && !all_well)
        mpi_of(communicator)
            ->services->fail(err, ERR_SYSTEM, "another rank cannot open its memory");
    return all_well;
}

// Open MPI opens a TCP port for each rank, and a stranger who sends enough to it can stop the run.
// Between ranks of one host shared memory is there, and faster. Who has chosen keeps the choice.
static void close_ports_of_one_host(void)
{
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const char *everywhere = getenv("OMPI_COMM_WORLD_SIZE");
    if (here && everywhere && !strcmp(here, everywhere)) setenv("OMPI_MCA_btl", "^tcp", 0);
}

static bool start_mpi(struct communicator *communicator, const struct communicator_request *request,
                      struct err *err)
{
    int provided, size;
    close_ports_of_one_host();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return mpi_of(communicator)->services->fail(err, ERR_SYSTEM, "MPI does not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &communicator->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != request->rank_count || communicator->rank != request->rank)
        return mpi_of(communicator)
            ->services->fail(err, ERR_SYSTEM,
                             "MPI says rank %d of %d where rank %d of %d was started: mpirun and "
                             "exec_mpi.so are of different MPIs, or srun was started without "
                             "--mpi=pmix",
                             communicator->rank, size, request->rank, request->rank_count);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi_of(communicator)->messages);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi_of(communicator)->control);
    MPI_Comm_set_errhandler(mpi_of(communicator)->messages, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(mpi_of(communicator)->control, MPI_ERRORS_RETURN);
    return true;
}

static const struct transport *open_mpi(const struct communicator_services *services,
                                        const struct communicator_request *request,
                                        struct communicator **opened, struct err *err)
{
    struct communicator *communicator = between_new(&MPI_WIRE, request);
    struct mpi_wire *wire = calloc(1, sizeof *wire);
    if (!communicator || !wire) {
        services->fail(err, ERR_SYSTEM, "out of memory");
        goto fail;
    }
    communicator->of_wire = wire;
    wire->services = services;
    if (!start_mpi(communicator, request, err)) goto fail;
    MPI_Comm part = find_hosts(communicator);
    bool is_well = open_host(communicator, part, request, err);
    MPI_Comm_free(&part);
    if (is_well) {
        assert(communicator->rank == request->rank);
        *opened = communicator;
        return &MPI_TRANSPORT;
    }
fail:
    // What waits in `host` while that closes moves messages of the wire on: the wire goes last.
    if (communicator) between_free(communicator);
    free(wire);
    return NULL;
}

__attribute__((visibility("default"))) const struct communicator_plugin meshwright_communicator = {
    .version = COMMUNICATOR_VERSION,
    .open = open_mpi,
};
