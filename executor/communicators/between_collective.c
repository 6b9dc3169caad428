#include "executor/communicators/between.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Sums take rounds of this many bytes, so that the rooms for what the others send stay small. Up to
// SMALL_BYTES every member sums all of it itself, which saves an exchange.
enum { ROUND_BYTES = 4 << 20, SMALL_BYTES = 8 << 10 };

// What an operation works with: parts of each member, and rooms for what they send.
struct work {
    struct piece *out, *in;
    const void **sources;
    unsigned char *room;
    int64_t room_bytes;
};

static void work_free(struct work *work)
{
    free(work->out);
    free(work->in);
    free(work->sources);
    free(work->room);
}

static const char *work_make(struct group *group, int64_t room_bytes, struct work *work)
{
    size_t count = (size_t)group->count;
    *work = (struct work){
        .out = malloc(count * sizeof *work->out),
        .in = malloc(count * sizeof *work->in),
        .sources = malloc(count * sizeof *work->sources),
        .room = malloc((size_t)room_bytes + 1),  // + 1: for none malloc may answer NULL
        .room_bytes = room_bytes,
    };
    if (work->out && work->in && work->sources && work->room) return NULL;
    work_free(work);
    *work = (struct work){0};
    const char *failure = between_fail(group->communicator, "out of memory for an exchange");
    assert(failure);
    return failure;
}

// Takes `bytes` bytes of each of the others, to which `at` of each out piece goes, and sums them
// with this member's own to `to`.
static const char *sum_pieces(struct group *group, struct work *work, enum number number,
                              enum combine combine, const void *own, void *to, int64_t bytes,
                              const char *what)
{
    assert(group->count * bytes <= work->room_bytes);
    for (int member = 0; member < group->count; member++) {
        work->in[member] = (struct piece){work->room + member * bytes, bytes};
        work->sources[member] = work->in[member].data;
    }
    work->sources[group->me] = own;
    // Nothing goes to itself: the own part is a source where it is.
    work->out[group->me] = work->in[group->me] = (struct piece){0};
    const char *failure = between_exchange(group, work->out, work->in, what);
    if (!failure)
        numbers_combine(number, combine, to, work->sources, group->count,
                        bytes / number_bytes(number));
    return failure;
}

static const char *reduce_round(struct group *group, struct work *work, enum number number,
                                enum combine combine, void *data, int64_t count, const char *what)
{
    int64_t size = number_bytes(number), me = group->me;
    bool is_small = count * size <= SMALL_BYTES;
    for (int64_t member = 0; member < group->count; member++) {
        int64_t first = is_small ? 0 : counts_split(count, member, group->count);
        int64_t end = is_small ? count : counts_split(count, member + 1, group->count);
        work->out[member] = (struct piece){bytes_at(data, first * size), (end - first) * size};
    }
    // This member's own slice, which it sums in place.
    int64_t own_first = is_small ? 0 : counts_split(count, me, group->count);
    int64_t own_end = is_small ? count : counts_split(count, me + 1, group->count);
    struct piece own = {bytes_at(data, own_first * size), (own_end - own_first) * size};
    const char *failure =
        sum_pieces(group, work, number, combine, own.data, own.data, own.bytes, what);
    if (failure || is_small) return failure;
    for (int64_t member = 0; member < group->count; member++) {
        int64_t first = counts_split(count, member, group->count);
        int64_t end = counts_split(count, member + 1, group->count);
        work->in[member] = (struct piece){bytes_at(data, first * size), (end - first) * size};
        work->out[member] = own;
    }
    return between_exchange(group, work->out, work->in, what);
}

static const char *all_reduce(struct group *group, enum number number, enum combine combine,
                              void *data, int64_t count, const char *what)
{
    int64_t size = number_bytes(number);
    int64_t rounds = count * size / ROUND_BYTES + 1;
    int64_t longest = count / rounds + 1;
    int64_t share = longest * size <= SMALL_BYTES ? longest : longest / group->count + 1;
    struct work work = {0};
    // A round may be short where others are just above what is small.
    if (share * size < SMALL_BYTES) share = SMALL_BYTES / size;
    const char *failure = work_make(group, group->count * share * size, &work);
    for (int64_t round = 0; round < rounds && !failure; round++) {
        int64_t first = counts_split(count, round, rounds),
                end = counts_split(count, round + 1, rounds);
        failure = reduce_round(group, &work, number, combine, bytes_at(data, first * size),
                               end - first, what);
    }
    work_free(&work);
    return failure;
}

