#include "plan/program.h"

#include "plan/branches.h"
#include "plan/layout/rules.h"
#include "plan/layout/spatial.h"
#include "plan/scan_check.h"
#include "plan/stage_meshes.h"
#include "plan/video_check.h"
#include "plan/zero_check.h"

#include <assert.h>
#include <stdio.h>

// Legality of degrees. What must divide is a predicate of a number, which finds the nearest.

struct question {
    const struct graph *graph;
    const struct workload *workload;
    const struct parallel *parallel;
    bool is_worded;  // the error is not set yet, so that a refusal is put into words
};

enum { NEAREST_BYTES = 96 };

// "the nearest that divide are 4 and 8", searched in 1 .. most, where at least one works. Of a long
// sequence that takes longer than all else here.
static const char *nearest(char text[NEAREST_BYTES], const struct question *question,
                           bool (*works)(const struct question *question, int64_t value),
                           int64_t value, int64_t most)
{
    int64_t low = value <= most ? value - 1 : most, high = value + 1;
    text[0] = '\0';
    if (!question->is_worded) return text;
    while (low >= 1 && !works(question, low))
        low--;
    while (high <= most && !works(question, high))
        high++;
    bool has_low = low >= 1, has_high = high <= most;
    assert(has_low || has_high);
    if (has_low && has_high)
        snprintf(text, NEAREST_BYTES, "the nearest that divide are %lld and %lld", (long long)low,
                 (long long)high);
    else
        snprintf(text, NEAREST_BYTES, "the nearest that divides is %lld",
                 (long long)(has_low ? low : high));
    return text;
}

static int degree(const struct question *question, enum axis axis)
{
    return question->parallel->degree[axis];
}

static bool shares_kv_heads(const struct graph *graph, int64_t tp)
{
    return kv_heads_share(graph->kv_head_count, tp) && scan_shares(graph, tp);
}

// What is no text has a number of places of its own, which is split as the tokens are; 0 of text.
static int64_t places_of(const struct graph *graph)
{
    const struct block *first = &graph->blocks[graph->sequence[0]];
    const struct tensor *made = &first->tensors[first->outputs[0]];
    int at = tensor_find_dim(made, DIM_SEQ);
    return at < 0 ? 0 : made->extents[at].size;
}

// The sequence that stands in the way.
static int64_t undivided(const struct question *question, int64_t parts)
{
    assert(parts >= 1);
    int64_t seq = question->workload->seq_len;
    return seq % parts != 0 ? seq : places_of(question->graph);
}

// With sp, and where tp shares the tokens of experts out, a rank has an even part of the sequence.
static bool splits_seq(const struct question *question, int64_t tp)
{
    bool splits = question->parallel->sp || question->graph->expert_count > 0;
    int64_t parts = (splits ? tp : 1) * degree(question, AXIS_CP);
    if (!video_cp_divides(question->graph, CP_RING, parts)) return false;
    return question->workload->seq_len % parts == 0 && places_of(question->graph) % parts == 0;
}

// Ranks that split the heads: all of tp in a line, those along ty on a grid.
static int64_t head_ranks(const struct question *question, int64_t tp)
{
    struct parallel parallel = *question->parallel;
    parallel.degree[AXIS_TP] = (int)tp;
    return grid_of(&parallel).y;
}

static bool grid_works(const struct question *question, int64_t tp)
{
    const struct graph *graph = question->graph;
    struct parallel parallel = *question->parallel;
    parallel.degree[AXIS_TP] = (int)tp;
    int64_t heads = grid_of(&parallel).y;
    return graph->head_count % heads == 0 && shares_kv_heads(graph, heads) &&
           graph->hidden % grid_hidden_parts(&parallel) == 0;
}

static bool tp_works(const struct question *question, int64_t tp)
{
    const struct graph *graph = question->graph;
    if (question->parallel->tp_kind != TP_1D) return grid_works(question, tp);
    return graph->head_count % tp == 0 && shares_kv_heads(graph, tp) && splits_seq(question, tp);
}

// Ulysses hands out the heads that tp leaves a rank, and as far as they go the kv heads.
static bool shares_heads(const struct question *question, int64_t cp)
{
    const struct graph *graph = question->graph;
    if (question->parallel->cp_kind != CP_ULYSSES) return true;
    int64_t tp = head_ranks(question, degree(question, AXIS_TP)), kv = graph->kv_head_count;
    int64_t left = kv > tp ? kv / tp : 1;
    if (!scan_shares(graph, tp) || graph->scan_head_count % (tp * cp) != 0) return false;
    return graph->head_count % (tp * cp) == 0 && (left % cp == 0 || cp % left == 0);
}

