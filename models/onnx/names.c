#include "models/onnx/names.h"
#include "core/hash.h"

#include <string.h>

// The slot of a key, or the free one where it belongs.
static uint64_t slot_of(const struct names *names, const char *key)
{
    uint64_t slot = hash_bytes(HASH_START, key, strlen(key)) & (names->slot_count - 1);
    while (names->keys[slot] && strcmp(names->keys[slot], key) != 0)
        slot = (slot + 1) & (names->slot_count - 1);
    return slot;
}

int names_find(const struct names *names, const char *key)
{
    if (!names->slot_count) return -1;
    uint64_t slot = slot_of(names, key);
    return names->keys[slot] ? names->indices[slot] : -1;
}

static void grow(struct arena *arena, struct names *names)
{
    struct names grown = {.slot_count = names->slot_count ? 2 * names->slot_count : 64};
    grown.keys = ARENA_NEW(arena, const char *, grown.slot_count);
    grown.indices = ARENA_NEW(arena, int, grown.slot_count);
    for (uint64_t i = 0; i < names->slot_count; i++) {
        if (names->keys[i]) names_put(arena, &grown, names->keys[i], names->indices[i]);
    }
    *names = grown;
}

// NOLINTNEXTLINE(misc-no-recursion): growing puts each key into a table that has room
int names_put(struct arena *arena, struct names *names, const char *key, int index)
{
    if (2 * names->key_count >= names->slot_count) grow(arena, names);
    uint64_t slot = slot_of(names, key);
    int before = names->keys[slot] ? names->indices[slot] : -1;
    if (!names->keys[slot]) names->key_count++;
    names->keys[slot] = key;
    names->indices[slot] = index;
    return before;
}

const char *names_unique(struct arena *arena, struct arena *scratch, struct names *names,
                         const char *name)
{
    // The index of a name is the last number tried, so that n equal names take n steps.
    const char *unique = arena_copy(arena, name);
    int number = names_find(names, name);
    if (number < 0) {
        names_put(scratch, names, unique, 1);
        return unique;
    }
    do {
        unique = arena_print(arena, "%s~%d", name, ++number);
    } while (names_find(names, unique) >= 0);
    names_put(scratch, names, unique, 1);
    names_put(scratch, names, arena_copy(scratch, name), number);
    return unique;
}
