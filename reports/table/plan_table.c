#include "reports/table/plan_table.h"
#include "core/table.h"
#include "core/units.h"
#include "plan/passes.h"
#include "planner/explain.h"
#include "planner/ranking.h"
#include "reports/table/attention_text.h"
#include "reports/table/band_text.h"
#include "reports/table/cuts_text.h"
#include "reports/table/layout_legend.h"
#include "reports/table/model_text.h"
#include "reports/table/money_text.h"
#include "reports/table/reliability_text.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <string.h>

static const char *degrees_text(struct arena *arena, const struct parallel *parallel)
{
    const char *text = "", *data = "";
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        int degree = parallel->degree[axis];
        bool always = axis == AXIS_TP || axis == AXIS_PP || axis == AXIS_DP;
        if (degree == 1 && !always) continue;
        const char *how = "";
        if (axis == AXIS_TP && parallel->sp) how = " sp";
        if (axis == AXIS_TP && parallel->tp_kind != TP_1D)
            how = arena_print(arena, " %s", tp_kind_name(parallel->tp_kind));
        if (axis == AXIS_CP) how = arena_print(arena, " %s", cp_kind_name(parallel->cp_kind));
        const char *word = arena_print(arena, "%s%d%s ", axis_name(axis), degree, how);
        // Data parallelism comes last.
        if (axis == AXIS_DP) data = word;
        if (axis != AXIS_DP) text = arena_print(arena, "%s%s", text, word);
    }
    return arena_print(arena, "%s%s", text, data);
}

// " tp>pp>dp" where the axes do not lie in the default order; axes of one rank are left out.
static const char *order_text(struct arena *arena, const struct parallel *parallel)
{
    struct parallel other = *parallel;
    parallel_default_order(&other);
    bool is_default = true;
    const char *text = "";
    for (int i = 0, j = 0; i < parallel->order_count; i++) {
        if (parallel->degree[parallel->order[i]] == 1) continue;
        // Both orders hold the same axes, so that the default one has as many left.
        assert(j < other.order_count);
        while (parallel->degree[other.order[j]] == 1) {
            j++;
        }
        is_default = is_default && parallel->order[i] == other.order[j++];
        text = arena_print(arena, "%s%s%s", text, *text ? ">" : " ", axis_name(parallel->order[i]));
    }
    return is_default ? "" : text;
}

// " batches 8x5+8x3": 8 replicas of 5 micro-batches each, 8 of 3.
static const char *batches_text(struct arena *arena, const struct parallel *parallel)
{
    assert(parallel->replica_count == 0 || parallel->replica_micro_batches);
    const int *counts = parallel->replica_micro_batches;
    const char *text = "";
    for (int first = 0, end; first < parallel->replica_count; first = end) {
        end = first + 1;
        while (end < parallel->replica_count && counts[end] == counts[first])
            end++;
        text = arena_print(arena, "%s%s%dx%d", text, *text ? "+" : " batches ", end - first,
                           counts[first]);
    }
    return text;
}

// " stage-tp4,2,2"
static const char *meshes(struct arena *arena, const char *what, const int *numbers, int count)
{
    const char *text = count > 0 ? arena_print(arena, " %s", what) : "";
    for (int s = 0; s < count; s++)
        text = arena_print(arena, "%s%s%d", text, s ? "," : "", numbers[s]);
    return text;
}

// What a plan has to lay beside something else: no more than this can its overlaps differ in.
static unsigned overlaps_of(const struct parallel *parallel)
{
    static const struct {
        enum axis axis;
        unsigned overlaps;
    } OF[] = {
        {AXIS_DP, OVERLAP_GRAD_REDUCE | OVERLAP_PARAM_GATHER},
        {AXIS_TP, OVERLAP_TP},
        {AXIS_PP, OVERLAP_PP},
        {AXIS_CP, OVERLAP_CP},
        {AXIS_EP, OVERLAP_EP},
    };
    unsigned overlaps = 0;
    for (size_t i = 0; i < sizeof OF / sizeof *OF; i++)
        if (parallel->degree[OF[i].axis] > 1) overlaps |= OF[i].overlaps;
    return overlaps;
}

