#include "core/units.h"
#include "reports/page/section.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What other choices would cost, and what is known of runs like this one.

// "+0.4 days", "−3.1 s"; "same" for less than a thousandth.
static const char *difference(struct arena *arena, double other, double own,
                              char *(*text)(struct arena *, double))
{
    if (fabs(other - own) < 1e-3 * fabs(own)) return "same";
    return arena_print(arena, "%s%s", other < own ? "\xe2\x88\x92" : "+",
                       text(arena, fabs(other - own)));
}

// "micro_batch" of a plan file is "micro-batch" to people.
static const char *choice_words_of(struct arena *arena, enum choice choice)
{
    char *name = arena_copy(arena, choice_name(choice));
    for (char *at = name; *at; at++) {
        if (*at == '_') *at = '-';
    }
    return name;
}

// Of what is not known: behind all that is.
static const double LAST = 1e300;

static void put_neighbour(const struct page_table *table, const struct report *report,
                          const struct neighbour *neighbour)
{
    assert(neighbour->status != NEIGHBOUR_IMPOSSIBLE || neighbour->reason);
    struct arena *arena = table->page->arena;
    const struct prediction *own = &report->evaluation->prediction, *other = &neighbour->prediction;
    bool is_there = neighbour->status != NEIGHBOUR_IMPOSSIBLE;
    // A plan that cannot run costs nothing less.
    bool fits = neighbour->status == NEIGHBOUR_FITS;
    bool has_run = fits && own->money.train_s > 0 && isfinite(own->money.train_s) &&
                   isfinite(other->money.train_s);
    bool has_money = has_run && own->money.total > 0;
    const char *verdict = "fits";
    if (neighbour->status == NEIGHBOUR_LACKS_MEMORY) {
        verdict = neighbour->lack_bytes > 0
                      ? arena_print(arena, "does not fit: %s too much",
                                    units_bytes(arena, (double)neighbour->lack_bytes))
                      : "does not fit the hosts";
    } else if (!is_there) {
        verdict = arena_print(arena, "not possible: %s", neighbour->reason);
    }
    const char *cells[] = {
        arena_print(arena, "%s %s instead of %s", choice_words_of(arena, neighbour->choice),
                    neighbour->value, neighbour->was),
        is_there ? units_seconds(arena, other->step_s) : "-",
        is_there ? page_signed_percent(arena, other->step_s / own->step_s - 1) : "-",
        has_run ? difference(arena, other->money.train_s, own->money.train_s, units_duration) : "-",
        has_money ? difference(arena, other->money.total, own->money.total, units_count) : "-",
        verdict,
    };
    const double sorts[] = {0,
                            other->step_s,
                            is_there ? other->step_s / own->step_s : LAST,
                            has_run ? other->money.train_s : LAST,
                            has_money ? other->money.total : LAST,
                            0};
    page_table_row(table, false, cells, sorts);
}

bool section_why_not(struct markup *page, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    const struct neighbours *neighbours = &report->neighbours;
    const struct money *money = &report->evaluation->prediction.money;
    if (neighbours->count == 0) return false;
    page_paragraph(page, "Each row changes one choice of the plan and keeps the others; data "
                         "parallelism takes the ranks that are left.");
    const char *const heads[] = {"what if",
                                 "step",
                                 "change",
                                 "time to finish",
                                 money->total > 0 ? money->currency : "money",
                                 "does it fit"};
    struct page_table table = page_table_open(page, "lnnnnt", true, heads);
    // What cannot be at all comes last.
    for (int i = 0; i < 2 * neighbours->count; i++) {
        const struct neighbour *neighbour = &neighbours->list[i % neighbours->count];
        bool is_last = i >= neighbours->count;
        if ((neighbour->status == NEIGHBOUR_IMPOSSIBLE) == is_last)
            put_neighbour(&table, report, neighbour);
    }
    page_table_close(&table);
    return true;
}

bool section_evidence(struct markup *page, const struct report_facts *facts)
{
    static const char *const HEADS[] = {"run",      "GPUs",      "device, software, precision",
                                        "measured", "predicted", "error"};
    const struct published *published = &facts->report->published;
    struct arena *arena = page->arena;
    if (published->count == 0) return false;
    page_paragraph(
        page, "The published runs most like this plan, and what meshwright predicts for them.");
    struct page_table table = page_table_open(page, "lntnnn", false, HEADS);
    for (int i = 0; i < published->count; i++) {
        const struct published_run *run = &published->runs[i];
        assert(run->measured_s > 0);
        const char *cells[] = {
            arena_print(arena, "%s, %s tokens, %s sequences", run->model,
                        units_count(arena, (double)run->seq_len),
                        units_count(arena, (double)run->global_batch)),
            units_count(arena, run->gpus),
            arena_print(arena, "%s, %s, %s", run->device, run->stack,
                        precision_name(run->precision)),
            units_seconds(arena, run->measured_s),
            units_seconds(arena, run->predicted_s),
            page_signed_percent(arena, run->predicted_s / run->measured_s - 1),
        };
        page_table_row(&table, false, cells, NULL);
    }
    page_table_close(&table);
    markup_put(page, "<details><summary>Where these measurements were published</summary><ul>\n");
    for (int i = 0; i < published->count; i++) {
        markup_put(page, "<li>");
        markup_prose(page, arena_print(arena, "%s: %s", published->runs[i].model,
                                       published->runs[i].source));
        markup_put(page, "</li>\n");
    }
    markup_put(page, "</ul></details>\n");
    return true;
}
