#include "executor/communicators/host.h"
#include "executor/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Collectives run in rounds through the halves of the windows; what a member reads of its own it
// reads where it is.

// Up to here every member sums all of it itself, which saves a barrier.
enum { SMALL_BYTES = 8 << 10 };

static int64_t half_room(const struct group *group, int64_t number_size)
{
    const struct host_map *map = &group->communicator->map;
    return (map->half_bytes - map->header_bytes) / number_size;
}

static int64_t round_count(int64_t numbers, int64_t room)
{
    // With nothing to do there still is a round: nobody leaves an operation before all have come.
    return numbers > 0 ? (numbers + room - 1) / room : 1;
}

// Numbers [first, end) of every member's half, and of `own`, summed to `to`.
// The own part is read where it is instead of in the window, at its place in the order of the
// ranks: the sum has the same bits on every member.
static void sum_members(struct group *group, enum number number, enum combine combine, void *to,
                        const void *own, int64_t first, int64_t end)
{
    for (int member = 0; member < group->count; member++)
        group->sources[member] = host_shift(host_half(group, member), first, number_bytes(number));
    group->sources[group->me] = own;
    numbers_combine(number, combine, to, group->sources, group->count, end - first);
}

// One round of an all-reduce of `count` numbers, which all fit in a half.
static const char *reduce_small(struct group *group, enum number number, enum combine combine,
                                unsigned char *data, int64_t count, bool is_first)
{
    assert(count <= half_room(group, number_bytes(number)));
    memcpy(host_half(group, group->me), data, (size_t)(count * number_bytes(number)));
    const char *failure = is_first ? host_meet_first(group) : host_meet(group);
    if (failure) return failure;
    sum_members(group, number, combine, data, data, 0, count);
    return NULL;
}

// The same where each member sums a slice and takes the others' from them.
static const char *reduce_sliced(struct group *group, enum number number, enum combine combine,
                                 unsigned char *data, int64_t count, bool is_first)
{
    int64_t size = number_bytes(number);
    unsigned char *half = host_half(group, group->me);
    int64_t first = counts_split(count, group->me, group->count);
    int64_t end = counts_split(count, group->me + 1, group->count);
    assert(count <= half_room(group, size));
    // Its own slice is not shown: it sums that in place, and shows only the sum.
    memcpy(half, data, (size_t)(first * size));
    memcpy(half + end * size, data + end * size, (size_t)((count - end) * size));
    const char *failure = is_first ? host_meet_first(group) : host_meet(group);
    if (failure) return failure;
    sum_members(group, number, combine, data + first * size, data + first * size, first, end);
    memcpy(half + first * size, data + first * size, (size_t)((end - first) * size));
    failure = host_meet(group);
    if (failure) return failure;
    for (int member = 0; member < group->count; member++) {
        int64_t from = counts_split(count, member, group->count) * size;
        int64_t to = counts_split(count, member + 1, group->count) * size;
        if (member != group->me)
            memcpy(data + from, host_half(group, member) + from, (size_t)(to - from));
    }
    return NULL;
}

static const char *all_reduce(struct group *group, enum host_operation operation,
                              enum number number, enum combine combine, void *data, int64_t count)
{
    int64_t size = number_bytes(number), room = half_room(group, size);
    int64_t rounds = round_count(count, room);
    uint64_t signature = random_key(random_key((uint64_t)number, combine), (uint64_t)count);
    const char *failure = host_begin(group, operation, signature);
    for (int64_t round = 0; round < rounds && !failure; round++) {
        int64_t first = counts_split(count, round, rounds),
                end = counts_split(count, round + 1, rounds);
        bool is_small = (end - first) * size <= SMALL_BYTES;
        failure = (is_small ? reduce_small : reduce_sliced)(
            group, number, combine, host_shift(data, first, size), end - first, round == 0);
        host_round_end(group);
    }
    if (!failure) host_end(group);
    return failure;
}

const char *host_all_reduce(struct group *group, enum stream stream, enum element element,
                            void *data, int64_t count, enum combine combine)
{
    struct communicator *communicator = group->communicator;
    enum number number = number_of(communicator->backend, element);
    int64_t bytes = count * number_bytes(number);
    struct host_view view = {data, data, bytes, bytes, NULL, NULL};
    const char *failure = host_view_open(communicator, stream, &view);
    if (!failure) failure = all_reduce(group, HOST_ALL_REDUCE, number, combine, view.to, count);
    return failure ? failure : host_view_close(communicator, stream, &view);
}

const char *host_sum(struct group *group, double *values, int count)
{
    return all_reduce(group, HOST_SUM, NUMBER_DOUBLE, COMBINE_SUM, values, count);
}

static uint64_t counts_signature(const struct group *group, int64_t size, const int64_t *counts)
{
    uint64_t signature = (uint64_t)size;
    for (int member = 0; member < group->count; member++)
        signature = random_key(signature, (uint64_t)counts[member]);
    return signature;
}

