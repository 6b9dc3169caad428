#include "planner/index.h"
#include "core/hash.h"

#include <assert.h>
#include <stdint.h>
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

// The slot of the key, or the empty one where it would go.
static void **slot_of(const struct index *index, const void *key)
{
    size_t mask = (size_t)index->slot_count - 1;
    size_t at = (size_t)hash_of(key, index->key_bytes) & mask;
    while (index->slots[at] && memcmp(index->slots[at], key, index->key_bytes) != 0) {
        at = (at + 1) & mask;
    }
    return &index->slots[at];
}

static void grow(struct arena *arena, struct index *index)
{
    enum { SLOTS_FIRST = 256 };
    struct index bigger = *index;
    bigger.slot_count = index->slot_count ? 2 * index->slot_count : SLOTS_FIRST;
    bigger.slots = ARENA_NEW(arena, void *, bigger.slot_count);
    for (int i = 0; i < index->slot_count; i++) {
        if (index->slots[i]) *slot_of(&bigger, index->slots[i]) = index->slots[i];
    }
    *index = bigger;
}

void *index_find(const struct index *index, const void *key)
{
    return index->slot_count ? *slot_of(index, key) : NULL;
}

void index_put(struct arena *arena, struct index *index, void *entry)
{
    assert(index->key_bytes > 0 && index->key_bytes % sizeof(uint32_t) == 0);
    if (2 * index->count >= index->slot_count) grow(arena, index);
    void **slot = slot_of(index, entry);
    assert(!*slot && "keys are put once");
    *slot = entry;
    index->count++;
}
