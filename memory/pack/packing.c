#include "core/file.h"
#include "core/plain.h"
#include "memory/formats.h"
#include "memory/name_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const size_t PACKING_BYTES_MAX = (size_t)1 << 30;
// Exact in every tool that reads numbers as doubles, and far from overflow in sums of two.
static const int64_t NUMBER_MAX = INT64_C(1) << 53;
static const int64_t TOTAL_MAX = INT64_MAX / 4;

enum column { COLUMN_ID, COLUMN_LOWER, COLUMN_UPPER, COLUMN_SIZE, COLUMN_ALIGNMENT, COLUMN_OFFSET };
enum { COLUMN_COUNT = COLUMN_OFFSET + 1, REQUIRED_COUNT = COLUMN_SIZE + 1 };

static const char *const COLUMN_NAMES[COLUMN_COUNT] = {"id",   "lower",     "upper",
                                                       "size", "alignment", "offset"};

struct reader {
    struct arena *arena;
    const char *path;
    struct err *err;
    char *at;  // what comes next
    char *line;
    int line_number;
    enum column columns[COLUMN_COUNT];  // by place
    int column_count;
    char *id_text;  // where the next id goes
    struct name_table names;
    int64_t total;
};

// One cell of a line, blanks around it left out. The text is that of the file.
struct cell {
    const char *text;
    int bytes;
};

static bool fail(struct reader *reader, const char *at, const char *why)
{
    int column = 1;
    for (const char *byte = reader->line; byte < at; byte++) {
        column += ((unsigned char)*byte & 0xc0) != 0x80;
    }
    return err_set(reader->err, ERR_INPUT, "%s:%d:%d: %s", reader->path, reader->line_number,
                   column, why);
}

// The next line that is not blank, without its end; NULL after the last.
static char *next_line(struct reader *reader)
{
    while (*reader->at) {
        char *line = reader->at, *end = strchr(line, '\n');
        reader->at = end ? end + 1 : line + strlen(line);
        if (!end) end = reader->at;
        reader->line_number++;
        reader->line = line;
        while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t')) {
            end--;
        }
        *end = '\0';
        if (line[strspn(line, " \t")]) return line;
    }
    return NULL;
}

