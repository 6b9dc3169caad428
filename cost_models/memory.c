#include "cost_models/memory.h"
#include "cost_models/parameters.h"
#include "plan/passes.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { SHAPE_MAX = 64 };

// The distinct shapes of a stage's weights.
struct shapes {
    int count;
    struct {
        enum dim last;
        int64_t elements;
    } list[SHAPE_MAX];
};

// What one stage holds while its worst micro-batch runs.
struct holding {
    struct parameter_sums sums;    // parameters, local under the compute layout
    double linear_elements;        // of them, what low-precision GEMMs read
    double gradient_elements;      // that are kept at a time
    double saved_bytes;            // of all micro-batches in flight and waiting, logits apart
    double layer_transient_bytes;  // the worst block but the head
    double head_transient_bytes;   // of the head, logits apart
    double logits_bytes;           // of all micro-batches
    double loss_bytes;             // of them, what is gone when the layers run backward
    double gathered_bytes;         // of the widest block's weights, those that are stored in shards
    double scattered_bytes;        // and of its gradients
    double kernel_bytes;           // of scores and matrices between products, that the stack keeps
    double boundary_bytes;         // what a neighbouring stage sends
    double moved_bytes;            // saved ones that are elsewhere, of all micro-batches in flight
    double transit_bytes;          // of the largest layer that anything is moved of
    struct shapes shapes;          // last: most of the list is never used
};

