#include "core/units.h"
#include "reports/page/section.h"
#include "reports/table/band_text.h"
#include "reports/table/inject_table.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What was asked first: does it fit, how long, how much, how sure.

static bool plan_fits(const struct report *report)
{
    const struct evaluation *evaluation = report->evaluation;
    return evaluation->prediction.reserved_bytes <= evaluation->prediction.device_bytes &&
           hosts_shortfall(&evaluation->hosts) == 0;
}

static void put_chip(struct markup *page, const char *class, const char *text)
{
    markup_print(page, "<li class=\"%s\">", class);
    markup_prose(page, text);
    markup_put(page, "</li>");
}

// The proof is of predicted times, and true of these.
static void put_proof(struct markup *page, const struct report *report)
{
    assert(report->kept.status == SEARCH_OPTIMAL);
    int count = band_overlap_count(&report->kept, &report->evaluation->prediction);
    if (count < 2) {
        put_chip(page, "good", "proven optimal");
        return;
    }
    put_chip(page, "warn",
             arena_print(page->arena, "proven first of %d that the band cannot tell apart", count));
}

static void put_chips(struct markup *page, const struct report *report)
{
    const struct search_result *kept = &report->kept;
    const struct band *band = report->evaluation->prediction.band;
    bool fits = plan_fits(report);
    markup_put(page, "<ul class=\"chips\">");
    bool is_narrow = memory_fit(&report->evaluation->prediction) == MEMORY_FITS_NARROWLY;
    put_chip(page,
             !fits       ? "bad"
             : is_narrow ? "warn"
                         : "good",
             !fits       ? "does not fit"
             : is_narrow ? "fits narrowly"
                         : "fits");
    double step_s = report->evaluation->prediction.step_s;
    if (kept->status == SEARCH_OPTIMAL) {
        put_proof(page, report);
    } else if (kept->status == SEARCH_BEST_OF) {
        const char *count = units_count(page->arena, kept->considered_count);
        put_chip(page, "warn", arena_print(page->arena, "best of %s plans", count));
    } else if (kept->status == SEARCH_FEASIBLE && kept->bound_s > 0) {
        double gap = fmax(step_s / kept->bound_s - 1, 0);
        put_chip(page, "warn", arena_print(page->arena, "within %.1f %% of optimal", 100 * gap));
    } else if (kept->status == SEARCH_FEASIBLE) {
        put_chip(page, "warn", "heuristic");
    } else if (kept->status == SEARCH_STOPPED) {
        put_chip(page, "warn", "best so far: the search was stopped");
    }
    if (band) {
        const char *class = band->confidence == CONFIDENCE_VALIDATED ? "good" : "warn";
        put_chip(page, class, confidence_name(band->confidence));
    }
    markup_put(page, "</ul>\n");
}

// "This plan does not fit: a GPU is 3 GiB short of memory."
static void put_lack(struct markup *page, const struct report *report)
{
    const struct evaluation *evaluation = report->evaluation;
    const struct prediction *prediction = &evaluation->prediction;
    int64_t lack = prediction->reserved_bytes - prediction->device_bytes;
    const char *who =
        arena_print(page->arena, "a %s is", cluster_device_noun(report->request->cluster));
    const char *what = "memory";
    if (lack <= 0) {
        lack = hosts_shortfall(&evaluation->hosts);
        who = "a host is";
        what = hosts_lack(&evaluation->hosts);
    }
    assert(lack > 0 && "who does not fit lacks something");
    markup_put(page, "<strong>This plan does not fit</strong>: ");
    markup_prose(page,
                 arena_print(page->arena, "%s %s short of %s. If it did fit, with the layout ", who,
                             units_bytes(page->arena, (double)lack), what));
}

// "5.19 s (4.32 s to 5.99 s)": a number of the data, and the ends of its band where there is one.
static void put_banded(struct markup *page, const char *path, const char *text, const char *low,
                       const char *high, bool has_band)
{
    markup_put(page, "<strong>");
    page_value(page, path, text);
    markup_put(page, "</strong>");
    if (has_band) markup_prose(page, arena_print(page->arena, " (%s to %s)", low, high));
}

static void put_run(struct markup *page, const struct report *report)
{
    assert(report->request->workload.tokens > 0);
    struct arena *arena = page->arena;
    const struct prediction *prediction = &report->evaluation->prediction;
    const struct money *low = &prediction->money_low, *high = &prediction->money_high;
    bool has_band = prediction->band && isfinite(high->train_s);
    markup_prose(page, arena_print(arena, "training on %s tokens takes ",
                                   units_count(arena, report->request->workload.tokens)));
    put_banded(page, "prediction.money.train_s", units_duration(arena, prediction->money.train_s),
               units_duration(arena, low->train_s), units_duration(arena, high->train_s), has_band);
    if (prediction->goodput.is_known) markup_put(page, ", interruptions included,");
    if (prediction->money.total > 0) {
        const char *currency = prediction->money.currency;
        markup_put(page, " and costs ");
        put_banded(
            page, "prediction.money.total",
            arena_print(arena, "%s %s", units_count(arena, prediction->money.total), currency),
            units_count(arena, low->total), units_count(arena, high->total), has_band);
    } else {
        markup_prose(page, arena_print(arena, " and %s %s-hours",
                                       units_count(arena, prediction->money.gpu_hours),
                                       cluster_device_noun(report->request->cluster)));
    }
    markup_put(page, "; ");
}

