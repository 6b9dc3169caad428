#include "reports/table/inject_table.h"
#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

// "rank 137 x1.2", "nodes 0-3: NICs at 50.0 %"
const char *inject_cause_text(struct arena *arena, const struct injection_cause *cause)
{
    assert(cause->first <= cause->last);
    static const char *const WHAT[] = {"rank", "node", "node"};
    const char *place =
        cause->first == cause->last
            ? arena_print(arena, "%s %d", WHAT[cause->kind], cause->first)
            : arena_print(arena, "%ss %d-%d", WHAT[cause->kind], cause->first, cause->last);
    if (cause->kind == INJECT_RANK) return arena_print(arena, "%s x%.3g", place, cause->factor);
    return arena_print(arena, "%s: %s at %s", place, cause->kind == INJECT_NIC ? "NICs" : "links",
                       units_ratio(arena, cause->factor));
}

// The most expensive first; `order` holds the causes' indices.
static int *rank_causes(struct arena *arena, const struct injection_result *result, int count)
{
    int *order = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && result->effects[order[at - 1]].alone_s < result->effects[i].alone_s; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

static const char *longer(struct arena *arena, double seconds, double than_s)
{
    assert(than_s > 0);
    return units_signed_percent(arena, seconds / than_s - 1);
}

static char *effects_text(struct arena *arena, const struct injection *injection,
                          const struct injection_result *result)
{
    static const char *const HEADER[] = {"step", "time", "vs planned", "without it"};
    struct table table = table_new(arena, "lrrr");
    double planned_s = result->planned_s;
    table_row(&table, HEADER);
    table_row(&table, (const char *const[]){"as planned", units_seconds(arena, planned_s), "", ""});
    int *order = rank_causes(arena, result, injection->count);
    for (int i = 0; i < injection->count; i++) {
        const struct injection_effect *effect = &result->effects[order[i]];
        table_row(&table,
                  (const char *const[]){inject_cause_text(arena, &injection->causes[order[i]]),
                                        units_seconds(arena, effect->alone_s),
                                        longer(arena, effect->alone_s, planned_s),
                                        longer(arena, effect->without_s, planned_s)});
    }
    if (injection->jitter_ratio > 0) {
        table_row(
            &table,
            (const char *const[]){
                arena_print(arena, "jitter of %s", units_ratio(arena, injection->jitter_ratio)), "",
                units_signed_percent(arena, (result->step_s - result->steady_s) / planned_s),
                longer(arena, result->steady_s, planned_s)});
    }
    table_row(&table, (const char *const[]){"all of it", units_seconds(arena, result->step_s),
                                            longer(arena, result->step_s, planned_s), ""});
    return table_text(&table);
}

// Seconds with a sign; what rounding leaves is nothing.
static const char *signed_seconds(struct arena *arena, double seconds, double step_s)
{
    if (seconds < 5e-6 * step_s && seconds > -5e-6 * step_s) return "-";
    const char *text = units_seconds(arena, seconds < 0 ? -seconds : seconds);
    return arena_print(arena, "%s%s", seconds < 0 ? "-" : "+", text);
}

static char *shares_text(struct arena *arena, const struct injection_result *result)
{
    static const char *const HEADER[] = {"who", "ranks", "computes", "communicates", "waits"};
    struct table table = table_new(arena, "lrrrr");
    table_row(&table, HEADER);
    for (int i = 0; i < result->share_count; i++) {
        const struct injection_share *share = &result->shares[i];
        double step_s = result->step_s;
        table_row(&table,
                  (const char *const[]){share->who, units_count(arena, (double)share->rank_count),
                                        signed_seconds(arena, share->compute_s, step_s),
                                        signed_seconds(arena, share->communication_s, step_s),
                                        signed_seconds(arena, share->wait_s, step_s)});
    }
    return table_text(&table);
}

// The run of longer steps beside the planned one.
static const char *run_text(struct arena *arena, const struct money *planned,
                            const struct money *injected, double tokens)
{
    if (planned->train_s <= 0 || !isfinite(injected->train_s)) return "";
    const char *money = "";
    if (planned->currency) {
        money = arena_print(arena, ", %s %s instead of %s", units_count(arena, injected->total),
                            planned->currency, units_count(arena, planned->total));
    }
    return arena_print(arena, "%s tokens take %s instead of %s, %s GPU-hours instead of %s%s\n",
                       units_count(arena, tokens), units_duration(arena, injected->train_s),
                       units_duration(arena, planned->train_s),
                       units_count(arena, injected->gpu_hours),
                       units_count(arena, planned->gpu_hours), money);
}

char *inject_text(struct arena *arena, const struct injection *injection,
                  const struct injection_result *result, const struct money *planned,
                  const struct money *injected, double tokens)
{
    return arena_print(
        arena,
        "\nInjected: the step takes %s instead of %s, %s (%d timeline%s played)\n%s%s"
        "\nLonger than planned, for each rank\n%s",
        units_seconds(arena, result->step_s), units_seconds(arena, result->planned_s),
        longer(arena, result->step_s, result->planned_s), result->timeline_count,
        result->timeline_count == 1 ? "" : "s", run_text(arena, planned, injected, tokens),
        effects_text(arena, injection, result), shares_text(arena, result));
}

static void write_cause(struct json_writer *writer, const struct injection_cause *cause,
                        const struct injection_effect *effect)
{
    static const char *const KINDS[] = {"slow-rank", "degraded-nic", "slow-link"};
    bool is_rank = cause->kind == INJECT_RANK;
    json_open_flat(writer, NULL, '{');
    assert((size_t)cause->kind < sizeof KINDS / sizeof *KINDS);
    json_put_text(writer, "kind", KINDS[cause->kind]);
    json_put_i64(writer, is_rank ? "first_rank" : "first_node", cause->first);
    json_put_i64(writer, is_rank ? "last_rank" : "last_node", cause->last);
    json_put_f64(writer, is_rank ? "slowdown_ratio" : "bandwidth_ratio", cause->factor);
    json_put_f64(writer, "alone_s", effect->alone_s);
    json_put_f64(writer, "without_s", effect->without_s);
    json_close(writer, '}');
}

void inject_write(struct json_writer *writer, const struct injection *injection,
                  const struct injection_result *result, const struct money *injected)
{
    json_open(writer, "injection", '{');
    json_put_f64(writer, "planned_s", result->planned_s);
    json_put_f64(writer, "steady_s", result->steady_s);
    json_put_f64(writer, "step_s", result->step_s);
    if (injected->train_s > 0 && isfinite(injected->train_s)) {
        json_put_f64(writer, "train_s", injected->train_s);
        json_put_f64(writer, "gpu_hours", injected->gpu_hours);
        json_put_f64(writer, "total", injected->total);
    }
    json_put_f64(writer, "jitter_ratio", injection->jitter_ratio);
    json_put_i64(writer, "timeline_count", result->timeline_count);
    json_open(writer, "causes", '[');
    for (int i = 0; i < injection->count; i++)
        write_cause(writer, &injection->causes[i], &result->effects[i]);
    json_close(writer, ']');
    json_open(writer, "ranks", '[');
    for (int i = 0; i < result->share_count; i++) {
        const struct injection_share *share = &result->shares[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "who", share->who);
        json_put_i64(writer, "rank_count", share->rank_count);
        json_put_f64(writer, "compute_s", share->compute_s);
        json_put_f64(writer, "communication_s", share->communication_s);
        json_put_f64(writer, "wait_s", share->wait_s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}
