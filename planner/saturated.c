#include "planner/saturated.h"

#include "cost_models/memory.h"
#include "planner/choice.h"

#include <math.h>

// Tokens of a micro-batch that no kernel gains by exceeding.
static const int64_t SATURATING_TOKENS = 1 << 20;

static double phase_s(const struct block_price *price, enum phase phase)
{
    double sum_s = 0;
    for (int part = 0; part < PART_COUNT; part++)
        sum_s += price->phase_s[phase][part];
    return sum_s;
}

static struct parallel whole_parallel(const struct space *space, enum attention attention)
{
    const struct search_request *request = space->request;
    int64_t sequences = SATURATING_TOKENS / request->workload.seq_len;
    struct parallel parallel = space->fixed;
    parallel.vpp = 2;  // what is hidden in any pipeline
    parallel.micro_batch = sequences > 1 ? (int)sequences : 1;
    parallel.recompute_layers = -1;
    parallel.schedule = SCHEDULE_1F1B;
    parallel.attention = attention;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel_default_order(&parallel);
    return parallel;
}

// One layer, recomputed in one way, a sequence of it.
struct layer {
    struct bound_work work;
    struct saturated_way way;
    double linear_elements;
};

static struct layer layer_of(struct memo *memo, const struct space *space, int kind,
                             enum attention attention, int recompute)
{
    const struct search_request *request = space->request;
    struct parallel parallel = whole_parallel(space, attention);
    parallel.recompute = recompute_of_value(recompute, &parallel.recompute_classes);
    const struct graph *graph = memo_graph(memo, attention, 1);
    struct mesh mesh = memo_mesh(graph, &parallel);
    const struct memo_block *block = memo_block(memo, graph, kind, &mesh, &parallel,
                                                parallel.recompute, memo_parts_parameters(memo));
    double sequences = parallel.micro_batch;
    double chain_s = phase_s(&block->price, PHASE_FORWARD) + phase_s(&block->price, PHASE_BACKWARD);
    double all_s = chain_s + phase_s(&block->price, PHASE_WEIGHT);
    enum precision precision = request->workload.precision;
    double backward_bytes = (double)block->light->backward_transient_bytes;
    double parted_bytes = (double)block->light->parted_transient_bytes;
    return (struct layer){
        {all_s / sequences, chain_s / sequences},
        {memory_least_kept_bytes(request->stack, precision, block->light) / sequences,
         fmin(backward_bytes, parted_bytes) / sequences},
        (double)block->light->linear_elements,
    };
}

// The ways to recompute a layer that plans of the space have; with a number of layers pinned there
// are others beside them in which nothing is recomputed.
static int ways_of(const struct space *space, int values[SPACE_VALUE_MAX + 1])
{
    int none = recompute_value(RECOMPUTE_NONE, 0), count = space->recomputes.count;
    bool partial = pins_get(&space->request->pins, CHOICE_RECOMPUTE_LAYERS).set;
    for (int i = 0; i < count; i++) {
        values[i] = space->recomputes.values[i];
        partial = partial && values[i] != none;
    }
    if (partial && count > 0) values[count++] = none;
    return count;
}

struct saturated saturated_make(struct memo *memo, const struct space *space,
                                const struct bound_facts *facts, enum attention attention)
{
    struct layer layers[SPACE_VALUE_MAX + 1] = {0};
    int values[SPACE_VALUE_MAX + 1], fastest = 0, count = ways_of(space, values);
    for (int i = 0; i < count; i++) {
        layers[i] = layer_of(memo, space, facts->probe_kind, attention, values[i]);
        if (layers[i].work.all_s < layers[fastest].work.all_s) fastest = i;
    }
    if (count == 0) return (struct saturated){0};
    struct saturated found = {
        .sequence = layers[fastest].work,
        .saved_bytes = layers[fastest].way.saved_bytes,
        .s_per_byte = INFINITY,
        .way_count = count,
        .transient_least_bytes = INFINITY,
        .dense_elements = facts->probe_elements[0],
        .expert_elements = facts->probe_elements[1],
        .frozen_elements = {facts->probe_frozen_elements[0], facts->probe_frozen_elements[1]}};
    for (int i = 0; i < count; i++) {
        double freed_bytes = found.saved_bytes - layers[i].way.saved_bytes;
        found.ways[i] = layers[i].way;
        found.transient_least_bytes =
            fmin(found.transient_least_bytes, layers[i].way.transient_bytes);
        found.sequence.chain_s = fmin(found.sequence.chain_s, layers[i].work.chain_s);
        if (freed_bytes <= 0) continue;
        double more_s = layers[i].work.all_s - found.sequence.all_s;
        found.s_per_byte = fmin(found.s_per_byte, more_s / freed_bytes);
    }
    if (isinf(found.s_per_byte)) found.s_per_byte = 0;
    found.low_precision_elements = layers[0].linear_elements;
    const struct search_request *request = space->request;
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    if (device->kernels) {
        found.sequence = (struct bound_work){0, 0};
        found.s_per_byte = 0;
    }
    return found;
}

