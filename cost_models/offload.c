#include "cost_models/offload.h"
#include "cost_models/ledger.h"
#include "cost_models/parameters.h"
#include "plan/passes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Ranks that share a host: all of its devices, but where the plan uses fewer.
static double sharing_count(const struct cluster *cluster, const struct node_group *group)
{
    return fmin(group->gpus_per_host, cluster->rank_count);
}

// The slowest host paces the others. Each byte that a device copies is one that its host reads or
// writes, whose memory all devices of the host share.
double offload_bytes_per_s(const struct price_context *context, enum tier tier)
{
    double ratio = context->compute.stack->copy_ratio, least = INFINITY;
    assert(tier != TIER_DEVICE && ratio > 0);
    for (int i = 0; i < context->cluster->node_group_count; i++) {
        const struct node_group *group = &context->cluster->nodes[i];
        double share = 1.0 / sharing_count(context->cluster, group);
        least = fmin(least, ratio * group->host.pcie_bytes_per_s);
        least = fmin(least, share * group->host.memory_bandwidth_bytes_per_s);
        if (tier == TIER_NVME) least = fmin(least, ratio * share * group->host.nvme_bytes_per_s);
    }
    return least;
}

double offload_duplex_ratio(const struct price_context *context)
{
    double least = 2;
    for (int i = 0; i < context->cluster->node_group_count; i++)
        least = fmin(least, fmax(1, context->cluster->nodes[i].host.nvme_duplex_ratio));
    return least;
}

// Of so many bytes that are read and written on NVMe at once.
static double drive_s(const struct price_context *context, double read_bytes, double written_bytes)
{
    double both_bytes = (read_bytes + written_bytes) / offload_duplex_ratio(context);
    return fmax(fmax(read_bytes, written_bytes), both_bytes) /
           offload_bytes_per_s(context, TIER_NVME);
}

double copy_exposed_s(double copy_s, double compute_s)
{
    return fmax(0, copy_s - compute_s);
}

double copies_s(const struct price_context *context, enum tier tier, double bytes, double count)
{
    assert(isfinite(bytes) && count >= 0);
    if (bytes <= 0) return 0;
    return bytes / offload_bytes_per_s(context, tier) +
           count * context->compute.device->launch_latency_s;
}

static double compute_s(const double part_s[PART_COUNT])
{
    return part_s[PART_COMPUTE] + part_s[PART_RECOMPUTE];
}

// A rank of a processor does one thing after another; a thread of its host reads and writes NVMe
// beside it.
static bool is_host(const struct price_context *context)
{
    return strcmp(context->compute.device->kind, "cpu") == 0;
}

struct copy_window copy_window(const struct price_context *context, enum tier tier,
                               const struct block_price *price)
{
    if (is_host(context) && tier != TIER_NVME) return (struct copy_window){0};
    return (struct copy_window){compute_s(price->phase_s[PHASE_FORWARD]),
                                fmax(0, compute_s(price->phase_s[PHASE_BACKWARD]) +
                                            compute_s(price->phase_s[PHASE_WEIGHT]) -
                                            price->fetched_s)};
}

// Nothing is hidden in both ways at once: forward hides what goes, backward what comes.
struct copy_price copy_price(const struct price_context *context, enum tier tier,
                             const struct block_program *block, const struct block_price *price,
                             unsigned moved)
{
    const struct stack *stack = context->compute.stack;
    enum precision precision = context->compute.precision;
    struct copy_price copy = {.bytes = memory_class_bytes(stack, precision, block, moved)};
    if (copy.bytes <= 0) return copy;
    int arrays = 0;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        arrays += moved >> class & 1 ? block->class_saved_count[class] : 0;
    copy.copy_s = copies_s(context, tier, copy.bytes, arrays);
    struct copy_window window = copy_window(context, tier, price);
    copy.forward_s = copy_exposed_s(copy.copy_s, window.forward_s);
    copy.backward_s = copy_exposed_s(copy.copy_s, window.backward_s);
    // To and from the room that a thread writes and reads.
    double room_s = is_host(context) ? copies_s(context, TIER_HOST, copy.bytes, arrays) : 0;
    copy.forward_s = fmax(copy.forward_s, room_s);
    copy.backward_s = fmax(copy.backward_s, room_s);
    return copy;
}

