#include "executor/communicators/host.h"
#include "core/divisor.h"
#include "executor/launcher/shared_memory.h"
#include "executor/random.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Longer rounds wait less often for ranks that do not run at the moment: with more ranks than cores
// that is worth more than halves that stay in a cache (tests/bench/bench_communicator.c).
enum {
    WINDOW_BYTES = 4 << 20,
    MESSAGE_BYTES = 1 << 20,
    MESSAGE_COUNT = 4,
    GROUPS_A_RANK = 64,
    SPINS_ALONE = 4000,
    SPINS_CROWDED = 50
};

static struct host_map map_make(const struct communicator_request *request)
{
    int64_t ranks = request->rank_count, page = 4096;
    int64_t window_bytes = request->window_bytes ? request->window_bytes : WINDOW_BYTES;
    struct host_map map = {
        .group_slots = (int)ranks * GROUPS_A_RANK,
        .message_count = request->message_count ? request->message_count : MESSAGE_COUNT,
        .header_bytes = round_up((int64_t)sizeof(struct host_header) + ranks * 8, 64),
        .message_bytes =
            round_up(request->message_bytes ? request->message_bytes : MESSAGE_BYTES, 64),
    };
    map.half_bytes = round_up(window_bytes / 2, 64);
    // Whatever was asked for, every part of an exchange must find room for a number.
    int64_t least = map.header_bytes + round_up(64 + 16 * ranks, 64);
    if (map.half_bytes < least) map.half_bytes = least;
    // All-to-all and reduce-scatter set a number a member aside for shares that are rounded up.
    assert((map.half_bytes - map.header_bytes) / (int64_t)sizeof(double) > ranks);
    map.ranks = round_up(sizeof(struct host_segment), 64);
    map.groups = map.ranks + ranks * (int64_t)sizeof(struct host_rank);
    map.links = map.groups + map.group_slots * (int64_t)sizeof(struct host_group_shared);
    map.slots = map.links + ranks * ranks * (int64_t)sizeof(struct host_link);
    int64_t slot_count = ranks * ranks * map.message_count;
    map.windows = round_up(map.slots + slot_count * (int64_t)sizeof(struct host_slot), page);
    map.messages = round_up(map.windows + ranks * 2 * map.half_bytes, page);
    // Counters have a cache line each, so that who spins on one does not slow the others down.
    assert(map.groups % 64 == 0 && map.links % 64 == 0 && map.slots % 64 == 0);
    map.total = map.messages + slot_count * map.message_bytes;
    return map;
}

struct host_rank *host_rank(struct communicator *communicator, int rank)
{
    assert(rank >= 0 && rank < communicator->rank_count);
    return (struct host_rank *)(communicator->memory + communicator->map.ranks) + rank;
}

struct host_header *host_header(struct group *group, int member)
{
    const struct communicator *communicator = group->communicator;
    assert(member >= 0 && member < group->count);
    int64_t half = 2 * group->ranks[member] + (int64_t)(group->round & 1);
    return (struct host_header *)(communicator->memory + communicator->map.windows +
                                  half * communicator->map.half_bytes);
}

unsigned char *host_half(struct group *group, int member)
{
    return (unsigned char *)host_header(group, member) + group->communicator->map.header_bytes;
}

static void host_close(struct communicator *communicator)
{
    host_view_free(communicator);
    // What was sent is to arrive, unless there is nobody left to take it.
    if (communicator->has_attached) host_drain(communicator);
    assert(!communicator->pieces);
    host_free_pieces(&communicator->early);
    // Who left in order is not missed by those that still wait for others.
    if (communicator->has_attached)
        atomic_store(&host_rank(communicator, communicator->rank)->pid, 0);
    shared_memory_unmap(communicator->memory, communicator->map.total);
    struct arena arena = communicator->arena;
    arena_free(&arena);
}

// Open addressing in shared memory: whoever comes first takes the free slot by its key, the others
// find it there. Nothing is given back, so a search never has to go past a hole.
static struct host_group_shared *find_shared(struct communicator *communicator, uint64_t key)
{
    struct host_group_shared *slots =
        (struct host_group_shared *)(communicator->memory + communicator->map.groups);
    int count = communicator->map.group_slots;
    assert(key != 0);  // which stands for a free slot
    for (int i = 0; i < count; i++) {
        struct host_group_shared *slot = &slots[(key + (uint64_t)i) % (uint64_t)count];
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&slot->key, &found, key) || found == key) return slot;
    }
    return NULL;
}

// Ranks cannot hand each other pointers, so all members compute the same name. The ranks belong to
// it: a job has several groups of one purpose ("tp"), which must not share counters.
static uint64_t group_key(const int *ranks, int count, const char *purpose)
{
    uint64_t key = random_key_text(1, purpose);
    for (int i = 0; i < count; i++)
        key = random_key(key, (uint64_t)ranks[i]);
    return key;
}

