#include "cost_models/communicators.h"

#include <assert.h>

// The groups of a plan: of each axis, of the gradients, of all ranks, and of the shards of both
// kinds of parameters.
enum { SHARD_GROUPS_AT = AXIS_COUNT + 2, GROUP_COUNT = SHARD_GROUPS_AT + 2 * STORED_COUNT };

// As a rank of this mesh joins them.
static struct communicators of_mesh(const struct program *program)
{
    const struct mesh *mesh = &program->mesh;
    unsigned groups[GROUP_COUNT];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        groups[axis] = mesh_axes_of(mesh, (enum axis)axis);
    groups[AXIS_COUNT] = groups[AXIS_DP] | groups[AXIS_CP];
    groups[AXIS_COUNT + 1] = (1u << mesh->axis_count) - 1;
    bool has_experts = program->graph->expert_count > 0;
    for (int i = 0; i < 2 * STORED_COUNT; i++) {
        bool is_expert = i >= STORED_COUNT;
        groups[SHARD_GROUPS_AT + i] =
            is_expert && !has_experts
                ? 0
                : mesh_shard_axes(mesh, &program->parallel, parameter_kind_of(is_expert, false),
                                  (enum stored)(i % STORED_COUNT));
    }
    struct communicators all = {0};
    for (int i = 0; i < GROUP_COUNT; i++) {
        int ranks = mesh_size(mesh, groups[i]);
        bool is_new = ranks > 1;
        for (int k = 0; k < i; k++)
            is_new = is_new && groups[k] != groups[i];
        if (!is_new) continue;
        all.count++;
        all.rank_sum += ranks;
    }
    assert(all.count <= GROUP_COUNT && all.rank_sum >= 2.0 * all.count);
    return all;
}

// Stages with unlike numbers of ranks have no axes in common: beside its own groups a rank joins
// those of its pipeline and of all ranks. The most that a rank joins.
struct communicators communicators_of(const struct program *program)
{
    const struct mesh *mesh = &program->mesh;
    int stages = program->shape.stage_count;
    if (!mesh->stage_ranks) return of_mesh(program);
    struct communicators most = {0};
    for (int stage = 0; stage < stages; stage++) {
        struct program room;
        struct communicators own = of_mesh(program_at(program, stage, &room));
        if (own.rank_sum > most.rank_sum) most = own;
    }
    if (stages == 1) return most;
    return (struct communicators){most.count + 2, most.rank_sum + stages + mesh->rank_count};
}

// One after another, as each is made in a call that all its ranks meet in.
double communicators_s(const struct communicators *communicators, const struct failures *failures)
{
    assert(communicators->count >= 0 && communicators->rank_sum >= communicators->count);
    return failures->communicator_s * communicators->count +
           failures->communicator_rank_s * communicators->rank_sum;
}
