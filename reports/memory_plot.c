#include "reports/memory_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECTANGLES_MAX = 5000,  // about 200 bytes each in the picture
    GRID_COLUMNS = 180,
    GRID_ROWS = 120,
    LINE_POINTS = 1500,
};

// Shares of the whole time, in colours of the Okabe-Ito set (see accuracy_plot.c), and what is
// drawn together in grey.
static const struct {
    double up_to_ratio;
    const char *title, *colour;
} CLASSES[] = {
    {1.0 / 64, "up to 1/64 of the time", "#56b4e9"},
    {1.0 / 8, "up to 1/8", "#12a67c"},
    {1.0 / 2, "up to 1/2", "#e69f00"},
    {INFINITY, "longer", "#d55e00"},
    {0, "small ones together", "#a0a0a0"},
};
enum { CLASS_COUNT = sizeof CLASSES / sizeof *CLASSES, CLASS_GRID = CLASS_COUNT - 1 };

static const char HEAD[] = "set terminal svg size 960,600 dynamic font 'Helvetica,14'\n"
                           "set encoding utf8\n"
                           "set border 3 linecolor '#808080'\n"
                           "set tics nomirror textcolor '#808080'\n"
                           "set style fill solid 0.75 border rgb '#ffffff'\n"
                           "set key outside bottom center horizontal textcolor '#808080'\n";

struct text {
    struct arena *arena;
    char *bytes;
    size_t length, capacity;
};

static void put(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(struct text *text, const char *format, ...)
{
    enum { LINE_BYTES = 1024 };
    if (text->length + LINE_BYTES > text->capacity) {
        size_t capacity = 2 * text->capacity + LINE_BYTES;
        char *grown = ARENA_NEW(text->arena, char, capacity);
        if (text->length) memcpy(grown, text->bytes, text->length);
        text->bytes = grown;
        text->capacity = capacity;
    }
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text->bytes + text->length, LINE_BYTES, format, args);
    va_end(args);
    text->length += (size_t)(length < LINE_BYTES ? length : LINE_BYTES - 1);
}

// What the picture shows, in numbers of the axes.
struct frame {
    int64_t start, end;  // of time
    double unit_bytes;
    const char *unit;
};

static struct frame frame_of(const struct memory_plot *plot)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct frame frame = {.start = INT64_MAX, .end = INT64_MIN, .unit_bytes = 1};
    for (int i = 0; i < plot->count; i++) {
        if (plot->lower[i] < frame.start) frame.start = plot->lower[i];
        if (plot->upper[i] > frame.end) frame.end = plot->upper[i];
    }
    if (frame.end <= frame.start) frame.start = 0, frame.end = 1;
    size_t unit = 0;
    while (unit + 1 < sizeof UNITS / sizeof *UNITS &&
           (double)plot->arena_bytes >= 1024 * frame.unit_bytes) {
        frame.unit_bytes *= 1024;
        unit++;
    }
    frame.unit = UNITS[unit];
    return frame;
}

struct area {
    double area;
    int buffer;
};

static int compare_areas(const void *a, const void *b)
{
    const struct area *x = a, *y = b;
    if (x->area != y->area) return x->area < y->area ? 1 : -1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

// Whether a buffer has a rectangle of its own: the largest have.
static bool *choose_large(struct arena *arena, const struct memory_plot *plot)
{
    bool *is_large = ARENA_NEW(arena, bool, plot->count);
    struct area *areas = ARENA_NEW(arena, struct area, plot->count);
    for (int i = 0; i < plot->count; i++) {
        double steps = (double)(plot->upper[i] - plot->lower[i]);
        areas[i] = (struct area){steps * (double)plot->size[i], i};
    }
    qsort(areas, (size_t)plot->count, sizeof *areas, compare_areas);
    for (int i = 0; i < plot->count && i < RECTANGLES_MAX; i++) {
        is_large[areas[i].buffer] = areas[i].area > 0;
    }
    return is_large;
}

static int class_of(const struct memory_plot *plot, const struct frame *frame, int buffer)
{
    double steps = (double)(plot->upper[buffer] - plot->lower[buffer]);
    double ratio = steps / (double)(frame->end - frame->start);
    int kind = 0;
    while (ratio > CLASSES[kind].up_to_ratio) {
        kind++;
    }
    return kind;
}

static void put_rectangle(struct text *text, const struct frame *frame, double from, double to,
                          double low_bytes, double high_bytes)
{
    double low = low_bytes / frame->unit_bytes, high = high_bytes / frame->unit_bytes;
    put(text, "%.7g %.7g %.7g %.7g %.7g %.7g\n", (from + to) / 2, (low + high) / 2, from, to, low,
        high);
}

// Cells of a grid that a range touches, at least one.
static void cells_of(double from, double to, double cell, int cell_count, int *first, int *last)
{
    *first = (int)(from / cell);
    *last = (int)ceil(to / cell) - 1;
    if (*first >= cell_count) *first = cell_count - 1;
    if (*last >= cell_count) *last = cell_count - 1;
    if (*last < *first) *last = *first;
}

// Cells that hold small buffers, as long runs of neighbours.
static int put_grid(struct text *text, const struct memory_plot *plot, const struct frame *frame,
                    const bool *is_large)
{
    static const int COLUMNS = GRID_COLUMNS, ROWS = GRID_ROWS;
    bool *held = ARENA_NEW(text->arena, bool, GRID_COLUMNS *GRID_ROWS);
    double width = (double)(frame->end - frame->start) / COLUMNS;
    double height = (double)plot->arena_bytes / ROWS;
    for (int i = 0; i < plot->count; i++) {
        if (is_large[i] || plot->lower[i] == plot->upper[i]) continue;
        int left, right, bottom, top;
        cells_of((double)(plot->lower[i] - frame->start), (double)(plot->upper[i] - frame->start),
                 width, COLUMNS, &left, &right);
        cells_of((double)plot->offset[i], (double)(plot->offset[i] + plot->size[i]), height, ROWS,
                 &bottom, &top);
        for (int row = bottom; row <= top; row++) {
            memset(held + row * COLUMNS + left, true, (size_t)(right - left + 1));
        }
    }
    int count = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            int start = column;
            while (column < COLUMNS && held[row * COLUMNS + column]) {
                column++;
            }
            if (column == start) continue;
            put_rectangle(text, frame, (double)frame->start + start * width,
                          (double)frame->start + column * width, row * height, (row + 1) * height);
            count++;
        }
    }
    return count;
}

