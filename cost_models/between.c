#include "cost_models/message.h"

#include "cost_models/parameters.h"
#include "plan/boundary.h"
#include "plan/step_end.h"

#include <assert.h>
#include <math.h>

// Axes of a stage over which the outputs of a block are whole: as many equal copies would be sent.
static unsigned copy_axes(const struct mesh *mesh, const struct layout *layout)
{
    unsigned axes = 0;
    for (int i = 0; i < mesh->axis_count; i++) {
        bool is_copy = layout->of[i] == LAYOUT_WHOLE && mesh->axes[i].parent != AXIS_PP;
        if (is_copy) axes |= 1u << i;
    }
    return axes;
}

// Stages with unlike numbers of ranks have no axis, and on nodes that are unlike each has links of
// its own.
static bool goes_by_pairs(const struct price_context *context, const struct mesh *mesh)
{
    return mesh->stage_ranks || !cluster_is_uniform(context->cluster);
}

// A message between two stages.
static double between_s(const struct price_context *context, const struct program *program,
                        int from, int to, const struct step_message *message)
{
    const struct mesh *mesh = &program->mesh;
    if (!goes_by_pairs(context, mesh)) return messages_s(context, mesh, message);
    if (message->bytes <= 0) return 0;
    struct group_shape pair =
        mesh_group_between(mesh, context->cluster, from < to ? from : to, from < to ? to : from);
    return message_group_s(context, &pair, message);
}

// To the next stage, wherever that takes longest.
static double send_s(const struct price_context *context, const struct program *program,
                     const struct step_message *message)
{
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    struct price_context quiet = *context;
    double longest_s = 0;
    int from = -1, to = -1;
    if (!goes_by_pairs(context, &program->mesh))
        return messages_s(context, &program->mesh, message);
    quiet.ledger = NULL;
    for (int v = 0; v < shape->stage_count * shape->chunk_count; v++) {
        int next = schedule_next(shape, v), own = row->stage_of(shape, v);
        if (next < 0 || row->stage_of(shape, next) == own) continue;
        double one_s = between_s(&quiet, program, own, row->stage_of(shape, next), message);
        if (one_s <= longest_s) continue;
        longest_s = one_s;
        from = own;
        to = row->stage_of(shape, next);
    }
    return from < 0 ? 0 : between_s(context, program, from, to, message);
}

static double output_hop_s(const struct price_context *context, const struct program *program,
                           const struct block_program *block)
{
    const struct mesh *mesh = &program->mesh;
    double bytes = (double)block->output_bytes;
    unsigned copies = 0;
    if (context->compute.stack->pipeline_scatter) copies = copy_axes(mesh, &block->output_layout);
    struct step_message send = {ENTRY_HOP, COLLECTIVE_SEND_RECV, mesh_axes_of(mesh, AXIS_PP),
                                bytes / mesh_size(mesh, copies), 1};
    struct step_message gather = {ENTRY_HOP, COLLECTIVE_ALL_GATHER, copies, bytes, 1};
    return send_s(context, program, &send) + messages_s(context, mesh, &gather);
}

// Between stages of unlike meshes: pieces one after another, of the rank that has most of them.
static double reshard_s(const struct price_context *context, const struct program *program,
                        double longest_s)
{
    int count = program->shape.stage_count * program->shape.chunk_count, at = -1;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    struct step_message longest = {.entry = ENTRY_HOP};
    struct price_context quiet = *context;
    quiet.ledger = NULL;
    if (!parallel_has_meshes(&program->parallel)) return longest_s;
    for (int v = 0; v < count; v++) {
        int next = schedule_next(&program->shape, v);
        if (next < 0) continue;
        int from = row->stage_of(&program->shape, v), to = row->stage_of(&program->shape, next);
        for (int back = 0; back < 2; back++) {
            struct boundary_sum sum = boundary_sum_behind(program, v, back);
            struct step_message message = {ENTRY_HOP, COLLECTIVE_SEND_RECV,
                                           mesh_axes_of(&program->mesh, AXIS_PP), (double)sum.bytes,
                                           sum.count};
            double one_s = sum.count ? between_s(&quiet, program, from, to, &message) : 0;
            if (one_s <= longest_s) continue;
            longest_s = one_s;
            longest = message;
            at = v;
        }
    }
    if (longest.bytes > 0 && context->ledger)
        longest_s =
            between_s(context, program, row->stage_of(&program->shape, at),
                      row->stage_of(&program->shape, schedule_next(&program->shape, at)), &longest);
    return longest_s;
}

// Whether the outputs of a block in front are the same: those of ways to treat one kind are.
static bool repeats_output(const struct program *program, int index)
{
    const struct block_program *block = program->blocks[index];
    for (int i = index - 1; i >= 0; i--) {
        const struct block_program *before = program->blocks[i];
        if (before->output_bytes == block->output_bytes &&
            layout_equal(&before->output_layout, &block->output_layout))
            return true;
    }
    return false;
}