static const char *gather_round(struct group *group, int64_t size, const void *mine, void *all,
                                const int64_t *counts, int64_t round, int64_t rounds)
{
    int64_t first = counts_split(counts[group->me], round, rounds);
    int64_t end = counts_split(counts[group->me], round + 1, rounds);
    assert(end - first <= half_room(group, size));
    memcpy(host_half(group, group->me), host_shift(mine, first, size),
           (size_t)((end - first) * size));
    const char *failure = round == 0 ? host_meet_first(group) : host_meet(group);
    int64_t part = 0;
    for (int member = 0; member < group->count && !failure; member++) {
        first = counts_split(counts[member], round, rounds);
        end = counts_split(counts[member], round + 1, rounds);
        if (member != group->me)
            memcpy(host_shift(all, part + first, size), host_half(group, member),
                   (size_t)((end - first) * size));
        part += counts[member];
    }
    host_round_end(group);
    return failure;
}

static const char *all_gather(struct group *group, enum host_operation operation, int64_t size,
                              const void *mine, void *all, const int64_t *counts)
{
    int64_t longest = 0, room = half_room(group, size);
    for (int member = 0; member < group->count; member++)
        longest = counts[member] > longest ? counts[member] : longest;
    int64_t rounds = round_count(longest, room);
    unsigned char *own = host_shift(all, counts_sum(counts, group->me), size);
    const char *failure = host_begin(group, operation, counts_signature(group, size, counts));
    if (!failure && own != mine) memmove(own, mine, (size_t)(counts[group->me] * size));
    for (int64_t round = 0; round < rounds && !failure; round++)
        failure = gather_round(group, size, own, all, counts, round, rounds);
    if (!failure) host_end(group);
    return failure;
}

const char *host_all_gather(struct group *group, enum stream stream, enum element element,
                            const void *mine, void *all, const int64_t *counts)
{
    struct communicator *communicator = group->communicator;
    enum number number = number_of(communicator->backend, element);
    int64_t size = number_bytes(number);
    struct host_view view = {
        mine, all, counts[group->me] * size, counts_sum(counts, group->count) * size, NULL, NULL};
    const char *failure = host_view_open(communicator, stream, &view);
    if (!failure) failure = all_gather(group, HOST_ALL_GATHER, size, view.from, view.to, counts);
    return failure ? failure : host_view_close(communicator, stream, &view);
}

const char *host_gather(struct group *group, const int64_t *mine, int64_t *all, int count)
{
    int64_t *counts = memory_get((size_t)group->count * sizeof *counts);
    for (int member = 0; member < group->count; member++)
        counts[member] = count;
    const char *failure = all_gather(group, HOST_GATHER, (int64_t)sizeof *mine, mine, all, counts);
    free(counts);
    return failure;
}

// A gather of which one member alone has a part.
const char *host_broadcast(struct group *group, int64_t *numbers, int64_t count, int from)
{
    int64_t *counts = memory_get((size_t)group->count * sizeof *counts);
    for (int member = 0; member < group->count; member++)
        counts[member] = member == from ? count : 0;
    const char *failure =
        all_gather(group, HOST_GATHER, (int64_t)sizeof *numbers, numbers, numbers, counts);
    free(counts);
    return failure;
}

// Every round takes the same share of each part, so that all members sum all the time; the shares
// lie one after another in the half.
static const char *scatter_round(struct group *group, enum number number, const unsigned char *all,
                                 unsigned char *mine, const int64_t *counts, int64_t round,
                                 int64_t rounds)
{
    int64_t size = number_bytes(number);
    int64_t part = 0, at = 0, my_at = 0, my_part = 0;
    for (int member = 0; member < group->count; member++) {
        int64_t first = counts_split(counts[member], round, rounds);
        int64_t length = counts_split(counts[member], round + 1, rounds) - first;
        if (member == group->me) {
            my_at = at;
            my_part = part;
        } else {
            memcpy(host_half(group, group->me) + at * size, all + (part + first) * size,
                   (size_t)(length * size));
        }
        at += length;
        part += counts[member];
    }
    assert(at <= half_room(group, size));
    const char *failure = round == 0 ? host_meet_first(group) : host_meet(group);
    if (failure) return failure;
    int64_t first = counts_split(counts[group->me], round, rounds);
    int64_t length = counts_split(counts[group->me], round + 1, rounds) - first;
    sum_members(group, number, COMBINE_SUM, mine + first * size, all + (my_part + first) * size,
                my_at, my_at + length);
    host_round_end(group);
    return NULL;
}

static const char *reduce_scatter(struct group *group, enum number number, const void *all,
                                  void *mine, const int64_t *counts)
{
    int64_t size = number_bytes(number);
    // The shares of a round are up to a number longer each than the whole divided by the rounds.
    int64_t rounds =
        round_count(counts_sum(counts, group->count), half_room(group, size) - group->count);
    const char *failure =
        host_begin(group, HOST_REDUCE_SCATTER, counts_signature(group, size, counts));
    for (int64_t round = 0; round < rounds && !failure; round++)
        failure = scatter_round(group, number, all, mine, counts, round, rounds);
    if (!failure) host_end(group);
    return failure;
}

const char *host_reduce_scatter(struct group *group, enum stream stream, enum element element,
                                const void *all, void *mine, const int64_t *counts)
{
    struct communicator *communicator = group->communicator;
    enum number number = number_of(communicator->backend, element);
    int64_t size = number_bytes(number);
    struct host_view view = {
        all, mine, counts_sum(counts, group->count) * size, counts[group->me] * size, NULL, NULL};
    const char *failure = host_view_open(communicator, stream, &view);
    if (!failure) failure = reduce_scatter(group, number, view.from, view.to, counts);
    return failure ? failure : host_view_close(communicator, stream, &view);
}
