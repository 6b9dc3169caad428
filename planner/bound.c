#include "planner/bound.h"

#include "core/real.h"
#include "cost_models/offload.h"

#include "cost_models/parameters.h"
#include "plan/step_end.h"
#include "planner/memo.h"
#include "topologies/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Tied parameters of different blocks are counted with the first of them.
static bool is_repeated(const struct graph *graph, int block, const char *tie)
{
    for (int b = 0; b < block && tie; b++) {
        for (int t = 0; t < graph->blocks[b].tensor_count; t++) {
            const char *other = graph->blocks[b].tensors[t].tie;
            if (other && strcmp(other, tie) == 0) return true;
        }
    }
    return false;
}

// Of the blocks of a kind, or of those that are not.
static double flop_of(const struct graph *graph, int kind, bool is_kind, int64_t seq_len)
{
    struct arena spare = {0};
    struct graph part = *graph;
    part.sequence = ARENA_NEW(&spare, int, graph->sequence_count);
    part.sequence_count = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        if ((graph->sequence[i] == kind) == is_kind)
            part.sequence[part.sequence_count++] = graph->sequence[i];
    }
    double flop = graph_model_flop(&part, seq_len);
    arena_free(&spare);
    return flop;
}

// Of how much of the work on a layer of another kind is worth a look of its own.
static const double OTHERS_SHARE = 0.1;

static void find_others(const struct graph *graph, int64_t seq_len, struct bound_facts *facts)
{
    for (int b = 0; b < graph->block_count; b++) {
        struct bound_layers layers = {.kind = b};
        if (graph->blocks[b].role != BLOCK_LAYER || b == facts->probe_kind) continue;
        for (int i = 0; i < graph->sequence_count; i++)
            layers.count += graph->sequence[i] == b;
        layers.flop = flop_of(graph, b, true, seq_len);
        bool is_much = layers.flop >= OTHERS_SHARE * facts->layer_flop;
        if (!is_much || facts->other_count == BOUND_OTHERS_MAX) continue;
        int at = facts->other_count++;
        for (; at > 0 && facts->others[at - 1].flop < layers.flop; at--)
            facts->others[at] = facts->others[at - 1];
        facts->others[at] = layers;
    }
}

static void note_size(struct bound_facts *facts, int in_expert, double elements, int count)
{
    struct bound_size *sizes = facts->sizes[in_expert];
    int at = facts->size_count;
    for (; at > 0 && sizes[at - 1].elements > elements; at--)
        sizes[at] = sizes[at - 1];
    sizes[at] = (struct bound_size){elements, count};
}

double bound_layers(const struct bound_facts *facts, int in_expert, double layers, bool largest)
{
    double sum = 0;
    for (int i = 0; i < facts->size_count && layers > 0; i++) {
        int at = largest ? facts->size_count - 1 - i : i;
        const struct bound_size *size = &facts->sizes[in_expert][at];
        double taken = fmin(layers, size->count);
        sum += taken * size->elements;
        layers -= taken;
    }
    return sum;
}

static void note_layer(const struct block *block, const double elements[2], const double frozen[2],
                       int64_t seq_len, struct bound_facts *facts)
{
    for (int i = 0; i < 2; i++)
        facts->layer_frozen_elements[i] = fmin(facts->layer_frozen_elements[i], frozen[i]);
    const struct tensor *input = &block->tensors[block->inputs[0]];
    facts->layer_dense_elements = fmin(facts->layer_dense_elements, elements[0]);
    facts->layer_expert_elements = fmin(facts->layer_expert_elements, elements[1]);
    facts->layer_input_elements =
        fmin(facts->layer_input_elements, (double)tensor_elements(input, 1, seq_len));
}

