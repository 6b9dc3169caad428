#include "plan/stage_meshes.h"

#include "plan/layout/mesh.h"
#include "plan/program.h"
#include "plan/stages.h"

#include <assert.h>

bool stage_meshes_check_numbers(const struct parallel *parallel, struct err *err)
{
    if (parallel->stage_tp_count == 0) return true;
    int count = parallel->stage_tp_count, stages = parallel->degree[AXIS_PP], most = 0;
    int tp = parallel->degree[AXIS_TP];
    if (count != stages)
        return err_set(err, ERR_USAGE, "--stage-tp: %d numbers for --pp %d; one a stage is wanted",
                       count, stages);
    for (int s = 0; s < count; s++) {
        int own = parallel->stage_tp[s];
        if (own > most) most = own;
        if (own >= 1 && own <= tp && tp % own == 0) continue;
        return err_set(err, ERR_USAGE, "--stage-tp: %d for stage %d does not divide --tp %d", own,
                       s, tp);
    }
    if (most == tp) return true;
    return err_set(err, ERR_USAGE, "--stage-tp: the largest is %d, and --tp %d; they are one", most,
                   tp);
}

static const char *hindrance(const struct parallel *parallel)
{
    if (parallel->tp_kind != TP_1D) return "a grid of --tp-kind";
    if (parallel->degree[AXIS_EP] > 1 || parallel->degree[AXIS_ETP] > 1)
        return "--ep or --etp above 1";
    if (parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_ULYSSES)
        return "--cp-kind ulysses, whose heads are what tp leaves";
    if (parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_AXIAL) return "--cp-kind axial";
    if (parallel->degree[AXIS_SP_H] > 1 || parallel->degree[AXIS_SP_W] > 1)
        return "--sp-h or --sp-w above 1";
    if (parallel->replica_count > 0) return "--replica-batches";
    if (parallel->zero_group > 0) return "--zero-group";
    if (parallel->zero_gradients > 0 || parallel->zero_parameters > 0)
        return "--zero-gradients or --zero-parameters";
    return NULL;
}

static bool check_sequences(const struct parallel *parallel, struct err *err)
{
    int tp = parallel->degree[AXIS_TP];
    for (int s = 0; s < parallel->stage_tp_count; s++) {
        int parts = tp / parallel->stage_tp[s];
        if (parallel->micro_batch % parts == 0) continue;
        return err_set(err, ERR_USAGE,
                       "--stage-tp: stage %d splits the %d sequences of --micro-batch by %d, which "
                       "does not divide them",
                       s, parallel->micro_batch, parts);
    }
    return true;
}

// The stage that has a block of the sequence.
static int stage_at(const struct parallel *parallel, const struct chunk_span *spans, int position)
{
    int count = parallel->degree[AXIS_PP] * parallel->vpp;
    for (int i = 0; i < count; i++) {
        if (position >= spans[i].first && position < spans[i].first + spans[i].count)
            return i / parallel->vpp;
    }
    assert(false && "a block is on no stage");
    return 0;
}

static bool check_tied(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    int position = program_tied_position(graph);
    if (position == 0) return true;
    struct arena scratch = {0};
    struct chunk_span *spans =
        ARENA_NEW(&scratch, struct chunk_span, parallel->degree[AXIS_PP] * parallel->vpp);
    bool done = stages_split(graph, parallel, spans, err);
    int first = done ? stage_at(parallel, spans, 0) : 0;
    int last = done ? stage_at(parallel, spans, position) : 0;
    arena_free(&scratch);
    if (!done) return false;
    if (parallel->stage_tp[first] == parallel->stage_tp[last]) return true;
    return err_set(err, ERR_USAGE,
                   "--stage-tp: stages %d and %d share tied embeddings, which lie in one layout; "
                   "give both as many ranks of tp, not %d and %d",
                   first, last, parallel->stage_tp[first], parallel->stage_tp[last]);
}

bool stage_meshes_check(const struct graph *graph, const struct workload *workload,
                        const struct parallel *parallel, struct err *err)
{
    if (parallel->stage_tp_count == 0) return true;
    if (!parallel_has_meshes(parallel)) return true;
    const char *why = hindrance(parallel);
    if (why) return err_set(err, ERR_USAGE, "--stage-tp: not with %s", why);
    int64_t parts = (int64_t)parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP];
    if (parallel->sp && workload->seq_len % parts != 0)
        return err_set(err, ERR_USAGE,
                       "--stage-tp: with --sp on tp and cp, %lld ranks, split %lld tokens unevenly",
                       (long long)parts, (long long)workload->seq_len);
    if (!mesh_folds(parallel, graph->kv_head_count))
        return err_set(
            err, ERR_USAGE,
            "--stage-tp: the ranks that share one of %lld kv heads are not neighbours in "
            "all of the stages",
            (long long)graph->kv_head_count);
    return check_sequences(parallel, err) && check_tied(graph, parallel, err);
}