static bool cp_divides_seq(const struct question *question, int64_t cp)
{
    if (!video_cp_divides(question->graph, question->parallel->cp_kind, cp)) return false;
    if (question->graph->contrasts) return cp == 1;
    return question->workload->seq_len % cp == 0 && places_of(question->graph) % cp == 0;
}

static bool cp_works(const struct question *question, int64_t cp)
{
    return cp_divides_seq(question, cp) && shares_heads(question, cp);
}

static bool dp_works(const struct question *question, int64_t dp)
{
    return question->workload->global_batch % dp == 0;
}

static bool micro_batch_works(const struct question *question, int64_t micro_batch)
{
    int64_t batch = question->workload->global_batch, dp = degree(question, AXIS_DP);
    if (question->graph->contrasts && micro_batch * dp != batch) return false;
    return micro_batch % grid_batch_parts(question->parallel) == 0 &&
           batch % (dp * micro_batch) == 0;
}

static bool zero_group_works(const struct question *question, int64_t group)
{
    int64_t cp = degree(question, AXIS_CP), dp = degree(question, AXIS_DP);
    return group % cp == 0 && dp % (group / cp) == 0;
}

static bool check_range(const char *option, int64_t value, int64_t least, int64_t most,
                        struct err *err)
{
    if (value >= least && value <= most) return true;
    return err_set(err, ERR_USAGE, "%s %lld: expected %lld to %lld", option, (long long)value,
                   (long long)least, (long long)most);
}

// Chunks are numbered in a byte of the schedule's slots.
enum { VPP_MAX = 255, DEGREE_MAX = 1 << 20 };

static bool check_ranges(const struct parallel *parallel, struct err *err)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        int most = i == AXIS_PP ? STAGE_MAX : DEGREE_MAX;
        if (parallel->degree[i] >= 1 && parallel->degree[i] <= most) continue;
        char option[16];
        snprintf(option, sizeof option, "--%s", axis_name((enum axis)i));
        return check_range(option, parallel->degree[i], 1, most, err);
    }
    return check_range("--vpp", parallel->vpp, 1, VPP_MAX, err) &&
           check_range("--micro-batch", parallel->micro_batch, 1, DEGREE_MAX, err) &&
           check_range("--zero", parallel->zero, 0, 3, err) &&
           check_range("--zero-group", parallel->zero_group, 0, INT32_MAX, err) &&
           check_range("--recompute-layers", parallel->recompute_layers, -1, INT32_MAX, err);
}

// Every axis that takes ranks stands in the order once.
static bool check_order(const struct parallel *parallel, struct err *err)
{
    if (parallel->order_count == 0) return true;
    int seen[AXIS_COUNT] = {0};
    for (int i = 0; i < parallel->order_count; i++)
        seen[parallel->order[i]]++;
    for (int i = 0; i < AXIS_COUNT; i++) {
        int wanted = axis_takes_ranks((enum axis)i);
        if (seen[i] == wanted) continue;
        return err_set(err, ERR_USAGE, "order: %s stands there %d times, expected %d",
                       axis_name((enum axis)i), seen[i], wanted);
    }
    return true;
}

static bool folds(const struct question *question, int64_t ep, int64_t etp)
{
    struct parallel folded = *question->parallel;
    folded.degree[AXIS_EP] = (int)ep;
    folded.degree[AXIS_ETP] = (int)etp;
    return mesh_folds(&folded, question->graph->kv_head_count);
}

// With experts whole everything folds, so that some degree always works.
static bool etp_works(const struct question *question, int64_t etp)
{
    return question->graph->expert_ffn % etp == 0 && folds(question, 1, etp);
}

static bool ep_works(const struct question *question, int64_t ep)
{
    return question->graph->expert_count % ep == 0 &&
           folds(question, ep, degree(question, AXIS_ETP));
}

static bool refuse_fold(const struct question *question, enum axis axis, const char *text,
                        struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "--%s %d: ep %d times etp %d cannot be laid over tp %d, cp %d and dp %d%s; %s",
                   axis_name(axis), degree(question, axis), degree(question, AXIS_EP),
                   degree(question, AXIS_ETP), degree(question, AXIS_TP), degree(question, AXIS_CP),
                   degree(question, AXIS_DP),
                   parallel_has_meshes(question->parallel) ? ", as each stage has them" : "", text);
}