struct bound_facts bound_facts(const struct graph *graph, int64_t seq_len)
{
    struct bound_facts facts = {.layer_flop = graph_model_flop(graph, seq_len),
                                .layer_count = graph->layer_count,
                                .layer_dense_elements = INFINITY,
                                .layer_expert_elements = INFINITY,
                                .layer_frozen_elements = {INFINITY, INFINITY},
                                .layer_input_elements = INFINITY};
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        int uses = 0;
        double each[2] = {0, 0}, frozen[2] = {0, 0};  // elements outside and inside experts
        for (int i = 0; i < graph->sequence_count; i++) {
            uses += graph->sequence[i] == b;
        }
        if (block->role == BLOCK_LAYER && uses > facts.probe_count) {
            facts.probe_kind = b;
            facts.probe_count = uses;
        }
        for (int t = 0; t < block->tensor_count; t++) {
            const struct tensor *tensor = &block->tensors[t];
            if (tensor->role != TENSOR_PARAMETER || is_repeated(graph, b, tensor->tie)) continue;
            bool in_expert = tensor_find_dim(tensor, DIM_EXPERT) >= 0;
            double elements = (double)tensor_elements(tensor, 1, 1);
            if (!tensor->tie) (tensor->frozen ? frozen : each)[in_expert] += elements;
            elements *= tensor->tie ? 1 : uses;
            if (tensor->frozen) {
                facts.frozen_elements[in_expert] += elements;
                continue;
            }
            *(in_expert ? &facts.expert_elements : &facts.dense_elements) += elements;
        }
        if (block->role == BLOCK_LAYER && uses > 0) {
            assert(facts.size_count < BOUND_SIZES_MAX);
            for (int i = 0; i < 2; i++)
                note_size(&facts, i, each[i], uses);
            facts.size_count++;
            note_layer(block, each, frozen, seq_len, &facts);
        }
        if (b != facts.probe_kind) continue;
        memcpy(facts.probe_elements, each, sizeof each);
        memcpy(facts.probe_frozen_elements, frozen, sizeof frozen);
    }
    facts.rest_flop = flop_of(graph, facts.probe_kind, false, seq_len);
    assert(facts.layer_flop >= 0 && facts.rest_flop >= 0);
    find_others(graph, seq_len, &facts);
    return facts;
}

struct bound_facts bound_facts_of(const struct search_request *request)
{
    struct arena work = {0}, scratch = {0};
    struct memo *memo = memo_new(&work, &scratch, request);
    const struct graph *graph = memo_graph(memo, ATTENTION_FLASH, 1);
    struct bound_facts facts = bound_facts(graph, request->workload.seq_len);
    arena_free(&scratch);
    arena_free(&work);
    return facts;
}

double bound_pipeline_s(struct bound_work work, int stage_count, int micro_batch_count,
                        unsigned kinds)
{
    assert(stage_count >= 1 && micro_batch_count >= 1 && kinds != 0);
    double mean_s = work.all_s * micro_batch_count / stage_count, least_s = INFINITY;
    double kept_ratio = real_power_int(1 - 1.0 / micro_batch_count, stage_count);
    if (kinds & PIPELINE_FUSED) least_s = fmin(least_s, work.all_s / (1 - kept_ratio));
    if (kinds & PIPELINE_CHUNKED) least_s = fmin(least_s, work.all_s);
    if (kinds & PIPELINE_PARTED) least_s = fmin(least_s, work.chain_s);
    return fmax(mean_s, least_s);
}

// Kernels do no better than the device's best GEMM or attention.
static double highest_flop_per_s(const struct search_request *request, const struct device *device)
{
    enum precision precision = request->workload.precision;
    const struct device_efficiency *efficiency = &device->efficiency;
    const struct stack *stack = request->stack;
    double highest = 0;
    for (int i = 0; i < PRECISION_COUNT; i++) {
        double peak = device->peak_flop_per_s[i];
        double gemm_ratio = efficiency->gemm_ratio[i] * stack->gemm_scale;
        double forward_ratio = efficiency->attention_forward_ratio * stack->attention_forward_scale;
        double backward_ratio =
            efficiency->attention_backward_ratio * stack->attention_backward_scale;
        // Nothing runs narrower than the run; attention runs in 16 bits or more, but for stacks
        // that run it in fp8.
        if (precision_bytes((enum precision)i) < precision_bytes(precision)) continue;
        highest = fmax(highest, peak * gemm_ratio);
        if (precision_bytes((enum precision)i) < 2 && !stack->expert_attention) continue;
        highest = fmax(highest, peak * fmax(forward_ratio, backward_ratio));
    }
    if (!device->kernels) return highest;
    double scale = fmax(stack->gemm_scale,
                        fmax(stack->attention_forward_scale, stack->attention_backward_scale));
    return fmax(highest, device->kernels->flop_per_s_most * scale);
}

// Of so much work, that dropped tokens are none of.
static double done_flop(const struct search_request *request, double flop)
{
    double drops = request->workload.capacity_factor;
    return drops > 0 && drops < 1 ? flop * drops : flop;
}