// The plan in one sentence: the layout, how long, how much, and how sure that is.
static void put_lead(struct markup *page, const struct report *report)
{
    struct arena *arena = page->arena;
    const struct prediction *prediction = &report->evaluation->prediction;
    bool fits = plan_fits(report), has_band = prediction->band && prediction->step_s_high > 0;
    markup_put(page, "<p class=\"lead\">");
    if (!fits) put_lack(page, report);
    markup_put(page, fits ? "With the layout <code>" : "<code>");
    markup_text(page, parallel_text(arena, &report->request->parallel, report->request->stack));
    markup_put(page, "</code>, ");
    if (report->request->workload.tokens > 0 && isfinite(prediction->money.train_s))
        put_run(page, report);
    markup_put(page, "a step takes ");
    put_banded(page, "prediction.step_s", units_seconds(arena, prediction->step_s),
               units_seconds(arena, prediction->step_s_low),
               units_seconds(arena, prediction->step_s_high), has_band);
    markup_put(page, ".");
    if (has_band)
        markup_prose(page, " Nine runs in ten should fall within the ranges in brackets.");
    markup_put(page, "</p>\n");
}

static void open_tile(struct markup *page, const char *name, const char *path, const char *value)
{
    markup_put(page, "<div class=\"tile\"><h3>");
    markup_text(page, name);
    markup_put(page, "</h3><p class=\"big\">");
    page_value(page, path, value);
    markup_put(page, "</p>");
}

// A tile without words below its number has no empty paragraph.
static void close_tile(struct markup *page, const char *text)
{
    if (*text) markup_put(page, "<p>");
    markup_prose(page, text);
    markup_put(page, *text ? "</p></div>\n" : "</div>\n");
}

// The band as a bar, with the prediction in it.
static void put_step_tile(struct markup *page, const struct evaluation *evaluation)
{
    const struct prediction *prediction = &evaluation->prediction;
    struct arena *arena = page->arena;
    open_tile(page, "Time of a step", "prediction.step_s",
              units_seconds(arena, prediction->step_s));
    if (prediction->band && prediction->step_s_high > 0) {
        double scale = 100 / (1.1 * prediction->step_s_high);
        markup_print(page,
                     "<div class=\"meter\"><i class=\"b0\" style=\"left:%.1f%%;width:%.1f%%;"
                     "opacity:.5\"></i><i class=\"mark\" style=\"left:%.1f%%\"></i></div>",
                     scale * prediction->step_s_low,
                     scale * (prediction->step_s_high - prediction->step_s_low),
                     scale * prediction->step_s);
    }
    close_tile(page, band_text(arena, prediction, evaluation->graph));
}

static void put_speed_tile(struct markup *page, const struct evaluation *evaluation,
                           const char *device)
{
    const struct prediction *prediction = &evaluation->prediction;
    struct arena *arena = page->arena;
    open_tile(page, model_has_samples(evaluation->graph) ? "Samples a second" : "Tokens a second",
              "prediction.tokens_per_s", units_count(arena, prediction->tokens_per_s));
    close_tile(page, arena_print(arena, "%s %s and %s per %s, MFU %s",
                                 units_count(arena, prediction->tokens_per_s_per_gpu),
                                 model_rate_text(evaluation->graph),
                                 units_flop_per_s(arena, prediction->model_flop_per_s_per_gpu),
                                 device, units_ratio(arena, prediction->mfu_ratio)));
}

static void put_money_tile(struct markup *page, const struct report *report)
{
    struct arena *arena = page->arena;
    const struct prediction *prediction = &report->evaluation->prediction;
    const struct money *money = &prediction->money;
    double tokens = report->request->workload.tokens;
    if (tokens <= 0) return;
    if (!isfinite(money->train_s)) {
        open_tile(page, arena_print(arena, "%s tokens", units_count(arena, tokens)),
                  "prediction.money.train_s", "never");
        close_tile(page, "interruptions come faster than checkpoints");
        return;
    }
    const char *days = units_duration(arena, money->train_s);
    open_tile(page, arena_print(arena, "%s tokens", units_count(arena, tokens)),
              "prediction.money.train_s", days);
    const char *text = "";
    if (prediction->band) {
        text =
            arena_print(arena, "%s to %s; ", units_duration(arena, prediction->money_low.train_s),
                        units_duration(arena, prediction->money_high.train_s));
    }
    if (prediction->goodput.is_known) {
        text = arena_print(arena, "%s%s if nothing fails; ", text,
                           units_duration(arena, money->uninterrupted_s));
    }
    text = arena_print(arena, "%s%s %s-hours", text, units_count(arena, money->gpu_hours),
                       cluster_device_noun(report->request->cluster));
    if (money->total > 0) {
        text = arena_print(arena, "%s; %s %s, or %s %s per billion tokens", text,
                           units_count(arena, money->total), money->currency,
                           units_count(arena, money->per_billion_tokens), money->currency);
    } else {
        text = arena_print(arena, "%s; the cluster file has no price", text);
    }
    close_tile(page, text);
}