const char *between_all_reduce(struct group *group, enum stream stream, enum element element,
                               void *data, int64_t count, enum combine combine)
{
    struct communicator *communicator = group->communicator;
    if (group->inside)
        return between_relay(
            communicator,
            communicator->host->all_reduce(group->inside, stream, element, data, count, combine));
    enum number number = number_of(communicator->backend, element);
    int64_t bytes = count * number_bytes(number);
    void *copied;
    const char *failure = between_from_device(communicator, stream, data, bytes, &copied);
    void *host = copied ? copied : data;
    if (!failure) failure = all_reduce(group, number, combine, host, count, "all-reduce");
    if (!failure) failure = between_to_device(communicator, stream, data, host, bytes);
    free(copied);
    return failure;
}

const char *between_host_sum(struct group *group, double *values, int count)
{
    if (group->inside)
        return between_relay(group->communicator,
                             group->communicator->host->host_sum(group->inside, values, count));
    return all_reduce(group, NUMBER_DOUBLE, COMBINE_SUM, values, count, "sum");
}

static const char *all_gather(struct group *group, const void *mine, void *all,
                              const int64_t *counts, int64_t size, const char *what)
{
    struct work work = {0};
    const char *failure = work_make(group, 0, &work);
    int64_t part = 0;
    for (int member = 0; member < group->count && !failure; member++) {
        work.out[member] = (struct piece){bytes_at(mine, 0), counts[group->me] * size};
        work.in[member] = (struct piece){bytes_at(all, part * size), counts[member] * size};
        part += counts[member];
    }
    if (!failure) failure = between_exchange(group, work.out, work.in, what);
    work_free(&work);
    return failure;
}

const char *between_all_gather(struct group *group, enum stream stream, enum element element,
                               const void *mine, void *all, const int64_t *counts)
{
    struct communicator *communicator = group->communicator;
    if (group->inside)
        return between_relay(communicator, communicator->host->all_gather(
                                               group->inside, stream, element, mine, all, counts));
    int64_t size = number_bytes(number_of(communicator->backend, element));
    int64_t bytes = counts_sum(counts, group->count) * size;
    void *copied, *room = communicator->backend->is_host ? NULL : malloc((size_t)bytes + 1);
    const char *failure =
        between_from_device(communicator, stream, mine, counts[group->me] * size, &copied);
    if (!failure && copied && !room)
        failure = between_fail(communicator, "out of memory for an exchange");
    if (!failure)
        failure = all_gather(group, copied ? copied : mine, room ? room : all, counts, size,
                             "all-gather");
    if (!failure) failure = between_to_device(communicator, stream, all, room, bytes);
    free(copied);
    free(room);
    return failure;
}

const char *between_host_gather(struct group *group, const int64_t *mine, int64_t *all, int count)
{
    if (group->inside)
        return between_relay(group->communicator, group->communicator->host->host_gather(
                                                      group->inside, mine, all, count));
    int64_t *counts = malloc((size_t)group->count * sizeof *counts);
    if (!counts) return between_fail(group->communicator, "out of memory for an exchange");
    for (int member = 0; member < group->count; member++)
        counts[member] = count;
    const char *failure = all_gather(group, mine, all, counts, (int64_t)sizeof *mine, "gather");
    free(counts);
    return failure;
}

// A gather of which one member alone has a part.
const char *between_host_broadcast(struct group *group, int64_t *numbers, int64_t count, int from)
{
    if (group->inside)
        return between_relay(group->communicator, group->communicator->host->host_broadcast(
                                                      group->inside, numbers, count, from));
    int64_t *counts = calloc((size_t)group->count, sizeof *counts);
    if (!counts) return between_fail(group->communicator, "out of memory for an exchange");
    counts[from] = count;
    const char *failure =
        all_gather(group, numbers, numbers, counts, (int64_t)sizeof *numbers, "broadcast");
    free(counts);
    return failure;
}

