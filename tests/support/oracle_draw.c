#include "plan/passes.h"
#include "plan/stages.h"
#include "simulator/closed_form.h"
#include "tests/support/oracle_bound.h"

#include <string.h>

struct drawing {
    struct arena *arena;
    struct draw *draw;
    const struct oracle_question *question;
    struct parallel *plan;
};

static int a_divisor(const struct drawing *at, int64_t whole)
{
    int found = 1, count = 0;
    for (int64_t part = 1; part <= whole; part++) {
        if (whole % part == 0 && draw_int(at->draw, 0, count++) == 0) found = (int)part;
    }
    return found;
}

static int a_bit(const struct drawing *at, unsigned mask)
{
    int found = 0, count = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (mask >> bit & 1 && draw_int(at->draw, 0, count++) == 0) found = bit;
    }
    return found;
}

static unsigned a_subset(const struct drawing *at, unsigned mask)
{
    return draw_int(at->draw, 0, 1) ? mask : (unsigned)draw_bits(at->draw) & mask;
}

// An axis that the stack has takes a divisor of what is left.
static int64_t take_ranks(const struct drawing *at, enum axis axis, int64_t left, int64_t most)
{
    int *degree = &at->plan->degree[axis];
    bool has_axis = at->question->stack->axes >> axis & 1;
    *degree = has_axis ? a_divisor(at, left) : 1;
    if (*degree > most) *degree = 1;
    return left / *degree;
}

static void draw_order(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    parallel_default_order(plan);
    if (!at->question->any_order) return;
    for (int i = plan->order_count - 1; i > 0; i--) {
        int other = draw_int(at->draw, 0, i);
        enum axis axis = plan->order[i];
        plan->order[i] = plan->order[other];
        plan->order[other] = axis;
    }
}

static void draw_pipeline(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    const struct stack *stack = at->question->stack;
    int stages = plan->degree[AXIS_PP], most = (at->question->graph->layer_count + 2) / stages;
    int64_t share = at->question->workload.global_batch / plan->degree[AXIS_DP];
    plan->micro_batch = share > 0 ? a_divisor(at, share) : 1;
    plan->schedule = stages > 1 ? (enum schedule_kind)a_bit(at, stack->schedules) : SCHEDULE_1F1B;
    plan->vpp = most > 1 && draw_int(at->draw, 0, 1) ? draw_int(at->draw, 1, most) : 1;
    if (plan->schedule == SCHEDULE_ZB_V) plan->vpp = 2;
    plan->in_flight = 0;
    if (plan->schedule == SCHEDULE_ZB_AUTO) plan->in_flight = draw_int(at->draw, 1, 2 * stages);
    plan->stage_layers_count = 0;
}

static void draw_mesh(const struct drawing *at)
{
    const struct oracle_question *question = at->question;
    const struct graph *graph = question->graph;
    struct parallel *plan = at->plan;
    int64_t left = question->cluster->rank_count;
    left = take_ranks(at, AXIS_TP, left, graph->head_count);
    if (draw_int(at->draw, 0, 1)) left = take_ranks(at, AXIS_PP, left, graph->layer_count + 2);
    if (draw_int(at->draw, 0, 3) == 0) left = take_ranks(at, AXIS_CP, left, left);
    plan->degree[AXIS_DP] = (int)left;
    int64_t experts = graph->expert_count > 0 ? graph->expert_count : 1;
    take_ranks(at, AXIS_EP, experts, experts);
    take_ranks(at, AXIS_ETP, graph->expert_count > 0 ? plan->degree[AXIS_TP] : 1, 1 << 20);
    plan->cp_kind = (enum cp_kind)a_bit(at, question->stack->cp_kinds);
    plan->sp =
        plan->degree[AXIS_TP] > 1 && question->stack->sequence_parallel && draw_int(at->draw, 0, 2);
    draw_order(at);
}

static void draw_sharding(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    int shards = plan->degree[AXIS_DP] * plan->degree[AXIS_CP];
    plan->zero = a_bit(at, at->question->stack->zero_stages);
    plan->zero_group = 0;
    if (plan->zero > 0 && draw_int(at->draw, 0, 3) == 0) plan->zero_group = a_divisor(at, shards);
}

