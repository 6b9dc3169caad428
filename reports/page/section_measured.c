#include "core/units.h"
#include "reports/page/section.h"

#include <assert.h>
#include <string.h>

// Predicted beside measured: the step, kinds of work, ranks, and the chain that made the step.

enum { RANKS_MAX = 64 };  // in the table, the furthest behind first

static const char *band_words(struct arena *arena, const struct prediction *prediction, double s)
{
    if (!prediction->band) return "";
    return arena_print(arena, ", %s the 90 %% band of %s to %s",
                       s < prediction->step_s_low    ? "faster than"
                       : s > prediction->step_s_high ? "slower than"
                                                     : "inside",
                       units_seconds(arena, prediction->step_s_low),
                       units_seconds(arena, prediction->step_s_high));
}

static void put_lead(struct markup *page, const struct report *report)
{
    assert(report->run->step_count > 0 && report->evaluation->prediction.step_s > 0);
    const struct measured_run *run = report->run;
    const struct prediction *prediction = &report->evaluation->prediction;
    struct arena *arena = page->arena;
    markup_put(page, "<p class=\"lead\">A step took ");
    page_value(page, "measured.step_s", units_seconds(arena, run->median_s));
    markup_prose(page,
                 arena_print(arena, " where %s was predicted: %s%s.",
                             units_seconds(arena, prediction->step_s),
                             page_signed_percent(arena, run->median_s / prediction->step_s - 1),
                             band_words(arena, prediction, run->median_s)));
    markup_put(page, "</p>\n");
    page_paragraph(
        page,
        arena_print(arena,
                    "It is the median of %d step%s on %d rank%s of %s (back end %s, transport %s). "
                    "The fullest rank held %s; the plan has %s.",
                    run->step_count > 1 ? run->step_count - 1 : 1, run->step_count > 2 ? "s" : "",
                    run->rank_count, run->rank_count > 1 ? "s" : "", run->device, run->backend,
                    run->transport, units_bytes(arena, run->peak_bytes),
                    units_bytes(arena, run->predicted_peak_bytes)));
}

static const char *or_none(double value, const char *text)
{
    return value > 0 ? text : "-";
}

static void put_kinds(struct markup *page, const struct measured_run *run)
{
    static const char *const HEADS[] = {
        "kind", "of", "times", "predicted", "measured", "change", "payload, predicted", "measured"};
    struct arena *arena = page->arena;
    markup_put(page, "<h3>By kind of work</h3>\n");
    page_paragraph(page,
                   "A step, all ranks together. Operators and collectives are parts of tasks; "
                   "a measured collective also waits for the ranks that are late.");
    struct page_table table = page_table_open(page, "llnnnnnn", true, HEADS);
    for (int i = 0; i < run->kind_count; i++) {
        const struct measured_kind *kind = &run->kinds[i];
        double ratio = kind->predicted_s > 0 ? kind->measured_s / kind->predicted_s - 1 : 0;
        const char *cells[] = {
            kind->kind,
            kind->group,
            or_none(kind->count, units_count(arena, kind->count)),
            or_none(kind->predicted_s, units_seconds(arena, kind->predicted_s)),
            or_none(kind->measured_s, units_seconds(arena, kind->measured_s)),
            kind->predicted_s > 0 ? page_signed_percent(arena, ratio) : "-",
            or_none(kind->predicted_bytes, units_bytes(arena, kind->predicted_bytes)),
            or_none(kind->measured_bytes, units_bytes(arena, kind->measured_bytes)),
        };
        const double sorts[] = {0,
                                0,
                                kind->count,
                                kind->predicted_s,
                                kind->measured_s,
                                ratio,
                                kind->predicted_bytes,
                                kind->measured_bytes};
        page_table_row(&table, false, cells, sorts);
    }
    page_table_close(&table);
}

