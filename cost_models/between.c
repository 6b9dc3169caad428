#include "cost_models/message.h"

#include "cost_models/parameters.h"
#include "plan/boundary.h"
#include "plan/step_end.h"

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

static double output_hop_s(const struct price_context *context, const struct mesh *mesh,
                           const struct block_program *block)
{
    double bytes = (double)block->output_bytes;
    unsigned copies = 0;
    if (context->compute.stack->pipeline_scatter) copies = copy_axes(mesh, &block->output_layout);
    struct step_message send = {ENTRY_HOP, COLLECTIVE_SEND_RECV, mesh_axes_of(mesh, AXIS_PP),
                                bytes / mesh_size(mesh, copies), 1};
    struct step_message gather = {ENTRY_HOP, COLLECTIVE_ALL_GATHER, copies, bytes, 1};
    return messages_s(context, mesh, &send) + messages_s(context, mesh, &gather);
}

// A message between two stages. Of stages with unlike numbers of ranks, which have no axis, as
// between the two of their ranks that are farthest apart, beside those of the smaller one.
static double between_s(const struct price_context *context, const struct program *program,
                        int from, int to, const struct step_message *message)
{
    const struct mesh *mesh = &program->mesh;
    if (!mesh->stage_ranks) return messages_s(context, mesh, message);
    int low = from < to ? from : to, high = from < to ? to : from;
    int first = mesh_at_stage(mesh, 0, low);
    int last = mesh_at_stage(mesh, 0, high) + mesh_stage_ranks(mesh, high) - 1;
    int beside = mesh_stage_ranks(mesh, low), others = mesh_stage_ranks(mesh, high);
    struct group_shape pair =
        route_pair(context->cluster, first, last, beside < others ? beside : others);
    return message_group_s(context, &pair, message);
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

// Every hop is as long as that of the largest output, which alone is written down.
double between_hop_s(const struct price_context *context, const struct program *program)
{
    const struct mesh *mesh = &program->mesh;
    struct price_context quiet = *context;
    quiet.ledger = NULL;
    double worst_s = 0;
    const struct block_program *worst = NULL;
    for (int i = 0; mesh_axes_of(mesh, AXIS_PP) && i < program->block_count; i++) {
        double one_s = output_hop_s(&quiet, mesh, program->blocks[i]);
        if (one_s <= worst_s) continue;
        worst_s = one_s;
        worst = program->blocks[i];
    }
    double longest_s = reshard_s(context, program, worst_s);
    if (longest_s > worst_s) return longest_s;
    if (worst && context->ledger) worst_s = output_hop_s(context, mesh, worst);
    return worst_s;
}

// Of stages with unlike numbers of ranks these two have as many.
static struct group_shape tied_pair(const struct price_context *context,
                                    const struct program *program, unsigned stages)
{
    const struct mesh *mesh = &program->mesh;
    int first = program->tied.first_stage, ranks = mesh_stage_ranks(mesh, first);
    if (mesh->stage_ranks)
        return route_pair(context->cluster, mesh_at_stage(mesh, 0, first),
                          mesh_at_stage(mesh, 0, program->tied.last_stage) + ranks - 1, ranks);
    struct group_shape pair = mesh_group(mesh, context->cluster, stages);
    bool in_one_node = pair.node_count == 1;
    pair.rank_count = 2;
    pair.node_count = in_one_node ? 1 : 2;
    pair.ranks_per_node = pair.ranks_per_node_least = in_one_node ? 2 : 1;
    return pair;
}

// The first and the last stage add up their halves of a gradient, all other ranks of them at once.
double between_tied_s(const struct price_context *context, const struct program *of)
{
    struct program room;
    const struct program *program = program_at(of, of->tied.first_stage, &room);
    const struct mesh *mesh = &program->mesh;
    unsigned stages = mesh_axes_of(mesh, AXIS_PP);
    if (program->tied.elements == 0 || program->shape.stage_count == 1) return 0;
    struct group_shape pair = tied_pair(context, program, stages);
    double width = stack_reduce_bytes(context->compute.stack, program->workload.precision);
    double bytes = (double)program->tied.elements * width /
                   mesh_size(mesh, program->storage[PARAMETER_DENSE].gradient_axes);
    struct step_message message = {ENTRY_TIED, COLLECTIVE_ALL_REDUCE, stages, bytes, 1};
    return message_group_s(context, &pair, &message);
}

// The first with most ranks.
static int largest_stage(const struct program *program)
{
    int largest = 0;
    for (int s = 1; s < program->shape.stage_count; s++)
        if (mesh_stage_ranks(&program->mesh, s) > mesh_stage_ranks(&program->mesh, largest))
            largest = s;
    return largest;
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
        const struct parameter_sums sums = parameter_sums(program, chunk);
        for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
            if (parameter_kind_is_trained((enum parameter_kind)kind))
                tensors += sums.tensor_count[kind];
    }
    double bytes = 2.0 * sizeof(float) * tensors / stages;
    struct program room;
    const struct mesh *widest = &program_at(program, largest_stage(program), &room)->mesh;
    unsigned axes = ((1u << widest->axis_count) - 1) & ~mesh_axes_of(widest, AXIS_PP);
    struct step_message trust = {ENTRY_TRUST, COLLECTIVE_ALL_REDUCE, axes, bytes, 1};
    return total_s + messages_s(context, widest, &trust);
}