static bool check_experts(const struct question *question, struct err *err)
{
    static const enum axis FOLDED[] = {AXIS_EP, AXIS_ETP};
    const struct graph *graph = question->graph;
    for (int i = 0; i < 2; i++) {
        int found = degree(question, FOLDED[i]);
        if (found == 1 || graph->expert_count > 0) continue;
        return err_set(err, ERR_USAGE, "--%s %d: the model has no experts; only 1 works",
                       axis_name(FOLDED[i]), found);
    }
    if (graph->expert_count == 0) return true;
    int ep = degree(question, AXIS_EP), etp = degree(question, AXIS_ETP);
    char text[NEAREST_BYTES];
    if (!etp_works(question, etp)) {
        nearest(text, question, etp_works, etp, graph->expert_ffn);
        if (graph->expert_ffn % etp == 0) return refuse_fold(question, AXIS_ETP, text, err);
        return err_set(err, ERR_USAGE, "--etp %d: experts of ffn %lld cannot be split by %d; %s",
                       etp, (long long)graph->expert_ffn, etp, text);
    }
    if (ep_works(question, ep)) return true;
    nearest(text, question, ep_works, ep, graph->expert_count);
    if (graph->expert_count % ep == 0) return refuse_fold(question, AXIS_EP, text, err);
    return err_set(err, ERR_USAGE, "--ep %d: %lld experts cannot be split by %d; %s", ep,
                   (long long)graph->expert_count, ep, text);
}

static bool check_gpus(const struct question *question, int gpus, struct err *err)
{
    int64_t found = parallel_rank_count(question->parallel);
    if (found == gpus) return true;
    int dp = degree(question, AXIS_DP), tp = degree(question, AXIS_TP);
    int cp = degree(question, AXIS_CP), pp = degree(question, AXIS_PP);
    int64_t each = found / dp;
    assert(each >= 1 && found % dp == 0);
    if (gpus % each == 0) {
        return err_set(err, ERR_USAGE,
                       "--dp %d --tp %d --cp %d --pp %d: %lld ranks, the cluster has %d GPUs; "
                       "--dp %lld uses them all",
                       dp, tp, cp, pp, (long long)found, gpus, (long long)(gpus / each));
    }
    int64_t below = gpus / each * each;
    if (below == 0) {
        return err_set(err, ERR_USAGE,
                       "--dp %d --tp %d --cp %d --pp %d: %lld ranks, the cluster has %d GPUs; the "
                       "nearest it works with is %lld",
                       dp, tp, cp, pp, (long long)found, gpus, (long long)each);
    }
    return err_set(err, ERR_USAGE,
                   "--dp %d --tp %d --cp %d --pp %d: %lld ranks, the cluster has %d GPUs; the "
                   "nearest that --dp can use all of are %lld and %lld",
                   dp, tp, cp, pp, (long long)found, gpus, (long long)below,
                   (long long)below + (long long)each);
}

static bool check_grid(const struct question *question, struct err *err)
{
    const struct parallel *parallel = question->parallel;
    const char *kind = tp_kind_name(parallel->tp_kind);
    int64_t parts = grid_batch_parts(parallel);
    if (parallel->tp_kind == TP_1D) return true;
    const char *whole = question->graph->expert_count > 0 ? "experts" : "an indexer";
    if (question->graph->expert_count > 0 || question->graph->has_indexer)
        return err_set(err, ERR_USAGE,
                       "--tp-kind %s: the model has %s, which no grid splits; only 1d works", kind,
                       whole);
    if (parallel->sp)
        return err_set(err, ERR_USAGE,
                       "--tp-kind %s: a grid leaves --sp nothing to split; only off works", kind);
    bool hands_out_heads = question->parallel->cp_kind == CP_ULYSSES;
    if (SUMMA_GRIDS >> parallel->tp_kind & 1 && degree(question, AXIS_CP) > 1 && hands_out_heads)
        return err_set(
            err, ERR_USAGE,
            "--tp-kind %s: sums over heads would follow what --cp-kind ulysses hands out "
            "of them; ring and allgather work",
            kind);
    if (parts > 0 && question->workload->global_batch % (degree(question, AXIS_DP) * parts) != 0)
        return err_set(err, ERR_USAGE,
                       "--tp-kind %s: tp %d splits the sequences of a micro-batch by %lld, which a "
                       "global batch of %lld over dp %d is no multiple of",
                       kind, degree(question, AXIS_TP), (long long)parts,
                       (long long)question->workload->global_batch, degree(question, AXIS_DP));
    return true;
}

