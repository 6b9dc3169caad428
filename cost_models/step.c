#include "cost_models/step.h"
#include "cost_models/gemm.h"
#include "cost_models/gradient_sums.h"
#include "cost_models/ledger.h"
#include "cost_models/message.h"
#include "cost_models/offload.h"
#include "cost_models/parameters.h"
#include "plan/passes.h"

#include <assert.h>
#include <math.h>

// Once a step: reductions, gathers, update. The micro-batch is priced in block.c.

// Gradients partial over the data axes. Where storage is split over some of them, they are
// scattered there (ZeRO 1; 2 and 3 did so in every micro-batch, as far as gradients are sharded),
// then summed over the replicas of the shards; to owners of whole tensors, pieces of no equal size,
// nothing is scattered. Buckets are priced at their mean size: how often latency is paid counts.
static double reduce_s(const struct price_context *context, const struct program *program,
                       const struct step_group *group, double bytes)
{
    assert(group->bucket_count > 0 || bytes <= 0);
    const struct mesh *mesh = &program->mesh;
    const struct storage *storage = &group->storage;
    bool is_whole = context->compute.stack->owned_tensors && !storage->gradient_axes;
    unsigned kept = storage->gradient_axes;
    unsigned shard = is_whole ? 0 : storage_scatter_axes(storage, group->reduce_axes);
    struct step_message message = {.entry = ENTRY_REDUCE, .count = group->bucket_count};
    double total_s = 0;
    if (shard) {
        message.collective = COLLECTIVE_REDUCE_SCATTER;
        message.axes = shard;
        message.bytes = bytes / mesh_size(mesh, kept);
        total_s += messages_s(context, mesh, &message);
        kept |= shard;
    }
    message.collective = COLLECTIVE_ALL_REDUCE;
    message.axes = group->reduce_axes & ~shard;
    message.bytes = bytes / mesh_size(mesh, kept);
    return total_s + messages_s(context, mesh, &message);
}

// Owners of whole tensors send each of them to the others.
static double owned_gather_s(const struct price_context *context, const struct program *program,
                             const struct parameter_sums *sums)
{
    double total_s = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        const struct storage *storage = &program->storage[kind];
        if (!storage->optimizer_axes || storage->weight_axes) continue;
        assert(parameter_kind_is_trained((enum parameter_kind)kind));
        double bytes = sums->elements[kind] * parameter_weight_bytes(program->workload.precision);
        int owners = mesh_size(&program->mesh, storage->optimizer_axes);
        int count = owners < sums->tensor_count[kind] ? owners : sums->tensor_count[kind];
        struct step_message gather = {ENTRY_GATHER, COLLECTIVE_ALL_GATHER, storage->optimizer_axes,
                                      bytes, count};
        total_s += messages_s(context, &program->mesh, &gather);
    }
    return total_s;
}

// Of a chunk's parameters those that come back as GEMMs read them. Block scales differ between the
// two ways that a weight is read, so that on devices with those the wide ones are gathered
// (Megatron-LM, reuse_grad_buf_for_mxfp8_param_ag).
static double narrow_share(const struct price_context *context, const struct program *program,
                           const struct program_chunk *chunk, const struct parameter_sums *sums)
{
    const struct compute_context *compute = &context->compute;
    enum precision precision = program->workload.precision;
    bool is_narrow = stack_has_narrow_weights(compute->stack, precision, program->parallel.zero) &&
                     !compute_is_block_scaled_fp8(compute);
    if (!is_narrow) return 0;
    double linear = 0, all = 0;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        linear += use->count * (double)program->blocks[use->block_program]->linear_elements;
    }
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        all += sums->elements[kind];
    // Of layers' GEMMs alone, and never of what is tied, which would be counted use by use.
    assert(linear <= all);
    return all > 0 ? linear / all : 0;
}

// Parameters come back from the ranks that updated them.
static double gather_s(const struct price_context *context, const struct program *program,
                       const struct step_group *group, double narrow_share)
{
    if (group->gather_count == 0) return 0;
    enum precision precision = program->workload.precision;
    double wide = (1 - narrow_share) * parameter_weight_bytes(precision);
    double bytes = group->elements * (wide + narrow_share * precision_bytes(precision)) /
                   mesh_size(&program->mesh, group->storage.weight_axes);
    struct step_message gather = {ENTRY_GATHER, COLLECTIVE_ALL_GATHER,
                                  storage_gather_axes(&group->storage), bytes, group->gather_count};
    return messages_s(context, &program->mesh, &gather);
}

