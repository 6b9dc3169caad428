#pragma once
#include "core/arena.h"

#include <stdint.h>

// A table from keys to entries. Keys are compared byte by byte (zero their padding), and every
// entry starts with its key. Entries and table live in the arena. A zeroed struct with `key_bytes`
// set is an empty table.

struct index {
    size_t key_bytes;
    struct index_slot {
        uint64_t hash;  // of the key of its entry, which is not looked at where this differs
        void *entry;
    } * slots;
    int slot_count, count;
};

// The entry with this key, or NULL.
void *index_find(const struct index *index, const void *key);
// Adds an entry whose key is not there yet.
void index_put(struct arena *arena, struct index *index, void *entry);
