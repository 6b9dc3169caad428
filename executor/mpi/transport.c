#include "executor/mpi/transport.h"

#include <stdlib.h>
#include <string.h>

// Treats so many neighbouring ranks of a host as a host of their own, so that the ways between
// hosts can be tested and measured on one.
static const char RANKS_A_HOST[] = "MESHWRIGHT_RANKS_PER_HOST";

static const char *mpi_group(struct communicator *communicator, const int *ranks, int count,
                             const char *purpose, struct group **made)
{
    struct group *group = calloc(1, sizeof *group);
    int *places = malloc((size_t)count * sizeof *places);
    char *own_purpose = strdup(purpose);
    const char *failure = NULL;
    if (!group || !places || !own_purpose) {
        free(group);
        free(places);
        free(own_purpose);
        return mpi_fail(communicator, "out of memory for a group");
    }
    *group = (struct group){.communicator = communicator,
                            .next = communicator->groups,
                            .comm = MPI_COMM_NULL,
                            .purpose = own_purpose,
                            .count = count};
    communicator->groups = group;
    bool is_inside = true;
    for (int i = 0; i < count; i++) {
        places[i] = communicator->place_of[ranks[i]];
        is_inside &= communicator->host_of[ranks[i]] == communicator->host_of[communicator->rank];
        if (ranks[i] == communicator->rank) group->me = i;
    }
    if (communicator->host && is_inside) {
        failure =
            communicator->host->group(communicator->inside, places, count, purpose, &group->inside);
    } else {
        MPI_Group all, some;
        MPI_Comm_group(communicator->messages, &all);
        MPI_Group_incl(all, count, ranks, &some);
        failure = mpi_check(communicator,
                            MPI_Comm_create_group(communicator->messages, some, 0, &group->comm),
                            "a group of ranks");
        MPI_Group_free(&some);
        MPI_Group_free(&all);
        if (!failure) MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    }
    free(places);
    *made = group;
    return failure;
}

static const char *mpi_barrier(struct communicator *communicator)
{
    MPI_Request request;
    MPI_Status status;
    const char *failure =
        mpi_check(communicator, MPI_Ibarrier(communicator->messages, &request), "barrier");
    return failure ? failure : mpi_wait(communicator, &request, 1, &status, "barrier");
}

// Letters that are still under way must leave before the communicators are taken down.
static void send_letters(struct communicator *communicator)
{
    while (communicator->letters && !communicator->has_failed)
        mpi_idle(communicator);
    mpi_free_letters(communicator, true);
}

static void mpi_close(struct communicator *communicator)
{
    send_letters(communicator);
    // After a failure others may still wait, in this host or another: MPI ends them all.
    if (communicator->has_failed) MPI_Abort(MPI_COMM_WORLD, ERR_SYSTEM);
    if (communicator->host) communicator->host->close(communicator->inside);
    for (struct group *group = communicator->groups; group;) {
        struct group *next = group->next;
        if (group->comm != MPI_COMM_NULL) MPI_Comm_free(&group->comm);
        free(group->purpose);
        free(group);
        group = next;
    }
    MPI_Comm_free(&communicator->messages);
    MPI_Comm_free(&communicator->control);
    MPI_Finalize();
    free(communicator->host_of);
    free(communicator->place_of);
    free(communicator);
}

static void mpi_progress(struct communicator *communicator)
{
    mpi_idle(communicator);
}

static const struct transport MPI_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "mpi",
    .is_deterministic = true,
    .close = mpi_close,
    .group = mpi_group,
    .all_reduce = mpi_all_reduce,
    .all_gather = mpi_all_gather,
    .reduce_scatter = mpi_reduce_scatter,
    .all_to_all = mpi_all_to_all,
    .host_gather = mpi_host_gather,
    .host_sum = mpi_host_sum,
    .send = mpi_send,
    .receive = mpi_receive,
    .barrier = mpi_barrier,
    .progress = mpi_progress,
    .abort = mpi_abort,
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
    MPI_Comm_rank(part, &place);
    MPI_Bcast(&first, 1, MPI_INT, 0, part);
    MPI_Allgather(&first, 1, MPI_INT, communicator->host_of, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&place, 1, MPI_INT, communicator->place_of, 1, MPI_INT, MPI_COMM_WORLD);
    return part;
}

// The first rank of the host makes the memory and keeps it until all have it.
static bool open_host(struct communicator *communicator, MPI_Comm part,
                      const struct communicator_request *request, struct err *err)
{
    struct shared_memory memory = {.file = -1};
    struct communicator_request inside = *request;
    int is_well = 1, all_well = 1;
    MPI_Comm_rank(part, &inside.rank);
    MPI_Comm_size(part, &inside.rank_count);
    if (inside.rank_count > 1) {
        if (inside.rank == 0) is_well = communicator->services->memory_create(&memory, err);
        MPI_Bcast(memory.name, sizeof memory.name, MPI_CHAR, 0, part);
        inside.host_name = memory.name;
        inside.idle = mpi_idle;
        inside.idle_context = communicator;
        if (is_well) {
            communicator->host =
                communicator->services->open_host(&inside, &communicator->inside, err);
            is_well = communicator->host != NULL;
        }
    }
    MPI_Allreduce(&is_well, &all_well, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (inside.rank == 0) communicator->services->memory_close(&memory);
    if (is_well && !all_well)
        communicator->services->fail(err, ERR_SYSTEM, "another rank cannot open its memory");
    return all_well;
}

static bool start_mpi(struct communicator *communicator, const struct communicator_request *request,
                      struct err *err)
{
    int provided, size;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return communicator->services->fail(err, ERR_SYSTEM, "MPI does not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &communicator->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != request->rank_count || communicator->rank != request->rank)
        return communicator->services->fail(
            err, ERR_SYSTEM,
            "MPI says rank %d of %d where rank %d of %d was started: mpirun and exec_mpi.so are of "
            "different MPIs",
            communicator->rank, size, request->rank, request->rank_count);
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator->messages);
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator->control);
    MPI_Comm_set_errhandler(communicator->messages, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(communicator->control, MPI_ERRORS_RETURN);
    return true;
}

static const struct transport *open_mpi(const struct communicator_services *services,
                                        const struct communicator_request *request,
                                        struct communicator **opened, struct err *err)
{
    struct communicator *communicator = calloc(1, sizeof *communicator);
    size_t count = (size_t)request->rank_count;
    int *host_of = malloc(count * sizeof *host_of), *place_of = malloc(count * sizeof *place_of);
    if (!communicator || !host_of || !place_of) {
        services->fail(err, ERR_SYSTEM, "out of memory");
        goto fail;
    }
    *communicator = (struct communicator){
        .services = services,
        .backend = request->backend,
        .device = request->device,
        .pulse = request->pulse,
        .rank_count = request->rank_count,
        .host_of = host_of,
        .place_of = place_of,
    };
    if (!start_mpi(communicator, request, err)) goto fail;
    MPI_Comm part = find_hosts(communicator);
    bool is_well = open_host(communicator, part, request, err);
    MPI_Comm_free(&part);
    if (is_well) {
        *opened = communicator;
        return &MPI_TRANSPORT;
    }
fail:
    free(communicator);
    free(host_of);
    free(place_of);
    return NULL;
}

__attribute__((visibility("default"))) const struct communicator_plugin meshwright_communicator = {
    .open = open_mpi,
};
