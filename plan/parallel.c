#include "plan/parallel.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    bool takes_ranks;
    enum stream stream;
    unsigned overlap;
    int digit;
} AXES[AXIS_COUNT] = {
#define AXIS(id, name, takes_ranks, stream, part, overlap, digit) \
    [AXIS_##id] = {name, takes_ranks, stream, overlap, digit},
#include "plan/axes.inc"
};

static const char *const RECOMPUTES[RECOMPUTE_COUNT] = {"none", "selective", "full", "per-op"};
static const char *const ATTENTIONS[ATTENTION_COUNT] = {"flash", "unfused"};
static const char *const CP_KINDS[CP_KIND_COUNT] = {"ring", "allgather", "ulysses", "axial"};
static const char *const TP_KINDS[TP_KIND_COUNT] = {"1d", "2d",       "2.5d",
                                                    "3d", "2d-summa", "2.5d-summa"};
static const char *const PASSES[PASS_COUNT] = {"attention",      "fusion",  "buckets",   "combine",
                                               "latency-hiding", "streams", "early-stop"};

// Moments: values kept a parameter. sgd and lars keep the momentum.
static const struct {
    const char *name;
    int moment_count;
} OPTIMIZERS[OPTIMIZER_COUNT] = {
    [OPTIMIZER_ADAMW] = {"adamw", 2}, [OPTIMIZER_ADAM] = {"adam", 2}, [OPTIMIZER_SGD] = {"sgd", 1},
    [OPTIMIZER_LAMB] = {"lamb", 2},   [OPTIMIZER_LARS] = {"lars", 1},
};

static int find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) return i;
    }
    return -1;
}

const char *axis_name(enum axis axis)
{
    assert(axis >= 0 && axis < AXIS_COUNT);
    return AXES[axis].name;
}

bool axis_from_name(const char *name, enum axis *axis)
{
    for (int i = 0; i < AXIS_COUNT; i++) {
        if (strcmp(AXES[i].name, name) != 0) continue;
        *axis = (enum axis)i;
        return true;
    }
    return false;
}

bool axis_takes_ranks(enum axis axis)
{
    assert(axis >= 0 && axis < AXIS_COUNT);
    return AXES[axis].takes_ranks;
}

enum stream axis_stream(enum axis axis)
{
    assert(axis >= 0 && axis < AXIS_COUNT);
    return AXES[axis].stream;
}

unsigned axis_overlap(enum axis axis)
{
    assert(axis >= 0 && axis < AXIS_COUNT);
    return AXES[axis].overlap;
}

int axis_digit(enum axis axis)
{
    assert(axis >= 0 && axis < AXIS_COUNT);
    return AXES[axis].digit;
}

const char *recompute_name(enum recompute recompute)
{
    assert(recompute >= 0 && recompute < RECOMPUTE_COUNT);
    return RECOMPUTES[recompute];
}

const char *attention_name(enum attention attention)
{
    assert(attention >= 0 && attention < ATTENTION_COUNT);
    return ATTENTIONS[attention];
}

const char *optimizer_name(enum optimizer optimizer)
{
    assert(optimizer >= 0 && optimizer < OPTIMIZER_COUNT);
    return OPTIMIZERS[optimizer].name;
}

const char *cp_kind_name(enum cp_kind kind)
{
    assert(kind >= 0 && kind < CP_KIND_COUNT);
    return CP_KINDS[kind];
}

const char *tp_kind_name(enum tp_kind kind)
{
    assert(kind >= 0 && kind < TP_KIND_COUNT);
    return TP_KINDS[kind];
}

const char *pass_name(enum pass pass)
{
    assert(pass >= 0 && pass < PASS_COUNT);
    return PASSES[pass];
}

bool recompute_from_name(const char *name, enum recompute *recompute)
{
    int found = find_name(name, RECOMPUTES, RECOMPUTE_COUNT);
    if (found >= 0) *recompute = (enum recompute)found;
    return found >= 0;
}

bool optimizer_from_name(const char *name, enum optimizer *optimizer)
{
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        if (strcmp(OPTIMIZERS[i].name, name) != 0) continue;
        *optimizer = (enum optimizer)i;
        return true;
    }
    return false;
}

int optimizer_moment_count(enum optimizer optimizer)
{
    assert(optimizer >= 0 && optimizer < OPTIMIZER_COUNT);
    return OPTIMIZERS[optimizer].moment_count;
}

void parallel_default_order(struct parallel *parallel)
{
    parallel->order_count = 0;
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        if (AXES[axis].takes_ranks) parallel->order[parallel->order_count++] = axis;
    }
}

static int place_of(const struct parallel *parallel, enum axis axis)
{
    for (int i = 0; i < parallel->order_count; i++) {
        if (parallel->order[i] == axis) return i;
    }
    return -1;
}

void parallel_complete_order(struct parallel *parallel)
{
    struct parallel whole = {.order_count = 0};
    parallel_default_order(&whole);
    for (int i = 0; i < whole.order_count; i++) {
        enum axis axis = whole.order[i];
        if (place_of(parallel, axis) >= 0) continue;
        int at = i > 0 ? place_of(parallel, whole.order[i - 1]) + 1 : 0;
        for (int j = parallel->order_count++; j > at; j--)
            parallel->order[j] = parallel->order[j - 1];
        parallel->order[at] = axis;
    }
}