static struct group *group_make(struct communicator *communicator, const int *ranks, int count,
                                const char *purpose)
{
    struct arena *arena = &communicator->arena;
    struct group *group = ARENA_NEW(arena, struct group, 1);
    int *own_ranks = ARENA_NEW(arena, int, count);
    *group = (struct group){
        .communicator = communicator,
        .next = communicator->groups,
        .purpose = arena_copy(arena, purpose),
        .ranks = own_ranks,
        .count = count,
        .me = -1,
        .base_key = group_key(ranks, count, purpose),
        .sources = ARENA_NEW(arena, const void *, count),
    };
    for (int i = 0; i < count; i++) {
        assert(ranks[i] >= 0 && ranks[i] < communicator->rank_count);
        assert(i == 0 || ranks[i - 1] != ranks[i]);
        own_ranks[i] = ranks[i];
        if (ranks[i] == communicator->rank) group->me = i;
    }
    assert(group->me >= 0);
    return group;
}

static const char *host_group(struct communicator *communicator, const int *ranks, int count,
                              const char *purpose, struct group **made)
{
    struct group *group = group_make(communicator, ranks, count, purpose);
    // The same group once more has counters of its own.
    uint64_t earlier = 0;
    for (const struct group *other = communicator->groups; other; other = other->next)
        earlier += other->base_key == group->base_key;
    uint64_t key = random_key(group->base_key, earlier);
    group->shared = find_shared(communicator, key ? key : 1);
    if (!group->shared)
        return host_fail(communicator, "more than %d groups of ranks on one host",
                         communicator->map.group_slots);
    communicator->groups = group;
    *made = group;
    return NULL;
}

static const char *host_barrier(struct communicator *communicator)
{
    atomic_store(&host_rank(communicator, communicator->rank)->operation, HOST_BARRIER);
    return host_arrive(communicator, &communicator->segment->world, &communicator->barrier_count,
                       communicator->rank_count);
}

// A rank that spins on a core that another rank needs keeps away what it waits for.
static int spin_count(int rank_count)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return SPINS_CROWDED;
    return rank_count <= CPU_COUNT(&cores) ? SPINS_ALONE : SPINS_CROWDED;
}

// All ranks see the same shape in the segment, or one of them was given another plan.
static bool check_shape(struct communicator *communicator, struct err *err)
{
    assert(communicator->rank_count > 0 && communicator->map.total > 0);
    const struct host_map *map = &communicator->map;
    uint64_t shape = random_key((uint64_t)map->total, (uint64_t)communicator->rank_count);
    shape = random_key(random_key(shape, (uint64_t)map->half_bytes),
                       number_of(communicator->backend, ELEMENT_FP32));
    shape = random_key(shape, number_of(communicator->backend, ELEMENT_COMPUTE)) | 1;
    uint64_t found = 0;
    if (atomic_compare_exchange_strong(&communicator->segment->shape, &found, shape) ||
        found == shape)
        return true;
    return err_set(err, ERR_SYSTEM,
                   "rank %d was started with other sizes of messages, or precision, than the ranks "
                   "before it",
                   host_job_rank(communicator, communicator->rank));
}

static bool attach(struct communicator *communicator, const char *name, struct err *err)
{
    communicator->memory = shared_memory_map(name, SHARED_TRANSPORT, communicator->map.total, err);
    if (!communicator->memory) return false;
    communicator->segment = (struct host_segment *)communicator->memory;
    if (!check_shape(communicator, err)) return false;
    struct host_rank *rank = host_rank(communicator, communicator->rank);
    int nobody = 0;
    // The pid is what the others look at to see whether this rank lives; two processes with one
    // rank would write into one window.
    communicator->has_attached = atomic_compare_exchange_strong(&rank->pid, &nobody, (int)getpid());
    if (communicator->has_attached) return true;
    return err_set(err, ERR_SYSTEM, "rank %d is there twice: processes %d and %d",
                   host_job_rank(communicator, communicator->rank), nobody, (int)getpid());
}

static const struct transport HOST_TRANSPORT = {
    .version = COMMUNICATOR_VERSION,
    .name = "host",
    .close = host_close,
    .group = host_group,
    .all_reduce = host_all_reduce,
    .all_gather = host_all_gather,
    .reduce_scatter = host_reduce_scatter,
    .all_to_all = host_all_to_all,
    .host_gather = host_gather,
    .host_sum = host_sum,
    .host_broadcast = host_broadcast,
    .send = host_send,
    .receive = host_receive,
    .barrier = host_barrier,
    .progress = host_post_kept,
    .abort = host_abort,
    .was_told = host_was_told,
};

const struct transport *communicator_host(const struct communicator_request *request,
                                          struct communicator **opened, struct err *err)
{
    assert(request->rank >= 0 && request->rank < request->rank_count);
    if (!request->host_name) {
        err_set(err, ERR_SYSTEM, "ranks of one host need the shared memory of their launcher");
        return NULL;
    }
    struct arena arena = {0};
    struct communicator *communicator = ARENA_NEW(&arena, struct communicator, 1);
    *communicator = (struct communicator){
        .backend = request->backend,
        .device = request->device,
        .heartbeat = request->heartbeat,
        .idle = request->idle,
        .idle_context = request->idle_context,
        .rank = request->rank,
        .rank_count = request->rank_count,
        .job_ranks = request->job_ranks,
        .spin_count = spin_count(request->rank_count),
        .map = map_make(request),
        .sent = ARENA_NEW(&arena, uint64_t, request->rank_count),
        .is_full = ARENA_NEW(&arena, bool, request->rank_count),
    };
    communicator->arena = arena;
    if (!attach(communicator, request->host_name, err)) {
        host_close(communicator);
        return NULL;
    }
    *opened = communicator;
    return &HOST_TRANSPORT;
}