// " relay4 overlap none bucket16384": how messages are cut and what runs beside them, where that is
// not what the stack does by itself; what a row without its stack does is not known.
static const char *messages_text(struct arena *arena, const struct parallel *parallel,
                                 const struct stack *stack)
{
    const char *text = "";
    if (parallel->tp_relay > 1) text = arena_print(arena, " relay%d", parallel->tp_relay);
    unsigned has = overlaps_of(parallel), all = parallel->overlap;
    if (stack && (all ^ stack_overlap_default(stack, parallel->tp_relay)) & has)
        text = arena_print(arena, "%s overlap %s", text, overlap_text(arena, all & has));
    if (parallel->bucket_bytes > 0)
        text = arena_print(arena, "%s bucket%d", text, parallel->bucket_bytes);
    return text;
}

// " unfused lora 16 loss/8 passes none": what is computed otherwise than the stack does by itself.
static const char *computed_text(struct arena *arena, const struct parallel *parallel,
                                 const struct stack *stack)
{
    const char *text = "";
    if (parallel_is_unfused(parallel, stack)) text = " unfused";
    if (parallel->lora.rank > 0)
        text = arena_print(arena, "%s lora %s", text, adapters_words(arena, parallel->lora));
    if (parallel->loss_chunks > 1)
        text = arena_print(arena, "%s loss/%d", text, parallel->loss_chunks);
    if (parallel_has_other_passes(parallel, stack))
        text = arena_print(arena, "%s passes %s", text, pass_text(arena, parallel->passes));
    return text;
}

const char *parallel_text(struct arena *arena, const struct parallel *parallel,
                          const struct stack *stack)
{
    const char *text = arena_print(arena, "%smb%d z%d", degrees_text(arena, parallel),
                                   parallel->micro_batch, parallel->zero);
    if (parallel->zero_group > 0) text = arena_print(arena, "%s/%d", text, parallel->zero_group);
    if (parallel->zero_gradients > 0)
        text = arena_print(arena, "%s g%d", text, parallel->zero_gradients);
    if (parallel->zero_parameters > 0)
        text = arena_print(arena, "%s p%d", text, parallel->zero_parameters);
    if (parallel->vpp > 1) text = arena_print(arena, "%s v%d", text, parallel->vpp);
    // 1F1B is what is expected, and with more chunks than one interleaved.
    bool expected = parallel->schedule == SCHEDULE_1F1B ||
                    (parallel->schedule == SCHEDULE_INTERLEAVED && parallel->vpp > 1);
    if (parallel->degree[AXIS_PP] > 1 && !expected) {
        text = arena_print(arena, "%s %s", text, schedule_name(parallel->schedule));
        if (parallel->in_flight > 0) text = arena_print(arena, "%s:%d", text, parallel->in_flight);
    }
    if (parallel->recompute != RECOMPUTE_NONE) {
        text =
            arena_print(arena, "%s %s", text,
                        recompute_words(arena, parallel->recompute, parallel->recompute_classes));
        if (parallel->recompute_layers >= 0) {
            text = arena_print(arena, "%s:%d", text, parallel->recompute_layers);
        }
    }
    if (!offload_is_none(&parallel->offload)) {
        text = arena_print(arena, "%s offload %s", text, offload_words(arena, &parallel->offload));
    }
    text = arena_print(arena, "%s%s%s", text, computed_text(arena, parallel, stack),
                       messages_text(arena, parallel, stack));
    if (parallel->stage_layers_count > 0) text = arena_print(arena, "%s uneven", text);
    text = arena_print(arena, "%s%s", text, batches_text(arena, parallel));
    if (parallel_has_meshes(parallel))
        text = arena_print(
            arena, "%s%s%s", text,
            meshes(arena, "stage-ranks", parallel->stage_ranks, parallel->stage_ranks_count),
            meshes(arena, "stage-tp", parallel->stage_tp, parallel->stage_tp_count));
    if (parallel->branches) text = arena_print(arena, "%s branches", text);
    if (parallel->layout_count > 0) text = arena_print(arena, "%s laid-out", text);
    return arena_print(arena, "%s%s", text, order_text(arena, parallel));
}

const char *cluster_device_noun(const struct cluster *cluster)
{
    const char *kind = cluster->nodes[0].device->kind;
    static const char *const NOUNS[][2] = {
        {"cpu", "CPU rank"}, {"npu", "NPU"}, {"tpu", "TPU"}, {"hpu", "HPU"}};
    for (size_t i = 0; i < sizeof NOUNS / sizeof *NOUNS; i++) {
        if (strcmp(kind, NOUNS[i][0]) == 0) return NOUNS[i][1];
    }
    return "GPU";
}

