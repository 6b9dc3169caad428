#include "reports/page/chart.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The same chart as gnuplot draws it into a file, on white.

// In double quotes: no commands in back quotes, no escapes, no enhanced text. Of a tick it is a
// format as well, in which a percent sign stands twice.
static void put_quoted_as(struct markup *script, const char *text, bool is_format)
{
    markup_put(script, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            markup_print(script, "\\%c", *text);
        } else if (*text == '%' && is_format) {
            markup_put(script, "%%");
        } else if (*text == '`') {
            markup_put(script, "'");
        } else {
            markup_print(script, "%c", (unsigned char)*text < ' ' ? ' ' : *text);
        }
    }
    markup_put(script, "\"");
}

static void put_quoted(struct markup *script, const char *text)
{
    put_quoted_as(script, text, false);
}

static void put_range(struct markup *script, char axis, const struct chart_axis *of)
{
    assert(of->high > of->low);
    if (of->scale == CHART_ROWS) {
        markup_print(script, "set %crange [%.17g:%.17g]\n", axis, of->high, of->low);
    } else {
        markup_print(script, "set %crange [%.17g:%.17g]\n", axis, of->low, of->high);
    }
    if (of->scale == CHART_LOG) markup_print(script, "set logscale %c\n", axis);
    markup_print(script, "set %clabel ", axis);
    put_quoted(script, of->label ? of->label : "");
    markup_put(script, " noenhanced textcolor '#333333'\n");
}

static void put_tics(struct markup *script, char axis, const struct chart_axis *of)
{
    struct arena *arena = script->arena;
    markup_print(script, "set %ctics scale 0 noenhanced (", axis);
    if (of->scale == CHART_ROWS) {
        int count = (int)(of->high - of->low + 0.5), skip = count / 40 + 1;
        for (int i = 0; i < count; i += skip) {
            if (i) markup_put(script, ", ");
            const char *value = of->values ? of->values[i] : NULL;
            put_quoted_as(script,
                          value ? arena_print(arena, "%s  %s", of->names[i], value) : of->names[i],
                          true);
            markup_print(script, " %d", i);
        }
    } else {
        double ticks[CHART_TICKS_MAX];
        int count = chart_ticks(of, 8, ticks);
        for (int i = 0; i < count; i++) {
            if (i) markup_put(script, ", ");
            put_quoted_as(script,
                          of->format ? of->format(arena, ticks[i])
                                     : arena_print(arena, "%.6g", ticks[i]),
                          true);
            markup_print(script, " %.17g", ticks[i]);
        }
    }
    markup_put(script, ")\n");
}

// A colour mixed with white: 1 is the colour itself.
static unsigned shade(enum chart_color color, double share)
{
    assert(share > 0 && share <= 1);
    unsigned hex = (unsigned)strtoul(chart_color_hex(color) + 1, NULL, 16), mixed = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double part = (double)(hex >> shift & 0xff);
        mixed |= (unsigned)lround(255 + (part - 255) * share) << shift;
    }
    return mixed;
}

static void put_data(struct markup *script, const struct chart *chart, int index)
{
    assert(index >= 0 && index < chart->series_count);
    const struct chart_series *series = &chart->series[index];
    markup_print(script, "$series%d << end_of_series\n", index);
    for (int i = 0; i < series->count; i++) {
        const struct chart_mark *mark = &series->marks[i];
        markup_print(script, "%.9g %.9g", mark->x0, mark->y0);
        if (series->kind == CHART_BOXES) {
            double share = mark->size > 0 && mark->size < 1 ? mark->size : 1;
            markup_print(script, " %.9g %.9g %u", mark->x1, mark->y1, shade(series->color, share));
        } else if (series->kind == CHART_POINTS) {
            markup_print(script, " %.3g", mark->size / 4);
        } else if (series->kind == CHART_LABELS) {
            markup_put(script, " ");
            put_quoted(script, mark->title);
        }
        markup_put(script, "\n");
    }
    markup_put(script, "end_of_series\n");
}

static void put_plot(struct markup *script, const struct chart *chart, int index)
{
    const struct chart_series *series = &chart->series[index];
    const char *color = chart_color_hex(series->color);
    markup_print(script, "$series%d using ", index);
    switch (series->kind) {
    case CHART_BOXES:
        markup_put(script, "1:2:1:3:2:4:5 with boxxyerror fillstyle solid noborder "
                           "linecolor rgb variable");
        break;
    case CHART_LINE:
    case CHART_STEPS:
        markup_print(script, "1:2 with %s linewidth 2 linecolor '%s'%s",
                     series->kind == CHART_LINE ? "lines" : "steps", color,
                     series->dashed ? " dashtype 2" : "");
        break;
    case CHART_POINTS:
        markup_print(script, "1:2:3 with points pointtype 7 pointsize variable linecolor '%s'",
                     color);
        break;
    case CHART_LABELS:
        markup_print(script, "1:2:3 with labels noenhanced %s,0.7 textcolor '#333333'",
                     series->labels_left ? "right offset -0.8" : "left offset 0.5");
        break;
    }
    // The key shows the colour of the first box, which may be a light one: it gets its own line.
    if (series->name && series->kind != CHART_BOXES) {
        markup_put(script, " title ");
        put_quoted(script, series->name);
        markup_put(script, " noenhanced");
    } else {
        markup_put(script, " notitle");
    }
    if (series->name && series->kind == CHART_BOXES) {
        markup_print(script, ", NaN with boxes fillstyle solid linecolor '%s' title ", color);
        put_quoted(script, series->name);
        markup_put(script, " noenhanced");
    }
}

char *chart_script(struct arena *arena, const struct chart *chart)
{
    struct markup script = {.arena = arena};
    markup_put(&script, "reset\nset encoding utf8\nset border 3 linecolor '#999999'\n"
                        "set grid linecolor '#e5e5e5'\nset tics nomirror textcolor '#333333'\n"
                        "set key outside top center horizontal textcolor '#333333'\nset rmargin 8\n"
                        "set title ");
    put_quoted(&script, chart->title);
    markup_put(&script, " noenhanced textcolor '#111111'\n");
    put_range(&script, 'x', &chart->x);
    put_range(&script, 'y', &chart->y);
    put_tics(&script, 'x', &chart->x);
    put_tics(&script, 'y', &chart->y);
    for (int i = 0; i < chart->series_count; i++)
        put_data(&script, chart, i);
    const char *before = "plot ";
    for (int i = 0; i < chart->series_count; i++) {
        if (chart->series[i].count == 0) continue;
        markup_put(&script, before);
        put_plot(&script, chart, i);
        before = ", \\\n  ";
    }
    for (int i = 0; i < chart->shade_count; i++) {
        markup_print(&script, "%sNaN with boxes fillstyle solid linecolor '#%06x' title ", before,
                     shade(chart->shade_color, chart->shades[i].size));
        put_quoted(&script, chart->shades[i].name);
        markup_put(&script, " noenhanced");
        before = ", \\\n  ";
    }
    markup_put(&script, "\n");
    return script.text;
}