static void put_ranks(struct markup *page, const struct run_ranks *ranks)
{
    assert(ranks->rank_count > 0);
    static const char *const HEADS[] = {"rank",      "stage", "computes", "predicted",
                                        "exchanges", "waits", "behind",   "of the critical path"};
    struct arena *arena = page->arena;
    int count = ranks->rank_count < RANKS_MAX ? ranks->rank_count : RANKS_MAX;
    markup_put(page, "<h3>By rank, stragglers first</h3>\n");
    page_paragraph(
        page,
        arena_print(arena,
                    "Behind is how much longer a rank computes than the median of its "
                    "stage, in the traced step.%s",
                    count < ranks->rank_count
                        ? arena_print(arena, " These are %d of %d ranks.", count, ranks->rank_count)
                        : ""));
    struct page_table table = page_table_open(page, "nnnnnnnn", true, HEADS);
    for (int i = 0; i < count; i++) {
        const struct rank_times *times = &ranks->ranks[i];
        const char *cells[] = {
            arena_print(arena, "%d", times->rank),
            arena_print(arena, "%d", times->stage),
            units_seconds(arena, times->compute_s),
            or_none(times->predicted_compute_s, units_seconds(arena, times->predicted_compute_s)),
            or_none(times->exchange_s, units_seconds(arena, times->exchange_s)),
            or_none(times->wait_s, units_seconds(arena, times->wait_s)),
            page_signed_percent(arena, times->behind_ratio),
            units_ratio(arena, times->path_s / ranks->step_s),
        };
        const double sorts[] = {
            times->rank,       times->stage,  times->compute_s,    times->predicted_compute_s,
            times->exchange_s, times->wait_s, times->behind_ratio, times->path_s};
        page_table_row(&table, false, cells, sorts);
    }
    page_table_close(&table);
}

static void put_path(struct markup *page, const struct run_ranks *ranks)
{
    assert(ranks->part_count <= PATH_PARTS_MAX);
    static const char *const HEADS[] = {"on the critical path", "time", "share of the step"};
    struct arena *arena = page->arena;
    markup_put(page, "<h3>The critical path</h3>\n");
    page_paragraph(page, "The chain of tasks, over all ranks, that made the traced step as long as "
                         "it was: where an exchange waited for its last rank, the chain goes on "
                         "with what that rank did before.");
    struct page_table table = page_table_open(page, "lnn", true, HEADS);
    for (int i = 0; i < ranks->part_count; i++) {
        const struct path_part *part = &ranks->parts[i];
        const char *cells[] = {part->what, units_seconds(arena, part->s),
                               units_ratio(arena, part->s / ranks->step_s)};
        const double sorts[] = {0, part->s, part->s};
        page_table_row(&table, false, cells, sorts);
    }
    page_table_close(&table);
}

bool section_measured(struct markup *page, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    if (report->run) {
        put_lead(page, report);
        put_kinds(page, report->run);
    }
    if (report->ranks.rank_count > 0) {
        put_ranks(page, &report->ranks);
        put_path(page, &report->ranks);
    } else if (report->run) {
        page_paragraph(page, "The run has no trace: nothing is known of its ranks.");
    }
    history_put(page, report->history);
    return report->run || report->history;
}

static void write_ranks(struct json_writer *writer, const struct run_ranks *ranks)
{
    json_open(writer, "ranks", '[');
    for (int i = 0; i < ranks->rank_count; i++) {
        const struct rank_times *times = &ranks->ranks[i];
        json_open_flat(writer, NULL, '{');
        json_put_i64(writer, "rank", times->rank);
        json_put_i64(writer, "stage", times->stage);
        json_put_f64(writer, "compute_s", times->compute_s);
        json_put_f64(writer, "predicted_compute_s", times->predicted_compute_s);
        json_put_f64(writer, "exchange_s", times->exchange_s);
        json_put_f64(writer, "wait_s", times->wait_s);
        json_put_f64(writer, "behind_ratio", times->behind_ratio);
        json_put_f64(writer, "path_s", times->path_s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_open(writer, "critical_path", '[');
    for (int i = 0; i < ranks->part_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "what", ranks->parts[i].what);
        json_put_f64(writer, "s", ranks->parts[i].s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

void measured_write(struct json_writer *writer, const struct report *report)
{
    const struct measured_run *run = report->run;
    if (!run) return;
    json_open(writer, "measured", '{');
    json_put_f64(writer, "step_s", run->median_s);
    json_put_f64s(writer, "steps_s", run->step_s, run->step_count);
    json_put_f64(writer, "tokens_per_s", run->tokens_per_s);
    json_put_f64(writer, "peak_bytes", run->peak_bytes);
    json_put_f64(writer, "traced_step_s", report->ranks.step_s);
    json_open(writer, "kinds", '[');
    for (int i = 0; i < run->kind_count; i++) {
        const struct measured_kind *kind = &run->kinds[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "group", kind->group);
        json_put_text(writer, "kind", kind->kind);
        json_put_f64(writer, "predicted_s", kind->predicted_s);
        json_put_f64(writer, "measured_s", kind->measured_s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    write_ranks(writer, &report->ranks);
    json_close(writer, '}');
}
