#pragma once
#include "core/arena.h"

// A text table: cells are texts, columns are aligned (numbers right, words left), two spaces
// between columns, no trailing blanks. Widths count UTF-8 characters, not bytes.
//
// A table is no wider than the terminal that the answer goes to (core/console.h), and no cell is
// ever cut: heads and words are broken over several lines, and where even that is too wide the
// columns stand in several tables one below the other, each with the first column again.

struct table {
    struct arena *arena;
    int column_count;
    int row_count, row_capacity;
    int head_count;      // the rows at the top that name the columns: 1; 0 where none does
    const char **cells;  // row-major
    const char *aligns;  // one 'l' or 'r' a column
};

struct table table_new(struct arena *arena, const char *aligns);
void table_row(struct table *table,
               const char *const *cells);     // column_count cells; copied by pointer
char *table_text(const struct table *table);  // in the arena
// The same for so many columns of a terminal (0: as wide as it comes), with heads in bold or not.
char *table_text_for(const struct table *table, int width, bool is_coloured);