static void write_copies(const struct price_context *context, const struct copy_price *copy,
                         int count)
{
    struct ledger_line line = {
        .entry = ENTRY_COPY,
        .what = "to the host",
        .phase = PHASE_FORWARD,
        .count = count,
        .s = count * copy->copy_s,
        .exposed_s = count * copy->forward_s,
        .bytes = copy->bytes,
        .bound = BOUND_MEMORY,
        .part = PART_OFFLOAD,
    };
    ledger_add(context->ledger, &line);
    line.what = "from the host";
    line.phase = PHASE_BACKWARD;
    line.exposed_s = count * copy->backward_s;
    ledger_add(context->ledger, &line);
}

void copy_add(const struct price_context *context, const struct program *program,
              const struct block_use *use, const struct block_price *price,
              struct chunk_price *chunk)
{
    if (!use->moved) return;
    const struct block_program *block = program->blocks[use->block_program];
    enum tier tier = program->parallel.offload.activations;
    struct copy_price copy = copy_price(context, tier, block, price, use->moved);
    chunk->phase_s[PHASE_FORWARD][PART_OFFLOAD] += use->count * copy.forward_s;
    chunk->phase_s[PHASE_BACKWARD][PART_OFFLOAD] += use->count * copy.backward_s;
    chunk->copy_s += use->count * copy.copy_s;
    write_copies(context, &copy, use->count);
}

static void write_gradients(const struct price_context *context, enum phase phase, double s,
                            double exposed_s, double bytes)
{
    const struct ledger_line line = {
        .entry = ENTRY_COPY,
        .what = phase == PHASE_WEIGHT ? "gradients to the host" : "gradients from the host",
        .phase = phase,
        .count = 1,
        .s = s,
        .exposed_s = exposed_s,
        .bytes = bytes,
        .bound = BOUND_MEMORY,
        .part = PART_OFFLOAD,
    };
    ledger_add(context->ledger, &line);
}

// Of a group's gradients those that pass over the link, in shards where they are kept so.
static double away_elements(const struct program *program, const struct step_group *group)
{
    if (!group->is_away) return 0;
    return group->elements / mesh_size(&program->mesh, group->storage.gradient_axes);
}

// Of `down_s` and `up_s` the shares that are waited for. A processor copies between its kernels.
// Software whose gradients leave by themselves copies on the stream that reduces, one way after the
// other, beside compute where that overlaps.
static void gradient_shares(const struct price_context *context, const struct program *program,
                            double window_s, double beside_s, double down_s, double up_s,
                            double *down, double *up)
{
    double up_window_s = fmax(0, window_s - beside_s);
    if (is_host(context)) return;
    if (context->compute.stack->gradients_leave_zero_stages) {
        bool is_beside = passes_overlap(&program->parallel) & OVERLAP_GRAD_REDUCE;
        double both_s = down_s + up_s;
        *down = *up = copy_exposed_s(both_s, is_beside ? up_window_s : 0) / both_s;
        return;
    }
    *down = copy_exposed_s(down_s, window_s) / down_s;
    // Both ways are hidden beside the same compute: the longer one is waited for.
    double up_more_s = fmax(0, copy_exposed_s(up_s, up_window_s) - *down * down_s);
    assert(*down >= 0 && *down <= 1 && up_more_s <= up_s);
    *up = up_s > 0 ? up_more_s / up_s : 0;
}

