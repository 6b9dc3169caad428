#pragma once
#include "core/arena.h"

#include <stdint.h>

// Names to indices, for files that refer to things by name. The names have to outlive it.
struct name_table {
    const char **names;  // slots, NULL = free
    int *indices;
    size_t slot_mask;
};
struct name_table name_table_new(struct arena *arena, int count_max);
// False when the name is there already.
bool name_table_add(struct name_table *names, const char *name, int index);
// -1 when it is not there.
int name_table_find(const struct name_table *names, const char *name);
// The known name that was perhaps meant, or NULL.
const char *name_table_guess(const struct name_table *names, const char *name);