static void start(struct holding *holding)
{
    memset(holding, 0, offsetof(struct holding, shapes.list));
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

// What one micro-batch of a chunk holds: between F and B, between B and W.
struct chunk_bytes {
    double saved, waiting;
    double logits;  // of `saved`, not counted there
    double moved;   // off the device, not counted in `saved`
};

static double backward_bytes(const struct block_program *block, bool parted)
{
    int64_t bytes = parted ? block->parted_transient_bytes : block->backward_transient_bytes;
    return (double)bytes;
}

// Of the equal experts of a rank one stands for all.
static void add_shapes(const struct block_program *block, struct shapes *shapes)
{
    for (int i = 0; i < block->weight_count; i++) {
        const struct weight *weight = &block->weights[i];
        int64_t elements = weight->elements / weight->expert_count;
        int k = 0;
        while (k < shapes->count &&
               (shapes->list[k].elements != elements || shapes->list[k].last != weight->last))
            k++;
        assert(k < SHAPE_MAX);
        if (k < shapes->count) continue;
        shapes->list[k].elements = elements;
        shapes->list[k].last = weight->last;
        shapes->count++;
    }
}

// Layers of Transformer Engine, whose attention is fused; with unfused attention a layer is
// Megatron-LM's own (--transformer-impl local).
static bool shares_placeholders(const struct stack *stack, const struct block_program *block)
{
    return stack->dummy_gradient && block->block->role == BLOCK_LAYER && block->score_bytes == 0;
}

// Autograd hands each weight gradient on in the precision of the weight: a tensor of its own where
// it is added to the kept one afterwards, an empty one where the GEMM has done so. Gradients that
// are scattered are counted with what is scattered; that of the embedding comes when a micro-batch
// has nothing else left.
static double made_gradient_bytes(const struct program *program, const struct stack *stack,
                                  const struct block_program *block)
{
    bool is_made = stack->dummy_gradient ? !shares_placeholders(stack, block)
                                         : !stack->fp32_gradient_accumulation;
    if (!is_made || block->block->role == BLOCK_EMBEDDING ||
        !schedule_row(program->parallel.schedule)->backward_fused)
        return 0;
    int64_t most = 0;
    for (int i = 0; i < block->weight_count; i++) {
        const struct weight *weight = &block->weights[i];
        bool is_scattered = program->storage[weight->kind].gradient_axes != 0;
        if (!is_scattered && weight->elements > most) most = weight->elements;
    }
    return (double)most * parameter_weight_bytes(program->workload.precision);
}

// Three moments of the last stage are not the same: the loss with all copies of the logits; the
// head's weight gradient, when one gradient of the logits is left; and a layer's backward, when
// that is gone, too, but for those of other micro-batches.
static void hold_head(const struct program *program, const struct stack *stack,
                      const struct block_program *block, struct chunk_bytes *bytes,
                      struct holding *holding)
{
    struct memory_logits logits = memory_logits_of(block);
    double kept = logits.saved ? logits.bytes : 0, counted = kept;
    // Autograd keeps what the loss read; our engine keeps what the product made, and gathers again.
    if (logits.made_bytes > 0 && !stack_is_executed(stack)) {
        kept = logits.bytes;
        counted += logits.made_bytes;
    }
    double elements = logits.bytes / parameter_weight_bytes(program->workload.precision);
    double loss = elements * stack->logits_bytes_per_element;
    double left = program->shape.micro_batch_count > 1 ? elements * stack->left_logits_bytes : 0;
    bytes->saved += (double)block->saved_bytes - counted;
    bytes->logits += kept;
    bytes->waiting += (double)block->held_bytes;
    holding->logits_bytes += loss + left;
    holding->loss_bytes += loss;
    double others = (double)block->beside_logits_bytes;
    double product = logits.gradient_bytes + made_gradient_bytes(program, stack, block);
    others += larger(product - loss, 0);
    holding->head_transient_bytes = larger(holding->head_transient_bytes, others);
}

// What a block gathers and scatters: experts may be stored whole where dense parameters are not.
static void hold_shards(const struct program *program, const struct block_program *block,
                        double weight_bytes, struct holding *holding)
{
    double gathered = 0, scattered = 0;
    for (int i = 0; i < block->parameter_count; i++) {
        const struct parameter *parameter = &block->parameters[i];
        struct storage storage = program_stores(program, block, parameter->kind);
        double bytes = (double)parameter->elements * weight_bytes;
        if (storage_gathers(&storage)) gathered += bytes;
        if (storage_scatters(&storage)) scattered += bytes;
    }
    holding->gathered_bytes = larger(holding->gathered_bytes, gathered);
    holding->scattered_bytes = larger(holding->scattered_bytes, scattered);
}

enum { LAYERS_IN_TRANSIT = 2 };

// What is moved of a layer is on the device while it is in transit. How much room that takes does
// not depend on how many layers are moved, but is never more than they are.
static void move_layers(const struct program *program, const struct stack *stack,
                        const struct block_use *use, struct chunk_bytes *bytes,
                        struct holding *holding)
{
    const struct offload *offload = &program->parallel.offload;
    if (!offload_moves_activations(offload)) return;
    const struct block_program *block = program->blocks[use->block_program];
    enum precision precision = program->workload.precision;
    double most = memory_class_bytes(stack, precision, block, offload_classes(offload, 0));
    double moved = memory_class_bytes(stack, precision, block, use->moved);
    holding->transit_bytes = larger(holding->transit_bytes, most);
    bytes->saved -= moved * use->count;
    bytes->moved += moved * use->count;
}

static void hold_block(const struct program *program, const struct stack *stack,
                       const struct block_use *use, struct chunk_bytes *bytes,
                       struct holding *holding)
{
    const struct block_program *block = program->blocks[use->block_program];
    bool parted = !schedule_row(program->parallel.schedule)->backward_fused;
    enum precision precision = program->workload.precision;
    hold_shards(program, block, parameter_weight_bytes(precision), holding);
    holding->boundary_bytes = larger(holding->boundary_bytes, (double)block->output_bytes);
    double kernel_bytes = memory_kernel_bytes(stack, precision, block);
    holding->kernel_bytes = larger(holding->kernel_bytes, kernel_bytes);
    if (block->block->role == BLOCK_HEAD) {
        assert(use->count == 1);
        return hold_head(program, stack, block, bytes, holding);
    }
    bytes->saved += memory_held_bytes(program, stack, block) * use->count;
    if (block->block->role == BLOCK_LAYER) {
        holding->linear_elements += (double)block->linear_elements * use->count;
        move_layers(program, stack, use, bytes, holding);
    }
    bytes->waiting += (double)block->held_bytes * use->count;
    if (shares_placeholders(stack, block) && !parted) add_shapes(block, &holding->shapes);
    double backward = backward_bytes(block, parted) + made_gradient_bytes(program, stack, block);
    if (stack->keeps_gathers) backward += (double)block->regathered_bytes;
    double transient = larger((double)block->forward_transient_bytes, backward);
    holding->layer_transient_bytes = larger(holding->layer_transient_bytes, transient);
}

enum { CHUNKS = UINT8_MAX + 1 };

// Chunks that weigh alike: most are the same layers.
struct chunk_weights {
    int count;
    int of_chunk[CHUNKS];
    struct chunk_bytes list[CHUNKS];
};

static void find_weights(const struct chunk_bytes *bytes, int chunk_count,
                         struct chunk_weights *weights)
{
    weights->count = 0;
    for (int chunk = 0; chunk < chunk_count; chunk++) {
        int i = 0;
        while (i < weights->count && (weights->list[i].saved != bytes[chunk].saved ||
                                      weights->list[i].waiting != bytes[chunk].waiting ||
                                      weights->list[i].logits != bytes[chunk].logits))
            i++;
        if (i == weights->count) weights->list[weights->count++] = bytes[chunk];
        weights->of_chunk[chunk] = i;
    }
}

// Only the head's chunk has logits. One micro-batch's copies of them are counted already.
static struct chunk_bytes weigh(const struct chunk_weights *weights,
                                const struct schedule_in_flight *hold, int chunk_count)
{
    struct schedule_in_flight sums[CHUNKS];
    for (int i = 0; i < weights->count; i++)
        sums[i] = (struct schedule_in_flight){0, 0};
    for (int chunk = 0; chunk < chunk_count;) {
        // Neighbours weigh alike: their sum need not pass through memory.
        int at = weights->of_chunk[chunk];
        struct schedule_in_flight sum = sums[at];
        for (; chunk < chunk_count && weights->of_chunk[chunk] == at; chunk++) {
            sum.alive += hold[chunk].alive;
            sum.waiting += hold[chunk].waiting;
        }
        sums[at] = sum;
    }
    struct chunk_bytes bytes = {0};
    for (int i = 0; i < weights->count; i++) {
        const struct chunk_bytes *each = &weights->list[i];
        bytes.saved += each->saved * sums[i].alive + each->waiting * sums[i].waiting;
        if (sums[i].alive > 1) bytes.logits += each->logits * (sums[i].alive - 1);
    }
    return bytes;
}

// Elsewhere another moment may be the heaviest.
static double moved_at(const struct chunk_bytes *bytes, const struct schedule_in_flight *hold,
                       int chunk_count)
{
    double moved = 0;
    for (int chunk = 0; chunk < chunk_count; chunk++)
        moved += bytes[chunk].moved * hold[chunk].alive;
    return moved;
}

// The heaviest moment of the schedule.
static void add_heaviest(const struct program *program, const struct chunk_bytes *bytes, int stage,
                         struct holding *holding)
{
    int chunk_count = program->shape.chunk_count;
    struct schedule_in_flight list[SCHEDULE_IN_FLIGHT_MAX * CHUNKS];
    struct stage_in_flight in_flight = {list, 0};
    if (program->in_flight)
        in_flight = program->in_flight[stage];
    else
        in_flight.count = memory_moments(program, stage, list);
    struct chunk_weights weights;
    find_weights(bytes, chunk_count, &weights);
    struct chunk_bytes worst = {0};
    double worst_transit = 0, room = LAYERS_IN_TRANSIT * holding->transit_bytes;
    bool moves = offload_moves_activations(&program->parallel.offload);
    for (int i = 0; i < in_flight.count; i++) {
        const struct schedule_in_flight *moment = &in_flight.moments[i * chunk_count];
        struct chunk_bytes found = weigh(&weights, moment, chunk_count);
        double moved = moves ? moved_at(bytes, moment, chunk_count) : 0;
        double transit = fmin(room, moved);
        holding->moved_bytes = larger(holding->moved_bytes, moved);
        if (found.saved + found.logits + transit <= worst.saved + worst.logits + worst_transit)
            continue;
        worst = found;
        worst_transit = transit;
    }
    holding->saved_bytes += worst.saved;
    holding->logits_bytes += worst.logits;
    holding->transit_bytes = worst_transit;
}

static void hold_stage(const struct program *program, const struct stack *stack, int stage,
                       struct holding *holding)
{
    int chunk_count = program->shape.chunk_count;
    const int *classes = &program->class_of[stage * chunk_count];
    struct chunk_bytes bytes[CHUNKS];
    assert(chunk_count <= UINT8_MAX);
    start(holding);
    struct parameter_sums sums = {0};
    double gradients = 0, linear = 0;
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk = &program->chunks[classes[i]];
        // What follows its like adds as much again, and is nowhere larger; the last, with the head,
        // is like none.
        bool repeats = i > 0 && classes[i] == classes[i - 1] && !chunk->last;
        if (repeats) {
            bytes[i] = bytes[i - 1];
            holding->linear_elements += linear;
        } else {
            double before = holding->linear_elements;
            sums = parameter_sums(program, chunk);
            gradients = parameter_gradients(program, stack, chunk, &sums);
            bytes[i] = (struct chunk_bytes){0};
            for (int u = 0; u < chunk->use_count; u++)
                hold_block(program, stack, &chunk->uses[u], &bytes[i], holding);
            linear = holding->linear_elements - before;
        }
        parameter_sums_add(&holding->sums, &sums);
        holding->gradient_elements += gradients;
    }
    add_heaviest(program, bytes, stage, holding);
}

