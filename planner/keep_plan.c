#include "planner/keep_plan.h"

#include "cost_models/offload.h"
#include "planner/choice.h"
#include "planner/composing.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The mean of the layers of a model in one way to recompute them, one micro-batch.
struct layer {
    double bytes[OFFLOAD_CLASS_MAX];
    double bytes_sum;
    struct copy_window window;
    double seconds;  // with all that is waited for
};

// The program has one window for both tiers: the larger one, which bounds what is waited for.
static enum tier window_tier(const struct cluster *cluster)
{
    for (int i = 0; i < cluster->node_group_count; i++)
        if (cluster->nodes[i].host.nvme_bytes_per_s > 0) return TIER_NVME;
    return TIER_HOST;
}

static void add_layer(const struct composer *composer, const struct memo_block *block, double share,
                      struct layer *mean)
{
    enum precision precision = composer->request->workload.precision;
    enum tier tier = window_tier(composer->request->cluster);
    struct copy_window window = copy_window(memo_context(composer->memo), tier, &block->price);
    mean->window.forward_s += share * window.forward_s;
    mean->window.backward_s += share * window.backward_s;
    for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
        mean->seconds += share * (&block->price.phase_s[0][0])[i];
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        double bytes =
            memory_class_bytes(composer->request->stack, precision, block->light, 1u << class);
        mean->bytes[class] += share * bytes;
        mean->bytes_sum += share * bytes;
    }
}

static struct layer mean_layer(struct composer *composer, const struct parallel *parallel)
{
    const struct graph *graph = composer->graph;
    int counts[DIVISION_KIND_MAX] = {0}, layers = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        int kind = graph->sequence[i];
        if (graph->blocks[kind].role != BLOCK_LAYER) continue;
        counts[kind]++;
        layers++;
    }
    struct layer mean = {0};
    for (int kind = 0; kind < graph->block_count; kind++)
        if (counts[kind])
            add_layer(composer, composing_recomputed(composer, parallel, kind),
                      (double)counts[kind] / layers, &mean);
    return mean;
}

static bool may_run(const struct composer *composer, const struct parallel *parallel)
{
    return stack_can_run(composer->request->stack, parallel, NULL, NULL);
}

struct parallel keep_plan_recomputing(const struct keep_plan *plan, int value, int layers)
{
    assert(layers >= -1);
    struct parallel parallel = plan->base;
    parallel.recompute = recompute_of_value(value, &parallel.recompute_classes);
    parallel.recompute_layers = layers;
    return parallel;
}

static struct parallel moving(const struct keep_plan *plan, enum tier tier)
{
    struct parallel parallel = plan->base;
    parallel.offload.activations = tier;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        parallel.offload.layers[class] = -1;
    return parallel;
}

static void add_classes(struct arena *arena, struct keep_plan *plan, const struct layer *layer)
{
    struct keep_class *classes = ARENA_NEW(arena, struct keep_class, OFFLOAD_CLASS_MAX);
    int count = 0;
    for (unsigned class = 0; class < OP_CLASS_COUNT && !plan->merges_classes; class ++) {
        int64_t bytes = llround(layer->bytes[class]);
        if (bytes > 0) classes[count++] = (struct keep_class){bytes, class};
    }
    if (plan->merges_classes)
        classes[count++] = (struct keep_class){llround(layer->bytes_sum), OP_CLASS_NONE};
    plan->problem.classes = classes;
    plan->problem.class_count = count;
}

static void set_saved(const struct keep_plan *plan, const struct layer *layer,
                      struct keep_recompute *recompute)
{
    for (int class = 0; class < OP_CLASS_COUNT && !plan->merges_classes; class ++)
        recompute->saved_bytes[class] = llround(layer->bytes[class]);
    if (plan->merges_classes) recompute->saved_bytes[OP_CLASS_NONE] = llround(layer->bytes_sum);
}

