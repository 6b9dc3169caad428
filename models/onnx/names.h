#pragma once
#include "core/arena.h"

#include <stdint.h>

// A table from names to indices, of open addressing; names are not copied.
struct names {
    const char **keys;
    int *indices;
    uint64_t slot_count, key_count;  // slots: a power of two
};

// -1 where the name is not there.
int names_find(const struct names *names, const char *key);
// Sets the index of a name that may be there already; returns the one before, or -1.
int names_put(struct arena *arena, struct names *names, const char *key, int index);
// `name` where it is new, else `name` with the first of "~2", "~3", ... that makes it so; from then
// on it is taken. Lives in `arena`, the table in `scratch`.
const char *names_unique(struct arena *arena, struct arena *scratch, struct names *names,
                         const char *name);
