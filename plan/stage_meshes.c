#include "plan/stage_meshes.h"

#include "plan/layout/mesh.h"
#include "plan/layout/rules.h"
#include "plan/program.h"
#include "plan/stages.h"
#include "plan/ties.h"

#include <assert.h>

// Why stages of unlike numbers of ranks cannot be; NULL: they can.
static const char *ranks_hindrance(const struct parallel *parallel)
{
    if (parallel->degree[AXIS_SP_H] > 1 || parallel->degree[AXIS_SP_W] > 1)
        return "--sp-h or --sp-w above 1";
    if (parallel->replica_count > 0) return "--replica-batches";
    bool is_last =
        parallel->order_count == 0 || parallel->order[parallel->order_count - 1] == AXIS_PP;
    return is_last ? NULL : "an order in which pp is not last";
}

// The ranks of a stage have to be tp times cp times a dp that divides the sequences of a round.
static bool check_stage_ranks(const struct parallel *parallel, int stage, struct err *err)
{
    int64_t ranks = parallel->stage_ranks[stage], cp = parallel->degree[AXIS_CP];
    int64_t each = parallel_stage_tp(parallel, stage) * cp;
    assert(each >= 1 && "degrees of tp were checked");
    int64_t sequences = (int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch;
    if (ranks % each != 0 || ranks == 0)
        return err_set(err, ERR_USAGE,
                       "--stage-ranks: %lld for stage %d is no multiple of its tp %lld times cp "
                       "%lld",
                       (long long)ranks, stage, (long long)(each / cp), (long long)cp);
    if (sequences % (ranks / each) == 0) return true;
    return err_set(err, ERR_USAGE,
                   "--stage-ranks: stage %d splits the %lld sequences of dp %d times "
                   "--micro-batch %d by its dp %lld, which does not divide them",
                   stage, (long long)sequences, parallel->degree[AXIS_DP], parallel->micro_batch,
                   (long long)(ranks / each));
}

// Groups of ZeRO are as many devices in each stage, or all of one that has no more.
static bool check_groups(const struct parallel *parallel, int stage, struct err *err)
{
    static const char *const OPTIONS[STORED_COUNT] = {[STORED_WEIGHTS] = "--zero-parameters",
                                                      [STORED_GRADIENTS] = "--zero-gradients",
                                                      [STORED_STATES] = "--zero-group"};
    struct parallel own = parallel_at(parallel, stage);
    int outer = own.degree[AXIS_DP] * own.degree[AXIS_CP];
    for (int i = STORED_COUNT - 1; i >= 0 && parallel->zero > 0; i--) {
        int ranks = mesh_shard_ranks(&own, (enum stored)i);
        if (ranks % own.degree[AXIS_CP] != 0 || outer % ranks != 0)
            return err_set(err, ERR_USAGE,
                           "--stage-ranks: %s is %d ranks of dp and cp in stage %d, which do not "
                           "divide its %d",
                           OPTIONS[i], ranks, stage, outer);
        outer = ranks;
    }
    return true;
}

// The stage whose degrees those of the plan are.
static int widest(const struct parallel *parallel)
{
    int stage = 0;
    while (parallel_stage_tp(parallel, stage) != parallel->degree[AXIS_TP])
        stage++;
    return stage;
}

static bool check_ranks(const struct parallel *parallel, struct err *err)
{
    int count = parallel->stage_ranks_count, stages = parallel->degree[AXIS_PP];
    if (count == 0) return true;
    if (count != stages)
        return err_set(err, ERR_USAGE,
                       "--stage-ranks: %d numbers for --pp %d; one a stage is "
                       "wanted",
                       count, stages);
    const char *why = ranks_hindrance(parallel);
    if (why) return err_set(err, ERR_USAGE, "--stage-ranks: not with %s", why);
    for (int s = 0; s < count; s++)
        if (!check_stage_ranks(parallel, s, err) || !check_groups(parallel, s, err)) return false;
    int at = widest(parallel);
    int64_t found =
        (int64_t)parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP] * parallel->degree[AXIS_DP];
    if (parallel->stage_ranks[at] == found) return true;
    return err_set(err, ERR_USAGE,
                   "--stage-ranks: stage %d has %d, but --tp %d, --cp %d and --dp %d, which are "
                   "its own, are %lld",
                   at, parallel->stage_ranks[at], parallel->degree[AXIS_TP],
                   parallel->degree[AXIS_CP], parallel->degree[AXIS_DP], (long long)found);
}

static bool check_tps(const struct parallel *parallel, struct err *err)
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

bool stage_meshes_check_numbers(const struct parallel *parallel, struct err *err)
{
    return check_tps(parallel, err) && check_ranks(parallel, err);
}

