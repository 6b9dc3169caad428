#include "reports/table/uneven_text.h"

#include "core/units.h"
#include "reports/table/plan_table.h"

#include <assert.h>

// What the ranks of one device kind hold of the plan.
struct holding {
    int rank_count;
    bool *stages, *replicas;
};

static struct holding holding_of(struct arena *arena, const struct program *program, int kind)
{
    assert(kind >= 0 && kind < program->cluster->node_group_count);
    const struct cluster *cluster = program->cluster;
    struct holding held = {0, ARENA_NEW(arena, bool, program->shape.stage_count),
                           ARENA_NEW(arena, bool, program->parallel.degree[AXIS_DP])};
    int end = 0, rank = 0;
    for (int g = 0; g < cluster->node_group_count; g++) {
        end += cluster->nodes[g].count * cluster->nodes[g].gpus;
        bool is_own = cluster_device_kind(cluster, g) == kind;
        for (; rank < end && rank < program->mesh.rank_count; rank++) {
            if (!is_own) continue;
            held.rank_count++;
            held.stages[mesh_stage_of(&program->mesh, rank)] = true;
            held.replicas[program_replica(program, rank)] = true;
        }
    }
    return held;
}

// "stages 0-3, 6", "stage 0"
static const char *list_text(struct arena *arena, const char *noun, const bool *is_in, int count)
{
    assert(count > 0);
    const char *text = "";
    int listed = 0;
    for (int first = 0, end; first < count; first = end) {
        end = first + 1;
        if (!is_in[first]) continue;
        while (end < count && is_in[end])
            end++;
        listed += end - first;
        text = arena_print(arena, "%s%s%d", text, *text ? ", " : "", first);
        if (end > first + 1) text = arena_print(arena, "%s-%d", text, end - 1);
    }
    return arena_print(arena, "%s%s %s", noun, listed == 1 ? "" : "s", text);
}

static int layers_of(const struct program *program, const bool *stages)
{
    const struct graph *graph = program->graph;
    int chunks = program->shape.chunk_count, layers = 0;
    for (int c = 0; c < program->shape.stage_count * chunks; c++) {
        const struct chunk_span *span = &program->spans[c];
        for (int b = span->first; b < span->first + span->count && stages[c / chunks]; b++)
            layers += graph->blocks[graph->sequence[b]].role == BLOCK_LAYER;
    }
    return layers;
}

static const char *holding_text(struct arena *arena, const struct program *program, int kind)
{
    const struct parallel *parallel = &program->parallel;
    int64_t batch = program->workload.global_batch, micro_batches = 0;
    struct holding held = holding_of(arena, program, kind);
    const char *text =
        arena_print(arena, "%d x %s", held.rank_count, program->cluster->nodes[kind].device->name);
    int replicas = parallel->degree[AXIS_DP], stages = program->shape.stage_count;
    if (held.rank_count == 0) return "";
    for (int r = 0; r < replicas; r++) {
        if (held.replicas[r]) micro_batches += parallel_replica_count(parallel, batch, r);
    }
    if (stages > 1)
        text = arena_print(arena, "%s, %s with %d of %d layers", text,
                           list_text(arena, "stage", held.stages, stages),
                           layers_of(program, held.stages), program->graph->layer_count);
    if (replicas > 1)
        text = arena_print(arena, "%s, %s with %lld of %lld micro-batches", text,
                           list_text(arena, "replica", held.replicas, replicas),
                           (long long)micro_batches, (long long)(batch / parallel->micro_batch));
    return text;
}

static const char *against(struct arena *arena, double step_s, double best_s)
{
    assert(best_s > 0);
    return arena_print(arena, "%s a step (%+.1f %%)", units_seconds(arena, step_s),
                       100 * (step_s / best_s - 1));
}

// What one mesh for all stages would take.
static const char *meshes_text(struct arena *arena, const struct meshes_answer *answer,
                               const struct stack *stack, const struct search_result *result,
                               const struct evaluation *best)
{
    if (result->best_count > 0 && !parallel_has_meshes(&result->best[0].parallel))
        return "Stages with ranks of their own were tried: none is faster than one mesh for all\n";
    if (!answer->has_alike) return "Instead: one mesh for all stages: no plan fits\n";
    return arena_print(arena, "Instead: one mesh for all stages: %s, %s\n",
                       against(arena, answer->alike_s, best->prediction.step_s),
                       parallel_text(arena, &answer->alike, stack));
}

// What plans of the other kind would take.
static const char *branches_text(struct arena *arena, const struct branches_answer *answer,
                                 const struct stack *stack, bool is_branched, double best_s)
{
    const char *what = is_branched ? "one stage behind the other" : "branches side by side";
    if (!answer->has_other) return arena_print(arena, "%s: no plan fits\n", what);
    return arena_print(arena, "%s: %s, %s\n", what, against(arena, answer->other_s, best_s),
                       parallel_text(arena, &answer->other, stack));
}

const char *uneven_text(struct arena *arena, const struct search_request *request,
                        const struct search_result *result, const struct uneven_answer *answer,
                        const struct evaluation *best)
{
    const struct program *program = best->program;
    const struct cluster *cluster = program->cluster;
    double best_s = best->prediction.step_s;
    const char *text = "", *gap = "Devices: ";
    bool is_mixed = !cluster_has_one_device(cluster), is_pinned = request->pins.replica_count > 0;
    if (answer->meshes.is_asked)
        return meshes_text(arena, &answer->meshes, request->stack, result, best);
    if (result->best_count == 0) return text;
    if (answer->branches.is_asked)
        text = branches_text(arena, &answer->branches, request->stack, program->shape.tree != NULL,
                             best_s);
    const char *branches = text;
    if (!answer->is_asked) return *text ? arena_print(arena, "Instead: %s", text) : text;
    text = "";
    for (int g = 0; g < cluster->node_group_count; g++) {
        bool is_kind = cluster_device_kind(cluster, g) == g && (is_mixed || is_pinned);
        const char *held = is_kind ? holding_text(arena, program, g) : "";
        if (!*held) continue;
        text = arena_print(arena, "%s%s%s\n", text, gap, held);
        gap = "         ";
    }
    gap = "Instead: ";
    // Of like devices the best may be even.
    if (answer->has_even && (is_mixed || is_pinned || answer->even_s > best_s)) {
        text = arena_print(arena, "%s%san even split: %s, %s\n", text, gap,
                           against(arena, answer->even_s, best_s),
                           parallel_text(arena, &answer->even, request->stack));
        gap = "         ";
    }
    for (int i = 0; i < answer->alone_count; i++) {
        const struct uneven_alone *alone = &answer->alone[i];
        const char *what = arena_print(arena, "%d x %s alone", alone->cluster->rank_count,
                                       alone->cluster->nodes[0].device->name);
        const char *how = alone->is_found
                              ? arena_print(arena, "%s, %s", against(arena, alone->step_s, best_s),
                                            parallel_text(arena, &alone->parallel, request->stack))
                              : "no plan fits";
        text = arena_print(arena, "%s%s%s: %s\n", text, gap, what, how);
        gap = "         ";
    }
    if (*branches) text = arena_print(arena, "%s%s%s", text, gap, branches);
    if (!is_mixed || stack_is_executed(request->stack)) return text;
    return arena_print(arena,
                       "%s%sstack %s gives all replicas as many micro-batches; with --stack "
                       "meshwright fast devices may take more\n",
                       text, gap, request->stack->name);
}
