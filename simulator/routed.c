#include "simulator/routed.h"
#include "core/sort.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Where the plan is evaluated; more than the ranks of a group no rank can have.
static const double POINTS[] = {1, 1.25, 1.5, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 1024};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };
static const double CAPACITIES[ROUTED_CAPACITY_MAX] = {1, 1.25, 1.5, 2};

struct curve {
    double x[POINT_COUNT], step_s[POINT_COUNT], reserved_bytes[POINT_COUNT];
    int count;
};

struct work {
    struct arena *arena, scratch;
    const struct evaluation_request *request;
    struct curve curve;
    struct token_routing routing;
    int ranks, layers, draws;
    double tokens;
};

static bool add_point(struct work *work, double x, struct routed *routed, struct err *err)
{
    struct evaluation_request request = *work->request;
    struct evaluation evaluation = {0};
    struct arena scratch = {0}, arena = {0};
    request.workload.expert_imbalance = x;
    bool done = evaluate(&arena, &scratch, &request, &evaluation, err);
    assert(x >= 1 && work->curve.count < POINT_COUNT);
    if (done) {
        struct curve *curve = &work->curve;
        curve->x[curve->count] = x;
        curve->step_s[curve->count] = evaluation.prediction.step_s;
        curve->reserved_bytes[curve->count++] = (double)evaluation.prediction.reserved_bytes;
        routed->device_bytes = evaluation.prediction.device_bytes;
    }
    arena_free(&scratch);
    arena_free(&arena);
    return done;
}

static bool make_curve(struct work *work, struct routed *routed, struct err *err)
{
    for (int i = 0; i < POINT_COUNT; i++) {
        double x = fmin(POINTS[i], work->ranks);
        if (i > 0 && x == work->curve.x[work->curve.count - 1]) break;
        if (!add_point(work, x, routed, err)) return false;
    }
    return true;
}

static double value_at(const struct curve *curve, const double *values, double x)
{
    int i = 1;
    if (curve->count == 1) return values[0];
    while (i < curve->count - 1 && curve->x[i] < x)
        i++;
    assert(curve->x[i - 1] < curve->x[i] && "points are in order, each once");
    double share = (x - curve->x[i - 1]) / (curve->x[i] - curve->x[i - 1]);
    return values[i - 1] + fmin(fmax(share, 0), 1) * (values[i] - values[i - 1]);
}

// Sorts the values.
static struct routed_spread spread_of(double *values, int count)
{
    sort_f64s(values, (size_t)count);
    assert(count > 0);
    int last = count - 1;
    return (struct routed_spread){
        .p50 = values[(int)(0.5 * last)],
        .p90 = values[(int)(0.9 * last)],
        .p99 = values[(int)(0.99 * last)],
    };
}

static int mixture_layers(const struct graph *graph)
{
    int count = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        bool has_route = false;
        for (int k = 0; k < block->op_count; k++)
            has_route |= block->ops[k].kind == OP_ROUTE;
        count += has_route;
    }
    return count;
}

// Tokens that the ranks of one expert group work on in a micro-batch.
static double group_tokens(const struct evaluation_request *request)
{
    const struct parallel *parallel = &request->parallel;
    double group = (double)parallel->degree[AXIS_EP] * parallel->degree[AXIS_ETP];
    double one = (double)parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP];
    assert(group >= 1 && one >= 1);
    return parallel->micro_batch * (double)request->workload.seq_len * group / one;
}

// All draws of every layer: rows by expert.
static double *draw_all(struct work *work, int64_t seed)
{
    int experts = work->routing.expert_count;
    bool is_workload = work->routing.kind == TOKEN_ROUTING_WORKLOAD;
    int count = work->draws * work->layers * experts;
    double *rows = ARENA_NEW(work->arena, double, count);
    uint64_t state = (uint64_t)seed;
    for (int d = 0; d < work->draws; d++) {
        for (int l = 0; l < work->layers; l++) {
            double *at = rows + ((size_t)d * (size_t)work->layers + (size_t)l) * (size_t)experts;
            // A workload is the same in every layer, and every rank has the same rows.
            if (is_workload && l > 0) {
                memcpy(at, at - experts, (size_t)experts * sizeof *at);
            } else if (is_workload) {
                uint64_t same = 2 * (uint64_t)seed;
                token_routing_draw(&work->scratch, &work->routing, work->tokens / work->ranks, d,
                                   &same, at);
                for (int i = 0; i < experts; i++)
                    at[i] *= work->ranks;
            } else {
                token_routing_draw(&work->scratch, &work->routing, work->tokens, d, &state, at);
            }
        }
    }
    return rows;
}

