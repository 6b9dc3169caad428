#include "executor/communicators/host.h"
#include "executor/launcher/launch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// All-to-all and messages: exchanges whose sizes only the two ends know.

// A member packs what fits in its half for this round: [first, first + length) of each part, with
// the lengths behind the header.
static int64_t *lengths_of(struct group *group, int member)
{
    return (int64_t *)(host_header(group, member) + 1);
}

// The share of every part that this round takes of the member's `rounds`; none when it has done
// them all.
static int64_t share(int64_t count, int64_t round, int64_t rounds)
{
    if (round >= rounds) return count;
    return count / rounds * round + count % rounds * round / rounds;
}

static void pack(struct group *group, int64_t size, const unsigned char *from, const int64_t *sent,
                 int64_t round, int64_t rounds)
{
    unsigned char *half = host_half(group, group->me);
    const unsigned char *begin = half;
    int64_t *lengths = lengths_of(group, group->me);
    int64_t part = 0;
    for (int member = 0; member < group->count; member++) {
        int64_t first = share(sent[member], round, rounds);
        lengths[member] = share(sent[member], round + 1, rounds) - first;
        memcpy(half, from + (part + first) * size, (size_t)(lengths[member] * size));
        half += lengths[member] * size;
        part += sent[member];
    }
    // Shares are rounded up by less than a number each, and `rounds` left that much room.
    const struct host_map *map = &group->communicator->map;
    assert(half - begin <= map->half_bytes - map->header_bytes);
    host_header(group, group->me)->has_more = round + 1 < rounds;
}

// Takes what the others have for this member; `done` of each have come before.
static const char *unpack(struct group *group, int64_t size, unsigned char *to,
                          const int64_t *received, int64_t *done, bool *has_more)
{
    int64_t part = 0;
    *has_more = false;
    for (int member = 0; member < group->count; member++) {
        const int64_t *lengths = lengths_of(group, member);
        int64_t at = 0;
        for (int i = 0; i < group->me; i++)
            at += lengths[i];
        int64_t length = lengths[group->me], now = done[member] + length;
        bool is_last = !host_header(group, member)->has_more;
        // Said before anything is copied: a part that is too long would be written over the next
        // one.
        if (now > received[member] || (is_last && now < received[member]))
            return host_fail(group->communicator,
                             "group %s: rank %d sends %s reals than the %lld that rank %d expects",
                             group->purpose,
                             host_job_rank(group->communicator, group->ranks[member]),
                             now > received[member] ? "more" : "fewer", (long long)received[member],
                             host_job_rank(group->communicator, group->ranks[group->me]));
        memcpy(to + (part + done[member]) * size, host_half(group, member) + at * size,
               (size_t)(length * size));
        done[member] = now;
        part += received[member];
        *has_more |= !is_last;
    }
    return NULL;
}

static int64_t total(const struct group *group, const int64_t *counts)
{
    int64_t sum = 0;
    for (int member = 0; member < group->count; member++)
        sum += counts[member];
    return sum;
}

static const char *all_to_all(struct group *group, int64_t size, const void *from,
                              const int64_t *sent, void *to, const int64_t *received, int64_t *done)
{
    const struct host_map *map = &group->communicator->map;
    int64_t room = (map->half_bytes - map->header_bytes) / size;
    room -= group->count;  // shares are rounded up
    assert(room > 0);
    // Each member has rounds of its own, as many as what it sends takes: nobody knows the others'
    // sums beforehand. Who is done goes on with empty shares until nobody has more.
    int64_t rounds = total(group, sent) / room + 1;
    bool has_more = true;
    const char *failure = host_begin(group, HOST_ALL_TO_ALL, (uint64_t)size);
    for (int64_t round = 0; has_more && !failure; round++) {
        pack(group, size, from, sent, round, rounds);
        failure = round == 0 ? host_meet_first(group) : host_meet(group);
        if (!failure) failure = unpack(group, size, to, received, done, &has_more);
        host_round_end(group);
    }
    if (!failure) host_end(group);
    return failure;
}

const char *host_all_to_all(struct group *group, enum stream stream, enum element element,
                            const void *from, const int64_t *sent, void *to,
                            const int64_t *received)
{
    struct communicator *communicator = group->communicator;
    int64_t size = number_bytes(number_of(communicator->backend, element));
    struct host_view view = {from, to,  total(group, sent) * size, total(group, received) * size,
                             NULL, NULL};
    int64_t *done = memory_get((size_t)group->count * sizeof *done);
    memset(done, 0, (size_t)group->count * sizeof *done);
    const char *failure = host_view_open(communicator, stream, &view);
    if (!failure) failure = all_to_all(group, size, view.from, sent, view.to, received, done);
    free(done);
    return failure ? failure : host_view_close(communicator, stream, &view);
}

enum { ANY_CHANNEL = -1 };

// The oldest piece of the channel among the first `sent`. One that comes while we look might stand
// in a slot that we have passed already, before another that we have not: those wait.
static int find_piece(const struct communicator *communicator, const struct host_slot *slots,
                      int channel, uint32_t sent)
{
    int found = -1;
    for (int i = 0; i < communicator->map.message_count; i++) {
        if (!atomic_load_explicit(&slots[i].is_full, memory_order_acquire)) continue;
        bool is_new = sent - 1 - (uint32_t)slots[i].sequence >= UINT32_C(0x80000000);
        if ((slots[i].channel != channel && channel != ANY_CHANNEL) || is_new) continue;
        if (found < 0 || slots[i].sequence < slots[found].sequence) found = i;
    }
    return found;
}