// What was asked for that gives stages meshes of their own.
static const char *option_of(const struct parallel *parallel)
{
    return parallel->stage_ranks_count > 0 ? "--stage-ranks" : "--stage-tp";
}

static const char *hindrance(const struct parallel *parallel)
{
    if (parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_AXIAL) return "--cp-kind axial";
    if (parallel->degree[AXIS_SP_H] > 1 || parallel->degree[AXIS_SP_W] > 1)
        return "--sp-h or --sp-w above 1";
    return parallel->replica_count > 0 ? "--replica-batches" : NULL;
}

// Of stages with unlike numbers of ranks check_ranks has asked.
static bool check_sequences(const struct parallel *parallel, struct err *err)
{
    if (parallel->stage_ranks_count > 0) return true;
    int tp = parallel->degree[AXIS_TP];
    for (int s = 0; s < parallel->stage_tp_count; s++) {
        int parts = tp / parallel->stage_tp[s];
        assert(parts * parallel->stage_tp[s] == tp && "check_tps comes first");
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
    return err_set(err, ERR_USAGE, "%s: %s over %lld kv heads cannot be cut into %s",
                   option_of(parallel),
                   hands_out_heads              ? "tp and cp"
                   : parallel->tp_kind != TP_1D ? "grids of tp"
                                                : "tp",
                   (long long)graph->kv_head_count,
                   parallel->stage_ranks_count > 0 ? "finer axes in each of the stages"
                                                   : "the same finer axes for all of the stages");
}

static bool check_tied(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    if (!ties_any(graph)) return true;
    struct arena scratch = {0};
    struct chunk_span *spans =
        ARENA_NEW(&scratch, struct chunk_span, parallel->degree[AXIS_PP] * parallel->vpp);
    bool done =
        stages_split(graph, parallel, spans, err) && ties_check(graph, parallel, spans, err);
    arena_free(&scratch);
    return done;
}

bool stage_meshes_check(const struct graph *graph, const struct workload *workload,
                        const struct parallel *parallel, struct err *err)
{
    if (!parallel_has_meshes(parallel)) return true;
    const char *why = hindrance(parallel);
    if (why) return err_set(err, ERR_USAGE, "%s: not with %s", option_of(parallel), why);
    int64_t parts = (int64_t)parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP];
    if (parallel->sp && workload->seq_len % parts != 0)
        return err_set(err, ERR_USAGE,
                       "%s: with --sp on tp and cp, %lld ranks, split %lld tokens unevenly",
                       option_of(parallel), (long long)parts, (long long)workload->seq_len);
    return check_fold(graph, parallel, err) && check_sequences(parallel, err) &&
           check_tied(graph, parallel, err);
}

struct parallel stage_meshes_plain(const struct parallel *parallel)
{
    struct parallel plain = *parallel;
    bool are_alike = parallel->stage_ranks_count > 0 && !layout_rules_are_staged(parallel);
    for (int s = 1; s < parallel->stage_ranks_count && are_alike; s++)
        are_alike = parallel->stage_ranks[s] == parallel->stage_ranks[0] &&
                    parallel_stage_tp(parallel, s) == parallel_stage_tp(parallel, 0);
    if (are_alike) plain.stage_ranks_count = plain.stage_tp_count = 0;
    return plain;
}

// Groups of ZeRO as a stage has them, which may have fewer ranks.
static void keep_groups(struct parallel *own)
{
    int *const groups[STORED_COUNT] = {[STORED_WEIGHTS] = &own->zero_parameters,
                                       [STORED_GRADIENTS] = &own->zero_gradients,
                                       [STORED_STATES] = &own->zero_group};
    for (int i = 0; i < STORED_COUNT; i++)
        if (*groups[i] > 0) *groups[i] = mesh_shard_ranks(own, (enum stored)i);
}

bool stage_meshes_check_each(const struct graph *graph, const struct cluster *cluster,
                             const struct workload *workload, const struct parallel *parallel,
                             struct err *err)
{
    bool has_ranks = parallel->stage_ranks_count > 0;
    int count = has_ranks ? parallel->stage_ranks_count : parallel->stage_tp_count;
    for (int s = 0; s < count; s++) {
        struct err why = {0};
        struct parallel own = parallel_at(parallel, s);
        bool is_widest = !has_ranks && parallel->stage_tp[s] == parallel->degree[AXIS_TP];
        own.stage_tp_count = own.stage_ranks_count = own.layout_count = 0;
        if (has_ranks) keep_groups(&own);
        // As if all stages had as many ranks.
        struct cluster like = *cluster;
        like.rank_count = (int)parallel_rank_count(&own);
        if (is_widest || program_check(graph, &like, workload, &own, &why)) continue;
        return err_set(err, why.kind, "%s: stage %d: %s", option_of(parallel), s, why.text);
    }
    return true;
}