static const char *reduce_scatter(struct group *group, enum number number, const unsigned char *all,
                                  unsigned char *mine, const int64_t *counts)
{
    int64_t size = number_bytes(number), my_part = counts_sum(counts, group->me);
    int64_t rounds = counts_sum(counts, group->count) * size / ROUND_BYTES + 1;
    int64_t longest = counts[group->me] / rounds + 1;
    struct work work = {0};
    const char *failure = work_make(group, group->count * longest * size, &work);
    for (int64_t round = 0; round < rounds && !failure; round++) {
        int64_t part = 0;
        for (int member = 0; member < group->count; member++) {
            int64_t first = counts_split(counts[member], round, rounds);
            int64_t end = counts_split(counts[member], round + 1, rounds);
            work.out[member] =
                (struct piece){bytes_at(all, (part + first) * size), (end - first) * size};
            part += counts[member];
        }
        int64_t first = counts_split(counts[group->me], round, rounds);
        int64_t end = counts_split(counts[group->me], round + 1, rounds);
        failure = sum_pieces(group, &work, number, COMBINE_SUM, all + (my_part + first) * size,
                             mine + first * size, (end - first) * size, "reduce-scatter");
    }
    work_free(&work);
    return failure;
}

const char *between_reduce_scatter(struct group *group, enum stream stream, enum element element,
                                   const void *all, void *mine, const int64_t *counts)
{
    struct communicator *communicator = group->communicator;
    if (group->inside)
        return between_relay(communicator, communicator->host->reduce_scatter(
                                               group->inside, stream, element, all, mine, counts));
    enum number number = number_of(communicator->backend, element);
    int64_t size = number_bytes(number);
    int64_t bytes = counts_sum(counts, group->count) * size, my_bytes = counts[group->me] * size;
    void *copied;
    const char *failure = between_from_device(communicator, stream, all, bytes, &copied);
    void *to = copied ? malloc((size_t)my_bytes + 1) : mine;
    if (!failure && !to) failure = between_fail(communicator, "out of memory for an exchange");
    if (!failure) failure = reduce_scatter(group, number, copied ? copied : all, to, counts);
    if (!failure) failure = between_to_device(communicator, stream, mine, to, my_bytes);
    if (copied) free(to);
    free(copied);
    return failure;
}

static const char *all_to_all(struct group *group, int64_t size, const void *from,
                              const int64_t *sent, void *to, const int64_t *received)
{
    int64_t out = 0, in = 0;
    struct work work = {0};
    const char *failure = work_make(group, 0, &work);
    for (int member = 0; member < group->count && !failure; member++) {
        work.out[member] = (struct piece){bytes_at(from, out * size), sent[member] * size};
        work.in[member] = (struct piece){bytes_at(to, in * size), received[member] * size};
        out += sent[member];
        in += received[member];
    }
    if (!failure) failure = between_exchange(group, work.out, work.in, "all-to-all");
    work_free(&work);
    return failure;
}

const char *between_all_to_all(struct group *group, enum stream stream, enum element element,
                               const void *from, const int64_t *sent, void *to,
                               const int64_t *received)
{
    struct communicator *communicator = group->communicator;
    if (group->inside)
        return between_relay(communicator,
                             communicator->host->all_to_all(group->inside, stream, element, from,
                                                            sent, to, received));
    int me = group->me;
    if (sent[me] != received[me])
        return between_fail(communicator,
                            "group %s: rank %d sends itself another size than it expects",
                            group->purpose, communicator->rank);
    int64_t size = number_bytes(number_of(communicator->backend, element));
    int64_t bytes = counts_sum(received, group->count) * size;
    void *copied;
    const char *failure = between_from_device(communicator, stream, from,
                                              counts_sum(sent, group->count) * size, &copied);
    void *room = copied ? malloc((size_t)bytes + 1) : to;
    if (!failure && !room) failure = between_fail(communicator, "out of memory for an exchange");
    if (!failure) failure = all_to_all(group, size, copied ? copied : from, sent, room, received);
    if (!failure) failure = between_to_device(communicator, stream, to, room, bytes);
    if (copied) free(room);
    free(copied);
    return failure;
}