void memory_of_chunks(const struct program *whole, const struct stack *stack, int stage,
                      struct memory_in_flight *in_flight)
{
    struct program room;
    const struct program *program = program_at(whole, stage, &room);
    for (int i = 0; i < program->shape.chunk_count; i++) {
        int class = program->class_of[stage * program->shape.chunk_count + i];
        const struct program_chunk *chunk = &program->chunks[class];
        struct chunk_bytes bytes = {0};
        struct holding holding;
        start(&holding);
        for (int u = 0; u < chunk->use_count; u++)
            hold_block(program, stack, &chunk->uses[u], &bytes, &holding);
        in_flight[i] =
            (struct memory_in_flight){bytes.saved, bytes.waiting, bytes.logits, holding.loss_bytes};
    }
}

// Transformer Engine keeps one placeholder for the gradients of all weights of a shape for good
// (get_dummy_wgrad of its module/base.py), Megatron-LM the operand that its GEMM of queries and
// keys does not add (matmul_input_buffer of its attention).
static double standing_bytes(const struct program *program, const struct holding *holding)
{
    double weight_bytes = parameter_weight_bytes(program->workload.precision);
    double bytes = holding->kernel_bytes;
    for (int i = 0; i < holding->shapes.count; i++)
        bytes += (double)holding->shapes.list[i].elements * weight_bytes;
    return bytes;
}

