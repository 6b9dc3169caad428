#include "core/units.h"
#include "planner/explain.h"
#include "reports/page/constant_words.h"
#include "reports/page/figure.h"
#include "reports/page/section.h"
#include "reports/table/band_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Why this plan and no other, and what would change that.

static void put_search(struct markup *page, const struct report *report)
{
    struct arena *arena = page->arena;
    const struct search_result *kept = &report->kept;
    markup_put(page, "<p>The layout is <code>");
    markup_text(page, parallel_text(arena, &report->request->parallel, report->request->stack));
    markup_put(page, "</code>.");
    if (kept->considered_count > 0 && kept->status == SEARCH_NOTHING_FITS) {
        markup_print(page, " None of the %s possible plans fits; this one comes closest.",
                     units_count(arena, kept->considered_count));
    } else if (kept->status == SEARCH_STOPPED) {
        markup_print(
            page,
            " The search was stopped: this is the best of the %s plans priced by then, out "
            "of %s.",
            units_count(arena, kept->priced_count), units_count(arena, kept->considered_count));
    } else if (kept->considered_count > 0) {
        markup_print(page,
                     " It was chosen from %s possible plans: lower bounds ruled out all but %s, "
                     "and those were priced one by one.",
                     units_count(arena, kept->considered_count),
                     units_count(arena, kept->priced_count));
    }
    if (kept->status == SEARCH_BEST_OF)
        markup_put(page,
                   " None of them is predicted to be faster. What the search leaves out is listed "
                   "in the plan file.");
    if (kept->status == SEARCH_OPTIMAL)
        markup_put(page, " The bounds prove that none of them is predicted to be faster.");
    markup_put(page, "</p>\n");
}

// Seconds of a term of a plan, 0 where it has none.
static double term_s(const struct explanation_term *terms, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(terms[i].name, name) == 0) return terms[i].other_s;
    }
    return 0;
}

enum { SHOWN_MAX = 6 };

static const double LEAST_S = 1e-6;  // of the step

static void put_term(const struct page_table *table, const char *name, const double *s, int count,
                     double step_s)
{
    assert(count > 0 && count <= SHOWN_MAX);
    struct arena *arena = table->page->arena;
    const char *cells[SHOWN_MAX + 1] = {name};
    bool is_there = false;
    for (int i = 0; i < count; i++) {
        // What rounding to nanoseconds leaves is no difference.
        double more_s = fabs(s[i] - s[0]) < LEAST_S * step_s ? 0 : s[i] - s[0];
        is_there = is_there || fabs(s[i]) >= LEAST_S * step_s;
        cells[i + 1] = i == 0 ? s[0] == 0 ? "-" : units_seconds(arena, s[0])
                              : arena_print(arena, "%s%s", more_s < 0 ? "\xe2\x88\x92" : "+",
                                            units_seconds(arena, fabs(more_s)));
        if (i > 0 && more_s == 0) cells[i + 1] = "same";
    }
    if (is_there) page_table_row(table, false, cells, NULL);
}

// The terms of the plans that were kept side by side: this plan's seconds, then what the others
// have more or less.
static void put_terms(struct markup *page, const struct search_result *kept)
{
    struct arena *arena = page->arena;
    int shown = kept->best_count < SHOWN_MAX ? kept->best_count : SHOWN_MAX;
    if (shown < 2) return;
    // All terms in their order: those of a cost in which none is 0.
    struct cost every = {0};
    every.compute_s = every.recompute_s = every.exposed_pp_s = every.imbalance_s = 1;
    every.bubble_s = every.update_s = every.overhead_s = 1;
    for (int part = 0; part < PART_COUNT; part++)
        every.exposed_s[part] = 1;
    struct explanation_term names[EXPLANATION_TERM_MAX], terms[SHOWN_MAX][EXPLANATION_TERM_MAX];
    int name_count = explain_terms(&every, &every, names), counts[SHOWN_MAX];
    double s[SHOWN_MAX];
    const char *heads[SHOWN_MAX + 1] = {"part of the step"};
    for (int i = 0; i < shown; i++) {
        counts[i] = explain_terms(&kept->best[0].cost, &kept->best[i].cost, terms[i]);
        heads[i + 1] = i ? arena_print(arena, "#%d", i + 1) : "#1, this plan";
    }
    char aligns[SHOWN_MAX + 2] = "l";
    memset(aligns + 1, 'n', (size_t)shown);
    struct page_table table = page_table_open(page, aligns, false, heads);
    for (int t = 0; t < name_count; t++) {
        for (int i = 0; i < shown; i++)
            s[i] = term_s(terms[i], counts[i], names[t].name);
        put_term(&table, step_part_words(names[t].name), s, shown, kept->best[0].cost.step_s);
    }
    for (int i = 0; i < shown; i++)
        s[i] = kept->best[i].cost.step_s;
    put_term(&table, "the step", s, shown, s[0]);
    page_table_close(&table);
}

