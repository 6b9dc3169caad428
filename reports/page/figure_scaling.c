#include "core/units.h"
#include "reports/page/figure.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>

// The same model, batch and sequence length planned again for fewer and for more GPUs: how
// throughput grows, and what time costs.

static char *count_text(struct arena *arena, double count)
{
    return units_count(arena, count);
}

static bool fits(const struct report *report, int i)
{
    return report->scaled[i].status == SCENARIO_FITS;
}

static double gpus(const struct report *report, int i)
{
    assert(i >= 0 && i < report->scaling_count);
    return report->scaling[i].cluster->rank_count;
}

static const char *title_of(struct arena *arena, const struct report *report, int i)
{
    const struct prediction *prediction = &report->scaled[i].prediction;
    return arena_print(
        arena, "%s %ss: %s a step, %s %s each, MFU %s", units_count(arena, gpus(report, i)),
        cluster_device_noun(report->request->cluster), units_seconds(arena, prediction->step_s),
        units_count(arena, prediction->tokens_per_s_per_gpu),
        model_rate_text(report->evaluation->graph), units_ratio(arena, prediction->mfu_ratio));
}

// What this plan's throughput per GPU would give.
static void add_ideal(struct chart *chart, double each)
{
    struct chart_series *ideal = chart_add(chart, CHART_LINE, CHART_PLAIN, "in proportion");
    ideal->dashed = true;
    chart_mark(chart, ideal, &(struct chart_mark){.x0 = chart->x.low, .y0 = each * chart->x.low});
    chart_mark(chart, ideal, &(struct chart_mark){.x0 = chart->x.high, .y0 = each * chart->x.high});
}

// Ends a little outside of everything that is drawn; ticks at the counts themselves.
static void set_axes(struct chart *chart, const struct report *report, double each)
{
    double *at = ARENA_NEW(chart->arena, double, report->scaling_count);
    double least = INFINITY, most = 0, low = INFINITY, high = 0;
    int count = 0;
    for (int i = 0; i < report->scaling_count; i++) {
        if (!fits(report, i)) continue;
        double tokens_per_s = report->scaled[i].prediction.tokens_per_s;
        at[count++] = gpus(report, i);
        low = fmin(low, gpus(report, i));
        high = fmax(high, gpus(report, i));
        least = fmin(least, tokens_per_s);
        most = fmax(most, tokens_per_s);
    }
    chart->x = (struct chart_axis){
        .label = arena_print(chart->arena, "%ss", cluster_device_noun(report->request->cluster)),
        .scale = CHART_LOG,
        .low = low / 1.2,
        .high = 1.2 * high,
        .format = count_text,
        .at = at,
        .at_count = count};
    chart->y = (struct chart_axis){.label = "tokens a second",
                                   .scale = CHART_LOG,
                                   .low = fmin(least / 1.4, each * chart->x.low),
                                   .high = fmax(1.4 * most, each * chart->x.high),
                                   .format = count_text};
}

static void add_counts(struct chart *chart, const struct report *report, double each)
{
    assert(each > 0);
    struct chart_series *line = chart_add(chart, CHART_LINE, CHART_FORWARD, "predicted");
    struct chart_series *dots = chart_add(chart, CHART_POINTS, CHART_FORWARD, NULL);
    struct chart_series *labels = chart_add(chart, CHART_LABELS, CHART_FORWARD, NULL);
    labels->labels_left = true;
    for (int i = 0; i < report->scaling_count; i++) {
        if (!fits(report, i)) continue;
        const struct prediction *prediction = &report->scaled[i].prediction;
        struct chart_mark mark = {.x0 = gpus(report, i), .y0 = prediction->tokens_per_s};
        chart_mark(chart, line, &mark);
        mark.size = 5;
        mark.title = title_of(chart->arena, report, i);
        chart_mark(chart, dots, &mark);
        mark.title =
            arena_print(chart->arena, "%.0f %%", 100 * prediction->tokens_per_s_per_gpu / each);
        chart_mark(chart, labels, &mark);
    }
}