static void put_memory_tile(struct markup *page, const struct report *report)
{
    struct arena *arena = page->arena;
    const struct evaluation *evaluation = report->evaluation;
    const struct prediction *prediction = &evaluation->prediction;
    double limit = (double)prediction->device_bytes;
    double peak = (double)prediction->peak_bytes, reserved = (double)prediction->reserved_bytes;
    assert(limit > 0 && peak <= reserved);
    double scale = 100 / fmax(limit, reserved);
    bool fits = reserved <= limit;
    open_tile(page, fits ? "Memory to spare" : "Memory missing", "memory.headroom_bytes",
              units_bytes(arena, fabs(limit - reserved)));
    markup_print(page,
                 "<div class=\"meter\"><i class=\"b0\" style=\"left:0;width:%.1f%%\"></i>"
                 "<i class=\"b4\" style=\"left:%.1f%%;width:%.1f%%\"></i>"
                 "<i class=\"mark\" style=\"left:%.1f%%\"></i></div>",
                 scale * peak, scale * peak, scale * (reserved - peak), fmin(scale * limit, 99.5));
    const char *stage = evaluation->program->shape.stage_count > 1
                            ? arena_print(arena, " on stage %d", evaluation->worst_stage)
                            : "";
    const char *fit =
        memory_band_text(arena, prediction, evaluation->graph, report->request->stack->name);
    close_tile(page, arena_print(arena, "%s allocated and %s reserved of %s%s%s%s",
                                 units_bytes(arena, peak), units_bytes(arena, reserved),
                                 units_bytes(arena, limit), stage, *fit ? "; " : "", fit));
}

static void put_goodput_tile(struct markup *page, const struct goodput *goodput)
{
    struct arena *arena = page->arena;
    if (!goodput->is_known) return;
    open_tile(page, "Goodput", "prediction.reliability.goodput_ratio",
              units_ratio(arena, goodput->goodput_ratio));
    const char *text = arena_print(
        arena, "of the time makes progress: an interruption every %s, a checkpoint every %s",
        units_duration(arena, goodput->mtbf_s), units_duration(arena, goodput->interval_s));
    if (!isfinite(goodput->expected_s)) {
        text = arena_print(arena, "%s; with them the run never ends", text);
    } else if (goodput->expected_s > 0) {
        text = arena_print(arena, "%s; bad luck holds 1 run in 10 up past %s", text,
                           units_duration(arena, goodput->finish_s[GOODPUT_QUANTILE_COUNT - 1]));
    }
    close_tile(page, text);
}

static void put_injection_tile(struct markup *page, const struct report *report)
{
    struct arena *arena = page->arena;
    const struct injection_result *result = &report->injected;
    if (!report->injection) return;
    open_tile(page, "With the faults", "injection.step_s", units_seconds(arena, result->step_s));
    const char *text = arena_print(
        arena, "a step, %s", page_signed_percent(arena, result->step_s / result->planned_s - 1));
    const char *before = ": ";
    for (int i = 0; i < report->injection->count && i < 4; i++) {
        text = arena_print(arena, "%s%s%s", text, before,
                           inject_cause_text(arena, &report->injection->causes[i]));
        before = ", ";
    }
    if (report->injection->jitter_ratio > 0)
        text = arena_print(arena, "%s%sjitter of %s", text, before,
                           units_ratio(arena, report->injection->jitter_ratio));
    const struct money *money = &report->evaluation->prediction.money;
    const struct money_request asked =
        evaluation_money(report->request, report->evaluation, result->step_s);
    if (money->train_s > 0) {
        text = arena_print(arena, "%s; the run takes %s instead of %s", text,
                           units_duration(arena, money_mean_of(&asked).train_s),
                           units_duration(arena, money->train_s));
    }
    close_tile(page, text);
}

bool section_verdict(struct markup *page, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    put_chips(page, report);
    put_lead(page, report);
    bool has_money = report->request->workload.tokens > 0;
    bool has_goodput = report->evaluation->prediction.goodput.is_known;
    int tiles = 3 + has_money + has_goodput + (report->injection != NULL);
    markup_print(page, "<div class=\"tiles\" style=\"--columns:%d\">\n", tiles == 6 ? 3 : tiles);
    put_step_tile(page, report->evaluation);
    put_speed_tile(page, report->evaluation, cluster_device_noun(report->request->cluster));
    put_money_tile(page, report);
    put_memory_tile(page, report);
    put_goodput_tile(page, &report->evaluation->prediction.goodput);
    put_injection_tile(page, report);
    markup_put(page, "</div>\n");
    return true;
}