// The rank that has most over all layers, over the mean.
static double fullest(struct work *work, const double *rows)
{
    int experts = work->routing.expert_count;
    struct arena_mark mark = arena_mark(&work->scratch);
    double *sums = ARENA_NEW(&work->scratch, double, experts);
    for (int l = 0; l < work->layers; l++)
        for (int i = 0; i < experts; i++)
            sums[i] += rows[l * experts + i];
    double most = token_routing_imbalance(sums, experts, work->ranks);
    assert(most >= 1 - 1e-9 && "the fullest rank has no less than the mean");
    arena_reset(&work->scratch, mark);
    return most;
}

// The median step when every layer's imbalance is that of `of`.
static double median_step(struct work *work, const double *rows,
                          double (*of)(struct work *work, const double *rows, double amount),
                          double amount)
{
    double *steps = ARENA_NEW(work->arena, double, work->draws);
    int experts = work->routing.expert_count;
    for (int d = 0; d < work->draws; d++) {
        double mean = 0;
        for (int l = 0; l < work->layers; l++)
            mean +=
                of(work, rows + ((size_t)d * (size_t)work->layers + (size_t)l) * (size_t)experts,
                   amount) /
                work->layers;
        steps[d] = value_at(&work->curve, work->curve.step_s, fmax(mean, 1));
    }
    return spread_of(steps, work->draws).p50;
}

static double replaced(struct work *work, const double *rows, double amount)
{
    return token_routing_replaced(&work->scratch, rows, work->routing.expert_count, work->ranks,
                                  (int)amount);
}

// Rows beyond an expert's room are dropped: what the busiest rank then has over the mean of all.
static double capped(struct work *work, const double *rows, double amount)
{
    int experts = work->routing.expert_count;
    struct arena_mark mark = arena_mark(&work->scratch);
    double *kept = ARENA_NEW(&work->scratch, double, experts), all = 0, left = 0;
    for (int i = 0; i < experts; i++)
        all += rows[i];
    for (int i = 0; i < experts; i++) {
        kept[i] = fmin(rows[i], amount * all / experts);
        left += kept[i];
    }
    double most = token_routing_imbalance(kept, experts, work->ranks) * left / all;
    assert(all > 0 && left <= all * (1 + 1e-9));
    arena_reset(&work->scratch, mark);
    return most;
}

// Parameters of one expert in the block at this position.
static double expert_parameters(const struct block *block, int64_t expert_count)
{
    double count = 0;
    for (int i = 0; i < block->tensor_count; i++) {
        const struct tensor *tensor = &block->tensors[i];
        if (tensor->role != TENSOR_PARAMETER || tensor_find_dim(tensor, DIM_EXPERT) < 0) continue;
        count += (double)tensor_elements(tensor, 1, 1) / (double)expert_count;
    }
    return count;
}

// Weights, gradients and states of an expert of every layer of a stage, where nothing shards them.
static int64_t replica_bytes(const struct graph *graph, const struct stack *stack, int stages)
{
    double parameters = 0;
    double bytes = 2 + stack->gradient_bytes + stack->master_bytes + 2 * stack->moment_bytes;
    assert(stages > 0 && bytes > 0);
    for (int i = 0; i < graph->sequence_count; i++)
        parameters += expert_parameters(&graph->blocks[graph->sequence[i]], graph->expert_count);
    return (int64_t)(parameters * bytes / stages);
}

static void add_remedies(struct work *work, const double *rows, const struct evaluation *evaluation,
                         struct routed *routed)
{
    int experts = work->routing.expert_count;
    int64_t one_bytes = replica_bytes(evaluation->graph, work->request->stack,
                                      work->request->parallel.degree[AXIS_PP]);
    routed->replaced_step_s = median_step(work, rows, replaced, 0);
    for (int count = 1; count <= experts / 2 && routed->replica_count < ROUTED_REPLICA_MAX;
         count *= 2) {
        routed->replicas[routed->replica_count++] = (struct routed_remedy){
            .amount = count,
            .step_s = median_step(work, rows, replaced, count),
            .added_bytes = count * one_bytes,
        };
    }
    for (int i = 0; i < ROUTED_CAPACITY_MAX; i++) {
        struct routed_remedy *remedy = &routed->capacities[routed->capacity_count++];
        *remedy = (struct routed_remedy){.amount = CAPACITIES[i]};
        remedy->step_s = median_step(work, rows, capped, CAPACITIES[i]);
        for (int d = 0; d < work->draws * work->layers; d++)
            remedy->dropped_ratio +=
                token_routing_dropped(rows + (size_t)d * (size_t)experts, experts, CAPACITIES[i]) /
                (work->draws * work->layers);
    }
}