const char *cluster_text(struct arena *arena, const struct cluster *cluster)
{
    const char *text = "";
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        text = arena_print(arena, "%s%s%d x %d %s", text, i ? " + " : "", group->count, group->gpus,
                           group->device->name);
    }
    int64_t all = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        all += (int64_t)cluster->nodes[i].count * cluster->nodes[i].gpus;
    }
    if (all != cluster->rank_count) {
        text = arena_print(arena, "%d %s%s of %s", cluster->rank_count,
                           cluster_device_noun(cluster), cluster->rank_count == 1 ? "" : "s", text);
    }
    if (cluster->idle_gpus == 0) return text;
    return arena_print(arena, "%s (%d more stand idle)", text, cluster->idle_gpus);
}

// Gibibytes, with a decimal where there are few.
static const char *gib_text(struct arena *arena, int64_t bytes)
{
    assert(bytes >= 0);
    double gib = (double)bytes / (1024.0 * 1024.0 * 1024.0);
    return arena_print(arena, gib < 9.95 ? "%.1f" : "%.0f", gib);
}

const char *lost_to(const struct cost *loser, const struct cost *winner, double *share_ratio)
{
    assert(winner->step_s > 0);
    struct explanation_term terms[EXPLANATION_TERM_MAX];
    int count = explain_terms(winner, loser, terms);
    const char *name = NULL;
    double most_s = 0;
    for (int i = 0; i < count; i++) {
        double more_s = terms[i].other_s - terms[i].winner_s;
        // What cost the loser most, not where it is slowest: terms in which it wins say nothing.
        if (more_s <= most_s) continue;
        most_s = more_s;
        name = terms[i].name;
    }
    *share_ratio = most_s / winner->step_s;
    return name;
}

const char *lost_to_text(struct arena *arena, const struct cost *loser, const struct cost *winner)
{
    double share_ratio = 0;
    const char *name = lost_to(loser, winner, &share_ratio);
    return name ? arena_print(arena, "%s %.1f%%", name, 100 * share_ratio) : "-";
}

static void add_row(struct table *table, struct arena *arena, const struct search_request *request,
                    const struct search_result *result, const struct evaluation *best, int i)
{
    const struct candidate *candidate = &result->best[i];
    assert(i < result->best_count);
    const struct candidate *winner = &result->best[0];
    // Only the winner was evaluated; useful work a step is the same for all, so that the ratio of a
    // candidate follows from its time and its GPUs.
    double mfu = best->prediction.mfu_ratio * best->prediction.step_s / candidate->cost.step_s *
                 (double)parallel_rank_count(&winner->parallel) /
                 (double)parallel_rank_count(&candidate->parallel);
    double more_ratio = candidate->cost.step_s / winner->cost.step_s - 1;
    const char *more = i == 0 ? "-" : units_signed_percent(arena, more_ratio);
    struct mesh mesh = mesh_make(&candidate->parallel, best->graph->kv_head_count);
    const char *cells[] = {
        arena_print(arena, "%d", i + 1),
        parallel_text(arena, &candidate->parallel, request->stack),
        arena_print(arena, "%.4g", candidate->cost.step_s),
        units_percent(arena, mfu),
        gib_text(arena, candidate->memory.peak_bytes),
        arena_print(
            arena, "%s/%s", gib_text(arena, candidate->memory.reserved_bytes),
            gib_text(arena, unlike_stage_bytes(request->cluster, &mesh, candidate->worst_stage))),
        i == 0 ? "-" : lost_to_text(arena, &candidate->cost, &winner->cost),
        more,
    };
    table_row(table, cells);
}

// Of whole layers the best is proven; of classes of operators there is a bound.
static const char *certainty_of_classes(struct arena *arena, const struct search_result *result)
{
    assert(result->bound_s > 0 && result->layers_s > 0);
    double best_s = result->best[0].closed_form_s, layers_s = result->layers_s;
    double more_percent = 100 * (best_s / layers_s - 1);
    const char *layers = units_seconds(arena, layers_s);
    if (step_ns(best_s) == step_ns(layers_s)) {
        layers = arena_print(arena, "Proven optimal of whole layers (closed form %s)", layers);
    } else if (best_s < layers_s) {
        layers = arena_print(arena, "%.2g %% faster than the best of whole layers (proven: %s)",
                             -more_percent, layers);
    } else {
        layers = arena_print(arena, "Within %.1f %% of the best of whole layers (proven: %s)",
                             more_percent, layers);
    }
    return arena_print(arena, "%s; by classes of operators within %.1f %% of optimal (bound %s).",
                       layers, 100 * (best_s / result->bound_s - 1),
                       units_seconds(arena, result->bound_s));
}

