#include "executor/nccl/transport.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Blocks of threads of a collective where ranks share a GPU: all of them have to fit at once.
enum { SHARED_BLOCKS = 2, MESSAGE_COUNT = 4 };

static void group_free(struct group *group)
{
    free(group->purpose);
    free(group);
}

// Member 0 makes the id and the others get it, as numbers of the host.
static const char *share_id(struct group *group, ncclUniqueId *id)
{
    enum { WORDS = NCCL_UNIQUE_ID_BYTES / 8 };
    struct communicator *communicator = group->communicator;
    int64_t mine[WORDS] = {0}, *all = calloc((size_t)group->count * WORDS, sizeof *all);
    if (!all) return nccl_fail(communicator, "out of memory for a group");
    const char *failure = NULL;
    if (group->me == 0) {
        failure = nccl_check(communicator, ncclGetUniqueId(id), "an id", group->purpose);
        memcpy(mine, id, sizeof mine);
    }
    // A rank that failed still comes, so that the others do not wait: an id of zeros says it.
    const char *fault = communicator->beside->host_gather(group->beside, mine, all, WORDS);
    if (!failure && fault) failure = nccl_fail(communicator, "%s", fault);
    // Of member 0, whose words come first.
    memcpy(id, all, sizeof mine);
    free(all);
    return failure;
}

static void register_adopted(struct group *group)
{
    struct communicator *communicator = group->communicator;
    if (!communicator->adopted || group->registration || !group->comm) return;
    // Only memory of some kinds, on some machines: what cannot be registered is used as it is.
    if (ncclCommRegister(group->comm, communicator->adopted, (size_t)communicator->adopted_bytes,
                         &group->registration) != ncclSuccess)
        group->registration = NULL;
}

const char *nccl_open_comm(struct group *group, bool blocks, ncclComm_t *comm)
{
    struct communicator *communicator = group->communicator;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    const char *failure = share_id(group, &id);
    if (!failure)
        failure = (blocks ? nccl_comm_make : nccl_comm_begin)(communicator, &id, group->count,
                                                              group->me, group->purpose, comm);
    return failure || blocks
               ? failure
               : nccl_settle(communicator, comm, "making the communicator", group->purpose);
}

static const char *open_data(struct group *group)
{
    struct communicator *communicator = group->communicator;
    const char *failure = nccl_open_comm(group, true, &group->comm);
    if (failure) return failure;
    pthread_mutex_lock(&communicator->lock);
    register_adopted(group);
    pthread_mutex_unlock(&communicator->lock);
    return NULL;
}

static const char *nccl_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **made)
{
    struct group *group = calloc(1, sizeof *group);
    char *own_purpose = strdup(purpose);
    if (!group || !own_purpose) {
        free(group);
        free(own_purpose);
        return nccl_fail(communicator, "out of memory for a group");
    }
    *group = (struct group){.communicator = communicator, .purpose = own_purpose, .count = count};
    for (int i = 0; i < count; i++) {
        if (ranks[i] == communicator->rank) group->me = i;
        assert(ranks[i] >= 0 && ranks[i] < communicator->rank_count);
        assert(i == 0 || ranks[i - 1] != ranks[i]);
    }
    const char *failure = communicator->beside->group(communicator->beside_communicator, ranks,
                                                      count, purpose, &group->beside);
    if (failure) {
        group_free(group);
        return nccl_fail(communicator, "%s", failure);
    }
    pthread_mutex_lock(&communicator->lock);
    group->next = communicator->groups;
    communicator->groups = group;
    pthread_mutex_unlock(&communicator->lock);
    *made = group;
    bool has_data = strcmp(purpose, GROUP_OF_NUMBERS) != 0;
    return count > 1 && has_data ? open_data(group) : NULL;
}

static const char *nccl_host_gather(struct group *group, const int64_t *mine, int64_t *all,
                                    int count)
{
    struct communicator *communicator = group->communicator;
    if (atomic_load(&communicator->has_failed)) return communicator->text;
    if (communicator->beside->only_meets) return nccl_gather_numbers(group, mine, all, count);
    return communicator->beside->host_gather(group->beside, mine, all, count);
}

static const char *nccl_host_sum(struct group *group, double *values, int count)
{
    struct communicator *communicator = group->communicator;
    if (atomic_load(&communicator->has_failed)) return communicator->text;
    if (communicator->beside->only_meets) return nccl_sum_numbers(group, values, count);
    return communicator->beside->host_sum(group->beside, values, count);
}

static const char *nccl_host_broadcast(struct group *group, int64_t *numbers, int64_t count,
                                       int from)
{
    struct communicator *communicator = group->communicator;
    if (atomic_load(&communicator->has_failed)) return communicator->text;
    if (communicator->beside->only_meets)
        return nccl_broadcast_numbers(group, numbers, count, from);
    return communicator->beside->host_broadcast(group->beside, numbers, count, from);
}

// A sum of ones over all ranks: who has it knows that all have come.
static const char *meet_all(struct communicator *communicator)
{
    double one = 1;
    assert(communicator->beside->only_meets);
    const char *failure = NULL;
    int *all = communicator->world ? NULL : malloc((size_t)communicator->rank_count * sizeof *all);
    if (!communicator->world && !all) return nccl_fail(communicator, "out of memory for a group");
    for (int rank = 0; all && rank < communicator->rank_count; rank++)
        all[rank] = rank;
    if (all)
        failure = nccl_group(communicator, all, communicator->rank_count, GROUP_OF_NUMBERS,
                             &communicator->world);
    free(all);
    return failure ? failure : nccl_sum_numbers(communicator->world, &one, 1);
}