// The norms are lines of their own, as a task each of the step graph.
static void add_update(const struct price_context *context, const struct program *program,
                       double elements, struct chunk_price *price)
{
    enum optimizer optimizer = program->workload.optimizer;
    const struct compute_context *compute = &context->compute;
    double bytes = update_bytes(compute, optimizer, elements);
    double squared_bytes = norm_bytes(compute, elements);
    double squared_s = stream_s(compute, squared_bytes);
    double ratio_bytes = trust_norm_bytes(optimizer, elements);
    double ratio_s = stream_s(compute, ratio_bytes);
    double own_s = update_s(compute, optimizer, elements) - squared_s - ratio_s;
    price->update_s += own_s + ratio_s;
    ledger_add_time(context->ledger, ENTRY_UPDATE, 0, "optimizer", own_s,
                    bytes - squared_bytes - ratio_bytes);
    ledger_add_time(context->ledger, ENTRY_RATIOS, 0, "trust ratios", ratio_s, ratio_bytes);
    if (!step_takes_norm(&program->workload)) return;
    price->update_s += squared_s;
    ledger_add_time(context->ledger, ENTRY_SQUARES, 0, "gradient norm", squared_s, squared_bytes);
}

// What of them is updated on the host.
static void add_updates(const struct price_context *context, const struct program *program,
                        const struct parameter_sums *sums, struct host_share *share,
                        struct chunk_price *price)
{
    double states = parameter_stored(program, sums, STORED_STATES);
    share->fetched = fmin(parameter_fetched(program, sums), share->elements);
    bool is_here = program->parallel.offload.optimizer == TIER_DEVICE;
    if (is_here || states - share->elements >= 1)
        add_update(context, program, states - share->elements, price);
    if (!is_here && (share->elements > 0 || program->parallel.offload.optimizer_layers == 0))
        host_update_add(context, program, share, price);
}

static void add_host_group(const struct mesh *mesh, const struct step_group *group,
                           struct host_share *host)
{
    if (!(group->storage.away & AWAY_STATES)) return;
    // What of a block is in two buckets is two units.
    int units = group->bucket_count > group->unit_count ? group->bucket_count : group->unit_count;
    host->units += units;
    if (!group->is_away) return;
    host->away_units += units;
    host->away += group->elements / mesh_size(mesh, group->storage.optimizer_axes);
}

static struct chunk_price once_a_step(const struct price_context *context,
                                      const struct program *program,
                                      const struct program_chunk *chunk)
{
    const struct stack *stack = context->compute.stack;
    const struct mesh *mesh = &program->mesh;
    const struct parameter_sums sums = parameter_sums(program, chunk);
    const struct step_rules rules = step_rules_of(stack, program);
    const struct step_end end = step_end_of(program, chunk, &rules);
    struct chunk_price price = {0};
    double width = stack_gradient_bytes(stack, program->workload.precision);
    double reduce_bytes = stack_reduce_bytes(stack, program->workload.precision);
    struct host_share host = {.elements = parameter_away(program, chunk, &sums, STORED_STATES)};
    double narrow = narrow_share(context, program, chunk, &sums);
    for (int i = 0; i < end.group_count; i++) {
        const struct step_group *group = &end.groups[i];
        add_host_group(mesh, group, &host);
        ledger_turn_to_part(context->ledger, -1, i);
        price.gradient_reduce_s +=
            reduce_s(context, program, group, group->elements * reduce_bytes);
        if (!stack->owned_tensors)
            price.parameter_gather_s += gather_s(context, program, group, narrow);
    }
    if (stack->owned_tensors) price.parameter_gather_s = owned_gather_s(context, program, &sums);
    for (int i = 0; i < end.small_kind_count; i++) {
        const struct step_small *of = &end.smalls[i];
        ledger_turn_to_part(context->ledger, -1, i);
        // Of gradients kept in shards each rank adds up its own part.
        double bytes = of->elements * reduce_bytes / mesh_size(mesh, of->gradient_axes);
        struct step_message small = {ENTRY_SMALL, COLLECTIVE_ALL_REDUCE, of->axes, bytes,
                                     of->count};
        price.small_reduce_s += messages_s(context, mesh, &small);
    }
    ledger_turn_to_part(context->ledger, -1, -1);
    price.counts =
        (struct step_counts){end.reduce_count, end.small_count, end.update_count, end.gather_count};
    price.bucket_count = end.reduce_count > 0 ? end.reduce_count : end.gather_count;
    if (price.bucket_count < 1) price.bucket_count = 1;
    double kept_gradients = parameter_stored(program, &sums, STORED_GRADIENTS);
    double walked_bytes = kept_gradients * width * stack->gradient_passes;
    double walked_s = stream_s(&context->compute, walked_bytes);
    add_updates(context, program, &sums, &host, &price);
    ledger_add_time(context->ledger, ENTRY_UPDATE, 0, "gradient passes", walked_s, walked_bytes);
    price.update_s += walked_s;
    return price;
}