bool parallel_interleaves(const struct parallel *parallel)
{
    return parallel->degree[AXIS_PP] == 1 || parallel->vpp > 1;
}

static const int *copy_numbers(struct arena *arena, const int *numbers, int count)
{
    if (count == 0) return NULL;
    int *copy = ARENA_NEW(arena, int, count);
    return memcpy(copy, numbers, (size_t)count * sizeof *copy);
}

struct parallel parallel_copy(struct arena *arena, const struct parallel *parallel)
{
    struct parallel copy = *parallel;
    copy.stage_layers = copy_numbers(arena, copy.stage_layers, copy.stage_layers_count);
    copy.stage_tp = copy_numbers(arena, copy.stage_tp, copy.stage_tp_count);
    copy.stage_ranks = copy_numbers(arena, copy.stage_ranks, copy.stage_ranks_count);
    copy.replica_micro_batches =
        copy_numbers(arena, copy.replica_micro_batches, copy.replica_count);
    return copy;
}

int parallel_stage_tp(const struct parallel *parallel, int stage)
{
    if (parallel->stage_tp_count == 0) return parallel->degree[AXIS_TP];
    assert(stage >= 0 && stage < parallel->stage_tp_count);
    return parallel->stage_tp[stage];
}

// Of one stage where all have as many.
static int64_t degree_ranks(const struct parallel *parallel)
{
    int64_t count = 1;
    for (int i = 0; i < AXIS_COUNT; i++) {
        assert(parallel->degree[i] >= 1);
        if (axis_takes_ranks((enum axis)i) && i != AXIS_PP) count *= parallel->degree[i];
    }
    return count;
}

int parallel_stage_ranks(const struct parallel *parallel, int stage)
{
    if (parallel->stage_ranks_count == 0) return (int)degree_ranks(parallel);
    assert(stage >= 0 && stage < parallel->stage_ranks_count);
    return parallel->stage_ranks[stage];
}

// Stages of unlike numbers of ranks lie on other devices and links, each with prices of its own.
int parallel_mesh_of(const struct parallel *parallel, int stage)
{
    int first = 0;
    if (parallel->stage_ranks_count > 0) return stage;
    while (parallel_stage_tp(parallel, first) != parallel_stage_tp(parallel, stage))
        first++;
    return first;
}

struct parallel parallel_at(const struct parallel *parallel, int stage)
{
    struct parallel at = *parallel;
    int64_t all = parallel_stage_ranks(parallel, stage);
    int tp = parallel_stage_tp(parallel, stage);
    int others = (int)(degree_ranks(parallel) /
                       ((int64_t)parallel->degree[AXIS_TP] * parallel->degree[AXIS_DP]));
    int sequences = parallel->degree[AXIS_DP] * parallel->micro_batch;
    assert(all % (tp * others) == 0);
    at.degree[AXIS_TP] = tp;
    at.degree[AXIS_DP] = (int)(all / (tp * others));
    assert(sequences % at.degree[AXIS_DP] == 0);
    at.micro_batch = sequences / at.degree[AXIS_DP];
    at.layout_stage = stage + 1;
    // As many devices, of what may be itself a view, of a stage with less tp.
    int *const groups[] = {&at.zero_group, &at.zero_gradients, &at.zero_parameters};
    for (int i = 0; i < 3; i++)
        *groups[i] = *groups[i] * parallel->degree[AXIS_TP] / tp;
    return at;
}

bool parallel_groups_shards(const struct parallel *parallel)
{
    return parallel->zero_group > 0 || parallel->zero_gradients > 0 ||
           parallel->zero_parameters > 0;
}

bool parallel_has_meshes(const struct parallel *parallel)
{
    if (parallel->stage_ranks_count > 0) return true;
    for (int stage = 1; stage < parallel->stage_tp_count; stage++)
        if (parallel->stage_tp[stage] != parallel->stage_tp[0]) return true;
    return false;
}

int64_t parallel_rank_count(const struct parallel *parallel)
{
    int64_t count = 0;
    for (int stage = 0; stage < parallel->stage_ranks_count; stage++)
        count += parallel->stage_ranks[stage];
    return count > 0 ? count : degree_ranks(parallel) * parallel->degree[AXIS_PP];
}

int64_t parallel_micro_batch_count(const struct parallel *parallel, int64_t global_batch)
{
    int64_t batch = (int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch, most = 0;
    for (int r = 0; r < parallel->replica_count; r++) {
        if (parallel->replica_micro_batches[r] > most) most = parallel->replica_micro_batches[r];
    }
    if (most > 0) return most;
    assert(batch >= 1 && global_batch % batch == 0);
    return global_batch / batch;
}

int64_t parallel_replica_count(const struct parallel *parallel, int64_t global_batch, int replica)
{
    assert(replica >= 0 && replica < parallel->degree[AXIS_DP]);
    return parallel->replica_count > 0 ? parallel->replica_micro_batches[replica]
                                       : parallel_micro_batch_count(parallel, global_batch);
}

int64_t parallel_replica_first(const struct parallel *parallel, int64_t global_batch, int replica)
{
    int64_t first = 0;
    if (parallel->replica_count == 0)
        return replica * parallel_micro_batch_count(parallel, global_batch);
    for (int r = 0; r < replica; r++)
        first += parallel->replica_micro_batches[r];
    return first;
}