static void draw_recompute(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    const struct stack *stack = at->question->stack;
    int layers = at->question->graph->layer_count / plan->degree[AXIS_PP] + 1;
    plan->recompute = (enum recompute)a_bit(at, stack->recompute);
    plan->recompute_classes = 0;
    plan->recompute_layers = -1;
    if (plan->recompute == RECOMPUTE_SELECTIVE) {
        plan->recompute_classes = (unsigned)draw_bits(at->draw) & stack->recompute_classes;
        if (plan->recompute_classes == 1u << OP_CLASS_ATTENTION) plan->recompute_classes = 0;
    }
    bool some = plan->recompute != RECOMPUTE_NONE && draw_int(at->draw, 0, 1);
    if (some) plan->recompute_layers = draw_int(at->draw, 1, layers);
}

// Of some layers states leave, and parameters of no more of them.
static void draw_counts(const struct drawing *at, int layers)
{
    struct offload *offload = &at->plan->offload;
    bool may = stack_is_executed(at->question->stack) && offload->optimizer != TIER_DEVICE;
    if (!may || draw_int(at->draw, 0, 1)) return;
    offload->optimizer_layers = (int16_t)draw_int(at->draw, 0, layers);
    offload->parameters = (enum tier)draw_int(at->draw, 0, TIER_COUNT - 1);
    int most = offload->optimizer_layers > 0 ? offload->optimizer_layers : layers;
    if (offload->parameters != TIER_DEVICE)
        offload->parameter_layers = (int16_t)draw_int(at->draw, 1, most);
}

static void draw_offload(const struct drawing *at)
{
    struct offload *offload = &at->plan->offload;
    int layers = at->question->graph->layer_count / at->plan->degree[AXIS_PP] + 1;
    *offload = (struct offload){0};
    if (!at->question->offloads || draw_int(at->draw, 0, 1)) return;
    offload->optimizer = (enum tier)draw_int(at->draw, 0, TIER_COUNT - 1);
    offload->activations = (enum tier)draw_int(at->draw, 0, TIER_COUNT - 1);
    int moved = draw_int(at->draw, 0, 1) ? -1 : draw_int(at->draw, 1, layers);
    for (int class = 0; class < OP_CLASS_COUNT && offload->activations != TIER_DEVICE; class ++)
        offload->layers[class] = (int16_t)moved;
    draw_counts(at, layers);
}

static void draw_software(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    const struct stack *stack = at->question->stack;
    plan->attention = (enum attention)a_bit(at, stack->attention);
    plan->overlap =
        draw_int(at->draw, 0, 1) ? stack->overlap_default : a_subset(at, stack->overlap);
    plan->passes = draw_int(at->draw, 0, 3) ? stack->passes : a_subset(at, stack->passes);
    plan->bucket_bytes = draw_int(at->draw, 0, 2) ? 0 : 1 << draw_int(at->draw, 20, 30);
}

// A layer of one stage to another, were it as it is.
static void move_layer(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    const struct graph *graph = at->question->graph;
    int stages = plan->degree[AXIS_PP], chunks = plan->vpp;
    struct chunk_span *spans = ARENA_NEW(at->arena, struct chunk_span, stages * chunks);
    int *layers = ARENA_NEW(at->arena, int, stages);
    struct err err = {0};
    if (stages == 1 || !stages_split(graph, plan, spans, &err)) return;
    for (int i = 0; i < stages * chunks; i++) {
        for (int k = spans[i].first; k < spans[i].first + spans[i].count; k++)
            layers[i / chunks] += graph->blocks[graph->sequence[k]].role == BLOCK_LAYER;
    }
    int from = draw_int(at->draw, 0, stages - 1), to = draw_int(at->draw, 0, stages - 1);
    if (layers[from] == 0) return;
    layers[from]--;
    layers[to]++;
    plan->stage_layers = layers;
    plan->stage_layers_count = stages;
}