// Every hop is as long as that of the largest output, which alone is written down.
double between_hop_s(const struct price_context *context, const struct program *program)
{
    const struct mesh *mesh = &program->mesh;
    struct price_context quiet = *context;
    quiet.ledger = NULL;
    double worst_s = 0;
    const struct block_program *worst = NULL;
    for (int i = 0; mesh_axes_of(mesh, AXIS_PP) && i < program->block_count; i++) {
        if (repeats_output(program, i)) continue;
        double one_s = output_hop_s(&quiet, program, program->blocks[i]);
        if (one_s <= worst_s) continue;
        worst_s = one_s;
        worst = program->blocks[i];
    }
    double longest_s = reshard_s(context, program, worst_s);
    if (longest_s > worst_s) return longest_s;
    if (worst && context->ledger) worst_s = output_hop_s(context, program, worst);
    return worst_s;
}

static struct group_shape tied_group(const struct price_context *context, const struct mesh *mesh,
                                     const struct tied *tied)
{
    if (goes_by_pairs(context, mesh))
        return mesh_group_of_stages(mesh, context->cluster, tied->stages, tied->stage_count);
    struct group_shape group = mesh_group(mesh, context->cluster, mesh_axes_of(mesh, AXIS_PP));
    if (tied->stage_count == group.rank_count) return group;
    if (tied->stage_count > 2)
        return mesh_group_of_stages(mesh, context->cluster, tied->stages, tied->stage_count);
    bool in_one_node = group.node_count == 1;
    group.rank_count = 2;
    group.node_count = in_one_node ? 1 : 2;
    group.ranks_per_node = group.ranks_per_node_least = in_one_node ? 2 : 1;
    return group;
}

double between_tied_s(const struct price_context *context, const struct program *of,
                      const struct tied *tied)
{
    struct program room;
    const struct program *program = program_at(of, tied->stages[0], &room);
    const struct mesh *mesh = &program->mesh;
    struct group_shape group = tied_group(context, mesh, tied);
    double width = stack_reduce_bytes(context->compute.stack, program->workload.precision);
    double bytes = (double)tied->elements * width /
                   mesh_size(mesh, program->storage[PARAMETER_DENSE].gradient_axes);
    struct step_message message = {ENTRY_TIED, COLLECTIVE_ALL_REDUCE, mesh_axes_of(mesh, AXIS_PP),
                                   bytes, 1};
    assert(tied->elements > 0 && tied->stage_count > 1);
    return message_group_s(context, &group, &message);
}

// Norms of parameters, among the ranks of each stage: of the stage where that takes longest.
static double trust_s(const struct price_context *context, const struct program *program,
                      double bytes)
{
    struct price_context quiet = *context;
    double longest_s = 0;
    int stages = program->mesh.stage_ranks ? program->shape.stage_count : 1, longest = 0;
    quiet.ledger = NULL;
    for (int stage = 0; stage <= stages; stage++) {
        struct program room;
        const struct mesh *mesh =
            &program_at(program, stage < stages ? stage : longest, &room)->mesh;
        unsigned axes = ((1u << mesh->axis_count) - 1) & ~mesh_axes_of(mesh, AXIS_PP);
        struct step_message trust = {ENTRY_TRUST, COLLECTIVE_ALL_REDUCE, axes, bytes, 1};
        double one_s = messages_s(stage < stages ? &quiet : context, mesh, &trust);
        if (one_s > longest_s) longest = stage;
        longest_s = fmax(longest_s, one_s);
    }
    return longest_s;
}

// What all ranks wait for before they update: the norm; of LAMB and LARS two norms of each
// parameter of a stage, of the mean one, in one exchange.
double between_norm_s(const struct price_context *context, const struct program *program)
{
    const struct mesh *mesh = &program->mesh;
    unsigned all_axes = (1u << mesh->axis_count) - 1;
    double total_s = 0;
    if (step_takes_norm(&program->workload)) {
        struct step_message norm = {ENTRY_NORM, COLLECTIVE_ALL_REDUCE, all_axes, sizeof(float), 1};
        struct group_shape all = mesh_group_of_all(mesh, context->cluster);
        if (mesh->rank_count > 1) total_s += message_group_s(context, &all, &norm);
    }
    if (!step_takes_trust(&program->workload) || program->chunk_class_count == 0) return total_s;
    int tensors = 0, stages = program->shape.stage_count;
    for (int at = 0; at < stages * program->shape.chunk_count; at++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        struct program room;  // stages may have meshes of their own
        const struct parameter_sums sums =
            parameter_sums(program_of_chunk(program, chunk, &room), chunk);
        for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
            if (parameter_kind_is_trained((enum parameter_kind)kind))
                tensors += sums.tensor_count[kind];
    }
    double bytes = 2.0 * sizeof(float) * tensors / stages;
    return total_s + trust_s(context, program, bytes);
}