double bound_work_s(const struct search_request *request, const struct bound_facts *facts)
{
    const struct cluster *cluster = request->cluster;
    double rate = 0;
    for (int rank = 0; rank < cluster->rank_count; rank++)
        rate += highest_flop_per_s(request, cluster_group_of(cluster, rank)->device);
    assert(rate > 0 && "the precision is one that every device has");
    return done_flop(request, facts->layer_flop) * (double)request->workload.global_batch / rate;
}

// Of one micro-batch on all stages, were each kernel as fast as the fastest.
static double fastest_s(const struct search_request *request, const struct space_mesh *mesh,
                        double flop)
{
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    double ranks = space_sample_ranks(mesh);
    return done_flop(request, flop) / ranks / highest_flop_per_s(request, device);
}

// Of a GEMM's flops a third are its weight gradient; attention has none.
static struct bound_work fastest(const struct search_request *request,
                                 const struct space_mesh *mesh, double flop)
{
    double all_s = fastest_s(request, mesh, flop);
    return (struct bound_work){all_s, all_s * 2 / 3};
}

struct bound_work bound_rest(const struct search_request *request, const struct bound_facts *facts,
                             const struct space_mesh *mesh, int micro_batch, int others)
{
    assert(others >= 0 && others <= BOUND_OTHERS_MAX);
    double flop = facts->rest_flop;
    for (int i = 0; i < others; i++)
        flop -= facts->others[i].flop;
    return fastest(request, mesh, fmax(flop, 0) * micro_batch);
}

double bound_step_s(const struct search_request *request, const struct bound_facts *facts,
                    const struct space_mesh *mesh, int micro_batch, const struct space_tails *tails)
{
    const struct workload *workload = &request->workload;
    int micro_batches = (int)(workload->global_batch / mesh->degree[AXIS_DP] / micro_batch);
    struct bound_work work = fastest(request, mesh, facts->layer_flop * micro_batch);
    return bound_pipeline_s(work, mesh->degree[AXIS_PP], micro_batches, tails->kinds);
}

// Where parameters are is one for all plans of a search.
static bool keeps_parameters(const struct search_request *request)
{
    struct int_range pinned = pins_get(&request->pins, CHOICE_OFFLOAD);
    enum tier parameters =
        pinned.set ? offload_of_value(pinned.low).parameters : request->pins.search_parameters;
    return parameters == TIER_DEVICE;
}

// And where gradients are.
static bool keeps_gradients(const struct search_request *request)
{
    struct int_range pinned = pins_get(&request->pins, CHOICE_OFFLOAD);
    if (request->stack->gradients_leave_zero_stages)
        return pinned.set ? offload_of_value(pinned.low).optimizer == TIER_DEVICE
                          : !request->pins.search_offload;
    return !(pinned.set ? offload_of_value(pinned.low).gradients : request->pins.search_gradients);
}

double bound_frozen_bytes(const struct search_request *request, const struct space_mesh *mesh,
                          const struct space_tails *tails, const double frozen[2])
{
    assert(frozen[0] >= 0 && frozen[1] >= 0);
    if (!keeps_parameters(request)) return 0;
    double tp = mesh->degree[AXIS_TP];
    double data = (double)mesh->degree[AXIS_DP] * mesh->degree[AXIS_CP];
    double split = (double)mesh->degree[AXIS_EP] * mesh->degree[AXIS_ETP];
    double dense = frozen[0] / tp, experts = frozen[1] / split;
    if (tails->zero_most >= 3) {
        dense /= data;
        experts /= fmax(1, data * tp / split);
    }
    return (dense + experts) * parameter_weight_bytes(request->workload.precision);
}

// What a rank of one stage has of so many elements outside and inside experts.
struct share {
    double whole, shards;
};

static struct share share_of(const struct space_mesh *mesh, double dense, double experts)
{
    double tp = mesh->degree[AXIS_TP];
    double data = (double)mesh->degree[AXIS_DP] * mesh->degree[AXIS_CP];
    double split = (double)mesh->degree[AXIS_EP] * mesh->degree[AXIS_ETP];
    dense /= tp, experts /= split;
    double shards = dense / data + experts / fmax(1, data * tp / split);
    return (struct share){dense + experts, shards};
}