// Quantised weights, and the maxima from which the scales of the next step follow, are the work of
// a step, not of a micro-batch.
static void add_casts(const struct price_context *context, const struct program *program,
                      const struct program_chunk *chunk, struct chunk_price *price)
{
    double scale_count = 0;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        int scales;
        double cast_s = use->count * weight_cast_s(&context->compute,
                                                   program->blocks[use->block_program], &scales);
        double cast_bytes = use->count * context->compute.stack->cast_bytes *
                            (double)program->blocks[use->block_program]->linear_elements;
        ledger_add_time(context->ledger, ENTRY_UPDATE, 0, "weight casts", cast_s, cast_bytes);
        price->update_s += cast_s;
        scale_count += (double)use->count * scales;
    }
    if (!context->compute.stack->delayed_scaling) return;
    const struct mesh *mesh = &program->mesh;
    unsigned stage_axes = ((1u << mesh->axis_count) - 1) & ~mesh_axes_of(mesh, AXIS_PP);
    struct step_message maxima = {ENTRY_SMALL, COLLECTIVE_ALL_REDUCE, stage_axes,
                                  scale_count * sizeof(float), 1};
    price->small_reduce_s += messages_s(context, mesh, &maxima);
}

static struct chunk_price price_chunk(const struct price_context *context, const struct program *of,
                                      const struct program_chunk *chunk,
                                      const struct block_price *blocks)
{
    struct program room;
    const struct program *program = program_of_chunk(of, chunk, &room);
    struct chunk_price price = once_a_step(context, program, chunk);
    double window_s = 0;
    if (precision_bytes(context->compute.precision) < 2) {
        add_casts(context, program, chunk, &price);
    }
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_price *block = &blocks[chunk->uses[u].block_program];
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            for (int part = 0; part < PART_COUNT; part++) {
                price.phase_s[phase][part] += chunk->uses[u].count * block->phase_s[phase][part];
            }
        }
        price.added_s += chunk->uses[u].count * block->adding_s;
        ledger_turn_to_part(context->ledger, u, -1);
        copy_add(context, program, &chunk->uses[u], block, &price);
        window_s += chunk->uses[u].count * copy_window(context, TIER_HOST, block).backward_s;
    }
    ledger_turn_to_part(context->ledger, -1, -1);
    gradient_begins_add(context, program, chunk, &price);
    step_add_begins(step_rounds(context, program), &price);
    gradient_copies_add(context, program, chunk, window_s, &price);
    struct chunk_price before = price;
    step_add_host(context->compute.stack, program->shape.stage_count, &price);
    for (enum phase phase = 0; phase < PHASE_COUNT; phase++) {
        double more_s = price.phase_s[phase][PART_COMPUTE] - before.phase_s[phase][PART_COMPUTE];
        ledger_add_time(context->ledger, ENTRY_TASK, phase, "host tasks", more_s, 0);
    }
    return price;
}

// Hiding the exchange of experts needs a second micro-batch, or a chunk, beside it.
unsigned step_overlap(const struct stack *stack, const struct parallel *parallel)
{
    unsigned overlap = passes_overlap(parallel);
    if (stack->exposed_zero_stages >> parallel->zero & 1) overlap &= ~(unsigned)OVERLAP_GRAD_REDUCE;
    bool has_partner = !stack->ep_overlap_interleaved || parallel_interleaves(parallel);
    bool is_piped = parallel->degree[AXIS_PP] > 1;
    if (is_piped && !schedule_row(parallel->schedule)->backward_fused) overlap |= OVERLAP_APART;
    return has_partner ? overlap : overlap & ~(unsigned)OVERLAP_EP;
}

bool step_post_validated(const struct stack *stack, const struct parallel *parallel)
{
    return stack->post_validation && !schedule_row(parallel->schedule)->backward_fused;
}

static struct tied_price *price_ties(struct arena *arena, const struct price_context *context,
                                     const struct program *program)
{
    struct tied_price *prices = ARENA_NEW(arena, struct tied_price, program->tie_count + 1);
    for (int i = 0; i < program->tie_count; i++) {
        const struct tied *tied = &program->ties[i];
        prices[i] = (struct tied_price){tied->stages, tied->stage_count,
                                        between_tied_s(context, program, tied)};
    }
    return prices;
}