void gradient_copies_add(const struct price_context *context, const struct program *program,
                         const struct program_chunk *chunk, double window_s,
                         struct chunk_price *price)
{
    if (!offload_moves_gradients(&program->parallel.offload)) return;
    const struct stack *stack = context->compute.stack;
    const struct step_rules rules = step_rules_of(stack, program);
    const struct step_end end = step_end_of(program, chunk, &rules);
    double rounds = program->shape.micro_batch_count;
    double width = stack_gradient_bytes(stack, program->workload.precision);
    double all_s = 0;
    for (int g = 0; g < end.group_count; g++)
        all_s += copies_s(context, TIER_HOST, away_elements(program, &end.groups[g]) * width,
                          end.groups[g].unit_count);
    if (all_s <= 0) return;
    double up_s = all_s * (rounds - 1) / rounds, down = 1, up = 1;
    gradient_shares(context, program, window_s, price->copy_s, all_s, up_s, &down, &up);
    price->gradient_copy_s[0] = all_s;
    price->gradient_copy_s[1] = up_s;
    price->phase_s[PHASE_WEIGHT][PART_OFFLOAD] += down * all_s;
    price->phase_s[PHASE_BACKWARD][PART_OFFLOAD] += up * up_s;
    for (int g = 0; g < end.group_count; g++) {
        if (!end.groups[g].is_away) continue;
        double bytes = away_elements(program, &end.groups[g]) * width;
        double s = copies_s(context, TIER_HOST, bytes, end.groups[g].unit_count);
        double back_s = s * (rounds - 1) / rounds;
        ledger_turn_to_part(context->ledger, -1, g);
        write_gradients(context, PHASE_WEIGHT, s, down * s, bytes);
        write_gradients(context, PHASE_BACKWARD, back_s, up * back_s, bytes);
    }
    ledger_turn_to_part(context->ledger, -1, -1);
}

// Bytes that an update on the host reads and writes, with what is copied into its memory and out
// of it meanwhile.
static double host_bytes(const struct price_context *context, enum optimizer optimizer,
                         double elements)
{
    const struct stack *stack = context->compute.stack;
    enum precision precision = context->compute.precision;
    double state_bytes = stack_host_state_bytes(stack, optimizer, precision);
    double moved_bytes = stack_gradient_bytes(stack, precision) + parameter_weight_bytes(precision);
    return elements * (2 * state_bytes + 2 * moved_bytes);
}

// The slowest host decides, as the step waits for all.
static double host_bytes_per_s(const struct price_context *context)
{
    double least = INFINITY;
    for (int i = 0; i < context->cluster->node_group_count; i++) {
        const struct node_group *group = &context->cluster->nodes[i];
        double share = 1.0 / sharing_count(context->cluster, group);
        least = fmin(least, share * group->host.memory_bandwidth_bytes_per_s);
    }
    return least * context->compute.stack->host_update_ratio;
}

double host_update_least_s(const struct price_context *context, enum optimizer optimizer,
                           double elements)
{
    if (is_host(context)) return 0;
    return host_bytes(context, optimizer, elements) / host_bytes_per_s(context);
}