// Nothing recomputed is the first; others where the stack recomputes layers so.
static void add_recomputes(struct arena *arena, struct composer *composer, struct keep_plan *plan,
                           const struct layer *kept)
{
    const struct keep_question *question = plan->question;
    struct keep_recompute *recomputes =
        ARENA_NEW(arena, struct keep_recompute, question->recompute_count + 1);
    int count = 1;
    assert(question->recompute_count == 0 || question->recomputes);
    set_saved(plan, kept, &recomputes[0]);
    for (int i = 0; i < question->recompute_count; i++) {
        struct parallel parallel = keep_plan_recomputing(plan, question->recomputes[i], -1);
        if (parallel.recompute == RECOMPUTE_NONE || !may_run(composer, &parallel)) continue;
        struct layer recomputed = mean_layer(composer, &parallel);
        struct keep_recompute *recompute = &recomputes[count++];
        recompute->recompute = parallel.recompute;
        recompute->classes = parallel.recompute_classes;
        recompute->seconds = fmax(0, recomputed.seconds - kept->seconds);
        recompute->window_s = fmax(0, recomputed.window.backward_s - kept->window.backward_s);
        set_saved(plan, &recomputed, recompute);
    }
    plan->problem.recomputes = recomputes;
    plan->problem.recompute_count = count;
}

static int64_t live_bytes(const struct keep_plan *plan, const struct memory_parts *parts)
{
    int64_t bytes = parts->activations_bytes + parts->transient_bytes + parts->logits_bytes;
    if (plan->question->is_planned) bytes += parts->buffers_bytes - parts->standing_bytes;
    return bytes;
}

// What the device has for it. Of the reserve a part grows with it.
static int64_t room_bytes(const struct composer *composer, const struct keep_plan *plan,
                          const struct memory_parts *parts)
{
    const struct stack *stack = composer->request->stack;
    int64_t else_bytes = parts->peak_bytes - live_bytes(plan, parts) + stack->reserve_bytes;
    int64_t left_bytes = cluster_device_bytes(composer->request->cluster) - else_bytes;
    double slack = 1 + stack_reserve_ratio(stack, plan->base.degree[AXIS_PP]);
    return (int64_t)floor((double)left_bytes / slack);
}

static double layers_bytes(const struct keep_plan *plan, int stage, const int64_t *saved_bytes)
{
    const struct keep_problem *problem = &plan->problem;
    double bytes = 0;
    for (int c = 0; c < problem->class_count; c++)
        bytes += (double)saved_bytes[problem->classes[c].op_class];
    return bytes * plan->stages[stage].in_flight * plan->stages[stage].layer_count;
}

// How many micro-batches of its layers a stage holds is what leaves the device when all of them are
// moved.
static void add_stages(struct arena *arena, struct composer *composer, struct keep_plan *plan,
                       const struct layer *kept)
{
    const struct division *division = composer_division(composer, &plan->base);
    int count = plan->problem.stage_count = division->stage_count;
    int64_t *limits = ARENA_NEW(arena, int64_t, count), most = 1;
    plan->layers_most = division->layers_most;
    plan->problem.stages = plan->stages = ARENA_NEW(arena, struct keep_stage, count);
    plan->limit_bytes = limits;
    struct parallel moved = moving(plan, TIER_HOST);
    for (int s = 0; s < count; s++) {
        struct keep_stage *stage = &plan->stages[s];
        struct memory_parts parts = composer_stage_memory(composer, &plan->base, s);
        struct memory_parts less = composer_stage_memory(composer, &moved, s);
        double away_bytes = (double)(less.host_bytes - parts.host_bytes);
        assert(away_bytes >= 0 && "what leaves the device is on the host");
        *stage = (struct keep_stage){.layer_count = division->stage_layers[s],
                                     .forward_s = kept->window.forward_s,
                                     .backward_s = kept->window.backward_s};
        double layer_bytes = kept->bytes_sum * stage->layer_count;
        if (layer_bytes > 0) stage->in_flight = away_bytes / layer_bytes;
        double rest = (double)live_bytes(plan, &parts) -
                      layers_bytes(plan, s, plan->problem.recomputes[0].saved_bytes);
        stage->other_bytes = llround(rest);
        const int64_t *asked = plan->question->limit_bytes;
        limits[s] = asked ? asked[s] : room_bytes(composer, plan, &parts);
        if (limits[s] > most) most = limits[s];
    }
    // Stages have one limit there; who has less room has more that is always there.
    plan->problem.device_bytes = most;
    for (int s = 0; s < count; s++)
        plan->stages[s].other_bytes += most - limits[s];
}

// Above what the classes that are left come to, with all layers recomputed.
static void add_transients(struct composer *composer, struct keep_plan *plan,
                           struct keep_recompute *recomputes)
{
    for (int r = 1; r < plan->problem.recompute_count; r++) {
        int value = recompute_value(recomputes[r].recompute, recomputes[r].classes);
        struct parallel parallel = keep_plan_recomputing(plan, value, -1);
        for (int s = 0; s < plan->problem.stage_count; s++) {
            struct memory_parts parts = composer_stage_memory(composer, &parallel, s);
            double rest = (double)(plan->stages[s].other_bytes + plan->limit_bytes[s] -
                                   plan->problem.device_bytes);
            double more = (double)live_bytes(plan, &parts) - rest -
                          layers_bytes(plan, s, recomputes[r].saved_bytes);
            if (more > (double)recomputes[r].transient_bytes)
                recomputes[r].transient_bytes = (int64_t)ceil(more);
        }
    }
}

