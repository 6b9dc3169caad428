#include "core/table.h"
#include "core/console.h"

#include <assert.h>
#include <string.h>

static const char GAP[] = "  ", BOLD[] = "\033[1m", RESET[] = "\033[0m";

// WORDS_LEAST: identifiers are broken inside only where there is no other way, and not into smaller
// pieces. WORDS_ROOM: words at the end of a row with less room stand below it, HUNG columns in.
enum { WORDS_LEAST = 12, WORDS_ROOM = 20, HUNG = 6 };

struct table table_new(struct arena *arena, const char *aligns)
{
    assert(*aligns && strspn(aligns, "lr") == strlen(aligns));
    return (struct table){
        .arena = arena, .column_count = (int)strlen(aligns), .aligns = aligns, .head_count = 1};
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
    return console_columns(text, strlen(text));
}

static const char *cell_of(const struct table *table, int row, int column)
{
    const char *cell = table->cells[row * table->column_count + column];
    return cell ? cell : "";
}

// Takes from `*cell` what stands on its next line, and skips the blanks that it is broken at.
static size_t take_line(const char **cell, size_t width)
{
    if (!**cell) return 0;
    size_t bytes = console_fitting(*cell, strlen(*cell), width);
    *cell += bytes + strspn(*cell + bytes, " ");
    return bytes;
}

static int lines_of(const char *cell, size_t width)
{
    int lines = 0;
    do {
        take_line(&cell, width);
        lines++;
    } while (*cell);
    return lines;
}

// A word of one character stays with the one before: "step s".
static size_t longest_word(const char *text)
{
    size_t most = 0;
    while (*text) {
        size_t bytes = strcspn(text, " ");
        while (text[bytes] == ' ' && text[bytes + 1] && strchr(" ", text[bytes + 2]))
            bytes += 2;
        size_t columns = console_columns(text, bytes);
        if (columns > most) most = columns;
        text += bytes;
        text += strspn(text, " ");
    }
    return most;
}

// Columns of a table that are shown side by side, and how wide each is: the first `key_count` of
// the table, which say which row it is, then `count` from `first` on. The last one may stand on
// lines of its own, below each row.
struct panel {
    const struct table *table;
    int key_count, first, count;
    bool is_hung;
    size_t *widths;  // of every column of the table
};

static int column_count(const struct panel *panel)
{
    return panel->key_count + panel->count;
}

static int column_at(const struct panel *panel, int i)
{
    return i < panel->key_count ? i : panel->first + i - panel->key_count;
}

// How many of the columns stand side by side.
static int beside_count(const struct panel *panel)
{
    return column_count(panel) - panel->is_hung;
}

static size_t total(const struct panel *panel)
{
    size_t sum = 0;
    for (int i = 0; i < beside_count(panel); i++)
        sum += panel->widths[column_at(panel, i)] + (i ? strlen(GAP) : 0);
    return sum;
}

// The width that a column takes as it comes.
static size_t natural_width(const struct table *table, int column)
{
    size_t most = 1;
    for (int row = 0; row < table->row_count; row++) {
        size_t width = width_of(cell_of(table, row, column));
        if (width > most) most = width;
    }
    return most;
}

// The least that it can take: numbers are never broken, heads between words, and words of the rows
// only from the column `breakable` on.
static size_t least_width(const struct table *table, int column, int breakable)
{
    size_t most = 1;
    bool is_words = table->aligns[column] == 'l';
    for (int row = 0; row < table->row_count; row++) {
        const char *cell = cell_of(table, row, column);
        bool is_head = row < table->head_count;
        size_t width = is_head || is_words ? longest_word(cell) : width_of(cell);
        if (column >= breakable && is_words && !is_head && width > WORDS_LEAST) width = WORDS_LEAST;
        if (width > most) most = width;
    }
    return most;
}

static int lines_of_row(const struct panel *panel, int row)
{
    int most = 1;
    for (int i = 0; i < beside_count(panel); i++) {
        int column = column_at(panel, i);
        int lines = lines_of(cell_of(panel->table, row, column), panel->widths[column]);
        if (lines > most) most = lines;
    }
    return most;
}

static int lines_of_panel(const struct panel *panel)
{
    int lines = 0;
    for (int row = 0; row < panel->table->row_count; row++)
        lines += lines_of_row(panel, row);
    return lines;
}

// Makes columns narrower, each time the one that costs the fewest lines (of equal ones the widest),
// until the panel fits.
static bool squeeze(struct panel *panel, size_t width, const size_t *least)
{
    while (total(panel) > width) {
        int best = -1, fewest = 0;
        for (int i = 0; i < beside_count(panel); i++) {
            int column = column_at(panel, i);
            size_t *at = &panel->widths[column];
            if (*at <= least[column]) continue;
            --*at;
            int lines = lines_of_panel(panel);
            ++*at;
            bool is_wider = best >= 0 && *at > panel->widths[best];
            if (best < 0 || lines < fewest || (lines == fewest && is_wider)) {
                best = column;
                fewest = lines;
            }
        }
        if (best < 0) return false;
        panel->widths[best]--;
    }
    return true;
}

static bool fits(struct panel *panel, size_t width, int breakable)
{
    const struct table *table = panel->table;
    size_t *least = ARENA_NEW(table->arena, size_t, table->column_count);
    for (int column = 0; column < table->column_count; column++) {
        panel->widths[column] = natural_width(table, column);
        least[column] = least_width(table, column, breakable);
    }
    int last = column_at(panel, column_count(panel) - 1);
    if (panel->is_hung) panel->widths[last] = width - HUNG;
    return width == 0 || squeeze(panel, width, least);
}