// A proof is of predicted times: what the band cannot tell apart is said with it.
static const char *among_text(struct arena *arena, const struct search_result *result,
                              const struct prediction *prediction)
{
    int count = band_overlap_count(result, prediction);
    if (count < 2) return "";
    return arena_print(arena, ": first of %d that the band cannot tell apart", count);
}

static const char *certainty(struct arena *arena, const struct search_result *result,
                             const struct prediction *prediction)
{
    assert(result->best_count > 0);
    const char *among = among_text(arena, result, prediction);
    // What is proven is proven of the closed form; the events only rank its best few.
    double best_s = result->best[0].closed_form_s;
    if (result->considered_count == 1) {
        return arena_print(arena, "The only plan that these pins leave (closed form %s).",
                           units_seconds(arena, best_s));
    }
    switch (result->status) {
    case SEARCH_OPTIMAL:
        return arena_print(arena, "Proven optimal (closed form %s)%s.",
                           units_seconds(arena, best_s), among);
    case SEARCH_BEST_OF:
        return arena_print(arena, "Best of %s plans (closed form %s)%s.%s",
                           units_count(arena, result->considered_count),
                           units_seconds(arena, best_s), among, cuts_text(arena, result));
    case SEARCH_FEASIBLE:
        if (result->layers_s > 0) return certainty_of_classes(arena, result);
        if (result->bound_s <= 0) return "Heuristic: no bound is proven.";
        if (result->bounds_work)
            return arena_print(arena,
                               "Heuristic: no plan takes less than %s, all work at the highest "
                               "rate of each device; this one takes %.1f %% more.",
                               units_seconds(arena, result->bound_s),
                               100 * (best_s / result->bound_s - 1));
        return arena_print(arena, "Within %.1f %% of the best of %s plans (bound %s).%s",
                           100 * (best_s / result->bound_s - 1),
                           units_count(arena, result->considered_count),
                           units_seconds(arena, result->bound_s), cuts_text(arena, result));
    case SEARCH_STOPPED:
        return arena_print(arena,
                           "Stopped by SIGINT: best of the %s plans priced so far; not proven.",
                           units_count(arena, result->priced_count));
    case SEARCH_NOTHING_FITS:
        break;
    }
    return "";
}

// Bounds drop plans unpriced: more of them may not fit than were counted.
static const char *rejected(struct arena *arena, const struct search_request *request,
                            const struct search_result *result)
{
    if (result->dropped[DROP_MEMORY] <= 0) return "";
    return arena_print(arena, "   at least %s of %s need more than %s reserved\n",
                       units_count(arena, result->dropped[DROP_MEMORY]),
                       units_count(arena, result->considered_count),
                       units_bytes(arena, (double)cluster_device_bytes(request->cluster)));
}

static const char *band_sentence(struct arena *arena, const struct prediction *prediction,
                                 const struct graph *graph)
{
    const char *text = band_text(arena, prediction, graph);
    return *text ? arena_print(arena, "      %s\n", text) : "";
}

static const char *memory_sentence(struct arena *arena, const struct search_request *request,
                                   const struct evaluation *best)
{
    const char *text =
        memory_band_text(arena, &best->prediction, best->graph, request->stack->name);
    return *text ? arena_print(arena, "      Memory %s\n", text) : "";
}

static const char *attention_sentence(struct arena *arena, const struct search_request *request,
                                      const struct evaluation *best)
{
    const char *text = attention_text(arena, request->stack, best);
    return *text ? arena_print(arena, "      %s\n", text) : "";
}

