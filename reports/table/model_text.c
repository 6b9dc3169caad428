#include "reports/table/model_text.h"

#include "core/units.h"

#include <assert.h>

const char *parameters_text(struct arena *arena, double count, double active_count)
{
    assert(count >= 0 && active_count >= 0);
    const char *all = arena_print(arena, "%s parameters", units_count(arena, count));
    if (active_count >= count) return all;
    return arena_print(arena, "%s, %s active", all, units_count(arena, active_count));
}

const char *model_text(struct arena *arena, const char *name, const struct graph *graph)
{
    const char *parameters = parameters_text(arena, (double)graph->parameter_count,
                                             (double)graph->active_parameter_count);
    if (graph->expert_count == 0) return arena_print(arena, "%s (%s)", name, parameters);
    return arena_print(arena, "%s (%s: %lld of %lld experts)", name, parameters,
                       (long long)graph->top_k, (long long)graph->expert_count);
}

const char *model_config_text(struct arena *arena, const struct model_config *model)
{
    const struct import_options options = {.flash = true};
    return model_text(arena, model->name, model_graph(arena, model, &options));
}

bool model_has_samples(const struct graph *graph)
{
    return graph->seq_len_max == 1;
}

const char *model_rate_text(const struct graph *graph)
{
    return model_has_samples(graph) ? "samples/s" : "tokens/s";
}

const char *model_config_rate_text(struct arena *arena, const struct model_config *model)
{
    const struct import_options options = {.flash = true};
    return model_rate_text(model_graph(arena, model, &options));
}