struct bound_work saturated_work(const struct bound_facts *facts, const struct saturated *saturated,
                                 const struct space_mesh *mesh, int micro_batch)
{
    double ranks = space_sample_ranks(mesh);
    double count = facts->probe_count * micro_batch / ranks;
    return (struct bound_work){count * saturated->sequence.all_s,
                               count * saturated->sequence.chain_s};
}

// What a stage can hold: `kept` layers with nothing recomputed, `most` however much is recomputed;
// a layer between takes `more_s` longer.
struct stage_room {
    double kept, most, more_s;
};

// A rank's share of what low-precision GEMMs read. Not all elements are read, and which are not is
// unknown: as many as can be are where they are split most.
static double low_precision_elements(const struct saturated *saturated, const int *degree)
{
    double tp = degree[AXIS_TP], spread = (double)degree[AXIS_EP] * degree[AXIS_ETP];
    double dense = saturated->dense_elements + saturated->frozen_elements[0];
    double experts = saturated->expert_elements + saturated->frozen_elements[1];
    double all = saturated->low_precision_elements;
    double inside = spread > tp ? fmin(experts, all) : fmax(0, all - dense);
    return (all - inside) / tp + inside / spread;
}

// Weights, gradients and states of one layer, and its weights as low-precision GEMMs read them
// where they are kept so (cost_models/memory.c).
static double layer_bytes(const struct saturated_question *question)
{
    const struct search_request *request = question->request;
    const struct saturated *saturated = question->saturated;
    enum precision precision = request->workload.precision;
    double bytes =
        bound_kept_bytes(request, question->mesh, question->tails, saturated->dense_elements,
                         saturated->expert_elements) +
        bound_frozen_bytes(request, question->mesh, question->tails, saturated->frozen_elements);
    unsigned products = stack_low_precision_gemms(request->stack, precision);
    if (!request->stack->cached_weight_cast || question->tails->zero_most >= 3) return bytes;
    // Our own engine keeps fewer of them the more ranks share their sides (plan/lower/casts.h).
    if (stack_is_executed(request->stack)) return bytes;
    int copies = (int)(products >> PHASE_FORWARD & 1) + (int)(products >> PHASE_BACKWARD & 1);
    double elements = low_precision_elements(saturated, question->mesh->degree);
    return bytes + copies * elements * precision_bytes(precision);
}

// What the stages of a group have in common: the share of one sequence's bytes that a rank has of a
// micro-batch, of what is kept and of what is worked on, with the allocator's slack.
struct stage_share {
    double room_bytes, weight_bytes, kept, worked;
};

// The most layers that a stage has room for which holds so many micro-batches: each keeps its
// weights and what one way to recompute saves, beside the working memory of a layer recomputed so.
static double most_layers(const struct saturated *saturated, const struct stage_share *share,
                          double held)
{
    double most = 0;
    for (int i = 0; i < saturated->way_count; i++) {
        const struct saturated_way *way = &saturated->ways[i];
        double each_bytes = share->weight_bytes + held * share->kept * way->saved_bytes;
        double room_bytes = share->room_bytes - share->worked * way->transient_bytes;
        most = fmax(most, room_bytes / each_bytes);
    }
    return most;
}

