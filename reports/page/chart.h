#pragma once
#include "reports/page/markup.h"

#include <stdbool.h>

// A chart is two axes and series of marks; what it is about is the business of
// reports/page/figure.h. It is drawn twice from the same numbers: into the page, where it follows
// the width of the window and the colours of the reader's choice, and by gnuplot into files.

enum chart_scale {
    CHART_LINEAR,
    CHART_LOG,   // low > 0
    CHART_ROWS,  // of y: named rows, 0 on top; row i lies between i - 0.5 and i + 0.5
};

// Colours with a meaning each that all figures share (reports/page/page.css has their two
// variants).
enum chart_color {
    CHART_FORWARD,   // also: compute, what is good or ours
    CHART_BACKWARD,  // also: a second kind
    CHART_WEIGHT,    // weight gradients, recompute
    CHART_TRAFFIC,   // communication
    CHART_WAIT,      // bubbles, overhead
    CHART_UPDATE,    // optimizer
    CHART_LIMIT,     // limits, losses
    CHART_PLAIN,     // lines of reference
    CHART_WORKING,   // working memory
    CHART_LOGITS,
    CHART_COLOR_COUNT
};
const char *chart_color_hex(enum chart_color color);  // on white

struct chart_axis {
    const char *label;  // with its unit; NULL: none
    enum chart_scale scale;
    double low, high;
    // What stands at a tick, in the arena; NULL: the number.
    char *(*format)(struct arena *arena, double value);
    const char *const *names;   // CHART_ROWS
    const char *const *values;  // CHART_ROWS: what stands at the right end of a row; NULL: nothing
    bool names_above;           // long names: above their row, not left of it
    bool is_whole;              // ticks at whole numbers alone
    bool values_optional;       // left out where the window is narrow
    const double *at;           // where ticks are; NULL: at round numbers
    int at_count;
};

enum chart_kind {
    CHART_BOXES,   // x0 .. x1 by y0 .. y1
    CHART_LINE,    // through the points (x0, y0)
    CHART_STEPS,   // the same, level up to the next point
    CHART_POINTS,  // at (x0, y0)
    CHART_LABELS,  // text at (x0, y0)
};

struct chart_mark {
    double x0, y0, x1, y1;
    double size;        // of points: radius in pixels; of boxes: 0 or 1 full, else how dark
    const char *title;  // what is shown where the pointer rests, or the label; NULL: nothing
};

struct chart_series {
    enum chart_kind kind;
    enum chart_color color;
    const char *name;  // in the legend; NULL: not in it
    bool dashed;
    bool labels_left;  // of labels: left of their points, clear of a line that rises through them
    struct chart_mark *marks;
    int count, capacity;
};

enum { CHART_SERIES_MAX = 24, CHART_SHADES_MAX = 6 };

// What a box of this `size` stands for, where boxes are as dark as they are large.
struct chart_shade {
    double size;
    const char *name;
};

struct chart {
    struct arena *arena;
    const char *name;   // of its files: "waterfall"
    const char *title;  // of the figure
    const char *how;    // one sentence on how to read it
    struct chart_axis x, y;
    int height;  // of the plot in pixels
    int width;   // at most, in the page; 0: as wide as the page
    struct chart_series series[CHART_SERIES_MAX];
    int series_count;
    enum chart_color shade_color;
    struct chart_shade shades[CHART_SHADES_MAX];  // by falling size
    int shade_count;
};

struct chart_series *chart_add(struct chart *chart, enum chart_kind kind, enum chart_color color,
                               const char *name);
void chart_mark(const struct chart *chart, struct chart_series *series,
                const struct chart_mark *mark);
// The height of a chart of rows.
int chart_rows_height(const struct chart_axis *axis, int row_count);

// The values of the ticks inside low .. high, at most `most` of them; returns how many.
enum { CHART_TICKS_MAX = 24 };
int chart_ticks(const struct chart_axis *axis, int most, double ticks[CHART_TICKS_MAX]);
// Where a value lies on its axis, 0 at low and 1 at high.
double chart_place(const struct chart_axis *axis, double value);

// The <figure>, with its legend and its sentence.
void chart_put(struct markup *page, const struct chart *chart);

// The commands that plot it, without terminal and output.
char *chart_script(struct arena *arena, const struct chart *chart);