// A rank's share of the links, and of what its fullest stage leaves of the host.
static void add_tiers(struct composer *composer, struct keep_plan *plan)
{
    struct keep_problem *problem = &plan->problem;
    const struct cluster *cluster = composer->request->cluster;
    problem->tiers = 1u << TIER_DEVICE;
    problem->host_bytes = problem->nvme_bytes = INT64_MAX;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int64_t sharing = group->gpus_per_host;
        if (sharing > cluster->rank_count) sharing = cluster->rank_count;
        int64_t host = group->host.memory_bytes / sharing, nvme = group->host.nvme_bytes / sharing;
        if (host < problem->host_bytes) problem->host_bytes = host;
        if (nvme < problem->nvme_bytes) problem->nvme_bytes = nvme;
    }
    int64_t host_bytes = 0, nvme_bytes = 0;
    for (int s = 0; s < problem->stage_count; s++) {
        struct memory_parts parts = composer_stage_memory(composer, &plan->base, s);
        if (parts.host_bytes > host_bytes) host_bytes = parts.host_bytes;
        if (parts.nvme_bytes > nvme_bytes) nvme_bytes = parts.nvme_bytes;
    }
    problem->host_bytes -= host_bytes;
    problem->nvme_bytes -= nvme_bytes;
    for (enum tier tier = TIER_HOST; tier < TIER_COUNT && plan->question->may_move; tier++) {
        struct parallel parallel = moving(plan, tier);
        if (problem->host_bytes <= 0 || !may_run(composer, &parallel)) continue;
        double bytes_per_s = offload_bytes_per_s(memo_context(composer->memo), tier);
        *(tier == TIER_HOST ? &problem->host_bytes_per_s : &problem->nvme_bytes_per_s) =
            bytes_per_s;
        problem->tiers |= 1u << tier;
    }
    // What goes to NVMe passes the host's link.
    if (problem->tiers >> TIER_NVME & 1 && problem->host_bytes_per_s <= 0)
        problem->host_bytes_per_s = offload_bytes_per_s(memo_context(composer->memo), TIER_HOST);
}

struct keep_plan *keep_plan_make(struct arena *arena, struct composer *composer,
                                 const struct keep_question *question)
{
    struct keep_plan *plan = ARENA_NEW(arena, struct keep_plan, 1);
    plan->question = question;
    plan->base = question->parallel;
    if (question->may_move) {
        plan->base.offload.activations = TIER_DEVICE;
        memset(plan->base.offload.layers, 0, sizeof plan->base.offload.layers);
    }
    assert(!offload_moves_activations(&plan->base.offload));
    plan->base.recompute_layers = -1;
    if (question->recomputes) {
        plan->base.recompute = RECOMPUTE_NONE;
        plan->base.recompute_classes = 0;
    }
    plan->merges_classes = !(composer->request->stack->offload >> OFFLOADS_CLASSES & 1);
    struct layer kept = mean_layer(composer, &plan->base);
    add_classes(arena, plan, &kept);
    add_recomputes(arena, composer, plan, &kept);
    add_stages(arena, composer, plan, &kept);
    add_transients(composer, plan, (struct keep_recompute *)plan->problem.recomputes);
    add_tiers(composer, plan);
    int64_t batch = composer->request->workload.global_batch;
    plan->problem.micro_batch_count = (int)parallel_micro_batch_count(&plan->base, batch);
    return plan;
}

// A count as plans write it: all layers are -1, and so are more than can be written.
static int16_t count_of(const struct keep_plan *plan, int layers)
{
    bool is_all = layers >= plan->layers_most || layers > OFFLOAD_LAYERS_MAX;
    return (int16_t)(is_all ? -1 : layers);
}

