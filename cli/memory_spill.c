#include "cli/memory_bug.h"
#include "cli/memory_run.h"

#include "memory/spill/spill.h"
#include "topologies/cluster.h"

// --recompute auto and --offload auto of a graph.

// What the choice costs has to be known: nothing is assumed. Operators of which the graph does not
// say what they take are never run again.
static bool find_costs(struct arena *arena, const struct memory_arguments *arguments,
                       const struct memory_graph *graph, const double *operator_s,
                       struct spill_request *request, struct err *err)
{
    if (arguments->capacity == 0)
        return err_set(err, ERR_USAGE, "--recompute and --offload of a graph need --capacity");
    if (arguments->offload && !arguments->cluster)
        return err_set(err, ERR_USAGE,
                       "--offload of a graph needs --cluster, whose link to the "
                       "host is taken");
    if (arguments->cluster) {
        const struct cluster *cluster = cluster_load(arena, arguments->cluster, err);
        if (!cluster) return false;
        request->move_bytes_per_s = cluster->nodes[0].host.pcie_bytes_per_s;
        // A copy is given to the device as a kernel is.
        request->move_start_s = cluster->nodes[0].device->launch_latency_s;
    }
    if (!arguments->recompute) return true;
    double *seconds = ARENA_NEW(arena, double, graph->operator_count);
    bool is_known = operator_s != NULL;
    for (int i = 0; i < graph->operator_count && !operator_s; i++) {
        seconds[i] = graph->operators[i].seconds > 0 ? graph->operators[i].seconds : -1;
        is_known = is_known || seconds[i] > 0;
    }
    request->operator_s = operator_s ? operator_s : seconds;
    return is_known || err_set(err, ERR_USAGE,
                               "--recompute: no operator of %s has \"seconds\": running one again "
                               "has no price",
                               arguments->input);
}

bool memory_spill(struct arena *arena, const struct memory_arguments *arguments,
                  const struct memory_graph *graph, const double *operator_s, int64_t alignment,
                  const struct spill_result **spilled, struct err *err)
{
    struct memory_options options = memory_options_of(arguments, alignment);
    struct spill_request request = {
        .graph = graph,
        .options = &options,
        .may_recompute = arguments->recompute != NULL,
        .may_move = arguments->offload != NULL,
    };
    if (!find_costs(arena, arguments, graph, operator_s, &request, err)) return false;
    if (!memory_method_from_name(arguments->method, &options.method)) return false;
    struct memory_watch watch;
    memory_watch_start(&watch, arguments, &options);
    struct arena scratch = {0};
    struct spill_result *made = ARENA_NEW(arena, struct spill_result, 1);
    bool ok = spill_graph(arena, &scratch, &request, made, err);
    arena_free(&scratch);
    memory_watch_end(&watch);
    *spilled = made;
    return ok || (err->kind == ERR_SYSTEM && memory_save_graph(arena, graph, err));
}