static void add_spreads(struct work *work, const double *rows, struct routed *routed)
{
    int experts = work->routing.expert_count, layers = work->layers, draws = work->draws;
    double *all = ARENA_NEW(work->arena, double, draws *layers);
    double *steps = ARENA_NEW(work->arena, double, draws);
    double *bytes = ARENA_NEW(work->arena, double, draws);
    for (int d = 0; d < draws; d++) {
        const double *at = rows + (size_t)d * (size_t)layers * (size_t)experts;
        double mean = 0;
        for (int l = 0; l < layers; l++) {
            double x = token_routing_imbalance(at + l * experts, experts, work->ranks);
            all[d * layers + l] = x;
            mean += x / layers;
        }
        steps[d] = value_at(&work->curve, work->curve.step_s, mean);
        bytes[d] = value_at(&work->curve, work->curve.reserved_bytes, fullest(work, at));
        routed->unfit_ratio += (bytes[d] > (double)routed->device_bytes) / (double)draws;
    }
    routed->imbalance = spread_of(all, draws * layers);
    routed->step_s = spread_of(steps, draws);
    routed->reserved_bytes = spread_of(bytes, draws);
    assert(routed->unfit_ratio >= 0 && routed->unfit_ratio <= 1 + 1e-9);
}

// What is drawn, of a plan whose balanced step was evaluated.
static void fill(struct work *work, const struct evaluation *evaluation, int64_t seed,
                 struct routed *routed)
{
    const double *rows = draw_all(work, seed);
    routed->first_rows = rows;
    routed->layer_count = work->layers;
    routed->expert_count = work->routing.expert_count;
    routed->rank_count = work->ranks;
    routed->tokens = work->tokens;
    routed->balanced_step_s = work->curve.step_s[0];
    add_spreads(work, rows, routed);
    double mean_rows = work->tokens * (double)evaluation->graph->top_k / work->ranks;
    double row_bytes = 2 * (double)evaluation->graph->hidden;
    const struct routed_spread x = routed->imbalance;
    routed->rows = (struct routed_spread){x.p50 * mean_rows, x.p90 * mean_rows, x.p99 * mean_rows};
    routed->exchange_bytes = (struct routed_spread){
        routed->rows.p50 * row_bytes, routed->rows.p90 * row_bytes, routed->rows.p99 * row_bytes};
    add_remedies(work, rows, evaluation, routed);
}

static bool make(struct work *work, const char *routing, int64_t seed, struct routed *routed,
                 struct err *err)
{
    const struct evaluation_request *request = work->request;
    struct evaluation evaluation = {0};
    if (!evaluate(work->arena, &work->scratch, request, &evaluation, err)) return false;
    const struct graph *graph = evaluation.graph;
    work->layers = mixture_layers(graph);
    if (work->layers == 0)
        return err_set(err, ERR_USAGE, "the model has no experts that tokens are routed to");
    work->ranks = request->parallel.degree[AXIS_EP];
    assert(work->ranks >= 1 && work->draws >= 1);
    work->tokens = group_tokens(request);
    bool done = token_routing_read(work->arena, routing, (int)graph->expert_count,
                                   (int)graph->top_k, &work->routing, err) &&
                make_curve(work, routed, err);
    if (done) fill(work, &evaluation, seed, routed);
    return done;
}

bool routed_make(struct arena *arena, const struct evaluation_request *request, const char *routing,
                 int draw_count, int64_t seed, struct routed *routed, struct err *err)
{
    struct work work = {.arena = arena, .request = request, .draws = draw_count};
    *routed = (struct routed){.draw_count = draw_count};
    bool done = make(&work, routing, seed, routed, err);
    arena_free(&work.scratch);
    return done;
}
