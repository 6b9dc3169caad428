#pragma once
#include "core/arena.h"

#include <stdio.h>

// A text table: cells are texts, columns are aligned (numbers right, words left), two spaces
// between columns, no trailing blanks. Widths count UTF-8 characters, not bytes.

struct table {
    struct arena *arena;
    int column_count;
    int row_count, row_capacity;
    const char **cells;  // row-major
    const char *aligns;  // one 'l' or 'r' a column
};

struct table table_new(struct arena *arena, const char *aligns);
void table_row(struct table *table,
               const char *const *cells);     // column_count cells; copied by pointer
char *table_text(const struct table *table);  // in the arena