double bound_kept_bytes(const struct search_request *request, const struct space_mesh *mesh,
                        const struct space_tails *tails, double dense, double experts)
{
    assert(dense >= 0 && experts >= 0);
    const struct stack *stack = request->stack;
    enum precision precision = request->workload.precision;
    struct share share = share_of(mesh, dense, experts);
    double kept[4];  // of weights and of what each further ZeRO stage shards, by stage
    for (int zero = 0; zero < 4; zero++) {
        kept[zero] = tails->zero_most >= zero ? share.shards : share.whole;
    }
    double gradients = tails->streams || !keeps_gradients(request) ? 0
                       : tails->accumulates                        ? share.whole
                                                                   : kept[2];
    double bytes = gradients * stack_gradient_bytes(stack, precision);
    if (tails->state_tiers == 1u << TIER_DEVICE)
        bytes += kept[1] * stack_state_bytes(stack, request->workload.optimizer, precision);
    bool is_here = keeps_parameters(request);
    if (is_here && stack_keeps_low_precision_weights(stack, precision, tails->zero_most >= 3)) {
        bytes += kept[3] * parameter_weight_bytes(precision);
    }
    return bytes;
}

// Of all hosts that ranks of the cluster are on.
static struct host hosts_together(const struct cluster *cluster)
{
    struct host all = {0};
    int first = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int ranks = group->count * group->gpus, each = group->gpus_per_host;
        if (ranks > cluster->rank_count - first) ranks = cluster->rank_count - first;
        int64_t hosts = ranks > 0 ? (ranks + each - 1) / each : 0;
        all.memory_bytes += hosts * group->host.memory_bytes;
        all.nvme_bytes += hosts * group->host.nvme_bytes;
        first += group->count * group->gpus;
    }
    return all;
}

unsigned bound_state_tiers(const struct search_request *request, const struct bound_facts *facts,
                           const struct space_mesh *mesh, const struct space_tails *tails)
{
    const struct stack *stack = request->stack;
    enum precision precision = request->workload.precision;
    struct int_range pinned = pins_get(&request->pins, CHOICE_OFFLOAD);
    if (pinned.set && offload_of_value(pinned.low).optimizer_layers > 0) return tails->state_tiers;
    struct host hosts = hosts_together(request->cluster);
    struct share share = share_of(mesh, facts->dense_elements, facts->expert_elements);
    double elements = tails->zero_most >= 1 ? share.shards : share.whole;
    // Bytes are cut to whole ones rank by rank.
    double ranks = request->cluster->rank_count, cut = ranks * (1 - 1e-9);
    double state_bytes = stack_host_state_bytes(stack, request->workload.optimizer, precision);
    double stage_elements = elements / mesh->degree[AXIS_PP];
    double states = cut * (stage_elements * state_bytes - 1);
    double gradients = cut * (stage_elements * stack_gradient_bytes(stack, precision) - 1);
    unsigned tiers = tails->state_tiers;
    if (states + gradients > (double)hosts.memory_bytes) tiers &= ~(1u << TIER_HOST);
    if (gradients > (double)hosts.memory_bytes || states > (double)hosts.nvme_bytes)
        tiers &= ~(1u << TIER_NVME);
    return tiers;
}

// Layers of each stage whose states leave, where those of others stay; else 0.
static int away_layers(const struct search_request *request)
{
    struct int_range pinned = pins_get(&request->pins, CHOICE_OFFLOAD);
    return pinned.set ? offload_of_value(pinned.low).optimizer_layers : 0;
}

// Of all stages, where states of but so many layers of each leave.
static double staying_state_bytes(const struct search_request *request,
                                  const struct bound_facts *facts, const struct space_mesh *mesh,
                                  const struct space_tails *tails)
{
    double away = (double)mesh->degree[AXIS_PP] * away_layers(request);
    if (away <= 0) return 0;
    double dense = facts->dense_elements - bound_layers(facts, 0, away, true);
    double experts = facts->expert_elements - bound_layers(facts, 1, away, true);
    struct share share = share_of(mesh, fmax(0, dense), fmax(0, experts));
    return (tails->zero_most >= 1 ? share.shards : share.whole) *
           stack_state_bytes(request->stack, request->workload.optimizer,
                             request->workload.precision);
}

