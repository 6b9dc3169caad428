#include "reports/page/markup.h"
#include "reports/training/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Losses over the steps: of training each as it is and their running mean, of the held-out part as
// points on a line. More steps than a picture has room for are thinned out.

enum { POINTS_MAX = 4000 };

static const char HEAD[] = "set terminal svg size 960,540 dynamic font 'Helvetica,14'\n"
                           "set encoding utf8\n"
                           "set border 3 linecolor '#808080'\n"
                           "set tics nomirror textcolor '#808080'\n"
                           "set grid ytics linecolor '#d0d0d0'\n"
                           "set key top right textcolor '#808080'\n"
                           "set xlabel 'step' textcolor '#808080'\n"
                           "set ylabel 'loss (nats a token)' textcolor '#808080'\n";

// What would end a text between quotes of gnuplot, or change it, is left out.
static const char *quoted(struct arena *arena, const char *title)
{
    char *text = arena_print(arena, "%.100s", title);
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || strchr("'\"\\{}", *at)) *at = ' ';
    }
    return text;
}

char *loss_plot_script(struct arena *arena, const struct step_metrics *steps, int count,
                       const char *title)
{
    assert(count >= 0);
    static const double KEPT = 0.9;  // of the running mean, a step
    struct markup text = {.arena = arena};
    int every = 1 + count / POINTS_MAX, validated = 0;
    double mean = NAN;
    for (const char *line = HEAD; *line; line += strcspn(line, "\n") + 1)
        markup_print(&text, "%.*s\n", (int)strcspn(line, "\n"), line);
    markup_print(&text, "set title '%s' noenhanced textcolor '#808080'\n$training << end\n",
                 quoted(arena, title));
    for (int i = 0; i < count; i++) {
        if (!isfinite(steps[i].loss)) continue;
        mean = isnan(mean) ? steps[i].loss : KEPT * mean + (1 - KEPT) * steps[i].loss;
        if (i % every != 0 && i + 1 < count) continue;
        markup_print(&text, "%lld %.7g %.7g\n", (long long)steps[i].step, steps[i].loss, mean);
    }
    markup_print(&text, "end\n$held_out << end\n");
    for (int i = 0; i < count; i++) {
        if (!isfinite(steps[i].validation_loss)) continue;
        markup_print(&text, "%lld %.7g\n", (long long)steps[i].step, steps[i].validation_loss);
        validated++;
    }
    markup_print(
        &text,
        "end\nplot $training using 1:2 with lines linecolor '#9ecae9' title 'training', \\\n"
        "  $training using 1:3 with lines linewidth 2 linecolor '#0072b2' title 'its running "
        "mean'");
    if (validated > 0)
        markup_print(
            &text, ", \\\n  $held_out using 1:2 with linespoints linewidth 2 pointtype 7 pointsize "
                   "0.5 linecolor '#d55e00' title 'held out'");
    markup_print(&text, "\n");
    return text.text;
}
