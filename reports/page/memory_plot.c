#include "reports/page/memory_plot.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECTANGLES_MAX = 3000,  // with a border, about 400 bytes each in the picture
    RUNS_MAX = 5000,        // without one, about 200
    GRID_COLUMNS = 256,
    GRID_ROWS = 192,
    LINE_POINTS = 1500,
};
// A border needs a rectangle of some pixels.
static const double BORDER_HEIGHT_RATIO = 1.0 / 150;
// A cell is drawn where buffers hold this share of it.
static const double CELL_RATIO = 0.3;

// Shares of the whole time, in colours of the Okabe-Ito set (see accuracy_plot.c).
static const struct {
    double up_to_ratio;
    const char *title, *colour;
} CLASSES[] = {
    {1.0 / 64, "up to 1/64 of the time", "#56b4e9"},
    {1.0 / 8, "up to 1/8", "#12a67c"},
    {1.0 / 2, "up to 1/2", "#e69f00"},
    {INFINITY, "longer", "#d55e00"},
};
enum { CLASS_COUNT = sizeof CLASSES / sizeof *CLASSES };

static const char HEAD[] = "set terminal svg size 960,600 dynamic font 'Helvetica,14'\n"
                           "set encoding utf8\n"
                           "set border 3 linecolor '#808080'\n"
                           "set tics nomirror textcolor '#808080'\n"
                           "set format x '%.0f'\n"
                           "set style fill solid 1.0 border rgb '#ffffff'\n"
                           "set key outside bottom center horizontal textcolor '#808080'\n";

// What the picture shows, in numbers of the axes.
struct plot_frame {
    int64_t start, end;  // of time
    double unit_bytes;
    const char *unit;
};

static struct plot_frame frame_of(const struct memory_plot *plot)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct plot_frame frame = {.start = INT64_MAX, .end = INT64_MIN, .unit_bytes = 1};
    for (int i = 0; i < plot->count; i++) {
        assert(plot->lower[i] <= plot->upper[i] && plot->size[i] >= 0);
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

static int class_of(const struct memory_plot *plot, const struct plot_frame *frame, int buffer)
{
    double steps = (double)(plot->upper[buffer] - plot->lower[buffer]);
    double ratio = steps / (double)(frame->end - frame->start);
    assert(frame->end > frame->start);
    int kind = 0;
    while (ratio > CLASSES[kind].up_to_ratio) {
        kind++;
    }
    return kind;
}

static void put_rectangle(struct markup *text, const struct plot_frame *frame, double from,
                          double to, double low_bytes, double high_bytes)
{
    double low = low_bytes / frame->unit_bytes, high = high_bytes / frame->unit_bytes;
    assert(from <= to && low <= high);
    markup_print(text, "%.7g %.7g %.7g %.7g %.7g %.7g\n", (from + to) / 2, (low + high) / 2, from,
                 to, low, high);
}

// A grid of cells over the picture, and how much of each cell the small buffers of each class hold.
struct grid {
    int column_count, row_count;
    double width, height;       // of a cell: time, bytes
    double *held[CLASS_COUNT];  // [row * column_count + column], of the area of a cell
};

// How much of cell `cell` of those of one width lies between `from` and `to`.
static double part_of(double from, double to, double width, int cell)
{
    assert(cell >= 0 && width > 0);
    double low = fmax(from, cell * width), high = fmin(to, (cell + 1) * width);
    return fmax(high - low, 0) / width;
}

static void hold(struct grid *grid, double *held, double from, double to, double low, double high)
{
    assert(from >= 0 && low >= 0);
    int left = (int)(from / grid->width), bottom = (int)(low / grid->height);
    for (int row = bottom; row < grid->row_count && row * grid->height < high; row++) {
        double part = part_of(low, high, grid->height, row);
        for (int column = left; column < grid->column_count && column * grid->width < to;
             column++) {
            held[row * grid->column_count + column] +=
                part * part_of(from, to, grid->width, column);
        }
    }
}

static struct grid make_grid(struct arena *arena, const struct memory_plot *plot,
                             const struct plot_frame *frame, const bool *is_large, int shrink)
{
    assert(shrink > 0 && shrink <= GRID_ROWS);
    struct grid grid = {.column_count = GRID_COLUMNS / shrink, .row_count = GRID_ROWS / shrink};
    grid.width = (double)(frame->end - frame->start) / grid.column_count;
    grid.height = fmax((double)plot->arena_bytes, 1) / grid.row_count;
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        grid.held[kind] = ARENA_NEW(arena, double, grid.column_count *grid.row_count);
    }
    for (int i = 0; i < plot->count; i++) {
        if (is_large[i] || plot->lower[i] == plot->upper[i]) continue;
        hold(&grid, grid.held[class_of(plot, frame, i)], (double)(plot->lower[i] - frame->start),
             (double)(plot->upper[i] - frame->start), (double)plot->offset[i],
             (double)(plot->offset[i] + plot->size[i]));
    }
    return grid;
}