// Takes a cell off the line; false at its end.
static bool next_cell(const char **at, struct cell *cell)
{
    if (!*at) return false;
    const char *start = *at + strspn(*at, " \t"), *comma = strchr(*at, ',');
    const char *end = comma ? comma : start + strlen(start);
    *at = comma ? comma + 1 : NULL;
    while (end > start && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    *cell = (struct cell){start, (int)(end - start)};
    return true;
}

static bool cell_is(const struct cell *cell, const char *word)
{
    return strlen(word) == (size_t)cell->bytes && memcmp(word, cell->text, strlen(word)) == 0;
}

static bool read_column(struct reader *reader, const struct cell *cell)
{
    char why[128];
    int column = 0;
    while (column < COLUMN_COUNT && !cell_is(cell, COLUMN_NAMES[column])) {
        column++;
    }
    if (cell_is(cell, "buffer")) column = COLUMN_ID;
    if (column == COLUMN_COUNT) {
        snprintf(why, sizeof why,
                 "unknown column \"%.*s\", expected id, lower, upper, size, alignment, offset",
                 cell->bytes < 40 ? cell->bytes : 40, cell->text);
        return fail(reader, cell->text, why);
    }
    for (int i = 0; i < reader->column_count; i++) {
        if (reader->columns[i] != (enum column)column) continue;
        snprintf(why, sizeof why, "a second column \"%s\"", COLUMN_NAMES[column]);
        return fail(reader, cell->text, why);
    }
    assert(reader->column_count < COLUMN_COUNT);
    reader->columns[reader->column_count++] = (enum column)column;
    return true;
}

static bool read_header(struct reader *reader, struct packing_file *file)
{
    static const char WANTED[] = "expected a header with the columns id, lower, upper, size";
    const char *at = next_line(reader);
    if (!at) {
        reader->line_number = 1;
        return fail(reader, reader->line, WANTED);
    }
    struct cell cell;
    file->header = at;
    while (next_cell(&at, &cell)) {
        if (!read_column(reader, &cell)) return false;
    }
    unsigned found = 0;
    for (int i = 0; i < reader->column_count; i++) {
        found |= 1u << reader->columns[i];
        if (reader->columns[i] == COLUMN_OFFSET) file->offset_column = i;
        file->has_alignment |= reader->columns[i] == COLUMN_ALIGNMENT;
    }
    for (int i = 0; i < REQUIRED_COUNT; i++) {
        char why[128];
        snprintf(why, sizeof why, "missing column \"%s\", %s", COLUMN_NAMES[i], WANTED);
        if (!(found & 1u << i)) return fail(reader, reader->line, why);
    }
    return true;
}

static bool read_number(struct reader *reader, const struct cell *cell, enum column column,
                        int64_t low, int64_t *number)
{
    char why[160];
    const char *at = cell->text, *end = cell->text + cell->bytes;
    bool is_negative = at < end && *at == '-';
    int64_t value = 0;
    at += is_negative;
    bool is_number = at < end;
    for (; at < end && is_number; at++) {
        is_number = *at >= '0' && *at <= '9';
        // Stops growing above the limit, so that a long row of digits cannot overflow; it is
        // refused below as too large.
        if (value <= NUMBER_MAX) value = 10 * value + (*at - '0');
    }
    if (!is_number) {
        snprintf(why, sizeof why, "%s: expected a whole number, found \"%.*s\"",
                 COLUMN_NAMES[column], cell->bytes < 40 ? cell->bytes : 40, cell->text);
        return fail(reader, cell->text, why);
    }
    *number = is_negative ? -value : value;
    if (*number >= low && value <= NUMBER_MAX) return true;
    snprintf(why, sizeof why, "%s: expected a number from %lld to %lld, found %.*s",
             COLUMN_NAMES[column], (long long)low, (long long)NUMBER_MAX,
             cell->bytes < 40 ? cell->bytes : 40, cell->text);
    return fail(reader, cell->text, why);
}

static bool read_id(struct reader *reader, const struct cell *cell, int row, const char **id)
{
    if (cell->bytes == 0) return fail(reader, cell->text, "id: empty");
    // Copied before it is judged: the room is for all the text that is left.
    memcpy(reader->id_text, cell->text, (size_t)cell->bytes);
    *id = reader->id_text;
    reader->id_text += cell->bytes + 1;
    if (cell->bytes > TEXT_BYTES_MAX) return fail(reader, cell->text, "id: too long");
    if (plain_fault(*id)) return fail(reader, cell->text, "id: holds what cannot be shown");
    if (plain_is_formula(*id)) return fail(reader, cell->text, "id: reads as a formula");
    if (name_table_add(&reader->names, *id, row)) return true;
    char why[128];
    snprintf(why, sizeof why, "id: \"%.60s\" is there twice", *id);
    return fail(reader, cell->text, why);
}

static bool read_cell(struct reader *reader, const struct cell *cell, enum column column, int row,
                      struct pack_buffer *buffer, const char **id)
{
    switch (column) {
    case COLUMN_ID:
        return read_id(reader, cell, row, id);
    case COLUMN_LOWER:
        return read_number(reader, cell, column, -NUMBER_MAX, &buffer->lower);
    case COLUMN_UPPER:
        return read_number(reader, cell, column, -NUMBER_MAX, &buffer->upper);
    case COLUMN_SIZE:
        return read_number(reader, cell, column, 1, &buffer->size);
    case COLUMN_ALIGNMENT:
        return read_number(reader, cell, column, 1, &buffer->alignment);
    case COLUMN_OFFSET:
        // Empty and -1 leave the buffer free.
        if (cell->bytes == 0) return true;
        return read_number(reader, cell, column, -1, &buffer->fixed_offset);
    }
    return false;
}

// What the cells of a row have to be to each other.
static bool check_row(struct reader *reader, const struct pack_buffer *buffer)
{
    char why[128];
    assert(buffer->alignment > 0);  // checked with its cell, 1 where there is none
    if (buffer->lower > buffer->upper) {
        snprintf(why, sizeof why, "the lifetime is reversed: lower %lld, upper %lld",
                 (long long)buffer->lower, (long long)buffer->upper);
        return fail(reader, reader->line, why);
    }
    if (buffer->fixed_offset > 0 && buffer->fixed_offset % buffer->alignment != 0) {
        snprintf(why, sizeof why, "offset %lld is no multiple of the alignment, %lld",
                 (long long)buffer->fixed_offset, (long long)buffer->alignment);
        return fail(reader, reader->line, why);
    }
    int64_t most = buffer->size + buffer->alignment;
    if (most <= TOTAL_MAX - reader->total) return reader->total += most, true;
    snprintf(why, sizeof why, "the sizes add up to more than %lld", (long long)TOTAL_MAX);
    return fail(reader, reader->line, why);
}

static bool read_row(struct reader *reader, int row, struct pack_buffer *buffer, const char **id)
{
    const char *at = reader->line;
    int count = 0;
    for (struct cell cell; next_cell(&at, &cell); count++) {
        if (count == reader->column_count)
            return fail(reader, cell.text, "more cells than columns");
        if (!read_cell(reader, &cell, reader->columns[count], row, buffer, id)) return false;
    }
    if (count < reader->column_count) {
        return fail(reader, reader->line + strlen(reader->line), "fewer cells than columns");
    }
    return check_row(reader, buffer);
}

static bool read_rows(struct reader *reader, struct packing_file *file)
{
    int64_t line_count = 1;
    for (const char *at = reader->at; (at = strchr(at, '\n')) != NULL; at++) {
        line_count++;
    }
    int count_max = line_count < PACKING_BUFFERS_MAX ? (int)line_count : PACKING_BUFFERS_MAX;
    struct pack_buffer *buffers = ARENA_NEW(reader->arena, struct pack_buffer, count_max);
    file->ids = ARENA_NEW(reader->arena, const char *, count_max);
    file->lines = ARENA_NEW(reader->arena, const char *, count_max);
    file->problem.buffers = buffers;
    reader->id_text = ARENA_NEW(reader->arena, char, strlen(reader->at) + 2);
    reader->names = name_table_new(reader->arena, count_max);
    int count = 0;
    for (const char *line; (line = next_line(reader)) != NULL; count++) {
        if (count == PACKING_BUFFERS_MAX) return fail(reader, line, "more than 4,000,000 buffers");
        buffers[count] = (struct pack_buffer){.alignment = 1, .fixed_offset = -1};
        file->lines[count] = line;
        if (!read_row(reader, count, &buffers[count], &file->ids[count])) return false;
    }
    file->problem.count = count;
    return true;
}

static bool fail_nul(struct reader *reader, const char *at)
{
    reader->line_number = 1;
    for (char *end = reader->line; (end = strchr(end, '\n')) != NULL;) {
        reader->line = ++end;
        reader->line_number++;
    }
    return fail(reader, at, "a NUL byte");
}

bool packing_parse(struct arena *arena, const char *path, const char *text, size_t bytes,
                   struct packing_file *file, struct err *err)
{
    static const char MARK[] = "\xef\xbb\xbf";
    char *copy = ARENA_NEW(arena, char, bytes + 1);
    if (bytes) memcpy(copy, text, bytes);
    struct reader reader = {.arena = arena, .path = path, .err = err, .at = copy, .line = copy};
    *file = (struct packing_file){.offset_column = -1};
    if (strlen(copy) < bytes) return fail_nul(&reader, copy + strlen(copy));
    if (strncmp(copy, MARK, strlen(MARK)) == 0) reader.at += strlen(MARK);
    return read_header(&reader, file) && read_rows(&reader, file);
}

bool packing_load(struct arena *arena, const char *path, struct packing_file *file, struct err *err)
{
    size_t bytes = 0;
    const char *text = file_read(arena, path, PACKING_BYTES_MAX, &bytes, err);
    return text && packing_parse(arena, path, text, bytes, file, err);
}

// The bytes of a line before and after the cell of a column.
static void split_at(const char *line, int column, size_t *before, size_t *after)
{
    const char *at = line;
    for (; column > 0; column--) {
        at = strchr(at, ',');
        assert(at && "rows were read with all their columns");
        at++;
    }
    *before = (size_t)(at - line);
    *after = *before + strcspn(at, ",");
}

char *packing_text(struct arena *arena, const struct packing_file *file, const int64_t *offsets)
{
    enum { NUMBER_BYTES = 24 };
    size_t most = strlen(file->header) + sizeof ",offset\n";
    for (int i = 0; i < file->problem.count; i++) {
        most += strlen(file->lines[i]) + NUMBER_BYTES;
    }
    char *text = ARENA_NEW(arena, char, most + 1), *at = text;
    bool has_column = file->offset_column >= 0;
    at += sprintf(at, "%s%s\n", file->header, has_column ? "" : ",offset");
    for (int i = 0; i < file->problem.count; i++) {
        const char *line = file->lines[i];
        long long offset = offsets[i];
        size_t before = 0, after = 0;
        if (has_column) {
            split_at(line, file->offset_column, &before, &after);
            at += sprintf(at, "%.*s%lld%s\n", (int)before, line, offset, line + after);
        } else {
            at += sprintf(at, "%s,%lld\n", line, offset);
        }
    }
    assert((size_t)(at - text) <= most);
    return text;
}

char *packing_problem_text(struct arena *arena, const struct pack_problem *problem)
{
    enum { ROW_BYTES = 6 * 24 };
    static const char HEADER[] = "id,lower,upper,size,alignment,offset\n";
    char *text = ARENA_NEW(arena, char, sizeof HEADER + (size_t)problem->count * ROW_BYTES);
    char *at = text + sprintf(text, "%s", HEADER);
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *buffer = &problem->buffers[i];
        at += sprintf(at, "%d,%lld,%lld,%lld,%lld,%lld\n", i, (long long)buffer->lower,
                      (long long)buffer->upper, (long long)buffer->size,
                      (long long)buffer->alignment, (long long)buffer->fixed_offset);
    }
    return text;
}
