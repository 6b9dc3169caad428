#include "core/table.h"
#include "core/units.h"
#include "reports/comparison/run_compare.h"

#include <assert.h>

// Which way attention went: fused kernels, or scores in memory, and why.

static const char *shape_text(struct arena *arena, const struct attention_path *way)
{
    assert(way->heads > 0 && way->width > 0);
    const char *heads = way->kv_heads == way->heads
                            ? ""
                            : arena_print(arena, " (%lld of keys)", (long long)way->kv_heads);
    const char *values = way->value_width == way->width
                             ? ""
                             : arena_print(arena, " and %lld", (long long)way->value_width);
    return arena_print(arena, "%lld x %lld head%s%s, %s x %s%s, width %lld%s",
                       (long long)way->batch, (long long)way->heads, way->heads == 1 ? "" : "s",
                       heads, units_count(arena, (double)way->queries),
                       units_count(arena, (double)way->keys), way->causal ? " causal" : "",
                       (long long)way->width, values);
}

static const char *direction_of(const struct attention_path *way)
{
    return way->is_backward ? "backward" : "forward";
}

char *run_attention_text(struct arena *arena, const struct run_compare *compare)
{
    assert(compare->result->attention_count >= 0);
    const struct run_result *result = compare->result;
    if (result->attention_count == 0) return arena_print(arena, "%s", "");
    struct table table = table_new(arena, "lllrl");
    static const char *const HEADER[] = {"attention", "of a rank", "path", "ranks", ""};
    table_row(&table, HEADER);
    for (int i = 0; i < result->attention_count; i++) {
        const struct run_attention *row = &result->attentions[i];
        const char *cells[] = {arena_print(arena, "  %s", direction_of(&row->way)),
                               shape_text(arena, &row->way), row->way.path,
                               arena_print(arena, "%d", row->rank_count), row->way.reason};
        table_row(&table, cells);
    }
    return table_text(&table);
}

char *run_attention_refusal(struct arena *arena, const struct run_compare *compare)
{
    const struct run_result *result = compare->result;
    for (int i = 0; i < result->attention_count; i++) {
        const struct attention_path *way = &result->attentions[i].way;
        if (!way->is_refused) continue;
        return arena_print(arena,
                           "attention %s of %s ran unfused, slower than planned: its library "
                           "takes such shapes, but says: %s",
                           direction_of(way), shape_text(arena, way), way->reason);
    }
    return NULL;
}