// Blocks whose weights are here at a time: one in use and one gathered ahead. Our engine fetches
// none ahead unless the plan says so.
static int gathered_blocks(const struct program *program)
{
    bool is_ahead = passes_overlap(&program->parallel) & OVERLAP_PARAM_GATHER;
    return offload_moves_parameters(&program->parallel.offload) && !is_ahead ? 1 : 2;
}

// The weights of blocks under way; one block's gradients on their way to the shard; a message from
// each neighbour; what stands.
static double buffer_bytes(const struct program *program, const struct stack *stack,
                           const struct holding *holding)
{
    double bytes = gathered_blocks(program) * holding->gathered_bytes + holding->scattered_bytes;
    if (program->shape.stage_count > 1) bytes += 2 * holding->boundary_bytes;
    const struct mesh *mesh = &program->mesh;
    bool reduces = (mesh_axes_of(mesh, AXIS_DP) | mesh_axes_of(mesh, AXIS_CP)) != 0;
    if (reduces) bytes += holding->gradient_elements * stack->reduce_buffer_bytes;
    return bytes + standing_bytes(program, holding);
}

// Weights that are quantised once a step are kept so, and transposed as well where the gradient of
// the input is narrow (Transformer Engine, get_weight_workspace of module/base.py).
static double low_precision_weight_bytes(const struct program *program, const struct stack *stack,
                                         const struct holding *holding)
{
    bool is_gathered = program->storage[PARAMETER_DENSE].weight_axes != 0 ||
                       offload_takes_parameters(&program->parallel.offload, -1);
    if (is_gathered) return 0;
    return holding->linear_elements *
           stack_cast_bytes_kept(stack, program->workload.precision, program->parallel.zero);
}

static double stored_weight_bytes(const struct program *program, const struct stack *stack,
                                  const struct holding *holding)
{
    enum precision precision = program->workload.precision;
    const struct parameter_sums *sums = &holding->sums;
    double elements = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        unsigned axes = program->storage[kind].weight_axes;
        // The copies that an optimizer keeps stand for weights, and frozen ones have none.
        bool is_frozen = !parameter_kind_is_trained((enum parameter_kind)kind);
        if (!is_frozen && !stack_keeps_low_precision_weights(stack, precision, axes != 0)) continue;
        elements += parameter_weights(program, sums, (enum parameter_kind)kind, false);
    }
    return elements * parameter_weight_bytes(precision) +
           low_precision_weight_bytes(program, stack, holding);
}

// Of weights that are off the device, as kernels read them.
static double away_weight_bytes(const struct program *program, const struct holding *holding)
{
    double elements = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        elements += parameter_weights(program, &holding->sums, (enum parameter_kind)kind, true);
    return elements * parameter_weight_bytes(program->workload.precision);
}

