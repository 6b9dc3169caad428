#include "planner/index.h"
#include "core/hash.h"

#include <assert.h>
#include <string.h>

// Words, with a half one at the end.
static uint64_t hash_of(const void *key, size_t bytes)
{
    uint64_t hash = HASH_START, word;
    size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, (const char *)key + at, sizeof word);
        hash = hash_word(hash, word);
    }
    uint32_t half;
    if (at < bytes) {
        memcpy(&half, (const char *)key + at, sizeof half);
        hash = hash_word(hash, half);
    }
    return hash;
}

// The slot of the key, or the empty one where it would go. `hash` is the key's.
static struct index_slot *slot_of(const struct index *index, const void *key, uint64_t hash)
{
    size_t mask = (size_t)index->slot_count - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        struct index_slot *slot = &index->slots[at];
        if (!slot->entry) return slot;
        if (slot->hash == hash && memcmp(slot->entry, key, index->key_bytes) == 0) return slot;
    }
}

static void grow(struct arena *arena, struct index *index)
{
    enum { SLOTS_FIRST = 256 };
    struct index bigger = *index;
    bigger.slot_count = index->slot_count ? 2 * index->slot_count : SLOTS_FIRST;
    bigger.slots = ARENA_NEW(arena, struct index_slot, bigger.slot_count);
    for (int i = 0; i < index->slot_count; i++) {
        const struct index_slot *slot = &index->slots[i];
        if (slot->entry) *slot_of(&bigger, slot->entry, slot->hash) = *slot;
    }
    *index = bigger;
}

void *index_find(const struct index *index, const void *key)
{
    if (!index->slot_count) return NULL;
    return slot_of(index, key, hash_of(key, index->key_bytes))->entry;
}

void index_put(struct arena *arena, struct index *index, void *entry)
{
    assert(index->key_bytes > 0 && index->key_bytes % sizeof(uint32_t) == 0);
    if (2 * index->count >= index->slot_count) grow(arena, index);
    uint64_t hash = hash_of(entry, index->key_bytes);
    struct index_slot *slot = slot_of(index, entry, hash);
    assert(!slot->entry && "keys are put once");
    *slot = (struct index_slot){hash, entry};
    index->count++;
}
