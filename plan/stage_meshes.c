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
        struct parallel seen = *parallel;
        seen.degree[AXIS_TP] = own;
        if (own > most) most = own;
        bool divides = own >= 1 && own <= tp && tp % own == 0;
        if (divides && grid_of(&seen).y == 0)
            return err_set(err, ERR_USAGE,
                           "--stage-tp: --tp-kind %s has no grid of %d ranks for stage %d",
                           tp_kind_name(parallel->tp_kind), own, s);
        if (divides) continue;
        return err_set(err, ERR_USAGE, "--stage-tp: %d for stage %d does not divide --tp %d", own,
                       s, tp);
    }
    if (most == tp) return true;
    return err_set(err, ERR_USAGE, "--stage-tp: the largest is %d, and --tp %d; they are one", most,
                   tp);
}

static const char *hindrance(const struct parallel *parallel)
{
    if (parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_AXIAL) return "--cp-kind axial";
    if (parallel->degree[AXIS_SP_H] > 1 || parallel->degree[AXIS_SP_W] > 1)
        return "--sp-h or --sp-w above 1";
    return parallel->replica_count > 0 ? "--replica-batches" : NULL;
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

// Whether there is a mesh that all stages see, experts aside.
static bool check_fold(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    struct parallel dense = *parallel;
    dense.degree[AXIS_EP] = dense.degree[AXIS_ETP] = 1;
    if (mesh_folds(&dense, graph->kv_head_count)) return true;
    bool hands_out_heads = parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_ULYSSES;
    return err_set(err, ERR_USAGE,
                   "--stage-tp: %s over %lld kv heads cannot be cut into the same finer axes for "
                   "all of the stages",
                   hands_out_heads              ? "tp and cp"
                   : parallel->tp_kind != TP_1D ? "grids of tp"
                                                : "tp",
                   (long long)graph->kv_head_count);
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
    return check_fold(graph, parallel, err) && check_sequences(parallel, err) &&
           check_tied(graph, parallel, err);
}

bool stage_meshes_check_each(const struct graph *graph, const struct cluster *cluster,
                             const struct workload *workload, const struct parallel *parallel,
                             struct err *err)
{
    for (int s = 0; s < parallel->stage_tp_count; s++) {
        struct err why = {0};
        struct parallel own = parallel_at(parallel, s);
        bool is_widest = parallel->stage_tp[s] == parallel->degree[AXIS_TP];
        own.stage_tp_count = own.layout_count = 0;
        if (is_widest || program_check(graph, cluster, workload, &own, &why)) continue;
        return err_set(err, why.kind, "--stage-tp: stage %d: %s", s, why.text);
    }
    return true;
}