static const char *nccl_barrier(struct communicator *communicator)
{
    if (atomic_load(&communicator->has_failed)) return communicator->text;
    if (communicator->beside->only_meets) return meet_all(communicator);
    return communicator->beside->barrier(communicator->beside_communicator);
}

static void nccl_progress(struct communicator *communicator)
{
    if (communicator->beside->progress)
        communicator->beside->progress(communicator->beside_communicator);
}

static void nccl_abort(struct communicator *communicator, const char *reason)
{
    communicator->beside->abort(communicator->beside_communicator, reason);
    if (!atomic_load(&communicator->has_failed)) {
        const char *kept = nccl_fail(communicator, "%s", reason);
        (void)kept;
    }
}

static bool nccl_was_told(const struct communicator *communicator)
{
    const struct transport *beside = communicator->beside;
    return beside->was_told && beside->was_told(communicator->beside_communicator);
}

static void deregister_all(struct communicator *communicator)
{
    for (struct group *group = communicator->groups; group; group = group->next) {
        if (group->comm && group->registration)
            ncclCommDeregister(group->comm, group->registration);
        group->registration = NULL;
    }
}

static void nccl_adopt(struct communicator *communicator, void *memory, int64_t bytes)
{
    assert(bytes >= 0 && (memory || bytes == 0));
    pthread_mutex_lock(&communicator->lock);
    deregister_all(communicator);
    communicator->adopted = memory;
    communicator->adopted_bytes = bytes;
    for (struct group *group = communicator->groups; group; group = group->next)
        register_adopted(group);
    pthread_mutex_unlock(&communicator->lock);
}

// What is beside is left to the caller.
static void close_own(struct communicator *communicator)
{
    if (communicator->has_lock) {
        pthread_mutex_lock(&communicator->lock);
        deregister_all(communicator);
        pthread_mutex_unlock(&communicator->lock);
        nccl_comms_close(communicator);
        nccl_links_free(communicator);
        nccl_numbers_free(communicator);
        pthread_mutex_destroy(&communicator->lock);
    }
    for (struct group *group = communicator->groups; group;) {
        struct group *next = group->next;
        group_free(group);
        group = next;
    }
    free(communicator);
}

static void nccl_close(struct communicator *communicator)
{
    const struct transport *beside = communicator->beside;
    struct communicator *beside_communicator = communicator->beside_communicator;
    close_own(communicator);
    beside->close(beside_communicator);
}

static const struct transport NCCL_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "nccl",
    .close = nccl_close,
    .group = nccl_group,
    .all_reduce = nccl_all_reduce,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .all_to_all = nccl_all_to_all,
    .host_gather = nccl_host_gather,
    .host_sum = nccl_host_sum,
    .host_broadcast = nccl_host_broadcast,
    .send = nccl_send,
    .receive = nccl_receive,
    .barrier = nccl_barrier,
    .progress = nccl_progress,
    .abort = nccl_abort,
    .was_told = nccl_was_told,
    .adopt = nccl_adopt,
};

// NCCL refuses two ranks on one device of one host, and takes ranks for being on several hosts when
// their ids differ; between hosts it goes over connections, which here need not leave the machine.
// From NCCL's source (init.cc, misc/utils.cc of 2.28); it must be said before NCCL is first called.
// What the user has set stays, but for the id.
static void hide_sharing(int rank, bool is_one_host)
{
    static const char *const NAMES[][2] = {
        {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_IB_DISABLE", "1"}, {"NCCL_MNNVL_ENABLE", "0"},
        {"NCCL_NVLS_ENABLE", "0"},    {"NCCL_MAX_CTAS", "2"},   {"NCCL_NET_GDR_LEVEL", "LOC"},
    };
    char id[32];
    snprintf(id, sizeof id, "r%d", rank);
    setenv("NCCL_HOSTID", id, 1);
    for (size_t i = is_one_host ? 0 : 1; i < sizeof NAMES / sizeof *NAMES; i++)
        setenv(NAMES[i][0], NAMES[i][1], 0);
}

static const struct transport *open_nccl(const struct communicator_services *services,
                                         const struct communicator_request *request,
                                         struct communicator **opened, struct err *err)
{
    struct communicator *communicator = calloc(1, sizeof *communicator);
    if (!communicator) {
        services->fail(err, ERR_SYSTEM, "out of memory");
        return NULL;
    }
    if (request->shares_device)
        hide_sharing(request->rank, strcmp(request->beside->name, "host") == 0);
    int blocks = request->block_count;
    *communicator = (struct communicator){
        .services = services,
        .backend = request->backend,
        .device = request->device,
        .heartbeat = request->heartbeat,
        .rank = request->rank,
        .rank_count = request->rank_count,
        .block_count = blocks > 0               ? blocks
                       : request->shares_device ? SHARED_BLOCKS
                                                : 0,
        .message_bytes = request->message_bytes,
        .message_count = request->message_count > 0 ? request->message_count : MESSAGE_COUNT,
        .beside = request->beside,
        .beside_communicator = request->beside_communicator,
    };
    cudaGetDevice(&communicator->device_ordinal);
    communicator->has_lock = pthread_mutex_init(&communicator->lock, NULL) == 0;
    const char *failure = communicator->has_lock ? nccl_watch_start(communicator) : "no lock";
    if (!failure) {
        *opened = communicator;
        return &NCCL_TRANSPORT;
    }
    services->fail(err, ERR_SYSTEM, "%s", failure);
    close_own(communicator);
    return NULL;
}

__attribute__((visibility("default"))) const struct communicator_plugin meshwright_communicator = {
    .version = COMMUNICATOR_VERSION,
    .open = open_nccl,
};
