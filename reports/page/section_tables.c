#include "core/units.h"
#include "reports/page/section.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>

// The tables of plans and of GPU counts.

static const char *gib_text(struct arena *arena, int64_t bytes)
{
    assert(bytes >= 0);
    return arena_print(arena, "%.1f", (double)bytes / (1024.0 * 1024.0 * 1024.0));
}

static const char *lost_words(struct arena *arena, const struct cost *loser,
                              const struct cost *winner)
{
    double share_ratio = 0;
    const char *part = lost_to(loser, winner, &share_ratio);
    if (!part) return "-";
    return arena_print(arena, "%s %s", step_part_words(part), units_ratio(arena, share_ratio));
}

bool section_alternatives(struct markup *page, const struct report_facts *facts)
{
    static const char *const HEADS[] = {"#",         "layout",       "step s",  "MFU",
                                        "alloc GiB", "reserved GiB", "lost to", "vs #1"};
    struct arena *arena = page->arena;
    const struct search_result *kept = &facts->report->kept;
    double own_mfu = facts->report->evaluation->prediction.mfu_ratio;
    if (kept->best_count < 2) {
        page_paragraph(page, "The plan file holds no other plan: everything was pinned, or one was "
                             "asked for.");
        return true;
    }
    struct page_table table = page_table_open(page, "ncnnnntn", true, HEADS);
    assert(kept->best[0].cost.step_s > 0);
    const struct candidate *winner = &kept->best[0];
    // Nothing is faster or slower than a plan that cannot run.
    bool is_there = memory_fit(&facts->report->evaluation->prediction) != MEMORY_LACKS;
    for (int i = 0; i < kept->best_count; i++) {
        const struct candidate *candidate = &kept->best[i];
        double ratio = candidate->cost.step_s / winner->cost.step_s;
        const char *cells[] = {
            arena_print(arena, "%d", i + 1),
            parallel_text(arena, &candidate->parallel, facts->report->request->stack),
            arena_print(arena, "%.4g", candidate->cost.step_s),
            units_ratio(arena, own_mfu / ratio),
            gib_text(arena, candidate->memory.peak_bytes),
            gib_text(arena, candidate->memory.reserved_bytes),
            i ? lost_words(arena, &candidate->cost, &winner->cost) : "-",
            i && is_there   ? page_signed_percent(arena, ratio - 1)
            : i || is_there ? "-"
                            : "does not fit",
        };
        const double sorts[] = {i + 1,
                                0,
                                candidate->cost.step_s,
                                own_mfu / ratio,
                                (double)candidate->memory.peak_bytes,
                                (double)candidate->memory.reserved_bytes,
                                0,
                                ratio};
        page_table_row(&table, i == 0, cells, sorts);
    }
    page_table_close(&table);
    return true;
}

static void put_scaled(const struct page_table *table, const struct report *report, int i)
{
    assert(i >= 0 && i < report->scaling_count);
    struct arena *arena = table->page->arena;
    const struct scenario_outcome *outcome = &report->scaled[i];
    const struct prediction *prediction = &outcome->prediction;
    bool fits = outcome->status == SCENARIO_FITS;
    double gpus = report->scaling[i].cluster->rank_count;
    const struct money *money = &prediction->money;
    bool has_run = fits && money->train_s > 0 && isfinite(money->train_s);
    const char *cells[] = {
        units_count(arena, gpus),
        fits              ? parallel_text(arena, &outcome->best.parallel, report->request->stack)
        : outcome->reason ? outcome->reason
                          : "nothing fits",
        fits ? arena_print(arena, "%.4g", prediction->step_s) : "-",
        fits ? units_count(arena, prediction->tokens_per_s) : "-",
        fits ? units_count(arena, prediction->tokens_per_s_per_gpu) : "-",
        fits ? units_ratio(arena, prediction->mfu_ratio) : "-",
        has_run ? units_duration(arena, money->train_s) : "-",
        has_run && money->total > 0 ? units_count(arena, money->total) : "-",
    };
    const double sorts[] = {gpus,
                            0,
                            prediction->step_s,
                            prediction->tokens_per_s,
                            prediction->tokens_per_s_per_gpu,
                            prediction->mfu_ratio,
                            has_run ? money->train_s : 0,
                            has_run ? money->total : 0};
    page_table_row(table, gpus == report->request->cluster->rank_count, cells, sorts);
}

bool section_scaling(struct markup *page, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    if (report->scaling_count == 0) return false;
    const struct price *price = &report->request->cluster->price;
    const char *noun = cluster_device_noun(report->request->cluster);
    const char *rate = model_rate_text(report->evaluation->graph);
    const char *const heads[] = {arena_print(page->arena, "%ss", noun),
                                 "best layout",
                                 "step s",
                                 rate,
                                 arena_print(page->arena, "%s per %s", rate, noun),
                                 "MFU",
                                 "time",
                                 price->per_gpu_hour > 0 ? price->currency : "money"};
    // Time and money of a run that has an end.
    bool has_run = report->request->workload.tokens > 0;
    bool has_money = has_run && price->per_gpu_hour > 0;
    struct page_table table = page_table_open(page,
                                              has_money ? "ncnnnnnn"
                                              : has_run ? "ncnnnnn"
                                                        : "ncnnnn",
                                              true, heads);
    for (int i = 0; i < report->scaling_count; i++)
        put_scaled(&table, report, i);
    page_table_close(&table);
    return true;
}

// "+93.3 ms"; "-" for what does not change.
static const char *signed_seconds(struct arena *arena, double s)
{
    if (fabs(s) < 1e-9) return "-";
    return arena_print(arena, "%s%s", s < 0 ? "\xe2\x88\x92" : "+", units_seconds(arena, fabs(s)));
}

enum { SHARES_MAX = 24 };

bool section_pipeline(struct markup *page, const struct report_facts *facts)
{
    static const char *const HEADS[] = {"ranks", "how many", "computes longer",
                                        "communicates longer", "waits longer"};
    struct arena *arena = page->arena;
    const struct report *report = facts->report;
    const struct injection_result *result = &report->injected;
    if (!report->injection) return false;
    struct page_table table = page_table_open(page, "lnnnn", false, HEADS);
    for (int i = 0; i < result->share_count && i < SHARES_MAX; i++) {
        const struct injection_share *share = &result->shares[i];
        const char *cells[] = {
            share->who,
            units_count(arena, (double)share->rank_count),
            signed_seconds(arena, share->compute_s),
            signed_seconds(arena, share->communication_s),
            signed_seconds(arena, share->wait_s),
        };
        page_table_row(&table, false, cells, NULL);
    }
    page_table_close(&table);
    return true;
}
