#include "core/table.h"

#include <assert.h>
#include <string.h>

static const char GAP[] = "  ";

struct table table_new(struct arena *arena, const char *aligns)
{
    assert(*aligns && strspn(aligns, "lr") == strlen(aligns));
    return (struct table){.arena = arena, .column_count = (int)strlen(aligns), .aligns = aligns};
}

void table_row(struct table *table, const char *const *cells)
{
    size_t row_bytes = (size_t)table->column_count * sizeof *cells;
    table->cells =
        arena_grown(table->arena, table->cells, table->row_count, &table->row_capacity, row_bytes);
    memcpy(&table->cells[table->row_count * table->column_count], cells, row_bytes);
    table->row_count++;
}

static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;  // continuation bytes take no place
    }
    return width;
}

static const char *cell_of(const struct table *table, int row, int column)
{
    const char *cell = table->cells[row * table->column_count + column];
    return cell ? cell : "";
}

// The widths of the columns, and in `bytes` room enough for the whole text.
static size_t *measure(const struct table *table, size_t *bytes)
{
    size_t *widths = ARENA_NEW(table->arena, size_t, table->column_count);
    *bytes = 1;
    for (int row = 0; row < table->row_count; row++) {
        for (int column = 0; column < table->column_count; column++) {
            const char *cell = cell_of(table, row, column);
            size_t width = width_of(cell);
            if (width > widths[column]) widths[column] = width;
            *bytes += strlen(cell) - width;
        }
    }
    size_t line = 1;
    for (int column = 0; column < table->column_count; column++) {
        line += widths[column] + strlen(GAP);
    }
    *bytes += line * (size_t)table->row_count;
    return widths;
}

static char *pad(char *at, size_t count)
{
    memset(at, ' ', count);
    return at + count;
}

static char *put_cell(char *at, const char *cell, size_t width, char align)
{
    size_t blank = width - width_of(cell);
    if (align == 'r') at = pad(at, blank);
    at = stpcpy(at, cell);
    return align == 'l' ? pad(at, blank) : at;
}

char *table_text(const struct table *table)
{
    size_t bytes = 0;
    const size_t *widths = measure(table, &bytes);
    char *text = ARENA_NEW(table->arena, char, bytes);
    char *at = text;
    for (int row = 0; row < table->row_count; row++) {
        char *line = at;
        for (int column = 0; column < table->column_count; column++) {
            if (column) at = stpcpy(at, GAP);
            at = put_cell(at, cell_of(table, row, column), widths[column], table->aligns[column]);
        }
        while (at > line && at[-1] == ' ')
            at--;
        *at++ = '\n';
    }
    *at = '\0';
    assert((size_t)(at - text) < bytes);
    return text;
}