bool figure_scaling(const struct report_facts *facts, struct chart *chart)
{
    const struct report *report = facts->report;
    int count = 0;
    for (int i = 0; i < report->scaling_count; i++)
        count += fits(report, i);
    if (count < 2) return false;
    const struct prediction *own = &report->evaluation->prediction;
    double each = own->tokens_per_s_per_gpu;
    chart->name = "scaling";
    const char *noun = cluster_device_noun(report->request->cluster);
    chart->title =
        arena_print(chart->arena, "Throughput by number of %ss, each planned anew", noun);
    chart->how = arena_print(chart->arena,
                             "The dashed line is this plan's throughput per %s times their number; "
                             "the percentages say how much of it each number reaches. Batch and "
                             "sequence length are the plan's.",
                             noun);
    chart->height = 300;
    set_axes(chart, report, each);
    add_ideal(chart, each);
    add_counts(chart, report, each);
    double own_gpus = report->request->cluster->rank_count;
    if (own_gpus >= chart->x.low && own_gpus <= chart->x.high) {
        struct chart_series *plan = chart_add(chart, CHART_POINTS, CHART_LIMIT, "this plan");
        chart_mark(chart, plan,
                   &(struct chart_mark){
                       .x0 = own_gpus, .y0 = own->tokens_per_s, .size = 4, .title = "this plan"});
    }
    return true;
}

// Time and price of one way to do it, interruptions included; without a price GPU-hours stand for
// it.
struct scaling_offer {
    double s, price, gpu_count;
};

static struct scaling_offer offer_of(const struct cluster *cluster, const struct money *money)
{
    return (struct scaling_offer){money->train_s, money->currency ? money->total : money->gpu_hours,
                                  cluster->rank_count};
}

static void add_front(struct chart *chart, const struct scaling_offer *offers, int count)
{
    assert(count > 1);
    // Offers come by rising GPUs, time falls with them but where more GPUs do not help.
    struct chart_series *front =
        chart_add(chart, CHART_LINE, CHART_UPDATE, "no other is faster and cheaper");
    for (int i = count - 1; i >= 0; i--) {
        bool is_beaten = false;
        for (int k = 0; k < count; k++) {
            bool is_no_worse = offers[k].s <= offers[i].s && offers[k].price <= offers[i].price;
            bool is_better = offers[k].s < offers[i].s || offers[k].price < offers[i].price;
            is_beaten = is_beaten || (is_no_worse && is_better);
        }
        if (is_beaten) continue;
        chart_mark(chart, front,
                   &(struct chart_mark){.x0 = offers[i].s / 86400, .y0 = offers[i].price});
    }
}

static void set_offer_axes(struct chart *chart, const struct scaling_offer *offers, int count,
                           const char *price)
{
    assert(count > 1);
    double x_high = 0, y_high = 0, x_low = INFINITY, y_low = INFINITY;
    for (int i = 0; i < count; i++) {
        x_low = fmin(x_low, offers[i].s / 86400);
        x_high = fmax(x_high, offers[i].s / 86400);
        y_low = fmin(y_low, offers[i].price);
        y_high = fmax(y_high, offers[i].price);
    }
    chart->x = (struct chart_axis){
        .label = "days to finish", .scale = CHART_LOG, .low = x_low / 1.25, .high = 1.25 * x_high};
    double room = 0.12 * (y_high - y_low) + 0.02 * y_high;
    chart->y = (struct chart_axis){
        .label = price, .low = fmax(y_low - room, 0), .high = y_high + room, .format = count_text};
}