struct parallel keep_plan_chosen(const struct keep_plan *plan, const struct keep_result *result)
{
    assert(result->recompute >= 0 && result->recompute < plan->problem.recompute_count);
    struct parallel parallel = plan->base;
    enum tier tier = keep_tier(result);
    if (result->recompute_layers > 0) {
        const struct keep_recompute *recompute = &plan->problem.recomputes[result->recompute];
        bool is_all = result->recompute_layers >= plan->layers_most;
        parallel.recompute = recompute->recompute;
        parallel.recompute_classes = recompute->classes;
        parallel.recompute_layers = is_all ? -1 : result->recompute_layers;
    }
    if (tier == TIER_DEVICE) return parallel;
    parallel.offload.activations = tier;
    const struct keep_class *classes = plan->problem.classes;
    int first = result->layers[tier][classes[0].op_class];
    bool are_alike = true;
    for (int c = 0; c < plan->problem.class_count; c++) {
        int layers = result->layers[tier][classes[c].op_class];
        parallel.offload.layers[classes[c].op_class] = count_of(plan, layers);
        are_alike &= layers == first;
    }
    // Whole layers have their word.
    for (int class = 0; class < OP_CLASS_COUNT && are_alike; class ++)
        parallel.offload.layers[class] = count_of(plan, first);
    return parallel;
}

void keep_plan_round(const struct stack *stack, struct parallel *chosen)
{
    bool is_whole = stack->recompute_whole >> chosen->recompute & 1;
    if (chosen->recompute_layers > 0 && is_whole) chosen->recompute_layers = -1;
}

double keep_plan_bytes(const struct keep_plan *plan, const struct keep_result *result, int stage)
{
    assert(stage >= 0 && stage < plan->problem.stage_count);
    double less = (double)(plan->problem.device_bytes - plan->limit_bytes[stage]);
    return keep_device_bytes(&plan->problem, result, stage) - less;
}

void keep_plan_learn(struct keep_plan *plan, const struct keep_result *result,
                     const int64_t *needed_bytes)
{
    for (int s = 0; s < plan->problem.stage_count; s++) {
        double more = (double)needed_bytes[s] - keep_plan_bytes(plan, result, s);
        plan->stages[s].other_bytes += (int64_t)ceil(more);
    }
}

static bool fits(struct composer *composer, const struct keep_plan *plan,
                 const struct parallel *parallel, int64_t *needed_bytes)
{
    bool ok = true;
    int64_t limit_bytes = cluster_device_bytes(composer->request->cluster);
    for (int s = 0; s < plan->problem.stage_count; s++) {
        struct memory_parts parts = composer_stage_memory(composer, parallel, s);
        needed_bytes[s] = live_bytes(plan, &parts);
        ok &= parts.reserved_bytes <= limit_bytes;
    }
    return ok;
}

// Also an answer that lacks memory is looked at: what the program counts is above what is needed
// where stages or layers differ.
bool keep_plan_find(struct composer *composer, const struct keep_question *question,
                    struct parallel *found)
{
    enum { ROUNDS = 3, NODE_CAP = 100 };
    struct arena *arena = composer->scratch;
    struct arena_mark mark = arena_mark(arena);
    struct keep_plan *plan = keep_plan_make(arena, composer, question);
    int64_t *needed_bytes = ARENA_NEW(arena, int64_t, plan->problem.stage_count);
    struct milp_options options = {.node_cap = NODE_CAP};
    double found_s = INFINITY;
    bool is_answered = false;
    for (int round = 0; round < ROUNDS && !is_answered; round++) {
        struct keep_result result =
            keep_memo_solve(&composer->answers, arena, &plan->problem, &options);
        struct parallel chosen = keep_plan_chosen(plan, &result);
        keep_plan_round(composer->request->stack, &chosen);
        if (!may_run(composer, &chosen) || composer_host_shortfall(composer, &chosen) > 0) break;
        bool is_room = fits(composer, plan, &chosen, needed_bytes);
        double chosen_s = is_room ? composer_cost(composer, &chosen).step_s : INFINITY;
        if (chosen_s < found_s) {
            *found = chosen;
            found_s = chosen_s;
        }
        is_answered = is_room && result.shortfall_bytes <= 0;
        keep_plan_learn(plan, &result, needed_bytes);
    }
    // The program works with mean layers: what it finds no room for may still fit with all
    // recomputed.
    for (int i = 0; i < question->recompute_count && isinf(found_s); i++) {
        struct parallel all = keep_plan_recomputing(plan, question->recomputes[i], -1);
        if (!may_run(composer, &all) || !fits(composer, plan, &all, needed_bytes)) continue;
        if (composer_host_shortfall(composer, &all) > 0) continue;
        *found = all;
        found_s = composer_cost(composer, &all).step_s;
    }
    arena_reset(arena, mark);
    return found_s < INFINITY;
}
