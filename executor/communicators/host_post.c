#include "executor/communicators/host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct link_ends host_link(struct communicator *communicator, int sender, int receiver)
{
    const struct host_map *map = &communicator->map;
    int64_t link = (int64_t)sender * communicator->rank_count + receiver;
    unsigned char *memory = communicator->memory;
    assert(sender >= 0 && sender < communicator->rank_count);
    assert(receiver >= 0 && receiver < communicator->rank_count && receiver != sender);
    return (struct link_ends){
        .link = (struct host_link *)(memory + map->links) + link,
        .slots = (struct host_slot *)(memory + map->slots) + link * map->message_count,
        .data = memory + map->messages + link * map->message_count * map->message_bytes,
    };
}

static int find_free(const struct communicator *communicator, const struct host_slot *slots)
{
    for (int i = 0; i < communicator->map.message_count; i++) {
        if (!atomic_load_explicit(&slots[i].is_full, memory_order_acquire)) return i;
    }
    return -1;
}

static bool try_post(struct communicator *communicator, int rank, int channel,
                     const unsigned char *data, int64_t bytes, int64_t count)
{
    assert(bytes >= 0 && bytes <= communicator->map.message_bytes);
    struct link_ends ends = host_link(communicator, communicator->rank, rank);
    int at = find_free(communicator, ends.slots);
    if (at < 0) return false;
    struct host_slot *slot = &ends.slots[at];
    slot->channel = channel;
    slot->sequence = communicator->sent[rank]++;
    slot->bytes = bytes;
    slot->count = count;
    memcpy(ends.data + at * communicator->map.message_bytes, data, (size_t)bytes);
    // Full before it is counted: the receiver looks for as many pieces as it has seen counted.
    atomic_store_explicit(&slot->is_full, 1, memory_order_release);
    host_count_up(&ends.link->sent, true);
    return true;
}

void host_keep(struct host_piece **pieces, int rank, int channel, const unsigned char *data,
               int64_t bytes, int64_t count)
{
    struct host_piece *piece = memory_get(sizeof *piece + (size_t)bytes);
    *piece = (struct host_piece){
        .rank = rank, .channel = channel, .bytes = bytes, .count = count, .next = NULL};
    memcpy(piece->data, data, (size_t)bytes);
    while (*pieces)
        pieces = &(*pieces)->next;
    *pieces = piece;
}

void host_free_pieces(struct host_piece **pieces)
{
    while (*pieces) {
        struct host_piece *piece = *pieces;
        *pieces = piece->next;
        free(piece);
    }
}

void host_post(struct communicator *communicator, int rank, int channel, const unsigned char *data,
               int64_t bytes, int64_t count)
{
    // One that finds a slot may not overtake those to the same rank that found none.
    bool must_wait = false;
    for (const struct host_piece *at = communicator->pieces; at; at = at->next)
        must_wait |= at->rank == rank;
    if (must_wait || !try_post(communicator, rank, channel, data, bytes, count))
        host_keep(&communicator->pieces, rank, channel, data, bytes, count);
}

void host_post_kept(struct communicator *communicator)
{
    if (!communicator->pieces) return;
    memset(communicator->is_full, 0, (size_t)communicator->rank_count);
    for (struct host_piece **at = &communicator->pieces; *at;) {
        struct host_piece *piece = *at;
        // Behind one that could not go none to the same rank may.
        bool *is_full = &communicator->is_full[piece->rank];
        *is_full = *is_full || !try_post(communicator, piece->rank, piece->channel, piece->data,
                                         piece->bytes, piece->count);
        if (*is_full) {
            at = &piece->next;
        } else {
            *at = piece->next;
            free(piece);
        }
    }
}

void host_drain(struct communicator *communicator)
{
    const char *failure = NULL;
    while (communicator->pieces && !failure) {
        int rank = communicator->pieces->rank;
        struct host_link *link = host_link(communicator, communicator->rank, rank).link;
        uint32_t taken = atomic_load(&link->taken.value);
        host_post_kept(communicator);
        if (communicator->pieces && communicator->pieces->rank == rank)
            failure = host_wait(communicator, &link->taken, taken + 1);
    }
    host_free_pieces(&communicator->pieces);
}