// The class that holds most of a cell; -1 where all together hold little.
static int class_at(const struct grid *grid, int cell)
{
    int most = 0;
    double sum = 0;
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        sum += grid->held[kind][cell];
        if (grid->held[kind][cell] > grid->held[most][cell]) most = kind;
    }
    return sum < CELL_RATIO ? -1 : most;
}

// Cells of one class side by side are one rectangle: those of `wanted`, or of all classes where it
// is -1. Without a text they are counted only.
static int put_runs(struct markup *text, const struct grid *grid, const struct plot_frame *frame,
                    int wanted)
{
    int count = 0;
    for (int row = 0; row < grid->row_count; row++) {
        for (int column = 0, end; column < grid->column_count; column = end) {
            int first = row * grid->column_count, kind = class_at(grid, first + column);
            end = column + 1;
            while (end < grid->column_count && class_at(grid, first + end) == kind) {
                end++;
            }
            if (kind < 0 || (wanted >= 0 && kind != wanted)) continue;
            count++;
            if (!text) continue;
            double start = (double)frame->start;
            put_rectangle(text, frame, start + column * grid->width, start + end * grid->width,
                          row * grid->height, (row + 1) * grid->height);
        }
    }
    return count;
}

// As fine as the picture's size allows.
static struct grid choose_grid(struct arena *arena, const struct memory_plot *plot,
                               const struct plot_frame *frame, const bool *is_large)
{
    int shrink = 1;
    struct grid grid = make_grid(arena, plot, frame, is_large, shrink);
    while (put_runs(NULL, &grid, frame, -1) > RUNS_MAX) {
        // Half as many rows and columns are a quarter of the cells, and each run has at least one.
        grid = make_grid(arena, plot, frame, is_large, shrink *= 2);
    }
    return grid;
}

struct plot_change {
    int64_t time, bytes;
};

