#include "planner/meshes_prices.h"

#include "core/divisor.h"
#include "cost_models/stack.h"
#include "plan/ties.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/question.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Of stages in nodes of this group, cut so small that each stage's ranks fill them evenly.
struct mesh_shape {
    int group, node_gpus, ranks, tp;
    int64_t sequences;
    bool is_legal;
    struct rank_option option;
};

enum { SHAPES_MAX = 4096, OPTIONS_MAX = 1 << 16 };

struct mesh_shapes {
    struct arena *arena;
    const struct search_request *request;
    const struct pins *asked;
    struct parallel way;
    const struct graph *graph;
    struct mesh_shape *shapes;
    int shape_count;
};

struct mesh_shapes *mesh_shapes_new(struct arena *arena, const struct search_request *request,
                                    const struct pins *asked, const struct parallel *way)
{
    struct mesh_shapes *shapes = ARENA_NEW(arena, struct mesh_shapes, 1);
    *shapes = (struct mesh_shapes){arena, request, asked, *way, NULL, NULL, 0};
    shapes->graph = evaluation_graph(arena, request->model, request->stack, way);
    shapes->shapes = ARENA_NEW(arena, struct mesh_shape, SHAPES_MAX);
    return shapes;
}

int mesh_shapes_layers(const struct mesh_shapes *shapes)
{
    return shapes->graph->layer_count;
}

bool mesh_shapes_are_tied(const struct mesh_shapes *shapes)
{
    return ties_any(shapes->graph);
}

// A pipeline of four such stages: a layer in all but the third, which has all others. A model of
// few layers has none at the ends.
enum { PROBES = 4 };

static int layers_of_ends(int layers)
{
    return layers >= PROBES ? 1 : 0;
}

static struct cluster cluster_of(const struct search_request *request,
                                 const struct mesh_shape *shape, struct node_group *nodes)
{
    const struct cluster *cluster = request->cluster;
    struct cluster own = *cluster;
    *nodes = cluster->nodes[shape->group];
    nodes->gpus = meshes_have_network(request) ? shape->node_gpus : PROBES * shape->ranks;
    if (nodes->gpus_per_host > nodes->gpus) nodes->gpus_per_host = nodes->gpus;
    nodes->count = PROBES * shape->ranks / nodes->gpus;
    assert(nodes->count * nodes->gpus == PROBES * shape->ranks && "nodes are filled evenly");
    own.nodes = nodes;
    own.node_group_count = 1;
    own.node_count = nodes->count;
    own.rank_count = PROBES * shape->ranks;
    own.idle_gpus = 0;
    return own;
}

static double chunk_s(const struct step_price *price, int stage)
{
    const struct chunk_price *chunk = &price->classes[price->class_of[stage]];
    double sum_s = 0;
    for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
        sum_s += (&chunk->phase_s[0][0])[i];
    return sum_s;
}

// What the host of any stage adds.
static double host_s(const struct stack *stack)
{
    struct chunk_price added = {0};
    double sum_s = 0;
    step_add_host(stack, PROBES, &added);
    for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
        sum_s += (&added.phase_s[0][0])[i];
    return sum_s;
}

static double end_s(const struct step_price *price, int stage)
{
    const struct chunk_price *chunk = &price->classes[price->class_of[stage]];
    return chunk->gradient_reduce_s + chunk->parameter_gather_s + chunk->small_reduce_s +
           chunk->update_s;
}

// With so many micro-batches in flight.
static double stage_bytes(const struct program *program, const struct stack *stack, int stage,
                          int flying)
{
    struct schedule_in_flight moment = {flying, 0};
    struct stage_in_flight in_flight[PROBES];
    struct program at = *program;
    for (int s = 0; s < PROBES; s++)
        in_flight[s] = (struct stage_in_flight){&moment, 1};
    at.in_flight = in_flight;
    return (double)memory_of_stage(&at, stack, stage).reserved_bytes;
}

static void weigh(const struct program *program, const struct stack *stack, int layers,
                  struct rank_option *option)
{
    int ends = layers_of_ends(layers), most = layers - 1 - 2 * ends;
    assert(most >= 1 && "a pipeline has two layers at least");
    double one_bytes = stage_bytes(program, stack, 1, 1);
    double all_bytes = stage_bytes(program, stack, 2, 1);
    option->flight_bytes = (stage_bytes(program, stack, 2, 2) - all_bytes) / most;
    double each_bytes = most > 1 ? (all_bytes - one_bytes) / (most - 1) : one_bytes;
    option->layer_bytes = fmax(0, each_bytes - option->flight_bytes);
    option->base_bytes = most > 1 ? fmax(0, one_bytes - each_bytes) : 0;
    double like_bytes = option->base_bytes + ends * each_bytes;
    option->first_bytes = fmax(0, stage_bytes(program, stack, 0, 1) - like_bytes);
    option->last_bytes = fmax(0, stage_bytes(program, stack, PROBES - 1, 1) - like_bytes);
}