static bool refuse_grid(const struct question *question, struct err *err)
{
    const struct graph *graph = question->graph;
    const struct parallel *parallel = question->parallel;
    struct tp_grid grid = grid_of(parallel);
    char text[NEAREST_BYTES];
    int tp = degree(question, AXIS_TP);
    nearest(text, question, tp_works, tp, graph->head_count * graph->head_count);
    const char *kind = tp_kind_name(parallel->tp_kind);
    return err_set(err, ERR_USAGE,
                   "--tp %d: a %s grid of %d x %d x %d (tx, ty, tz) cannot split hidden %lld, %lld "
                   "heads and %lld kv heads; %s",
                   tp, kind, grid.x, grid.y, grid.z, (long long)graph->hidden,
                   (long long)graph->head_count, (long long)graph->kv_head_count, text);
}

static bool check_tp(const struct question *question, struct err *err)
{
    const struct graph *graph = question->graph;
    int tp = degree(question, AXIS_TP);
    if (tp_works(question, tp)) return true;
    if (question->parallel->tp_kind != TP_1D) return refuse_grid(question, err);
    char text[NEAREST_BYTES];
    nearest(text, question, tp_works, tp, graph->head_count);
    if (graph->head_count % tp != 0)
        return err_set(err, ERR_USAGE, "--tp %d: %lld heads cannot be split by %d; %s", tp,
                       (long long)graph->head_count, tp, text);
    if (!scan_shares(graph, tp)) return scan_refuse_tp(graph, tp, text, err);
    if (!shares_kv_heads(graph, tp))
        return err_set(err, ERR_USAGE,
                       "--tp %d: %lld kv heads neither divide %d nor are divided by it; %s", tp,
                       (long long)graph->kv_head_count, tp, text);
    return err_set(err, ERR_USAGE,
                   "--tp %d: a sequence of %lld over cp %d cannot be split by %d, as %s; %s", tp,
                   (long long)undivided(question, tp * degree(question, AXIS_CP)),
                   degree(question, AXIS_CP), tp,
                   question->parallel->sp ? "--sp on does" : "experts do", text);
}

static bool check_cp(const struct question *question, struct err *err)
{
    int cp = degree(question, AXIS_CP);
    int64_t seq = undivided(question, cp);
    if (!video_check_choices(question->graph, question->parallel, err)) return false;
    if (cp_divides_seq(question, cp)) return true;
    if (question->graph->contrasts)
        return err_set(err, ERR_USAGE,
                       "--cp %d: %s compares what whole sequences say; only 1 works", cp,
                       question->graph->name);
    char text[NEAREST_BYTES];
    if (question->graph->frames > 0)
        return video_refuse_cp(question->graph, question->parallel,
                               nearest(text, question, cp_divides_seq, cp, seq), err);
    return err_set(err, ERR_USAGE, "--cp %d: a sequence of %lld cannot be split by %d; %s", cp,
                   (long long)seq, cp, nearest(text, question, cp_divides_seq, cp, seq));
}

// Asked once tp is known to fit the heads.
static bool check_ulysses(const struct question *question, struct err *err)
{
    const struct graph *graph = question->graph;
    int cp = degree(question, AXIS_CP);
    if (cp_works(question, cp)) return true;
    char text[NEAREST_BYTES];
    return err_set(err, ERR_USAGE,
                   "--cp %d: ulysses cannot split %lld heads and %lld kv heads over tp %d by %d; "
                   "%s",
                   cp, (long long)graph->head_count, (long long)graph->kv_head_count,
                   degree(question, AXIS_TP), cp,
                   nearest(text, question, cp_works, cp, question->workload->seq_len));
}

static bool check_replicas(const struct question *question, struct err *err)
{
    const struct parallel *parallel = question->parallel;
    int64_t sum = 0, batch = question->workload->global_batch;
    if (parallel->replica_count != parallel->degree[AXIS_DP]) {
        return err_set(err, ERR_USAGE,
                       "--replica-batches: %d numbers for --dp %d; one a replica is wanted",
                       parallel->replica_count, parallel->degree[AXIS_DP]);
    }
    for (int r = 0; r < parallel->replica_count; r++) {
        int count = parallel->replica_micro_batches[r];
        if (count < 1) {
            return err_set(err, ERR_USAGE,
                           "--replica-batches: %d micro-batches for replica %d; it needs 1 at "
                           "least",
                           count, r);
        }
        sum += count;
    }
    if (sum * parallel->micro_batch == batch) return program_check_replicas(parallel, err);
    return err_set(err, ERR_USAGE,
                   "--replica-batches: %lld micro-batches of %d are %lld sequences; the global "
                   "batch is %lld",
                   (long long)sum, parallel->micro_batch, (long long)sum * parallel->micro_batch,
                   (long long)batch);
}