double bound_bytes(const struct search_request *request, const struct bound_facts *facts,
                   const struct space_mesh *mesh, const struct space_tails *tails)
{
    double bytes =
        bound_kept_bytes(request, mesh, tails, facts->dense_elements, facts->expert_elements) +
        bound_frozen_bytes(request, mesh, tails, facts->frozen_elements) +
        staying_state_bytes(request, facts, mesh, tails);
    return bytes / mesh->degree[AXIS_PP] + (double)request->stack->reserve_bytes;
}

double bound_held(const struct space_tails *tails, int stages_left, int micro_batch_count)
{
    assert(stages_left >= 1 && micro_batch_count >= 1);
    if (tails->moves_activations) return 0;
    double held = tails->hold_ratio * fmin(stages_left, micro_batch_count);
    if (tails->in_flight_least > 0) held = fmin(held, tails->in_flight_least);
    return fmax(held, 1);
}

// Whether tp splits what a layer takes in: sequence parallelism and grids do.
static bool splits_input(const struct search_request *request, const struct space_group *group)
{
    struct int_range kind = pins_get(&request->pins, CHOICE_TP_KIND);
    return group->sp || (kind.set && kind.low != TP_1D);
}

bool bound_has_room(const struct search_request *request, const struct bound_facts *facts,
                    const struct space_mesh *mesh, const struct space_group *group,
                    const struct space_tails *tails, int64_t limit_bytes)
{
    const struct stack *stack = request->stack;
    int stages = mesh->degree[AXIS_PP];
    int64_t batch = request->workload.global_batch;
    int micro_batches = (int)(batch / mesh->degree[AXIS_DP] / group->micro_batch);
    double room_bytes = (double)(limit_bytes - stack->reserve_bytes);
    double layer_bytes = bound_kept_bytes(request, mesh, tails, facts->layer_dense_elements,
                                          facts->layer_expert_elements) +
                         bound_frozen_bytes(request, mesh, tails, facts->layer_frozen_elements);
    double parts =
        space_sample_ranks(mesh) / (splits_input(request, group) ? 1.0 : mesh->degree[AXIS_TP]);
    double input_bytes = facts->layer_input_elements * group->micro_batch / parts *
                         precision_bytes(request->workload.precision) *
                         (1 + stack_reserve_ratio(stack, stages));
    double layers = 0;
    if (tails->state_tiers == 0) return false;
    for (int stage = 0; stage < stages; stage++) {
        double held = bound_held(tails, stages - stage, micro_batches);
        double fitting = floor(room_bytes / (layer_bytes + held * input_bytes));
        // Only the ends may hold nothing but the embedding or the head.
        if (fitting < 1 && stage > 0 && stage < stages - 1) return false;
        layers += fmax(fitting, 0);
    }
    return layers >= facts->layer_count &&
           bound_bytes(request, facts, mesh, tails) <= (double)limit_bytes;
}

double bound_host_update_s(const struct price_context *context,
                           const struct search_request *request, const struct bound_facts *facts,
                           const struct space_mesh *mesh, bool shards)
{
    struct int_range pinned = pins_get(&request->pins, CHOICE_OFFLOAD);
    bool moves_more = !keeps_parameters(request) || !keeps_gradients(request);
    bool is_beside = request->stack->post_validation || step_streams(&request->workload);
    int layers = away_layers(request), stages = mesh->degree[AXIS_PP];
    if ((pinned.set && layers == 0) || moves_more || is_beside) return 0;
    struct share share = share_of(mesh, facts->dense_elements, facts->expert_elements);
    double elements = (shards ? share.shards : share.whole) / stages;
    if (layers > 0) {
        // Of the stage with most layers so many leave, or all it has.
        double own = fmin(layers, ceil((double)facts->layer_count / stages));
        share =
            share_of(mesh, bound_layers(facts, 0, own, false), bound_layers(facts, 1, own, false));
        elements = shards ? share.shards : share.whole;
    }
    return host_update_least_s(context, request->workload.optimizer, elements);
}

double bound_update_s(const struct price_context *context, const struct search_request *request,
                      const struct bound_facts *facts, const struct space_mesh *mesh,
                      const struct space_group *group, const struct space_tails *tails,
                      int64_t limit_bytes)
{
    struct space_tails here = *tails;
    here.state_tiers = tails->state_tiers & 1u << TIER_DEVICE;
    if (bound_has_room(request, facts, mesh, group, &here, limit_bytes)) return 0;
    return bound_host_update_s(context, request, facts, mesh, tails->zero_most >= 1);
}