static void price_shape(const struct mesh_shapes *shapes, struct mesh_shape *shape)
{
    const struct search_request *request = shapes->request;
    struct arena work = {0};
    struct node_group nodes;
    struct cluster cluster = cluster_of(request, shape, &nodes);
    struct parallel parallel = shapes->way;
    int layers = shapes->graph->layer_count, ends = layers_of_ends(layers);
    int inside = layers - 2 * ends, dp = shape->ranks / shape->tp;
    struct search_request own = *request;
    struct err refused = {.kind = ERR_USAGE};
    dp /= parallel.degree[AXIS_CP];
    assert(dp >= 1 && shape->sequences % dp == 0);
    parallel.degree[AXIS_PP] = PROBES;
    parallel.degree[AXIS_TP] = shape->tp;
    parallel.degree[AXIS_DP] = dp;
    parallel.micro_batch = (int)(shape->sequences / dp);
    parallel.stage_layers = (const int[]){ends, 1, inside - 1, ends};
    parallel.stage_layers_count = PROBES;
    own.cluster = &cluster;
    // As many micro-batches as the plan has: gradients begin in one of them.
    int64_t rounds = request->workload.global_batch / shape->sequences;
    own.workload.global_batch = shape->sequences * (rounds > PROBES ? rounds : PROBES);
    parallel.accumulates = stack_accumulates(own.stack, &parallel, own.workload.global_batch);
    const struct graph *graph = evaluation_graph(&work, own.model, own.stack, &parallel);
    shape->is_legal = program_check(graph, &cluster, &own.workload, &parallel, &refused);
    if (shape->is_legal) {
        const struct evaluation_request question = search_question(&own, &parallel);
        const struct price_context context = evaluation_context(&question);
        const struct program *program =
            program_lower(&work, graph, &cluster, &own.workload, &parallel, stack_joins(own.stack));
        const struct step_price *price = step_price(&work, &context, program);
        struct rank_option *option = &shape->option;
        *option = (struct rank_option){.ranks = shape->ranks, .tp = shape->tp};
        option->base_s = host_s(own.stack);
        option->layer_s = (chunk_s(price, 1) + chunk_s(price, 2) - 2 * option->base_s) / inside;
        double like_s = option->base_s + ends * option->layer_s;
        option->first_s = fmax(0, chunk_s(price, 0) - like_s);
        option->last_s = fmax(0, chunk_s(price, PROBES - 1) - like_s);
        option->end_s = (end_s(price, 1) + end_s(price, 2)) / inside;
        option->room_bytes = (double)nodes.device->memory_bytes;
        weigh(program, own.stack, layers, option);
    }
    arena_free(&work);
}

// NULL where no stage can be of this shape.
static const struct rank_option *option_of(struct mesh_shapes *shapes,
                                           const struct mesh_shape *wanted)
{
    for (int i = 0; i < shapes->shape_count; i++) {
        const struct mesh_shape *shape = &shapes->shapes[i];
        bool is_it = shape->group == wanted->group && shape->node_gpus == wanted->node_gpus &&
                     shape->ranks == wanted->ranks && shape->tp == wanted->tp &&
                     shape->sequences == wanted->sequences;
        if (is_it) return shape->is_legal ? &shape->option : NULL;
    }
    if (shapes->shape_count == SHAPES_MAX) return NULL;
    struct mesh_shape *shape = &shapes->shapes[shapes->shape_count++];
    *shape = *wanted;
    price_shape(shapes, shape);
    return shape->is_legal ? &shape->option : NULL;
}

// The ranks [first, end) of a group of nodes, of which a stage may begin at `at`.
struct node_span {
    int group, gpus, first, end;
};

static struct node_span span_at(const struct cluster *cluster, int at)
{
    struct node_span span = {0};
    for (; span.group < cluster->node_group_count; span.group++) {
        const struct node_group *nodes = &cluster->nodes[span.group];
        span.first = span.end;
        span.end += nodes->count * nodes->gpus;
        span.gpus = nodes->gpus;
        if (span.end > cluster->rank_count) span.end = cluster->rank_count;
        if (at < span.end) return span;
    }
    assert(false && "no such rank");
    return span;
}

static bool is_power(int number)
{
    return (number & (number - 1)) == 0;
}

static bool is_part(int ranks, int gpus, int rest)
{
    return is_power(ranks) || gpus % ranks == 0 || ranks == rest || is_power(rest - ranks);
}