struct host_update host_update(const struct price_context *context, const struct program *program,
                               const struct host_share *share)
{
    double elements = share->elements, fetched = share->fetched;
    assert(fetched >= 0 && fetched <= elements + 1 && share->away >= 0);
    assert(share->away_units >= 0 && share->away_units <= share->units);
    struct host_update update = {.bucket_count = 1};
    if (elements <= 0) return update;
    const struct stack *stack = context->compute.stack;
    const struct workload *workload = &program->workload;
    double gradient_bytes = stack_gradient_bytes(stack, workload->precision);
    double down_bytes = (elements - share->away) * gradient_bytes;
    double buckets = ceil(elements * gradient_bytes / memory_bucket_bytes(program, stack));
    update.bucket_count = is_host(context) ? 1 : (int)fmin(fmax(buckets, 1), 1e6);
    // Ours go unit by unit.
    bool by_unit = stack_is_executed(stack) && share->units > 0;
    int up = by_unit ? share->units : update.bucket_count;
    int down = by_unit ? share->units - share->away_units : update.bucket_count;
    update.down_s = copies_s(context, TIER_HOST, down_bytes, down);
    // Weights that stay on the host are written there, with the rest.
    double weight_bytes = parameter_weight_bytes(workload->precision);
    double up_bytes = (is_host(context) ? elements : elements - fetched) * weight_bytes;
    update.up_s = copies_s(context, TIER_HOST, up_bytes, up);
    // Who asks for no norm does not read the gradients for it, and our executor does so where they
    // are made.
    double own_bytes = update_bytes(&context->compute, workload->optimizer, elements);
    if (!step_takes_norm(workload) || stack_is_executed(stack))
        own_bytes -= norm_bytes(&context->compute, elements);
    update.host_s = stream_s(&context->compute, own_bytes);
    if (!is_host(context)) {
        double bytes = host_bytes(context, workload->optimizer, elements);
        update.host_s = fmax(update.host_s, bytes / host_bytes_per_s(context));
    }
    double state_bytes = stack_host_state_bytes(stack, workload->optimizer, workload->precision);
    const struct offload *offload = &program->parallel.offload;
    double read_bytes = offload->optimizer == TIER_NVME ? elements * state_bytes : 0;
    double put_bytes = offload->parameters == TIER_NVME ? fetched * weight_bytes : 0;
    if (read_bytes + put_bytes > 0)
        update.nvme_s = drive_s(context, read_bytes, read_bytes + put_bytes);
    // Buckets follow each other through four stations: the slowest sets the pace, and of the others
    // one bucket is waited for.
    double most_s = fmax(fmax(update.down_s, update.up_s), fmax(update.host_s, update.nvme_s));
    double sum_s = update.down_s + update.up_s + update.host_s + update.nvme_s;
    update.s = most_s + (sum_s - most_s) / update.bucket_count;
    if (is_host(context)) update.s = fmax(sum_s - update.nvme_s, update.nvme_s);
    assert(update.s >= most_s * (1 - 1e-12));  // no link is faster for what runs beside it
    return update;
}

static void write_update(const struct price_context *context, const struct host_update *update,
                         const char *what, double s, double exposed_s)
{
    const struct ledger_line line = {
        .entry = ENTRY_UPDATE,
        .what = what,
        .count = update->bucket_count,
        .s = s,
        .exposed_s = exposed_s,
        .bound = BOUND_MEMORY,
        .part = s == update->host_s ? PART_COMPUTE : PART_OFFLOAD,
    };
    ledger_add(context->ledger, &line);
}

// Of what is not the longest one bucket is waited for; where one thing is done after another, all
// but what the drive takes meanwhile.
static void write_updates(const struct price_context *context, const struct host_update *update)
{
    static const char *const WHAT[] = {"host optimizer", "grads to host", "params to GPU",
                                       "NVMe states"};
    const double s[] = {update->host_s, update->down_s, update->up_s, update->nvme_s};
    enum { COUNT = sizeof s / sizeof *s, NVME = COUNT - 1 };
    int longest = 0;
    for (int i = 1; i < COUNT; i++)
        longest = s[i] > s[longest] ? i : longest;
    double in_turn_s = s[0] + s[1] + s[2];
    for (int i = 0; i < COUNT; i++) {
        double exposed_s = i == longest ? s[i] : s[i] / update->bucket_count;
        if (is_host(context)) exposed_s = i == NVME ? fmax(0, update->s - in_turn_s) : s[i];
        write_update(context, update, WHAT[i], s[i], exposed_s);
    }
}

// Our executor takes the norm on the device, where gradients are made, though states are updated on
// the host.
static void add_squares(const struct price_context *context, const struct program *program,
                        double elements, struct chunk_price *chunk)
{
    if (!stack_is_executed(context->compute.stack) || !step_takes_norm(&program->workload)) return;
    double bytes = norm_bytes(&context->compute, elements);
    double squared_s = stream_s(&context->compute, bytes);
    chunk->update_s += squared_s;
    ledger_add_time(context->ledger, ENTRY_SQUARES, 0, "gradient norm", squared_s, bytes);
}

void host_update_add(const struct price_context *context, const struct program *program,
                     const struct host_share *share, struct chunk_price *chunk)
{
    struct host_update update = host_update(context, program, share);
    chunk->update_s += update.s;
    chunk->update_copy_s[0] = update.down_s;
    chunk->update_copy_s[1] = update.up_s;
    add_squares(context, program, share->elements, chunk);
    write_updates(context, &update);
}