// A stage that holds n layers keeps n (weights + held * saved) bytes of them, and works on one. As
// long as that is no more than its room nothing is recomputed; each layer more frees its bytes from
// all that are held.
static void find_rooms(const struct saturated_question *question, struct stage_room *rooms)
{
    const struct search_request *request = question->request;
    const struct stack *stack = request->stack;
    const struct saturated *saturated = question->saturated;
    const struct space_mesh *mesh = question->mesh;
    int stages = mesh->degree[AXIS_PP], size = question->group->micro_batch;
    int micro_batches = (int)(request->workload.global_batch / mesh->degree[AXIS_DP] / size);
    double ranks = space_sample_ranks(mesh);
    double slack = 1 + stack_reserve_ratio(stack, stages);
    struct stage_share share = {.room_bytes =
                                    (double)(question->limit_bytes - stack->reserve_bytes),
                                .weight_bytes = layer_bytes(question),
                                .kept = size / ranks * slack};
    // What is moved off the device may be worked on in pieces.
    if (!question->tails->moves_activations) share.worked = share.kept;
    for (int stage = 0; stage < stages; stage++) {
        double held = bound_held(question->tails, stages - stage, micro_batches);
        double each_bytes = share.weight_bytes + held * share.kept * saturated->saved_bytes;
        double worked_bytes = share.worked * saturated->transient_least_bytes;
        struct stage_room *room = &rooms[stage];
        room->most = most_layers(saturated, &share, held);
        room->kept = fmax(0, fmin((share.room_bytes - worked_bytes) / each_bytes, room->most));
        room->more_s = held > 0 ? saturated->s_per_byte * each_bytes / (held * slack) : 0;
    }
}

// Where most micro-batches are held, in the first stages, recomputing costs least: there what is
// left over goes first.
static double recompute_s(const struct stage_room *rooms, int stages, double layers)
{
    double left = layers, sum_s = 0;
    for (int stage = 0; stage < stages; stage++)
        left -= rooms[stage].kept;
    for (int stage = 0; stage < stages && left > 0; stage++) {
        double more = fmin(left, rooms[stage].most - rooms[stage].kept);
        sum_s += more * rooms[stage].more_s;
        left -= more;
    }
    return left > 1e-9 * layers ? INFINITY : sum_s;
}

// Layers that all stages together get through when none takes longer than `stage_s` a micro-batch.
static double layers_within(const struct stage_room *rooms, int stages, double layer_s,
                            double stage_s)
{
    double layers = 0;
    for (int stage = 0; stage < stages; stage++) {
        const struct stage_room *room = &rooms[stage];
        double kept = fmin(room->kept, stage_s / layer_s);
        double left_s = stage_s - kept * layer_s;
        double more = room->most - room->kept;
        if (kept < room->kept) more = 0;
        layers += kept + fmin(more, left_s / (layer_s + room->more_s));
    }
    return layers;
}

// The slowest stage of the fastest split, by halving; a little less than it.
static double slowest_s(const struct stage_room *rooms, int stages, double layers, double layer_s)
{
    enum { HALVINGS = 12 };
    double low_s = layers / stages * layer_s, high_s = layers * layer_s;
    for (int stage = 0; stage < stages; stage++)
        high_s += rooms[stage].more_s * layers;
    if (layers_within(rooms, stages, layer_s, low_s) >= layers) return low_s;
    for (int i = 0; i < HALVINGS; i++) {
        double middle_s = sqrt(low_s * high_s);
        bool ok = layers_within(rooms, stages, layer_s, middle_s) >= layers;
        *(ok ? &high_s : &low_s) = middle_s;
    }
    return low_s;
}

struct saturated_room saturated_room(const struct saturated_question *question, double layer_s)
{
    struct stage_room rooms[STAGE_MAX];
    int stages = question->mesh->degree[AXIS_PP];
    double layers = question->facts->probe_count;
    find_rooms(question, rooms);
    struct saturated_room found = {.recompute_s = recompute_s(rooms, stages, layers)};
    if (found.recompute_s > 0 && !isinf(found.recompute_s) && layer_s > 0)
        found.stage_s = slowest_s(rooms, stages, layers, layer_s);
    return found;
}

double saturated_step_s(struct memo *memo, const struct space *space, enum attention attention)
{
    const struct search_request *request = space->request;
    const struct graph *graph = memo_graph(memo, attention, 1);
    struct bound_facts facts = bound_facts(graph, request->workload.seq_len);
    struct saturated saturated = saturated_make(memo, space, &facts, attention);
    struct space_mesh whole = {.degree = {0}};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        whole.degree[axis] = 1;
    struct bound_work rest = bound_rest(request, &facts, &whole, 1);
    double sequence_s = saturated_work(&facts, &saturated, &whole, 1).all_s + rest.all_s;
    return sequence_s * (double)request->workload.global_batch / request->cluster->rank_count;
}