static bool check_batch(const struct question *question, struct err *err)
{
    int64_t batch = question->workload->global_batch;
    int dp = degree(question, AXIS_DP), micro_batch = question->parallel->micro_batch;
    char text[NEAREST_BYTES];
    if (question->parallel->replica_count > 0) return check_replicas(question, err);
    if (!dp_works(question, dp)) {
        return err_set(err, ERR_USAGE, "--dp %d: a global batch of %lld cannot be split by %d; %s",
                       dp, (long long)batch, dp, nearest(text, question, dp_works, dp, batch));
    }
    if (micro_batch_works(question, micro_batch)) return true;
    if (question->graph->contrasts)
        return err_set(err, ERR_USAGE,
                       "--micro-batch %d: %s compares all samples of a step with each other, which "
                       "are one micro-batch; %s",
                       micro_batch, question->graph->name,
                       nearest(text, question, micro_batch_works, micro_batch, batch / dp));
    int64_t parts = grid_batch_parts(question->parallel);
    if (micro_batch % parts != 0)
        return err_set(err, ERR_USAGE,
                       "--micro-batch %d: --tp-kind %s splits its sequences by %lld; %s",
                       micro_batch, tp_kind_name(question->parallel->tp_kind), (long long)parts,
                       nearest(text, question, micro_batch_works, micro_batch, batch / dp));
    return err_set(err, ERR_USAGE,
                   "--micro-batch %d: a global batch of %lld over dp %d cannot be split by %d; %s",
                   micro_batch, (long long)batch, dp, micro_batch,
                   nearest(text, question, micro_batch_works, micro_batch, batch / dp));
}

static bool check_zero_group(const struct question *question, struct err *err)
{
    int group = question->parallel->zero_group;
    if (group == 0 || zero_group_works(question, group))
        return zero_check_parts(question->parallel, err);
    int cp = degree(question, AXIS_CP), dp = degree(question, AXIS_DP);
    char text[NEAREST_BYTES];
    return err_set(
        err, ERR_USAGE, "--zero-group %d: dp %d times cp %d cannot be split into groups of %d; %s",
        group, dp, cp, group, nearest(text, question, zero_group_works, group, (int64_t)dp * cp));
}

static bool check_schedule_of(const struct question *question, int64_t micro_batches,
                              struct err *err)
{
    const struct parallel *parallel = question->parallel;
    struct schedule_shape shape = {parallel->degree[AXIS_PP], parallel->vpp, (int)micro_batches,
                                   parallel->in_flight, NULL};
    const char *why = "cannot run it";
    if (schedule_row(parallel->schedule)->legal(&shape, &why))
        return branches_check(question->graph, parallel, err);
    return err_set(err, ERR_USAGE, "--schedule %s: %s; pp is %d, vpp %d, micro-batches %lld",
                   schedule_name(parallel->schedule), why, shape.stage_count, shape.chunk_count,
                   (long long)micro_batches);
}

static bool check_schedule(const struct question *question, struct err *err)
{
    const struct parallel *parallel = question->parallel;
    int64_t batch = question->workload->global_batch;
    for (int r = 0; r < parallel->replica_count; r++)
        if (!check_schedule_of(question, parallel->replica_micro_batches[r], err)) return false;
    return check_schedule_of(question, parallel_micro_batch_count(parallel, batch), err);
}

bool program_check(const struct graph *graph, const struct cluster *cluster,
                   const struct workload *workload, const struct parallel *parallel,
                   struct err *err)
{
    assert(workload->seq_len > 0 && workload->global_batch > 0);
    struct question question = {graph, workload, parallel, err->kind == ERR_NONE};
    if (!program_check_seq_len(graph, workload, err) || !check_ranges(parallel, err)) return false;
    return check_order(parallel, err) && check_gpus(&question, cluster->rank_count, err) &&
           stage_meshes_check_numbers(parallel, err) && spatial_check(graph, parallel, err) &&
           check_cp(&question, err) && check_tp(&question, err) && check_grid(&question, err) &&
           scan_check_cp(graph, parallel, err) && check_ulysses(&question, err) &&
           check_batch(&question, err) && check_zero_group(&question, err) &&
           stage_meshes_check(graph, workload, parallel, err) && check_experts(&question, err) &&
           stages_split(graph, parallel, NULL, err) && check_schedule(&question, err) &&
           layout_rules_check(graph, workload, parallel, err) && stays_check(parallel, err) &&
           program_check_offload(cluster, &parallel->offload, err) &&
           program_check_gradients(parallel, err) && parts_check(graph, workload, parallel, err) &&
           stage_meshes_check_each(graph, cluster, workload, parallel, err);
}
