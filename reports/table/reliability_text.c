#include "reports/table/reliability_text.h"
#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

// A step has no failures: who says nothing of a run is told nothing of its end.
static bool is_asked(const struct cluster *cluster, double tokens,
                     const struct prediction *prediction)
{
    bool is_told = goodput_is_told(&cluster->failures);
    return prediction->goodput.is_known && (tokens > 0 || is_told);
}

static const char *assumed(bool is_assumed)
{
    return is_assumed ? " (assumed)" : "";
}

const char *reliability_sentence(struct arena *arena, const struct cluster *cluster, double tokens,
                                 const struct prediction *prediction)
{
    const struct goodput *goodput = &prediction->goodput;
    if (!is_asked(cluster, tokens, prediction)) return "";
    const char *text = arena_print(
        arena, "      goodput %s: an interruption every %s, a checkpoint of %s every %s",
        units_ratio(arena, goodput->goodput_ratio), units_duration(arena, goodput->mtbf_s),
        units_bytes(arena, (double)goodput->checkpoint_bytes),
        units_duration(arena, goodput->interval_s));
    if (goodput->expected_s <= 0) return arena_print(arena, "%s\n", text);
    if (!isfinite(goodput->expected_s))
        return arena_print(arena, "%s;\n      with them the run never ends\n", text);
    return arena_print(arena,
                       "%s;\n      with them %s in the mean, %s to %s in 4 of 5 runs, without "
                       "them %s\n",
                       text, units_duration(arena, prediction->money.train_s),
                       units_duration(arena, goodput->finish_s[0]),
                       units_duration(arena, goodput->finish_s[GOODPUT_QUANTILE_COUNT - 1]),
                       units_duration(arena, prediction->money.uninterrupted_s));
}

// The causes that there are, the most frequent first.
static const char *causes_text(struct arena *arena, const struct goodput *goodput)
{
    assert(goodput->mtbf_s > 0);
    const char *text = "";
    bool said[FAILURE_CAUSE_COUNT] = {false};
    for (int place = 0; place < FAILURE_CAUSE_COUNT; place++) {
        int most = -1;
        for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++) {
            bool is_more = most < 0 || goodput->cause_per_s[cause] > goodput->cause_per_s[most];
            if (!said[cause] && goodput->cause_per_s[cause] > 0 && is_more) most = cause;
        }
        if (most < 0) break;
        said[most] = true;
        text = arena_print(arena, "%s%s%s %s", text, place ? ", " : "",
                           failure_cause_name((enum failure_cause)most),
                           units_ratio(arena, goodput->cause_per_s[most] * goodput->mtbf_s));
    }
    return text;
}

static void put(struct table *table, const char *name, const char *text)
{
    table_row(table, (const char *const[]){name, text});
}

static void put_restart(struct table *table, const struct goodput *goodput,
                        const struct failures *failures)
{
    struct arena *arena = table->arena;
    put(table, "a restart",
        arena_print(arena, "%s%s, loading the checkpoint included%s",
                    units_duration(arena, goodput->restart_s), assumed(goodput->restart_is_assumed),
                    goodput->communicators_s > 0
                        ? arena_print(arena, ", %s of it for communicators",
                                      units_duration(arena, goodput->communicators_s))
                        : ""));
    if (failures->repair_s <= 0) return;
    put(table, "spare nodes",
        arena_print(arena, "%d, a failed one is back after %s: a restart waits %s for one",
                    failures->spare_nodes, units_duration(arena, failures->repair_s),
                    units_duration(arena, goodput->wait_s)));
}

static void put_run(struct table *table, double tokens, const struct prediction *prediction)
{
    const struct goodput *goodput = &prediction->goodput;
    const struct money *price = &prediction->money;
    struct arena *arena = table->arena;
    const char *name = arena_print(arena, "%s tokens", units_count(arena, tokens));
    if (!isfinite(goodput->expected_s)) {
        put(table, name, "never: interruptions come faster than checkpoints");
        return;
    }
    put(table, name,
        arena_print(arena, "%s expected; 10 %% of runs take %s, 50 %% %s, 90 %% %s",
                    units_duration(arena, goodput->expected_s),
                    units_duration(arena, goodput->finish_s[0]),
                    units_duration(arena, goodput->finish_s[1]),
                    units_duration(arena, goodput->finish_s[2])));
    const char *money = "";
    if (price->currency) {
        money = arena_print(arena, ", %s %s", units_count(arena, price->total), price->currency);
    }
    put(table, "cost",
        arena_print(arena, "%.1f interruptions, %s GPU-hours of %s GPUs%s", goodput->interruptions,
                    units_count(arena, price->gpu_hours), units_count(arena, price->gpu_count),
                    money));
}

const char *reliability_text(struct arena *arena, const struct cluster *cluster, double tokens,
                             const struct prediction *prediction)
{
    const struct goodput *goodput = &prediction->goodput;
    if (!is_asked(cluster, tokens, prediction)) return "";
    assert(goodput->goodput_ratio >= 0 && goodput->goodput_ratio <= 1 + 1e-9);
    struct table table = table_new(arena, "ll");
    table.head_count = 0;
    put(&table, "goodput",
        arena_print(arena, "%s; checkpoints %s, work done twice %s, restarts %s",
                    units_ratio(arena, goodput->goodput_ratio),
                    units_ratio(arena, goodput->checkpoint_ratio),
                    units_ratio(arena, goodput->lost_ratio),
                    units_ratio(arena, goodput->restart_ratio)));
    put(&table, "an interruption",
        arena_print(arena, "every %s", units_duration(arena, goodput->mtbf_s)));
    put(&table, "of it", causes_text(arena, goodput));
    put(&table, "a checkpoint",
        arena_print(arena, "%s at %s%s: %s, the job stands %s",
                    units_bytes(arena, (double)goodput->checkpoint_bytes),
                    units_bytes_per_s(arena, goodput->storage_bytes_per_s),
                    assumed(goodput->storage_is_assumed), units_duration(arena, goodput->write_s),
                    units_duration(arena, goodput->checkpoint_s)));
    put(&table, "interval",
        arena_print(arena, "%s of work, %s steps%s", units_duration(arena, goodput->interval_s),
                    units_count(arena, goodput->interval_s / prediction->step_s),
                    goodput->interval_is_best ? " (the best)" : ""));
    put_restart(&table, goodput, &cluster->failures);
    if (goodput->expected_s > 0) put_run(&table, tokens, prediction);
    return arena_print(arena, "\nReliability\n%s", table_text(&table));
}