struct step_price *step_price_of_blocks(struct arena *arena, const struct price_context *context,
                                        const struct program *program,
                                        const struct block_price *blocks, const double *known_hop_s)
{
    const struct stack *stack = context->compute.stack;
    const struct parallel *parallel = &program->parallel;
    unsigned overlap = step_overlap(stack, parallel);
    struct chunk_price *classes = ARENA_NEW(arena, struct chunk_price, program->chunk_class_count);
    for (int i = 0; i < program->chunk_class_count; i++) {
        ledger_turn_to(context->ledger, -1, i);
        classes[i] = price_chunk(context, program, &program->chunks[i], blocks);
    }
    ledger_turn_to(context->ledger, -1, -1);
    struct step_price *price = ARENA_NEW(arena, struct step_price, 1);
    assert(!known_hop_s || (isfinite(*known_hop_s) && *known_hop_s >= 0));
    *price = (struct step_price){
        .shape = program->shape,
        .schedule = parallel->schedule,
        .classes = classes,
        .class_count = program->chunk_class_count,
        .class_of = program->class_of,
        .hop_s = known_hop_s ? *known_hop_s : between_hop_s(context, program),
        .hop_overlapped = overlap & OVERLAP_PP,
        .reduce_overlapped = overlap & OVERLAP_GRAD_REDUCE,
        .gather_overlapped = overlap & OVERLAP_PARAM_GATHER,
        .overlap_ratio = stack->overlap_ratio,
        .ties = price_ties(arena, context, program),
        .tie_count = program->tie_count,
        .norm_s = between_norm_s(context, program),
        .streams = step_streams(&program->workload),
        .post_validated = step_post_validated(stack, parallel),
        .overhead_s = stack->step_overhead_s,
    };
    return price;
}

struct step_price *step_price(struct arena *arena, const struct price_context *context,
                              const struct program *program)
{
    unsigned overlap = step_overlap(context->compute.stack, &program->parallel);
    struct block_price *blocks = ARENA_NEW(arena, struct block_price, program->block_count);
    for (int i = 0; i < program->block_count; i++) {
        ledger_turn_to(context->ledger, i, -1);
        struct program room;
        const struct program *seen = program_of_block(program, i, &room);
        blocks[i] = block_price(context, &seen->mesh, program->blocks[i], overlap);
    }
    return step_price_of_blocks(arena, context, program, blocks, NULL);
}

double cost_parts_sum(const struct cost *cost)
{
    return cost->compute_s + cost->recompute_s + cost->exposed_comm_s + cost->imbalance_s +
           cost->bubble_s + cost->update_s + cost->overhead_s;
}

static double chunk_busy_s(const struct chunk_price *chunk)
{
    double busy_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (int part = 0; part < PART_COUNT; part++)
            busy_s += chunk->phase_s[phase][part];
    }
    return busy_s;
}

void cost_part_waiting(struct cost *cost, const struct step_price *price,
                       const struct stage_runs *runs)
{
    enum { CLASSES = 32 };
    double class_busy_s[CLASSES];  // added up once, but where there are many
    int known = price->class_count <= CLASSES ? price->class_count : 0;
    for (int class = 0; class < known; class ++)
        class_busy_s[class] = chunk_busy_s(&price->classes[class]);
    int chunk_count = price->shape.chunk_count;
    double most_s = 0, sum_s = 0;
    for (int i = 0; i < runs->run_count; i++) {
        const int *classes = &price->class_of[runs->runs[i].first * chunk_count];
        double busy_s = 0;
        for (int chunk = 0; chunk < chunk_count; chunk++)
            busy_s += known ? class_busy_s[classes[chunk]]
                            : chunk_busy_s(&price->classes[classes[chunk]]);
        sum_s += runs->runs[i].count * busy_s;
        if (busy_s > most_s) most_s = busy_s;
    }
    double uneven_s = (most_s - sum_s / price->shape.stage_count) * price->shape.micro_batch_count;
    // Equal stages differ in the last bits of their sums.
    if (uneven_s < 1e-12 * cost->step_s) uneven_s = 0;
    assert(uneven_s >= 0 && isfinite(uneven_s));
    cost->imbalance_s = fmin(uneven_s, cost->bubble_s);
    cost->bubble_s -= cost->imbalance_s;
}

// Stages that are alike share a class.
static const struct chunk_price *chunk_at(const struct step_price *price, int stage, int chunk)
{
    return &price->classes[price->class_of[stage * price->shape.chunk_count + chunk]];
}

double step_begin_s(const struct step_price *price, int stage, double rise_s)
{
    assert(stage >= 0 && stage < price->shape.stage_count);
    for (int chunk = 0; price->gather_overlapped && chunk < price->shape.chunk_count; chunk++)
        rise_s -= chunk_at(price, stage, chunk)->parameter_gather_s;
    return rise_s > 0 ? rise_s : 0;
}

double step_rise_s(const struct step_price *price, int stage)
{
    double rise_s = price->shape.stage_count > 1 ? price->hop_s : 0;
    for (int part = 0; part < PART_COUNT; part++)
        rise_s += chunk_at(price, stage, 0)->phase_s[PHASE_FORWARD][part];
    return rise_s;
}