// Whether a stage may have so many ranks from here on.
static bool is_stage(const struct cluster *cluster, const struct node_span *span, int at, int ranks)
{
    enum { PARTS_UP_TO = 256, MULTIPLES = 8 };
    int inside = (at - span->first) % span->gpus, rest = span->gpus - inside;
    if (rest > span->end - at) rest = span->end - at;
    if (ranks > span->end - at) return false;
    if (ranks < span->gpus && ranks <= rest)
        return (cluster->rank_count <= PARTS_UP_TO || ranks == rest) &&
               is_part(ranks, span->gpus, rest);
    if (inside > 0) return false;
    if (ranks == span->end - at) return true;
    int nodes = ranks / span->gpus, all = (span->end - span->first) / span->gpus;
    return ranks % span->gpus == 0 && (is_power(nodes) || nodes <= MULTIPLES || all % nodes == 0);
}

// The nodes that these ranks fill evenly.
static int even_gpus(const struct node_span *span, int at, int ranks)
{
    int gpus = span->gpus, inside = (at - span->first) % gpus;
    if (inside + ranks <= gpus) return ranks;
    int64_t divisor = gpus;
    if (inside > 0) divisor = common_divisor(divisor, gpus - inside);
    int over = (inside + ranks) % gpus;
    if (over > 0) divisor = common_divisor(divisor, over);
    assert(divisor >= 1 && ranks % divisor == 0);
    return (int)divisor;
}

// Of ranks on nodes of several kinds the slowest and the smallest.
static bool add_option(struct mesh_shapes *shapes, int at, int ranks, int tp, int64_t sequences,
                       struct rank_option *sum)
{
    const struct cluster *cluster = shapes->request->cluster;
    *sum = (struct rank_option){.room_bytes = INFINITY};
    for (int from = at; from < at + ranks;) {
        struct node_span span = span_at(cluster, from);
        int inside = span.end < at + ranks ? span.end - from : at + ranks - from;
        struct mesh_shape shape = {
            span.group, even_gpus(&span, from, inside), ranks, tp, sequences, false, {0}};
        if (inside < ranks) shape.node_gpus = (int)common_divisor(shape.node_gpus, ranks);
        const struct rank_option *option = option_of(shapes, &shape);
        if (!option) return false;
        double room_bytes = fmin(sum->room_bytes, option->room_bytes);
        if (option->layer_s >= sum->layer_s) *sum = *option;
        sum->room_bytes = room_bytes;
        from += inside;
    }
    return true;
}

static bool is_tp(const struct mesh_shapes *shapes, int ranks, int tp, int64_t sequences)
{
    int64_t each = (int64_t)tp * shapes->way.degree[AXIS_CP];
    const struct pins *asked = shapes->asked;
    if (ranks % each != 0 || sequences % (ranks / each) != 0) return false;
    for (int s = 0; s < asked->stage_tp_count; s++)
        if (asked->stage_tp[s] == tp) return true;
    return asked->stage_tp_count == 0 && pins_allow(asked, CHOICE_TP, tp);
}

// Whether a stage begins here, where numbers are pinned: with how many.
static bool is_asked(const struct mesh_shapes *shapes, const struct node_span *span, int at,
                     int ranks)
{
    const struct pins *asked = shapes->asked;
    int first = 0;
    for (int s = 0; s < asked->stage_ranks_count; first += asked->stage_ranks[s++])
        if (first == at && asked->stage_ranks[s] == ranks) return true;
    return asked->stage_ranks_count == 0 && is_stage(shapes->request->cluster, span, at, ranks);
}

const struct rank_places *mesh_shapes_places(struct arena *arena, struct mesh_shapes *shapes,
                                             int64_t sequences)
{
    int all = shapes->request->cluster->rank_count, count = 0;
    struct rank_places *places = ARENA_NEW(arena, struct rank_places, 1);
    int *first = ARENA_NEW(arena, int, all + 1);
    struct rank_option *options = ARENA_NEW(arena, struct rank_option, OPTIONS_MAX);
    for (int at = 0; at < all; at++) {
        struct node_span span = span_at(shapes->request->cluster, at);
        first[at] = count;
        for (int ranks = 1; at + ranks <= all; ranks++) {
            if (!is_asked(shapes, &span, at, ranks)) continue;
            for (int tp = 1; tp <= ranks; tp++) {
                bool can_be = count < OPTIONS_MAX && is_tp(shapes, ranks, tp, sequences);
                if (can_be && add_option(shapes, at, ranks, tp, sequences, &options[count]))
                    count++;
            }
        }
    }
    first[all] = count;
    *places = (struct rank_places){all, first, options};
    return count > 0 ? places : NULL;
}