static int compare_changes(const void *a, const void *b)
{
    const struct plot_change *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

// The most bytes alive in each of LINE_POINTS parts of the time, or at each change where there are
// fewer.
static void put_live(struct markup *text, const struct memory_plot *plot,
                     const struct plot_frame *frame)
{
    struct plot_change *changes = ARENA_NEW(text->arena, struct plot_change, 2 * plot->count);
    for (int i = 0; i < plot->count; i++) {
        changes[2 * i] = (struct plot_change){plot->lower[i], plot->size[i]};
        changes[2 * i + 1] = (struct plot_change){plot->upper[i], -plot->size[i]};
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
        markup_print(text, "%.7g %.7g\n%.7g %.7g\n", from, most_bytes / frame->unit_bytes, next,
                     most_bytes / frame->unit_bytes);
        most_bytes = 0;
        from = next;
    }
}

// Rectangles of one class that are drawn one by one, with a border or without; returns how many.
static int put_large(struct markup *text, const struct memory_plot *plot,
                     const struct plot_frame *frame, const bool *is_large, int kind,
                     bool has_border)
{
    double border_bytes = BORDER_HEIGHT_RATIO * (double)plot->arena_bytes;
    int count = 0;
    for (int i = 0; i < plot->count; i++) {
        if (!is_large[i] || class_of(plot, frame, i) != kind) continue;
        if (((double)plot->size[i] >= border_bytes) != has_border) continue;
        put_rectangle(text, frame, (double)plot->lower[i], (double)plot->upper[i],
                      (double)plot->offset[i], (double)(plot->offset[i] + plot->size[i]));
        count++;
    }
    return count;
}

static void put_horizontal(struct markup *text, const struct plot_frame *frame, const char *name,
                           int64_t bytes)
{
    double height = (double)bytes / frame->unit_bytes;
    markup_print(text, "$%s << end\n%.7g %.7g\n%.7g %.7g\nend\n", name, (double)frame->start,
                 height, (double)frame->end, height);
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

// Small ones lie under the others, which are exact.
static void put_boxes(struct markup *text, const int *small_counts, const int *large_counts)
{
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        if (small_counts[kind] == 0) continue;
        markup_print(text,
                     "$small%d using 1:2:3:4:5:6 with boxxyerror fillstyle solid 1.0 noborder "
                     "fillcolor rgb '%s' title '%s', \\\n  ",
                     kind, CLASSES[kind].colour, large_counts[kind] ? "" : CLASSES[kind].title);
    }
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        if (large_counts[kind] == 0) continue;
        markup_print(text,
                     "$large%d using 1:2:3:4:5:6 with boxxyerror linewidth 0.3 fillcolor rgb '%s' "
                     "title '%s', \\\n  ",
                     kind, CLASSES[kind].colour, CLASSES[kind].title);
    }
}

static void put_axes(struct markup *text, const struct memory_plot *plot,
                     const struct plot_frame *frame)
{
    markup_print(text, "%sset title '%.200s' noenhanced textcolor '#808080'\n", HEAD,
                 quoted(text->arena, plot->title));
    markup_print(
        text,
        "set xlabel '%s' textcolor '#808080'\nset ylabel 'address (%s)' textcolor '#808080'\n",
        plot->time_label, frame->unit);
    int64_t high_bytes = plot->capacity > plot->arena_bytes ? plot->capacity : plot->arena_bytes;
    markup_print(text, "set xrange [%.7g:%.7g]\nset yrange [0:%.7g]\n", (double)frame->start,
                 (double)frame->end, fmax(1.04 * (double)high_bytes, 1) / frame->unit_bytes);
}

char *memory_plot_script(struct arena *arena, const struct memory_plot *plot)
{
    struct markup text = {.arena = arena};
    struct plot_frame frame = frame_of(plot);
    bool *is_large = choose_large(arena, plot);
    struct grid grid = choose_grid(arena, plot, &frame, is_large);
    int small_counts[CLASS_COUNT], large_counts[CLASS_COUNT];
    put_axes(&text, plot, &frame);
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        markup_print(&text, "$small%d << end\n", kind);
        small_counts[kind] = put_runs(&text, &grid, &frame, kind) +
                             put_large(&text, plot, &frame, is_large, kind, false);
        markup_print(&text, "end\n$large%d << end\n", kind);
        large_counts[kind] = put_large(&text, plot, &frame, is_large, kind, true);
        markup_print(&text, "end\n");
    }
    markup_print(&text, "$live << end\n");
    put_live(&text, plot, &frame);
    markup_print(&text, "end\n");
    put_horizontal(&text, &frame, "arena", plot->arena_bytes);
    if (plot->capacity > 0) put_horizontal(&text, &frame, "capacity", plot->capacity);
    markup_print(&text, "plot ");
    put_boxes(&text, small_counts, large_counts);
    markup_print(&text, "$arena with lines dashtype 2 linecolor '#808080' title 'arena', \\\n  ");
    if (plot->capacity > 0) {
        markup_print(
            &text, "$capacity with lines linewidth 2 linecolor '#808080' title 'capacity', \\\n  ");
    }
    markup_print(&text, "$live with lines linewidth 1.5 linecolor '#d81b60' title 'alive'\n");
    return text.text;
}