// "stack fsdp2 (25 measured runs on h200-sxm5-141g)", "stack fsdp2@eager (no measured run on ...)"
static const char *stack_text(struct arena *arena, const struct search_request *request,
                              const struct prediction *prediction)
{
    const struct stack *stack = request->stack;
    const char *name = stack->name;
    const char *said =
        stack->newest ? arena_print(arena, "%s@%s", name, stack->release) : stack->name;
    // No published run is of a processor: what is known of it was measured on the spot.
    bool is_cpu = strcmp(request->cluster->nodes[0].device->kind, "cpu") == 0;
    if (!prediction->bands || is_cpu) return arena_print(arena, "stack %s", said);
    return arena_print(arena, "stack %s (%s)", said,
                       bands_runs_text(arena, prediction->bands, request->cluster, name));
}

char *plan_table_text(struct arena *arena, const struct search_request *request,
                      const struct search_result *result, const struct evaluation *best)
{
    assert(result->best_count > 0);
    static const char *const HEADER[] = {"#",         "layout",   "step s",  "MFU",
                                         "alloc GiB", "reserved", "lost to", "vs #1"};
    struct table table = table_new(arena, "rlrrrrlr");
    struct layout_legend legend = {0};
    table_row(&table, HEADER);
    for (int i = 0; i < result->best_count; i++) {
        add_row(&table, arena, request, result, best, i);
        layout_legend_meet(&legend, &result->best[i].parallel, request->stack);
    }
    const struct prediction *prediction = &best->prediction;
    const char *device = cluster_device_noun(request->cluster);
    const char *rate = model_rate_text(best->graph);
    return arena_print(
        arena,
        "%s on %s, seq %lld, batch %lld, %s, %s: %s plans\n%s%s%s%sBest: %s: %s a step\n%s"
        "      %s %s, %s %s per %s, %s per %s, MFU %s\n%s%s%s%s%s\n",
        model_text(arena, request->model->name, best->graph), cluster_text(arena, request->cluster),
        (long long)request->workload.seq_len, (long long)request->workload.global_batch,
        precision_name(request->workload.precision), stack_text(arena, request, prediction),
        units_count(arena, result->considered_count), table_text(&table),
        layout_legend_text(arena, &legend), rejected(arena, request, result),
        band_overlap_text(arena, result, prediction),
        parallel_text(arena, &result->best[0].parallel, request->stack),
        units_seconds(arena, prediction->step_s), band_sentence(arena, prediction, best->graph),
        units_count(arena, prediction->tokens_per_s), rate,
        units_count(arena, prediction->tokens_per_s_per_gpu), rate, device,
        units_flop_per_s(arena, prediction->model_flop_per_s_per_gpu), device,
        units_ratio(arena, prediction->mfu_ratio), memory_sentence(arena, request, best),
        attention_sentence(arena, request, best),
        money_text(arena, request->workload.tokens, prediction, device),
        reliability_sentence(arena, request->cluster, request->workload.tokens, prediction),
        certainty(arena, result, prediction));
}

char *plan_nothing_text(struct arena *arena, const struct search_request *request,
                        const struct search_result *result)
{
    const struct memory_parts *memory = &result->closest.memory;
    char *text = arena_print(
        arena,
        "nothing fits: the closest plan (%s) needs %s allocated, %s reserved of %s, %s "
        "too much on stage %d "
        "(weights %s, gradients %s, optimizer %s, activations %s)",
        parallel_text(arena, &result->closest.parallel, request->stack),
        units_bytes(arena, (double)memory->peak_bytes),
        units_bytes(arena, (double)memory->reserved_bytes),
        units_bytes(arena, (double)cluster_device_bytes(request->cluster)),
        units_bytes(arena, (double)result->shortfall_bytes), result->closest.worst_stage,
        units_bytes(arena, (double)memory->weights_bytes),
        units_bytes(arena, (double)memory->gradients_bytes),
        units_bytes(arena, (double)memory->optimizer_bytes),
        units_bytes(arena, (double)(memory->activations_bytes + memory->transient_bytes)));
    if (result->closest.host_short_bytes > 0) {
        text = arena_print(arena, "%s; its hosts lack %s of %s for what it offloads", text,
                           units_bytes(arena, (double)result->closest.host_short_bytes),
                           result->closest.host_lack);
    }
    for (int i = 0; i < result->remedy_count; i++) {
        text =
            arena_print(arena, "%s%s%s", text, i ? ", or " : "; would fit: ", result->remedies[i]);
    }
    for (int i = 0; i < result->cut_count; i++) {
        text = arena_print(arena, "%s%s%s", text,
                           i ? ", " : "; not searched: ", cut_text(result->cuts[i].cut));
    }
    return text;
}