static void count_beat(struct communicator *communicator)
{
    if (communicator->heartbeat) atomic_fetch_add(&communicator->heartbeat->beat, 1);
}

static void free_slot(struct link_ends *ends, struct host_slot *slot)
{
    atomic_store_explicit(&slot->is_full, 0, memory_order_release);
    host_count_up(&ends->link->taken, true);
}

// Takes all that has come out of the slots, in the order in which it was sent: the sender's next
// pieces may be what is waited for.
static void take_early(struct communicator *communicator, int rank, struct link_ends *ends,
                       uint32_t sent)
{
    for (int at; (at = find_piece(communicator, ends->slots, ANY_CHANNEL, sent)) >= 0;) {
        struct host_slot *slot = &ends->slots[at];
        host_keep(&communicator->early, rank, slot->channel,
                  ends->data + at * communicator->map.message_bytes, slot->bytes, slot->count);
        free_slot(ends, slot);
    }
}

static const char *check_size(struct communicator *communicator, int rank, int64_t sent,
                              int64_t sent_bytes, int64_t expected, int64_t bytes)
{
    if (sent != expected)
        return host_fail(communicator, "rank %d sent %lld reals where rank %d expects %lld",
                         host_job_rank(communicator, rank), (long long)sent,
                         host_job_rank(communicator, communicator->rank), (long long)expected);
    if (sent_bytes == bytes) return NULL;
    return host_fail(communicator, "rank %d sent reals of another width than rank %d expects",
                     host_job_rank(communicator, rank),
                     host_job_rank(communicator, communicator->rank));
}

// Whether the piece has been taken out of its slot before.
static bool receive_early(struct communicator *communicator, int rank, int channel,
                          unsigned char *data, int64_t bytes, int64_t count, const char **failure)
{
    struct host_piece **at = &communicator->early;
    while (*at && ((*at)->rank != rank || (*at)->channel != channel))
        at = &(*at)->next;
    struct host_piece *piece = *at;
    if (!piece) return false;
    *failure = check_size(communicator, rank, piece->count, piece->bytes, count, bytes);
    if (!*failure) memcpy(data, piece->data, (size_t)bytes);
    *at = piece->next;
    free(piece);
    return true;
}

static const char *receive_piece(struct communicator *communicator, int rank, int channel,
                                 unsigned char *data, int64_t bytes, int64_t count)
{
    const char *failure = NULL;
    if (receive_early(communicator, rank, channel, data, bytes, count, &failure)) return failure;
    struct link_ends ends = host_link(communicator, rank, communicator->rank);
    uint32_t sent = atomic_load(&ends.link->sent.value);
    int at = find_piece(communicator, ends.slots, channel, sent);
    while (at < 0) {
        take_early(communicator, rank, &ends, sent);
        failure = host_wait(communicator, &ends.link->sent, sent + 1);
        if (failure) return failure;
        sent = atomic_load(&ends.link->sent.value);
        at = find_piece(communicator, ends.slots, channel, sent);
    }
    struct host_slot *slot = &ends.slots[at];
    failure = check_size(communicator, rank, slot->count, slot->bytes, count, bytes);
    if (failure) return failure;
    assert(bytes <= communicator->map.message_bytes);
    memcpy(data, ends.data + at * communicator->map.message_bytes, (size_t)bytes);
    free_slot(&ends, slot);
    count_beat(communicator);
    return NULL;
}

// A message of nothing still is one piece.
static int64_t piece_bytes(const struct communicator *communicator, int64_t bytes, int64_t first)
{
    int64_t rest = bytes - first;
    return rest < communicator->map.message_bytes ? rest : communicator->map.message_bytes;
}

static const char *check_peer(struct communicator *communicator, int rank,
                              enum host_operation operation)
{
    atomic_store_explicit(&host_rank(communicator, communicator->rank)->operation, (int)operation,
                          memory_order_relaxed);
    if (rank >= 0 && rank < communicator->rank_count && rank != communicator->rank) return NULL;
    return host_fail(communicator, "rank %d has no link to rank %d", communicator->rank, rank);
}

const char *host_send(struct communicator *communicator, enum stream stream, enum element element,
                      int rank, int channel, const void *data, int64_t count)
{
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element)), first = 0;
    struct host_view view = {.device_from = data, .from_bytes = bytes};
    const char *failure = check_peer(communicator, rank, HOST_SEND);
    if (!failure) failure = host_view_open(communicator, stream, &view);
    if (failure) return failure;
    host_post_kept(communicator);
    do {
        int64_t piece = piece_bytes(communicator, bytes, first);
        host_post(communicator, rank, channel, host_shift(view.from, first, 1), piece, count);
        first += piece;
    } while (first < bytes);
    count_beat(communicator);
    return NULL;
}

const char *host_receive(struct communicator *communicator, enum stream stream,
                         enum element element, int rank, int channel, void *data, int64_t count)
{
    int64_t bytes = count * number_bytes(number_of(communicator->backend, element)), first = 0;
    struct host_view view = {.device_to = data, .to_bytes = bytes};
    const char *failure = check_peer(communicator, rank, HOST_RECEIVE);
    if (!failure) failure = host_view_open(communicator, stream, &view);
    do {
        if (failure) return failure;
        int64_t piece = piece_bytes(communicator, bytes, first);
        failure =
            receive_piece(communicator, rank, channel, host_shift(view.to, first, 1), piece, count);
        first += piece;
    } while (first < bytes);
    return failure ? failure : host_view_close(communicator, stream, &view);
}