struct change {
    int64_t time, bytes;
};

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

// The most bytes alive in each of LINE_POINTS parts of the time, or at each change where there are
// fewer.
static void put_live(struct text *text, const struct memory_plot *plot, const struct frame *frame)
{
    struct change *changes = ARENA_NEW(text->arena, struct change, 2 * plot->count);
    for (int i = 0; i < plot->count; i++) {
        changes[2 * i] = (struct change){plot->lower[i], plot->size[i]};
        changes[2 * i + 1] = (struct change){plot->upper[i], -plot->size[i]};
    }
    int count = 2 * plot->count;
    qsort(changes, (size_t)count, sizeof *changes, compare_changes);
    double part = (double)(frame->end - frame->start) / LINE_POINTS;
    double live_bytes = 0, most_bytes = 0, from = (double)frame->start;
    for (int i = 0; i < count;) {
        int64_t time = changes[i].time;
        for (; i < count && changes[i].time == time; i++) {
            live_bytes += (double)changes[i].bytes;
        }
        most_bytes = fmax(most_bytes, live_bytes);
        double next = i < count ? (double)changes[i].time : (double)frame->end;
        if (next - from < part && i < count) continue;
        put(text, "%.7g %.7g\n%.7g %.7g\n", from, most_bytes / frame->unit_bytes, next,
            most_bytes / frame->unit_bytes);
        most_bytes = live_bytes;
        from = next;
    }
}

// A block of rectangles of one class; returns how many.
static int put_class(struct text *text, const struct memory_plot *plot, const struct frame *frame,
                     const bool *is_large, int kind)
{
    int count = 0;
    put(text, "$class%d << end\n", kind);
    if (kind == CLASS_GRID) count = put_grid(text, plot, frame, is_large);
    for (int i = 0; i < plot->count && kind != CLASS_GRID; i++) {
        if (!is_large[i] || class_of(plot, frame, i) != kind) continue;
        put_rectangle(text, frame, (double)plot->lower[i], (double)plot->upper[i],
                      (double)plot->offset[i], (double)(plot->offset[i] + plot->size[i]));
        count++;
    }
    put(text, "end\n");
    return count;
}

static void put_horizontal(struct text *text, const struct frame *frame, const char *name,
                           int64_t bytes)
{
    double height = (double)bytes / frame->unit_bytes;
    put(text, "$%s << end\n%.7g %.7g\n%.7g %.7g\nend\n", name, (double)frame->start, height,
        (double)frame->end, height);
}

// A title between quotes of gnuplot: what would end or change it is left out.
static const char *quoted(struct arena *arena, const char *title)
{
    char *text = arena_copy(arena, title);
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || strchr("'\"\\{}", *at)) *at = ' ';
    }
    return text;
}

char *memory_plot_script(struct arena *arena, const struct memory_plot *plot)
{
    struct text text = {.arena = arena};
    struct frame frame = frame_of(plot);
    bool *is_large = choose_large(arena, plot);
    int counts[CLASS_COUNT];
    put(&text, "%sset title '%.200s' noenhanced textcolor '#808080'\n", HEAD,
        quoted(arena, plot->title));
    put(&text,
        "set xlabel '%s' textcolor '#808080'\nset ylabel 'address (%s)' textcolor "
        "'#808080'\n",
        plot->time_label, frame.unit);
    int64_t high_bytes = plot->capacity > plot->arena_bytes ? plot->capacity : plot->arena_bytes;
    put(&text, "set xrange [%.7g:%.7g]\nset yrange [0:%.7g]\n", (double)frame.start,
        (double)frame.end, fmax(1.04 * (double)high_bytes, 1) / frame.unit_bytes);
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        counts[kind] = put_class(&text, plot, &frame, is_large, kind);
    }
    put(&text, "$live << end\n");
    put_live(&text, plot, &frame);
    put(&text, "end\n");
    put_horizontal(&text, &frame, "arena", plot->arena_bytes);
    if (plot->capacity > 0) put_horizontal(&text, &frame, "capacity", plot->capacity);
    put(&text, "plot ");
    // Small ones lie under the others, which are exact.
    for (int i = 0; i < CLASS_COUNT; i++) {
        int kind = (i + CLASS_GRID) % CLASS_COUNT;
        if (counts[kind] == 0) continue;
        put(&text,
            "$class%d using 1:2:3:4:5:6 with boxxyerror linewidth 0.3 fillcolor rgb '%s' "
            "title '%s', \\\n  ",
            kind, CLASSES[kind].colour, CLASSES[kind].title);
    }
    put(&text, "$arena with lines dashtype 2 linecolor '#808080' title 'arena', \\\n  ");
    if (plot->capacity > 0) {
        put(&text, "$capacity with lines linewidth 2 linecolor '#808080' title 'capacity', \\\n  ");
    }
    put(&text, "$live with lines linewidth 1.5 linecolor '#d81b60' title 'alive'\n");
    return text.bytes;
}
