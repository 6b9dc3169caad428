#pragma once
#include "reports/page/chart.h"
#include "reports/page/report.h"
#include "reports/page/traffic.h"

// The figures of a report: one function a figure, in the order of the page. False where there is
// nothing to draw.

// What several figures and the page's data are made from, worked out once.
struct report_facts {
    const struct report *report;
    struct traffic traffic;
    struct traffic measured_traffic;  // of the run; no cells: it does not say it
};

bool figure_measured_steps(const struct report_facts *facts, struct chart *chart);
bool figure_measured_ranks(const struct report_facts *facts, struct chart *chart);
bool figure_measured_exchanges(const struct report_facts *facts, struct chart *chart);
bool figure_measured_traffic(const struct report_facts *facts, struct chart *chart);
bool figure_history(const struct report_facts *facts, struct chart *chart);
bool figure_waterfall(const struct report_facts *facts, struct chart *chart);
bool figure_pipeline(const struct report_facts *facts, struct chart *chart);
bool figure_pipeline_begin(const struct report_facts *facts, struct chart *chart);
bool figure_injection(const struct report_facts *facts, struct chart *chart);
bool figure_memory(const struct report_facts *facts, struct chart *chart);
bool figure_memory_time(const struct report_facts *facts, struct chart *chart);
bool figure_traffic(const struct report_facts *facts, struct chart *chart);
bool figure_roofline(const struct report_facts *facts, struct chart *chart);
bool figure_scaling(const struct report_facts *facts, struct chart *chart);
bool figure_sensitivity(const struct report_facts *facts, struct chart *chart);
bool figure_pareto(const struct report_facts *facts, struct chart *chart);
bool figure_choice(const struct report_facts *facts, struct chart *chart);

struct figure {
    const char *section;  // its id (reports/page/report.h)
    bool (*make)(const struct report_facts *facts, struct chart *chart);
};
const struct figure *figures(int *count);

// The part of a step that `term` of an explanation names (planner/explain.h), in words for people.
const char *step_part_words(const char *term);
// Seconds at a tick: "0" and no unit for none.
char *figure_seconds(struct arena *arena, double s);
// How dark a box is of so much where the fullest has `most`, and what that is beside the chart, as
// `text` says it.
double figure_shade(double much, double most);
void figure_shades(struct chart *chart, enum chart_color color, double most,
                   char *(*text)(struct arena *arena, double much));
// A line across the chart at y, by its name; dashed.
void figure_level(struct chart *chart, enum chart_color color, const char *name, double y);
// A chart to be filled, `arena` set.
struct chart figure_new(struct arena *arena);
