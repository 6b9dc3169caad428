#include "reports/page/accuracy_plot.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Mid greys and colours of the Okabe-Ito set, which colour-blind people tell apart (Okabe and Ito
// 2008, Color Universal Design), darkened or lightened to stand out on both grounds; the kinds
// differ in shape as well.
static const struct {
    enum row_kind kind;
    const char *title;
    int point;
    const char *colour;
} KINDS[] = {
    {ROW_KIND_DENSE, "dense, 16 bits", 6, "#2f86c6"},
    {ROW_KIND_DENSE_LOW_PRECISION, "dense, fp8 and fp4", 8, "#d55e00"},
    {ROW_KIND_MIXTURE, "mixtures of experts", 4, "#12a67c"},
};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static const char HEAD[] = "set terminal svg size 720,640 dynamic font 'Helvetica,14'\n"
                           "set encoding utf8\n"
                           "set logscale xy\n"
                           "set format xy '%g'\n"
                           "set border 3 linecolor '#808080'\n"
                           "set tics nomirror textcolor '#808080'\n"
                           "set grid linetype 1 linewidth 0.5 linecolor '#a0808080'\n"
                           "set xlabel 'measured step (s)' textcolor '#808080'\n"
                           "set ylabel 'predicted step (s)' textcolor '#808080'\n"
                           "set key top left reverse Left textcolor '#808080' samplen 1.5\n";

// Rows without a step and questions without an answer have no point.
static bool is_shown(const struct accuracy *accuracy, const struct trial *trial)
{
    return trial->answered && trial->row->step_s > 0 &&
           strchr(accuracy->tiers, trial->row->tier) != NULL;
}

// A block of points a kind; where a kind has none, one point outside the picture.
static const char *data_text(struct arena *arena, const struct accuracy *accuracy,
                             enum row_kind kind, int *count)
{
    struct markup text = {.arena = arena};
    *count = 0;
    for (int i = 0; i < accuracy->trials->count; i++) {
        const struct trial *trial = &accuracy->trials->items[i];
        if (trial->row->kind != kind || !is_shown(accuracy, trial)) continue;
        markup_print(&text, "%.5g %.5g\n", trial->row->step_s, trial->prediction.step_s);
        ++*count;
    }
    return text.text;
}

// Whole steps of 1, 2, 5 around all points.
static void limits(const struct accuracy *accuracy, double *low, double *high)
{
    *low = INFINITY;
    *high = 0;
    for (int i = 0; i < accuracy->trials->count; i++) {
        const struct trial *trial = &accuracy->trials->items[i];
        if (!is_shown(accuracy, trial)) continue;
        double measured_s = trial->row->step_s, predicted_s = trial->prediction.step_s;
        *low = fmin(*low, fmin(measured_s, predicted_s));
        *high = fmax(*high, fmax(measured_s, predicted_s));
    }
    if (*high == 0) *low = *high = 1;
    assert(*low > 0 && *low <= *high);
    *low /= 1.2;
    *high *= 1.2;
}

char *accuracy_plot_script(struct arena *arena, const struct accuracy *accuracy)
{
    double low = 0, high = 0;
    limits(accuracy, &low, &high);
    const char *script = arena_print(arena, "%sset xrange [%.3g:%.3g]\nset yrange [%.3g:%.3g]\n",
                                     HEAD, low, high, low, high);
    const char *plot = "plot x with lines linecolor '#808080' linewidth 1.5 notitle, \\\n"
                       "  1.1 * x with lines dashtype 2 linecolor '#808080' title '±10 %', \\\n"
                       "  x / 1.1 with lines dashtype 2 linecolor '#808080' notitle";
    for (int i = 0; i < KIND_COUNT; i++) {
        int count = 0;
        const char *data = data_text(arena, accuracy, KINDS[i].kind, &count);
        if (count == 0) continue;
        script = arena_print(arena, "%s$kind%d << end\n%send\n", script, i, data);
        plot = arena_print(arena,
                           "%s, \\\n  $kind%d using 1:2 with points pointtype %d pointsize 0.6 "
                           "linewidth 1.2 linecolor '%s' title '%s: %d run%s'",
                           plot, i, KINDS[i].point, KINDS[i].colour, KINDS[i].title, count,
                           count == 1 ? "" : "s");
    }
    return arena_print(arena, "%s%s\n", script, plot);
}
