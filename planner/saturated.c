#include "planner/saturated.h"

#include "cost_models/memory.h"
#include "planner/choice.h"

#include <assert.h>
#include <math.h>

// Tokens of a micro-batch that no kernel gains by exceeding.
static const int64_t SATURATING_TOKENS = 1 << 20;

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
    struct copy_window window;
    struct saturated_way way;
    double linear_elements;
};

// Of a layer all of whose classes leave the device.
static double moved_bytes(const struct search_request *request, const struct block_program *block)
{
    struct offload all = {.activations = TIER_HOST};
    for (int class = 0; class < OFFLOAD_CLASS_MAX; class ++)
        all.layers[class] = -1;
    return memory_class_bytes(request->stack, request->workload.precision, block,
                              offload_classes(&all, 0));
}

static struct layer layer_of(struct memo *memo, const struct space *space, int kind,
                             enum attention attention, int recompute)
{
    const struct search_request *request = space->request;
    struct parallel parallel = whole_parallel(space, attention);
    parallel.recompute = recompute_of_value(recompute, &parallel.recompute_classes);
    const struct graph *graph = memo_graph(memo, attention, 1);
    struct mesh mesh = memo_mesh(graph, &parallel);
    const struct memo_block *block = memo_block(memo, graph, kind, &mesh, &parallel,
                                                parallel.recompute, memo_longest_stay(memo));
    double sequences = parallel.micro_batch;
    struct copy_window window = copy_window(memo_context(memo), TIER_HOST, &block->price);
    double chain_s = parts_s(block->price.phase_s[PHASE_FORWARD]) +
                     parts_s(block->price.phase_s[PHASE_BACKWARD]);
    double all_s = chain_s + parts_s(block->price.phase_s[PHASE_WEIGHT]);
    enum precision precision = request->workload.precision;
    double backward_bytes = (double)block->light->backward_transient_bytes;
    double parted_bytes = (double)block->light->parted_transient_bytes;
    return (struct layer){
        {all_s / sequences, chain_s / sequences},
        {window.forward_s / sequences, window.backward_s / sequences},
        {recompute, memory_least_kept_bytes(request->stack, precision, block->light) / sequences,
         fmin(backward_bytes, parted_bytes) / sequences, 0,
         moved_bytes(request, block->light) / sequences},
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
    assert(count <= SPACE_VALUE_MAX);
    if (partial && count > 0) values[count++] = none;
    return count;
}

// What of the device's measured kernels no law says that larger ones are faster.
static void forget_seconds(struct saturated *found)
{
    found->sequence = (struct bound_work){0, 0};
    found->window = (struct copy_window){0, 0};
    found->s_per_byte = 0;
    for (int i = 0; i < found->way_count; i++)
        found->ways[i].more_s = 0;
}

struct saturated saturated_of_kind(struct memo *memo, const struct space *space, int kind,
                                   enum attention attention)
{
    struct layer layers[SPACE_VALUE_MAX + 1] = {0};
    int values[SPACE_VALUE_MAX + 1], fastest = 0, count = ways_of(space, values);
    for (int i = 0; i < count; i++) {
        layers[i] = layer_of(memo, space, kind, attention, values[i]);
        if (layers[i].work.all_s < layers[fastest].work.all_s) fastest = i;
    }
    if (count == 0) return (struct saturated){0};
    struct saturated found = {.sequence = layers[fastest].work,
                              .window = layers[fastest].window,
                              .saved_bytes = layers[fastest].way.saved_bytes,
                              .s_per_byte = INFINITY,
                              .way_count = count,
                              .transient_least_bytes = INFINITY,
                              .linear_elements = layers[0].linear_elements};
    for (int i = 0; i < count; i++) {
        double freed_bytes = found.saved_bytes - layers[i].way.saved_bytes;
        found.ways[i] = layers[i].way;
        found.ways[i].more_s = layers[i].work.all_s - found.sequence.all_s;
        found.transient_least_bytes =
            fmin(found.transient_least_bytes, layers[i].way.transient_bytes);
        found.sequence.chain_s = fmin(found.sequence.chain_s, layers[i].work.chain_s);
        if (freed_bytes > 0)
            found.s_per_byte = fmin(found.s_per_byte, found.ways[i].more_s / freed_bytes);
    }
    if (isinf(found.s_per_byte)) found.s_per_byte = 0;
    const struct search_request *request = space->request;
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    if (device->kernels) forget_seconds(&found);
    assert(found.sequence.all_s >= 0 && found.s_per_byte >= 0);
    return found;
}

struct saturated saturated_make(struct memo *memo, const struct space *space,
                                const struct bound_facts *facts, enum attention attention)
{
    struct saturated found = saturated_of_kind(memo, space, facts->probe_kind, attention);
    if (found.way_count == 0) return found;
    found.dense_elements = facts->probe_elements[0];
    found.expert_elements = facts->probe_elements[1];
    found.frozen_elements[0] = facts->probe_frozen_elements[0];
    found.frozen_elements[1] = facts->probe_frozen_elements[1];
    return found;
}

struct bound_work saturated_work(const struct bound_facts *facts, const struct saturated *saturated,
                                 const struct space_mesh *mesh, int micro_batch)
{
    assert(micro_batch >= 1);
    double ranks = space_sample_ranks(mesh);
    double count = facts->probe_count * micro_batch / ranks;
    return (struct bound_work){count * saturated->sequence.all_s,
                               count * saturated->sequence.chain_s};
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
    struct bound_work rest = bound_rest(request, &facts, &whole, 1, 0);
    double sequence_s = saturated_work(&facts, &saturated, &whole, 1).all_s + rest.all_s;
    return sequence_s * (double)request->workload.global_batch / request->cluster->rank_count;
}
