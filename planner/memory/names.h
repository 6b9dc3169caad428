#pragma once
#include "core/arena.h"

#include <stdint.h>

// Names to indices, for files that refer to things by name. The names have to outlive it.
struct names {
    const char **names;  // slots, NULL = free
    int *indices;
    size_t slot_mask;
};
struct names names_new(struct arena *arena, int count_max);
// False when the name is there already.
bool names_add(struct names *names, const char *name, int index);
// -1 when it is not there.
int names_find(const struct names *names, const char *name);
// The known name that was perhaps meant, or NULL.
const char *names_guess(const struct names *names, const char *name);