// Words at the end of a row that have room for a few only read better below it.
static bool is_cramped(const struct panel *panel, size_t width)
{
    const struct table *table = panel->table;
    int last = column_at(panel, column_count(panel) - 1);
    if (width < 2 * HUNG || table->aligns[last] != 'l' || column_count(panel) < 3) return false;
    size_t natural = natural_width(table, last);
    return panel->widths[last] < natural && panel->widths[last] < WORDS_ROOM;
}

// How many columns it takes to tell the rows apart; at most three, and 1 where those do not.
static int key_columns(const struct table *table)
{
    enum { MOST = 3 };
    for (int count = 1; count <= MOST && count < table->column_count; count++) {
        bool is_key = true;
        for (int row = 1; row < table->row_count && is_key; row++) {
            for (int other = 0; other < row && is_key; other++) {
                is_key = false;
                for (int i = 0; i < count; i++)
                    is_key |= strcmp(cell_of(table, row, i), cell_of(table, other, i)) != 0;
            }
        }
        if (is_key) return count;
    }
    return 1;
}

// A panel that no way makes narrow enough: what is over is taken from its columns of words.
static void squeeze_hard(struct panel *panel, size_t width)
{
    for (int i = 0; i < column_count(panel) && total(panel) > width; i++) {
        size_t *at = &panel->widths[column_at(panel, i)];
        if (panel->table->aligns[column_at(panel, i)] != 'l') continue;
        size_t over = total(panel) - width;
        *at = *at > over ? *at - over : 1;
    }
}

// As many columns from `first` on as fit the width, at least one.
static struct panel next_panel(const struct table *table, int first, size_t width)
{
    const int none = table->column_count, all = 0;
    struct panel panel = {.table = table, .first = first, .count = table->column_count - first};
    panel.widths = ARENA_NEW(table->arena, size_t, table->column_count);
    if (first == 0) {
        if (fits(&panel, width, none) && !is_cramped(&panel, width)) return panel;
        panel.is_hung = is_cramped(&panel, width);
        if (panel.is_hung && fits(&panel, width, none)) return panel;
        panel.is_hung = false;
        if (fits(&panel, width, none - 1) || fits(&panel, width, all)) return panel;
    } else {
        panel.key_count = key_columns(table);
        if (panel.key_count > first) panel.key_count = first;
    }
    while (!fits(&panel, width, all)) {
        if (panel.count > 1) {
            panel.count--;
        } else if (panel.key_count > 1) {
            panel.key_count--;
        } else {
            squeeze_hard(&panel, width);
            break;
        }
    }
    return panel;
}

// A text that grows in the arena of its table.
struct out {
    struct arena *arena;
    char *text;
    size_t bytes, capacity;
};

static void put(struct out *out, const char *text, size_t bytes)
{
    out->text = arena_text_room(out->arena, out->text, out->bytes, bytes, &out->capacity);
    memcpy(out->text + out->bytes, text, bytes);
    out->bytes += bytes;
    out->text[out->bytes] = '\0';
}

static void put_text(struct out *out, const char *text)
{
    put(out, text, strlen(text));
}

static void put_blanks(struct out *out, size_t count)
{
    for (; count > 0; count--)
        put_text(out, " ");
}

// One line of a row: the next of each cell's. Blanks are printed only before what follows.
static void put_line(struct out *out, const struct panel *panel, const char **cells)
{
    size_t owed = 0;
    for (int i = 0; i < beside_count(panel); i++) {
        int column = column_at(panel, i);
        const char *text = cells[i];
        size_t bytes = take_line(&cells[i], panel->widths[column]);
        size_t blank = panel->widths[column] - console_columns(text, bytes);
        bool is_right = panel->table->aligns[column] == 'r';
        if (i) owed += strlen(GAP);
        if (bytes > 0) {
            put_blanks(out, owed + (is_right ? blank : 0));
            put(out, text, bytes);
            owed = is_right ? 0 : blank;
        } else {
            owed += blank;
        }
    }
}

static void put_hung(struct out *out, const struct panel *panel, const char *cell)
{
    size_t width = panel->widths[column_at(panel, column_count(panel) - 1)];
    while (*cell) {
        const char *text = cell;
        size_t bytes = take_line(&cell, width);
        put_blanks(out, HUNG);
        put(out, text, bytes);
        put_text(out, "\n");
    }
}

static void put_row(struct out *out, const struct panel *panel, int row, bool is_bold)
{
    int count = column_count(panel);
    const char **cells = ARENA_NEW(panel->table->arena, const char *, count);
    for (int i = 0; i < count; i++)
        cells[i] = cell_of(panel->table, row, column_at(panel, i));
    if (is_bold) put_text(out, BOLD);
    for (int lines = lines_of_row(panel, row); lines > 0; lines--) {
        put_line(out, panel, cells);
        put_text(out, "\n");
    }
    if (panel->is_hung) put_hung(out, panel, cells[count - 1]);
    if (is_bold) put_text(out, RESET);
}

char *table_text_for(const struct table *table, int width, bool is_coloured)
{
    struct out out = {.arena = table->arena, .text = arena_copy(table->arena, "")};
    for (int first = 0; table->row_count > 0 && first < table->column_count;) {
        struct panel panel = next_panel(table, first, (size_t)width);
        if (first > 0) put_text(&out, "\n");
        for (int row = 0; row < table->row_count; row++)
            put_row(&out, &panel, row, is_coloured && row < table->head_count);
        first += panel.count;
    }
    return out.text;
}

char *table_text(const struct table *table)
{
    return table_text_for(table, console_answer_width(), console_answer_is_coloured());
}
