#include "reports/table/routed_text.h"
#include "core/units.h"

#include <assert.h>

static const char *seconds_text(struct arena *arena, double value)
{
    return units_seconds(arena, value);
}

static const char *bytes_text(struct arena *arena, double value)
{
    return units_bytes(arena, value);
}

static const char *ratio_text(struct arena *arena, double value)
{
    return arena_print(arena, "%.2f", value);
}

static const char *rows_text(struct arena *arena, double value)
{
    return units_count(arena, value);
}

static char *spread_text(struct arena *arena, const char *name, const struct routed_spread *spread,
                         const char *(*text)(struct arena *arena, double value))
{
    assert(spread->p50 <= spread->p90 && spread->p90 <= spread->p99);
    return arena_print(arena, "%-34s %11s %11s %11s\n", name, text(arena, spread->p50),
                       text(arena, spread->p90), text(arena, spread->p99));
}

static char *remedies_text(struct arena *arena, const struct routed *routed)
{
    char *text = arena_print(arena, "\n%-34s %11s\n%-34s %11s\n", "", "median step",
                             "experts placed anew in each layer",
                             units_seconds(arena, routed->replaced_step_s));
    for (int i = 0; i < routed->replica_count; i++) {
        const struct routed_remedy *at = &routed->replicas[i];
        text = arena_print(arena, "%s%-34s %11s  and up to %s a rank more\n", text,
                           arena_print(arena, "with the %.0f hottest on every rank", at->amount),
                           units_seconds(arena, at->step_s),
                           units_bytes(arena, (double)at->added_bytes));
    }
    for (int i = 0; i < routed->capacity_count; i++) {
        const struct routed_remedy *at = &routed->capacities[i];
        text = arena_print(arena, "%s%-34s %11s  and %.1f %% of the rows dropped\n", text,
                           arena_print(arena, "a capacity of %g times the mean", at->amount),
                           units_seconds(arena, at->step_s), 100 * at->dropped_ratio);
    }
    return text;
}

char *routed_text(struct arena *arena, const char *routing, const struct routed *routed)
{
    char *text = arena_print(
        arena,
        "\nRouting %s: %d experts on %d ranks, %d layers, %s tokens a group and micro-batch, "
        "%d steps drawn\n%-34s %11s %11s %11s\n",
        routing, routed->expert_count, routed->rank_count, routed->layer_count,
        units_count(arena, routed->tokens), routed->draw_count, "", "median", "90 %", "99 %");
    text = arena_print(
        arena, "%s%s", text,
        spread_text(arena, "busiest rank over the mean (layers)", &routed->imbalance, ratio_text));
    text = arena_print(arena, "%s%s", text,
                       spread_text(arena, "rows that it receives", &routed->rows, rows_text));
    text = arena_print(
        arena, "%s%s", text,
        spread_text(arena, "bytes that it receives", &routed->exchange_bytes, bytes_text));
    text =
        arena_print(arena, "%s%s", text, spread_text(arena, "step", &routed->step_s, seconds_text));
    text = arena_print(
        arena, "%s%s", text,
        spread_text(arena, "reserved memory of the fullest", &routed->reserved_bytes, bytes_text));
    return arena_print(arena,
                       "%sBalanced routing takes %s. Out of memory (%s): %.1f %% of the steps "
                       "drawn.\n%s",
                       text, units_seconds(arena, routed->balanced_step_s),
                       units_bytes(arena, (double)routed->device_bytes), 100 * routed->unfit_ratio,
                       remedies_text(arena, routed));
}

static void write_spread(struct json_writer *writer, const char *key,
                         const struct routed_spread *spread)
{
    assert(spread->p50 <= spread->p90 && spread->p90 <= spread->p99);
    json_open_flat(writer, key, '[');
    json_put_f64(writer, NULL, spread->p50);
    json_put_f64(writer, NULL, spread->p90);
    json_put_f64(writer, NULL, spread->p99);
    json_close(writer, ']');
}

void routed_write(struct json_writer *writer, const struct routed *routed)
{
    json_open(writer, "routing", '{');
    json_put_i64(writer, "expert_count", routed->expert_count);
    json_put_i64(writer, "rank_count", routed->rank_count);
    json_put_i64(writer, "layer_count", routed->layer_count);
    json_put_i64(writer, "draw_count", routed->draw_count);
    json_put_f64s(writer, "first_rows", routed->first_rows, routed->expert_count);
    json_put_f64(writer, "balanced_step_s", routed->balanced_step_s);
    write_spread(writer, "imbalance_ratio", &routed->imbalance);
    write_spread(writer, "row_count", &routed->rows);
    write_spread(writer, "exchange_bytes", &routed->exchange_bytes);
    write_spread(writer, "step_s", &routed->step_s);
    write_spread(writer, "reserved_bytes", &routed->reserved_bytes);
    json_put_f64(writer, "unfit_ratio", routed->unfit_ratio);
    json_put_f64(writer, "replaced_step_s", routed->replaced_step_s);
    json_open(writer, "replicas", '[');
    for (int i = 0; i < routed->replica_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_i64(writer, "replica_count", (int64_t)routed->replicas[i].amount);
        json_put_f64(writer, "step_s", routed->replicas[i].step_s);
        json_put_i64(writer, "added_bytes", routed->replicas[i].added_bytes);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_open(writer, "capacities", '[');
    for (int i = 0; i < routed->capacity_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_f64(writer, "capacity_factor", routed->capacities[i].amount);
        json_put_f64(writer, "step_s", routed->capacities[i].step_s);
        json_put_f64(writer, "dropped_ratio", routed->capacities[i].dropped_ratio);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}