static void draw_all(const struct drawing *at)
{
    draw_mesh(at);
    draw_pipeline(at);
    draw_sharding(at);
    draw_recompute(at);
    draw_offload(at);
    draw_software(at);
    if (draw_int(at->draw, 0, 3) == 0) move_layer(at);
}

// A few choices of a plan are others; what depends on them follows.
static void change(const struct drawing *at)
{
    static void (*const PARTS[])(const struct drawing *) = {
        draw_sharding, draw_recompute, draw_offload, draw_software, move_layer, draw_pipeline};
    int count = draw_int(at->draw, 1, 3);
    for (int i = 0; i < count; i++)
        PARTS[draw_int(at->draw, 0, (int)(sizeof PARTS / sizeof *PARTS) - 1)](at);
}

// Software that decides its stages has no others; a split that it refuses is no plan.
static void deal_layers(const struct drawing *at)
{
    struct parallel *plan = at->plan;
    int stages = plan->degree[AXIS_PP];
    int *layers = ARENA_NEW(at->arena, int, stages);
    struct err refused = {0};
    if (stages == 1) return;
    // None at all does not add up to the layers: an illegal plan, as it should be.
    bool is_dealt = stages_by_flop(at->question->graph, stages, layers, &refused);
    for (int stage = 0; stage < stages && !is_dealt; stage++)
        layers[stage] = 0;
    plan->stage_layers = layers;
    plan->stage_layers_count = stages;
}

static bool is_legal(const struct drawing *at)
{
    const struct oracle_question *question = at->question;
    const struct parallel *plan = at->plan;
    const char *why = NULL;
    struct err err = {0};
    if (question->allows && !question->allows(question->context, plan)) return false;
    if (!stack_can_run(question->stack, plan, at->arena, &why)) return false;
    int64_t rounds = parallel_micro_batch_count(plan, question->workload.global_batch);
    if (!stack_check_rounds(question->stack, plan->schedule, plan->degree[AXIS_PP], rounds, &err))
        return false;
    return program_check(question->graph, question->cluster, &question->workload, plan, &err);
}

bool oracle_draw(struct arena *arena, struct draw *draw, const struct oracle_question *question,
                 const struct parallel *near, struct parallel *drawn)
{
    enum { TRIES = 400 };
    const struct drawing at = {arena, draw, question, drawn};
    bool is_near = near && draw_int(draw, 0, 1);
    for (int i = 0; i < TRIES; i++) {
        *drawn = (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1}};
        if (is_near) *drawn = *near;
        if (is_near) change(&at);
        if (!is_near) draw_all(&at);
        if (question->stack->stages_by_flop) deal_layers(&at);
        int64_t batch = question->workload.global_batch;
        if (batch % ((int64_t)drawn->micro_batch * drawn->degree[AXIS_DP]) != 0) continue;
        drawn->accumulates = stack_accumulates(question->stack, drawn, batch);
        if (is_legal(&at)) return true;
    }
    return false;
}

struct oracle_price oracle_price(const struct oracle_question *question,
                                 const struct parallel *parallel)
{
    struct arena arena = {0}, scratch = {0};
    const struct evaluation_request request = {.model = question->model,
                                               .cluster = question->cluster,
                                               .stack = question->stack,
                                               .fabrics = question->fabrics,
                                               .workload = question->workload,
                                               .parallel = *parallel};
    struct evaluation evaluation = {0};
    struct oracle_price price = {0};
    struct err err = {0};
    if (evaluate(&arena, &scratch, &request, &evaluation, &err)) {
        int64_t bytes = evaluation.stage_memory[evaluation.worst_stage].reserved_bytes;
        price.closed_form_s = closed_form(evaluation.price).step_s;
        price.step_s = evaluation.prediction.step_s;
        price.reserved_bytes = bytes;
        price.fits = bytes <= cluster_device_bytes(question->cluster) &&
                     hosts_shortfall(&evaluation.hosts) == 0;
    }
    arena_free(&scratch);
    arena_free(&arena);
    return price;
}
