#include "executor/communicators/communicator.h"
#include "executor/plugin.h"

#include <dlfcn.h>
#include <string.h>

// The way that needs no GPU: numbers of the host always take it.
static const struct transport *open_beside(const struct communicator_request *request,
                                           struct communicator **communicator, struct err *err)
{
    if (request->rank_count == 1) return communicator_self(request, communicator, err);
    if (request->kind == TRANSPORT_MPI) return communicator_mpi(request, communicator, err);
    if (request->meeting) return communicator_file(request, communicator, err);
    if (request->host_name) return communicator_host(request, communicator, err);
    if (request->kind != TRANSPORT_HOST) return communicator_mpi(request, communicator, err);
    err_set(err, ERR_USAGE,
            "the transport host is for ranks that this program starts: without mpirun or srun "
            "around it");
    return NULL;
}

// What ranks must know of each other to choose alike.
struct traits {
    int64_t has_nccl, shares_device;
};

// With fewer GPUs than ranks the devices are dealt out in turn (a rank takes its local number
// modulo their count), so a rank whose number is past the last GPU shares one.
static struct traits find_traits(const struct communicator_request *request)
{
    const struct backend *backend = request->backend;
    int count = backend->device_count ? backend->device_count() : 0;
    bool is_there = false;
    void *plugin =
        count > 0 ? plugin_open("exec_nccl.so", RTLD_NOW | RTLD_GLOBAL, &is_there) : NULL;
    return (struct traits){.has_nccl = plugin != NULL,
                           .shares_device = request->local_rank >= count};
}

static const char *gather_traits(const struct communicator_request *request,
                                 const struct transport *beside, struct communicator *communicator,
                                 struct traits *traits)
{
    struct arena arena = {0};
    struct group *group;
    int *ranks = ARENA_NEW(&arena, int, request->rank_count);
    struct traits *all = ARENA_NEW(&arena, struct traits, request->rank_count);
    for (int rank = 0; rank < request->rank_count; rank++)
        ranks[rank] = rank;
    const char *failure =
        beside->group(communicator, ranks, request->rank_count, GROUP_OF_NUMBERS, &group);
    if (!failure)
        failure = beside->host_gather(group, &traits->has_nccl, &all->has_nccl,
                                      sizeof *traits / sizeof(int64_t));
    for (int rank = 0; rank < request->rank_count && !failure; rank++) {
        // One rank that cannot is enough against it: a group of NCCL needs all of its members.
        traits->has_nccl &= all[rank].has_nccl;
        traits->shares_device |= all[rank].shares_device;
    }
    arena_free(&arena);
    return failure;
}

// Whether NCCL it is; `err` is set where it was asked for and cannot be.
static bool wants_nccl(const struct communicator_request *request, const struct traits *traits,
                       struct err *err)
{
    bool is_asked = request->kind == TRANSPORT_NCCL;
    if (is_asked && !request->backend->native_stream)
        return err_set(err, ERR_USAGE,
                       "the transport nccl is between GPUs: the ranks compute on %s",
                       request->backend->name);
    bool is_possible = traits->has_nccl && !traits->shares_device;
    if (!is_asked && !is_possible && request->note)
        *request->note =
            traits->shares_device
                ? "ranks share a GPU: what they exchange goes through the host's memory"
                : "no exec_nccl.so that opens: what ranks exchange goes through the "
                  "host's memory";
    return is_asked || is_possible;
}

// Hosts that meet by files have nothing but NCCL to move data with.
static bool check_meeting(const struct communicator_request *request, bool is_gpu, struct err *err)
{
    if (!request->meeting || request->kind == TRANSPORT_MPI || is_gpu) return true;
    return err_set(err, ERR_USAGE,
                   "with --rendezvous data goes over NCCL, between GPUs: the ranks compute on %s, "
                   "start them with mpirun or srun",
                   request->backend->name);
}

static bool check_nccl(const struct communicator_request *request, const struct traits *traits,
                       struct err *err)
{
    if (!request->meeting) return true;
    return err_set(err, ERR_USAGE, "with --rendezvous data goes over NCCL: %s",
                   traits->shares_device
                       ? "ranks share a GPU, which it does not do unless --transport nccl is said"
                       : "no exec_nccl.so that opens on all hosts");
}

const struct transport *communicator_open(const struct communicator_request *request,
                                          struct communicator **communicator, struct err *err)
{
    bool is_gpu = request->backend->native_stream && request->rank_count > 1;
    if (!check_meeting(request, is_gpu, err)) return NULL;
    const struct transport *beside = open_beside(request, communicator, err);
    bool may_be = request->kind == TRANSPORT_NCCL || (request->kind == TRANSPORT_AUTO && is_gpu);
    if (!beside || !may_be) return beside;
    struct traits traits = find_traits(request);
    const char *failure = gather_traits(request, beside, *communicator, &traits);
    if (failure) err_set(err, ERR_SYSTEM, "%s", failure);
    bool is_nccl = !failure && wants_nccl(request, &traits, err);
    if (is_nccl) {
        struct communicator_request above = *request;
        above.beside = beside;
        above.beside_communicator = *communicator;
        above.shares_device = traits.shares_device;
        const struct transport *nccl = communicator_nccl(&above, communicator, err);
        if (nccl) return nccl;
        *communicator = above.beside_communicator;
    }
    // Where nothing failed the ranks have agreed on the other way; ranks that wait in it are told.
    if (!err->kind && check_nccl(request, &traits, err)) return beside;
    beside->abort(*communicator, err->text);
    beside->close(*communicator);
    return NULL;
}
