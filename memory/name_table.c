#include "memory/name_table.h"

#include "core/hash.h"
#include "core/units.h"

#include <assert.h>
#include <string.h>

// Edit distances are for names that people type, and for so many that nobody waits.
enum { GUESS_BYTES_MAX = 60, GUESS_NAMES_MAX = 10000 };

struct name_table name_table_new(struct arena *arena, int count_max)
{
    assert(count_max >= 0);
    size_t slots = 16;
    while (slots < 2 * (size_t)count_max) {
        slots *= 2;
    }
    return (struct name_table){ARENA_NEW(arena, const char *, slots), ARENA_NEW(arena, int, slots),
                               slots - 1};
}

// The slot of a name, or the free one where it belongs.
static size_t slot_of(const struct name_table *names, const char *name)
{
    uint64_t hash = hash_bytes(HASH_START, name, strlen(name));
    size_t slot = (size_t)(hash ^ hash >> 32) & names->slot_mask;
    while (names->names[slot] && strcmp(names->names[slot], name) != 0) {
        slot = (slot + 1) & names->slot_mask;
    }
    return slot;
}

bool name_table_add(struct name_table *names, const char *name, int index)
{
    assert(index >= 0);
    size_t slot = slot_of(names, name);
    if (names->names[slot]) return false;
    names->names[slot] = name;
    names->indices[slot] = index;
    return true;
}

int name_table_find(const struct name_table *names, const char *name)
{
    size_t slot = slot_of(names, name);
    return names->names[slot] ? names->indices[slot] : -1;
}

const char *name_table_guess(const struct name_table *names, const char *name)
{
    struct units_guess guess = {.text = name};
    if (strlen(name) > GUESS_BYTES_MAX || names->slot_mask >= 4 * GUESS_NAMES_MAX) return NULL;
    for (size_t i = 0; i <= names->slot_mask; i++) {
        const char *other = names->names[i];
        if (other && strlen(other) <= GUESS_BYTES_MAX) units_guess_offer(&guess, other);
    }
    return guess.best;
}