enum { RIVALS_MAX = 12 };

static void put_rivals(struct markup *page, const struct rivals *rivals)
{
    struct arena *arena = page->arena;
    if (rivals->plan_count < 2) return;
    if (rivals->count == 0) {
        markup_print(page,
                     "<p>Moving any one assumption by 10 %% puts none of the other %d best plans "
                     "first.</p>\n",
                     rivals->plan_count - 1);
        return;
    }
    markup_print(page,
                 "<p>If any one of these assumptions were 10 %% off, another of the %d best plans "
                 "would come first.</p>\n",
                 rivals->plan_count);
    static const char *const HEADS[] = {"assumption", "known from", "changed by", "then first",
                                        "ahead by"};
    struct page_table table = page_table_open(page, "llnnn", false, HEADS);
    for (int i = 0; i < rivals->count && i < RIVALS_MAX; i++) {
        const struct rivals_row *row = &rivals->rows[i];
        assert(row->first >= 0 && row->first < rivals->plan_count);
        const struct provenance *provenance = row->constant->provenance;
        const char *cells[] = {
            constant_words(arena, row->constant),
            provenance ? provenance_kind_name(provenance->kind) : "-",
            row->ratio > 1 ? "+10 %"
                           : "\xe2\x88\x92"
                             "10 %",
            arena_print(arena, "#%d", row->first + 1),
            arena_print(arena, "%.2f %%", 100 * row->lead_ratio),
        };
        page_table_row(&table, false, cells, NULL);
    }
    page_table_close(&table);
    if (rivals->count > RIVALS_MAX)
        markup_print(page, "<p>And %d more, which are in the data.</p>\n",
                     rivals->count - RIVALS_MAX);
}

// Its lines are sentences without an end.
static void put_lines(struct markup *page, const char *text)
{
    while (*text) {
        const char *end = strchr(text, '\n');
        int length = end ? (int)(end - text) : (int)strlen(text);
        const char *line = arena_print(page->arena, "%.*s.", length, text);
        page_paragraph(page, line + strspn(line, " "));
        text += length + (end ? 1 : 0);
    }
}

// The runner-up, and where it is slower.
static void put_second(struct markup *page, const struct report *report)
{
    assert(report->kept.best_count > 1);
    const struct search_result *kept = &report->kept;
    struct arena *arena = page->arena;
    const struct candidate *first = &kept->best[0], *second = &kept->best[1];
    double ratio = second->cost.step_s / first->cost.step_s - 1, share_ratio = 0;
    const char *part = lost_to(&second->cost, &first->cost, &share_ratio);
    markup_put(page, "<p>The runner-up, <code>");
    markup_text(page, parallel_text(arena, &second->parallel, report->request->stack));
    markup_print(page, "</code>, takes %s (", units_seconds(arena, second->cost.step_s));
    markup_prose(page, page_signed_percent(arena, ratio));
    markup_put(page, ")");
    // What costs it most may be more than what it is behind: it wins elsewhere.
    if (part) {
        markup_prose(page,
                     arena_print(arena, "; what costs it most is %s, %s more than in this plan",
                                 step_part_words(part),
                                 units_seconds(arena, share_ratio * first->cost.step_s)));
    }
    markup_put(page, ".</p>\n");
}

bool section_why(struct markup *page, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    const struct search_result *kept = &report->kept;
    put_search(page, report);
    bool is_there = memory_fit(&report->evaluation->prediction) != MEMORY_LACKS;
    if (kept->best_count > 1 && is_there) put_second(page, report);
    put_terms(page, kept);
    put_lines(page, band_overlap_text(page->arena, kept, &report->evaluation->prediction));
    put_rivals(page, &report->explain.rivals);
    return true;
}

bool section_step(struct markup *page, const struct report_facts *facts)
{
    markup_put(page, "<details><summary>Every operator and collective of the busiest stage, as "
                     "<code>--explain</code> prints them</summary><pre tabindex=\"0\">");
    markup_text(page, explain_text(page->arena, &facts->report->explain));
    markup_put(page, "</pre></details>\n");
    return true;
}