bool figure_pareto(const struct report_facts *facts, struct chart *chart)
{
    const struct report *report = facts->report;
    struct arena *arena = chart->arena;
    const struct cluster *cluster = report->request->cluster;
    bool has_money = cluster->price.per_gpu_hour > 0;
    struct scaling_offer *offers = ARENA_NEW(arena, struct scaling_offer, report->scaling_count);
    int count = 0;
    for (int i = 0; i < report->scaling_count; i++) {
        if (!fits(report, i) || report->scaling[i].workload.tokens <= 0) continue;
        offers[count++] = offer_of(report->scaling[i].cluster, &report->scaled[i].prediction.money);
    }
    if (count < 2) return false;
    chart->name = "pareto";
    chart->title = arena_print(arena, "Time and price of the whole run, by number of %ss",
                               cluster_device_noun(cluster));
    chart->how =
        "Each dot is a number of devices: further left is sooner, further down is cheaper. The "
        "line joins those that no other number beats in both. Days include interruptions where "
        "the cluster states its failures.";
    const char *noun = cluster_device_noun(cluster);
    set_offer_axes(chart, offers, count,
                   has_money ? cluster->price.currency : arena_print(arena, "%s-hours", noun));
    chart->height = 280;
    add_front(chart, offers, count);
    struct chart_series *dots = chart_add(chart, CHART_POINTS, CHART_FORWARD, NULL);
    struct chart_series *own = chart_add(chart, CHART_POINTS, CHART_LIMIT, "this plan");
    struct chart_series *labels = chart_add(chart, CHART_LABELS, CHART_FORWARD, NULL);
    for (int i = 0; i < count; i++) {
        const char *name = units_count(arena, offers[i].gpu_count);
        const char *title =
            arena_print(arena, "%s %ss: %.3g days, %s %s", name, noun, offers[i].s / 86400,
                        units_count(arena, offers[i].price), chart->y.label);
        struct chart_mark mark = {
            .x0 = offers[i].s / 86400, .y0 = offers[i].price, .size = 5, .title = title};
        chart_mark(chart, offers[i].gpu_count == cluster->rank_count ? own : dots, &mark);
        mark.title = name;
        chart_mark(chart, labels, &mark);
    }
    return true;
}

static const double GIB = 1024.0 * 1024.0 * 1024.0;

bool figure_choice(const struct report_facts *facts, struct chart *chart)
{
    const struct search_result *kept = &facts->report->kept;
    struct arena *arena = chart->arena;
    if (kept->best_count < 2) return false;
    double low_s = INFINITY, high_s = 0, low = INFINITY;
    double limit = (double)cluster_device_bytes(facts->report->request->cluster), high = limit;
    for (int i = 0; i < kept->best_count; i++) {
        const struct candidate *candidate = &kept->best[i];
        low_s = fmin(low_s, candidate->cost.step_s);
        high_s = fmax(high_s, candidate->cost.step_s);
        low = fmin(low, (double)candidate->memory.reserved_bytes);
        high = fmax(high, (double)candidate->memory.reserved_bytes);
    }
    assert(low_s > 0 && low_s <= high_s);
    double room_s = 0.12 * (high_s - low_s) + 1e-3 * high_s;
    const char *noun = cluster_device_noun(facts->report->request->cluster);
    const struct stack *stack = facts->report->request->stack;
    chart->name = "choice";
    chart->title = "Step time and memory of the best plans";
    chart->how = arena_print(arena,
                             "Further left is faster, further down needs less memory. The numbers "
                             "are those of the table below, 1 is this plan, and the dashed line is "
                             "what a %s has.",
                             noun);
    chart->x = (struct chart_axis){.label = "time of a step",
                                   .low = low_s - room_s,
                                   .high = high_s + room_s,
                                   .format = figure_seconds};
    chart->y = (struct chart_axis){
        .label = "GiB reserved", .low = fmax(0, 0.8 * low / GIB), .high = 1.05 * high / GIB};
    chart->height = 240;
    struct chart_series *others = chart_add(chart, CHART_POINTS, CHART_FORWARD, "alternatives");
    struct chart_series *own = chart_add(chart, CHART_POINTS, CHART_LIMIT, "this plan");
    struct chart_series *labels = chart_add(chart, CHART_LABELS, CHART_PLAIN, NULL);
    figure_level(chart, CHART_LIMIT, arena_print(arena, "what a %s has", noun), limit / GIB);
    for (int i = 0; i < kept->best_count; i++) {
        const struct candidate *candidate = &kept->best[i];
        struct chart_mark mark = {.x0 = candidate->cost.step_s,
                                  .y0 = (double)candidate->memory.reserved_bytes / GIB,
                                  .size = 6,
                                  .title =
                                      arena_print(arena, "%d, %s: %s, %.1f GiB", i + 1,
                                                  parallel_text(arena, &candidate->parallel, stack),
                                                  units_seconds(arena, candidate->cost.step_s),
                                                  (double)candidate->memory.reserved_bytes / GIB)};
        chart_mark(chart, i ? others : own, &mark);
        mark.title = arena_print(arena, "%d", i + 1);
        chart_mark(chart, labels, &mark);
    }
    return true;
}
