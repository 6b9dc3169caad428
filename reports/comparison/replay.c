#include "reports/comparison/replay.h"

#include "plan/script/script.h"

#include <assert.h>

// Blocks of threads that NCCL gives a collective between GPUs of one node, at most, are as many; it
// has no model, and takes fewer multiprocessors from kernels than a device has by far.
enum { MULTIPROCESSORS = 16 };

// The axes along which the ranks differ.
static unsigned axes_of(const struct mesh *mesh, const int *ranks, int count)
{
    assert(count > 0);
    unsigned axes = 0;
    for (int a = 0; a < mesh->axis_count; a++) {
        for (int i = 1; i < count; i++) {
            if (mesh_coordinate(mesh, a, ranks[i]) != mesh_coordinate(mesh, a, ranks[0]))
                axes |= 1u << a;
        }
    }
    return axes;
}

// Of stages with unlike numbers of ranks: one stage's, all, or two of two stages.
static struct group_shape unlike_group(const struct replay *replay, const int *ranks, int count)
{
    assert(count > 1);
    struct program room;
    const struct program *program = replay->evaluation->program;
    const struct cluster *cluster = replay->request->cluster;
    int first = ranks[0], last = ranks[count - 1], stage = mesh_stage_of(&program->mesh, first);
    const struct mesh *mesh = &program_at(program, stage, &room)->mesh;
    if (mesh_has(mesh, last)) return mesh_group(mesh, cluster, axes_of(mesh, ranks, count));
    if (count > 2) return mesh_group_of_all(mesh, cluster);
    return route_pair(cluster, first < last ? first : last, first < last ? last : first, 1);
}

// A group of one is the other end of a message: this rank is the second.
static double exchange_s(void *context, int collective, const int *ranks, int count, int64_t bytes)
{
    assert(count > 0 && bytes >= 0);
    const struct replay *replay = context;
    const struct mesh *mesh = &replay->evaluation->program->mesh;
    const int ends[] = {replay->rank, ranks[0]};
    if (count == 1) ranks = ends, count = 2;
    unsigned axes = mesh->stage_ranks ? 0 : axes_of(mesh, ranks, count);
    bool is_alone = mesh->stage_ranks ? ranks[0] == ranks[count - 1] : axes == 0;
    if (is_alone) return 0;
    struct group_shape group = mesh->stage_ranks ? unlike_group(replay, ranks, count)
                                                 : mesh_group(mesh, replay->request->cluster, axes);
    double scale = replay->request->stack->network_scale;
    return collective_price(replay->request->fabrics, &group, (enum collective)collective,
                            (double)bytes, scale)
        .s;
}

// End of the span of a task on the stage's timeline; 0: the simulation does not show it.
static double end_s(const struct replay *replay, int task)
{
    assert(task >= 0 && task < replay->script->task_count);
    const struct trace *trace = &replay->evaluation->simulation->trace;
    struct task_id id = script_task_id(replay->script, task);
    int number = task_number(&replay->evaluation->program->shape, &id);
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        if (span->rank == replay->script->stage && span->task == number &&
            span->stream == STREAM_PP)
            return (double)span->end_ns * 1e-9;
    }
    return 0;
}

// Messages in which the tensors of a task come: one a tensor, but between stages of unlike meshes.
static int messages_of(const struct replay *replay, const struct script_task *task)
{
    assert(task->kind == TASK_RECEIVE);
    struct arena scratch = {0};
    int count = 0;
    for (int i = 0; i < task->output_count; i++) {
        struct boundary boundary = script_boundary(replay->script, task, i);
        struct boundary_piece *pieces;
        count += boundary_is_plain(&boundary)
                     ? 1
                     : boundary_pieces(&scratch, &boundary, replay->rank, false, &pieces);
    }
    arena_free(&scratch);
    return count;
}

struct communicator_delays *replay_delays(struct arena *arena, const struct replay *replay)
{
    const struct script *script = replay->script;
    struct communicator_delays *delays = ARENA_NEW(arena, struct communicator_delays, 1);
    struct replay *kept = ARENA_NEW(arena, struct replay, 1);
    int count = 0;
    *kept = *replay;
    for (int t = 0; t < script->task_count; t++)
        count += script->tasks[t].kind == TASK_RECEIVE ? messages_of(replay, &script->tasks[t]) : 0;
    double *arrival_s = ARENA_NEW(arena, double, count);
    *delays = (struct communicator_delays){.exchange_s = exchange_s,
                                           .context = kept,
                                           .arrival_s = arrival_s,
                                           .multiprocessors = MULTIPROCESSORS};
    for (int t = 0; t < script->task_count; t++) {
        if (script->tasks[t].kind != TASK_RECEIVE) continue;
        double arrives_s = end_s(replay, t);
        for (int i = messages_of(replay, &script->tasks[t]); i > 0; i--)
            arrival_s[delays->arrival_count++] = arrives_s;
    }
    assert(delays->arrival_count == count && "every message has its moment");
    return delays;
}