// Puts states, parameters and activations where they are.
static void offload_parts(const struct program *program, const struct stack *stack,
                          const struct holding *holding, int stage, struct memory_parts *parts)
{
    const struct offload *offload = &program->parallel.offload;
    enum precision precision = program->workload.precision;
    double state_bytes = stack_state_bytes(stack, program->workload.optimizer, precision);
    double host_state_bytes = stack_host_state_bytes(stack, program->workload.optimizer, precision);
    double tier_bytes[TIER_COUNT] = {0};
    enum stored member = STORED_STATES;
    double states = parameter_stored(program, &holding->sums, member);
    double away = parameter_away_of_stage(program, stage, &holding->sums, member);
    tier_bytes[offload->optimizer] += away * host_state_bytes;
    if (offload->optimizer != TIER_DEVICE) {
        double gradient_bytes = stack_gradient_bytes(stack, precision);
        double bucket = fmin(memory_bucket_bytes(program, stack) / gradient_bytes, away);
        bool some = offload_moves_gradients(offload);
        bool here = !some || offload->gradient_layers > 0;
        // Those that stay on the host come up with their block alone.
        bool all_away = offload_takes_parameters(offload, -1);
        double weight_bytes = all_away ? 0 : parameter_weight_bytes(precision);
        // Gradients that are kept on the host are there whole, and go through rooms of their own.
        if (some) member = STORED_GRADIENTS;
        double kept = parameter_away_of_stage(program, stage, &holding->sums, member);
        parts->buffers_bytes += (int64_t)(bucket * (here * gradient_bytes + weight_bytes));
        tier_bytes[TIER_HOST] += kept * gradient_bytes;
    }
    tier_bytes[offload->parameters] += away_weight_bytes(program, holding);
    // What comes from NVMe and goes back passes rooms for a block each: one that is read, one that
    // is read ahead, one that is written.
    if (offload->parameters == TIER_NVME) tier_bytes[TIER_HOST] += 3 * holding->gathered_bytes;
    parts->activations_bytes += (int64_t)holding->transit_bytes;
    tier_bytes[offload->activations] += holding->moved_bytes;
    // What is on its way to NVMe passes the host.
    if (offload->activations == TIER_NVME) tier_bytes[TIER_HOST] += holding->transit_bytes;
    parts->optimizer_bytes = (int64_t)((states - away) * state_bytes);
    parts->host_bytes = (int64_t)tier_bytes[TIER_HOST];
    parts->nvme_bytes = (int64_t)tier_bytes[TIER_NVME];
}

struct memory_parts memory_of_stage(const struct program *whole, const struct stack *stack,
                                    int stage)
{
    assert(stage >= 0 && stage < whole->shape.stage_count);
    struct program room;
    const struct program *program = program_at(whole, stage, &room);
    enum precision precision = program->workload.precision;
    struct holding holding;
    hold_stage(program, stack, stage, &holding);
    double transient =
        larger(holding.layer_transient_bytes - holding.loss_bytes, holding.head_transient_bytes);
    struct memory_parts parts = {
        .weights_bytes = (int64_t)stored_weight_bytes(program, stack, &holding),
        .gradients_bytes =
            (int64_t)(holding.gradient_elements * stack_gradient_bytes(stack, precision)),
        .activations_bytes = (int64_t)holding.saved_bytes,
        .transient_bytes = (int64_t)larger(transient, 0),
        .logits_bytes = (int64_t)holding.logits_bytes,
        .buffers_bytes = (int64_t)buffer_bytes(program, stack, &holding),
        .standing_bytes = (int64_t)standing_bytes(program, &holding),
    };
    offload_parts(program, stack, &holding, stage, &parts);
    int64_t live_bytes = parts.activations_bytes + parts.transient_bytes + parts.logits_bytes;
    parts.buffers_bytes += (int64_t)memory_stays_bytes(
        program, stack, holding.layer_transient_bytes, (double)live_bytes);
    parts.peak_bytes = parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes +
                       live_bytes + parts.buffers_bytes;
    double slack = stack_reserve_ratio(stack, program->shape.stage_count);
    parts.reserve_bytes = stack->reserve_bytes + (int64_t)((double)live_bytes * slack);
    parts.reserved_bytes = parts.peak_bytes + parts.reserve_bytes;
    assert(parts.standing_bytes >= 0 && parts.standing_bytes <= parts.buffers_bytes);
    return parts;
}
