#include "plan/layout/mesh.h"
#include "core/divisor.h"

#include <assert.h>

enum { PART_MAX = 8 };

static const char *const PART_NAMES[AXIS_COUNT][PART_MAX] = {
#define AXIS(id, name, ...)                                    \
    [AXIS_##id] = {name ".0", name ".1", name ".2", name ".3", \
                   name ".4", name ".5", name ".6", name ".7"},
#include "plan/axes.inc"
};

// What the axes of a mesh are cut at: where etp and ep end among the ranks of a stage.
struct cuts {
    int64_t etp, ep;  // ranks up to there
};

enum { SHARDS_ALL = (1 << STORED_COUNT) - 1 };

static struct cuts cuts_of(const struct parallel *parallel)
{
    int64_t etp = parallel->degree[AXIS_ETP], ep = parallel->degree[AXIS_EP];
    return (struct cuts){etp, etp * ep};
}

// Appends a piece; false when a boundary of the experts' mesh falls inside without dividing it.
static bool add_pieces(struct mesh *mesh, const struct cuts *cuts, struct mesh_axis piece,
                       int64_t *stage_ranks)
{
    while (piece.size > 1) {
        int64_t end = *stage_ranks * piece.size, cut = end;
        if (cuts->ep > *stage_ranks && cuts->ep < cut) cut = cuts->ep;
        if (cuts->etp > *stage_ranks && cuts->etp < cut) cut = cuts->etp;
        if (cut % *stage_ranks != 0 || end % cut != 0) return false;
        struct mesh_axis axis = piece;
        axis.size = (int)(cut / *stage_ranks);
        axis.stride = mesh->rank_count;
        axis.expert = *stage_ranks < cuts->etp  ? AXIS_ETP
                      : *stage_ranks < cuts->ep ? AXIS_EP
                                                : AXIS_DP;
        if (mesh->axis_count == MESH_AXIS_MAX) return false;
        mesh->axes[mesh->axis_count++] = axis;
        mesh->rank_count *= axis.size;
        piece.size /= axis.size;
        *stage_ranks = cut;
    }
    return true;
}

// An axis as an inner and an outer factor.
struct factors {
    int inner, outer;
};

// Ranks that split the heads outside of Ulysses.
static int head_ranks(const struct parallel *parallel)
{
    return grid_of(parallel).y;
}

// tp and, inside attention, Ulysses' cp split the kv heads with one factor as far as they go: tp
// with the outer one, so that the ranks that share a kv head are neighbours; cp with the inner one,
// so that what leaves seq for the heads are its last digits.
static struct factors factors_of(const struct parallel *parallel, const struct mesh_axis *piece,
                                 int64_t kv_head_count)
{
    enum axis axis = piece->parent;
    if (piece->grid == GRID_Z) return (struct factors){grid_of(parallel).z, 1};
    if (piece->grid == GRID_X) return (struct factors){grid_of(parallel).x, 1};
    int degree = axis == AXIS_TP ? head_ranks(parallel) : parallel->degree[axis];
    bool splits_heads =
        axis == AXIS_TP || (axis == AXIS_CP && parallel->cp_kind == CP_ULYSSES && degree > 1);
    if (!splits_heads || kv_head_count == 0) return (struct factors){degree, 1};
    int64_t left = kv_head_count;
    if (axis == AXIS_CP) left /= common_divisor(head_ranks(parallel), kv_head_count);
    int split = (int)common_divisor(degree, left), rest = degree / split;
    return axis == AXIS_TP ? (struct factors){rest, split} : (struct factors){split, rest};
}

enum { CUT_MAX = 16 };

// Adds a cut in its place; false where there is no room.
static bool add_cut(int *cuts, int *count, int cut)
{
    int at = 0;
    while (at < *count && cuts[at] < cut)
        at++;
    if (at < *count && cuts[at] == cut) return true;
    if (*count == CUT_MAX) return false;
    for (int i = (*count)++; i > at; i--)
        cuts[i] = cuts[i - 1];
    cuts[at] = cut;
    return true;
}

// Ranks of tp that have one part of what is handed on; 1: each has its own, or nothing is.
static int relay_ranks(const struct parallel *parallel, const struct mesh_axis *piece)
{
    int degree = parallel->degree[AXIS_TP], parts = parallel->tp_relay;
    bool is_cut = piece->parent == AXIS_TP && piece->grid == GRID_LINE && parts > 1;
    return is_cut && parts < degree ? degree / parts : 1;
}

// An axis, or one of a grid of tp, cut where its factors end in each of the stages.
static bool add_line(struct mesh *mesh, const struct parallel *parallel, const struct cuts *cuts,
                     struct mesh_axis piece, int64_t kv_head_count, int64_t *stage_ranks)
{
    piece.shards = SHARDS_ALL;
    int ends[CUT_MAX] = {1}, count = 1, stages = parallel->stage_tp_count;
    for (int s = 0; s < (stages > 0 ? stages : 1); s++) {
        struct parallel own = *parallel;
        own.degree[AXIS_TP] = parallel_stage_tp(parallel, s);
        struct factors factors = factors_of(&own, &piece, kv_head_count);
        bool has_room = add_cut(ends, &count, factors.inner) &&
                        add_cut(ends, &count, factors.inner * factors.outer) &&
                        add_cut(ends, &count, relay_ranks(&own, &piece));
        if (!has_room) return false;
    }
    for (int i = 1; i < count; i++) {
        if (ends[i] % ends[i - 1] != 0) return false;
        piece.size = ends[i] / ends[i - 1];
        if (!add_pieces(mesh, cuts, piece, stage_ranks)) return false;
    }
    return true;
}

// tp in a line, or as a grid with ty innermost.
static bool add_tensor(struct mesh *mesh, const struct parallel *parallel, const struct cuts *cuts,
                       int64_t kv_head_count, int64_t *stage_ranks)
{
    static const enum grid_axis LINE[] = {GRID_LINE}, GRID[] = {GRID_Y, GRID_Z, GRID_X};
    bool is_line = parallel->tp_kind == TP_1D, has_room = true;
    for (int i = 0; i < (is_line ? 1 : 3) && has_room; i++) {
        enum grid_axis grid = is_line ? LINE[i] : GRID[i];
        struct mesh_axis piece = {.parent = AXIS_TP, .grid = grid, .home = grid, .is_lent = true};
        has_room = add_line(mesh, parallel, cuts, piece, kv_head_count, stage_ranks);
    }
    return has_room;
}

int mesh_shard_ranks(const struct parallel *parallel, enum stored stored)
{
    int ranks[STORED_COUNT] = {[STORED_WEIGHTS] = parallel->zero_parameters,
                               [STORED_GRADIENTS] = parallel->zero_gradients,
                               [STORED_STATES] = parallel->zero_group};
    int all = parallel->degree[AXIS_DP] * parallel->degree[AXIS_CP];
    for (int i = (int)stored; i < STORED_COUNT; i++)
        if (ranks[i] > 0) return ranks[i] < all ? ranks[i] : all;
    return all;
}

// dp cut where shard groups end, all of which take cp whole.
static bool add_data(struct mesh *mesh, const struct parallel *parallel, const struct cuts *cuts,
                     int64_t *stage_ranks)
{
    int ends[STORED_COUNT + 1], degree = parallel->degree[AXIS_DP], done = 1;
    for (int i = 0; i < STORED_COUNT; i++) {
        bool is_sharded = parallel->zero > 0;
        int ranks = mesh_shard_ranks(parallel, (enum stored)i);
        assert(!is_sharded || ranks % parallel->degree[AXIS_CP] == 0);
        ends[i] = is_sharded ? ranks / parallel->degree[AXIS_CP] : degree;
    }
    ends[STORED_COUNT] = degree;
    for (int i = 0; i <= STORED_COUNT; i++) {
        struct mesh_axis piece = {.parent = AXIS_DP, .size = ends[i] / done};
        assert(ends[i] % done == 0);
        for (int k = i; k < STORED_COUNT; k++)
            piece.shards |= 1u << k;
        if (!add_pieces(mesh, cuts, piece, stage_ranks)) return false;
        done = ends[i];
    }
    return true;
}

static int part_count(const struct mesh *mesh, enum axis parent)
{
    int count = 0;
    for (int i = 0; i < mesh->axis_count; i++)
        count += mesh->axes[i].parent == parent;
    return count;
}

static const char *name_of(const struct mesh_axis *axis, bool is_alone)
{
    static const char *const GRID_NAMES[GRID_COUNT][PART_MAX] = {
        [GRID_X] = {"tx.0", "tx.1", "tx.2", "tx.3", "tx.4", "tx.5", "tx.6", "tx.7"},
        [GRID_Y] = {"ty.0", "ty.1", "ty.2", "ty.3", "ty.4", "ty.5", "ty.6", "ty.7"},
        [GRID_Z] = {"tz.0", "tz.1", "tz.2", "tz.3", "tz.4", "tz.5", "tz.6", "tz.7"},
    };
    if (axis->grid == GRID_LINE)
        return is_alone ? axis_name(axis->parent) : PART_NAMES[axis->parent][axis->part];
    return is_alone ? grid_name(axis->grid) : GRID_NAMES[axis->grid][axis->part];
}

// Parts of tp are numbered from the outside (tp.0 splits the kv heads), those of the others from
// the inside (dp.0 is the shard group, cp.0 splits the kv heads).
static void name_parts(struct mesh *mesh)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        struct mesh_axis *axis = &mesh->axes[i];
        int before = 0, after = 0;
        for (int k = 0; k < mesh->axis_count; k++) {
            const struct mesh_axis *other = &mesh->axes[k];
            if (k == i || other->parent != axis->parent || other->grid != axis->grid) continue;
            *(k < i ? &before : &after) += 1;
        }
        assert(before + after < PART_MAX);
        axis->part = axis->parent == AXIS_TP ? after : before;
        axis->name = name_of(axis, before + after == 0);
    }
}

// When an axis leaves the tokens on the way into the experts: with the all-to-all, with the gather
// behind it, or never.
static int leaves_tokens(const struct mesh_axis *axis)
{
    return axis->expert == AXIS_EP ? 0 : axis->expert == AXIS_ETP ? 1 : 2;
}

bool mesh_leaves_later(const struct mesh *mesh, int a, int b)
{
    return leaves_tokens(&mesh->axes[a]) > leaves_tokens(&mesh->axes[b]);
}

// On batch the digits of dp are outside those that tp lends it: none must leave before one of
// these.
static bool leaves_batch_in_order(const struct mesh *mesh)
{
    for (int a = 0; a < mesh->axis_count; a++) {
        const struct mesh_axis *dp = &mesh->axes[a];
        for (int b = 0; b < mesh->axis_count && dp->parent == AXIS_DP && !dp->is_lent; b++) {
            bool is_lent = mesh->axes[b].parent == AXIS_DP && mesh->axes[b].is_lent;
            if (is_lent && mesh_leaves_later(mesh, b, a)) return false;
        }
    }
    return true;
}

// On seq the digits of cp are outside those of tp: an axis of cp must not leave before one of tp.
// tp is on seq with sp, and inside experts where it is their data parallelism.
static bool leaves_in_order(const struct mesh *mesh, const struct parallel *parallel)
{
    for (int a = 0; a < mesh->axis_count; a++) {
        const struct mesh_axis *cp = &mesh->axes[a];
        if (cp->parent != AXIS_CP) continue;
        if (parallel->cp_kind == CP_ULYSSES && cp->expert == AXIS_ETP) return false;
        for (int b = 0; b < mesh->axis_count; b++) {
            const struct mesh_axis *tp = &mesh->axes[b];
            bool is_on_seq = tp->parent == AXIS_TP && (parallel->sp || tp->expert == AXIS_DP);
            if (is_on_seq && mesh_leaves_later(mesh, b, a)) return false;
        }
    }
    return leaves_batch_in_order(mesh);
}

static struct mesh mesh_lent(const struct mesh *mesh, const struct parallel *own)
{
    struct mesh at = *mesh;
    struct tp_grid grid = grid_of(own);
    const int limits[GRID_COUNT] = {
        [GRID_LINE] = grid.y, [GRID_X] = grid.x, [GRID_Y] = grid.y, [GRID_Z] = grid.z};
    int ranks[GRID_COUNT] = {1, 1, 1, 1};
    for (int i = 0; i < at.axis_count; i++) {
        struct mesh_axis *axis = &at.axes[i];
        if (!axis->is_lent) continue;
        ranks[axis->home] *= axis->size;
        bool is_own = ranks[axis->home] <= limits[axis->home];
        axis->parent = is_own ? AXIS_TP : AXIS_DP;
        axis->grid = is_own ? axis->home : GRID_LINE;
    }
    name_parts(&at);
    return at;
}

static bool build(const struct parallel *parallel, int64_t kv_head_count, struct mesh *mesh)
{
    struct parallel by_default;
    parallel_default_order(&by_default);
    const struct parallel *ordered = parallel->order_count ? parallel : &by_default;
    struct cuts cuts = cuts_of(parallel), none = {1, 1};
    int64_t stage_ranks = 1;
    *mesh = (struct mesh){.rank_count = 1};
    for (int i = 0; i < ordered->order_count; i++) {
        enum axis axis = ordered->order[i];
        int64_t alone = 1;
        bool is_pipeline = axis == AXIS_PP;
        assert(axis_takes_ranks(axis) && parallel->degree[axis] >= 1);
        // The experts' mesh lies over the ranks of one stage.
        const struct cuts *at = is_pipeline ? &none : &cuts;
        int64_t *counted = is_pipeline ? &alone : &stage_ranks;
        bool has_room = axis == AXIS_DP ? add_data(mesh, parallel, at, counted)
                        : axis == AXIS_TP
                            ? add_tensor(mesh, parallel, at, kv_head_count, counted)
                            : add_line(mesh, parallel, at, (struct mesh_axis){.parent = axis},
                                       kv_head_count, counted);
        if (!has_room) return false;
    }
    if (stage_ranks % cuts.ep != 0) return false;
    int lent = parallel_has_meshes(parallel) ? part_count(mesh, AXIS_TP) : 0;
    if (lent + part_count(mesh, AXIS_DP) > PART_MAX) return false;
    name_parts(mesh);
    bool has_experts = cuts.ep > 1, is_in_order = !has_experts || leaves_in_order(mesh, parallel);
    for (int s = 0; s < parallel->stage_tp_count && has_experts && is_in_order; s++) {
        struct parallel own = *parallel;
        own.degree[AXIS_TP] = parallel->stage_tp[s];
        struct mesh seen = mesh_lent(mesh, &own);
        is_in_order = leaves_in_order(&seen, parallel);
    }
    return is_in_order;
}

// A stage by itself, as its ranks see it.
static struct parallel alone(const struct parallel *parallel, int stage)
{
    struct parallel own = parallel_at(parallel, stage);
    own.stage_tp_count = own.stage_ranks_count = 0;
    own.degree[AXIS_PP] = 1;
    return own;
}

bool mesh_folds(const struct parallel *parallel, int64_t kv_head_count)
{
    struct mesh mesh;
    if (parallel->stage_ranks_count == 0) return build(parallel, kv_head_count, &mesh);
    bool folds = true;
    for (int stage = 0; stage < parallel->stage_ranks_count && folds; stage++) {
        struct parallel own = alone(parallel, stage);
        folds = build(&own, kv_head_count, &mesh);
    }
    return folds;
}

static struct mesh make_alike(const struct parallel *parallel, int64_t kv_head_count)
{
    struct mesh mesh;
    bool folds = build(parallel, kv_head_count, &mesh);
    assert(folds && mesh.rank_count == parallel_rank_count(parallel));
    (void)folds;
    return mesh;
}

// Of stages with unlike numbers of ranks, which follow each other.
static int first_of_stage(const struct mesh *mesh, int stage)
{
    int first = 0;
    for (int before = 0; before < stage; before++)
        first += mesh->stage_ranks[before];
    return first;
}

static struct mesh make_of_stage(const struct parallel *parallel, int stage, int64_t kv_head_count)
{
    struct parallel own = alone(parallel, stage);
    struct mesh mesh = make_alike(&own, kv_head_count);
    mesh.rank_count = (int)parallel_rank_count(parallel);
    mesh.stage_ranks = parallel->stage_ranks;
    mesh.stage_count = parallel->stage_ranks_count;
    mesh.stage = stage;
    mesh.first_rank = first_of_stage(&mesh, stage);
    return mesh;
}

struct mesh mesh_make(const struct parallel *parallel, int64_t kv_head_count)
{
    return parallel->stage_ranks_count > 0 ? make_of_stage(parallel, 0, kv_head_count)
                                           : make_alike(parallel, kv_head_count);
}

struct mesh mesh_at(const struct mesh *mesh, const struct parallel *own, int stage,
                    int64_t kv_head_count)
{
    return mesh->stage_ranks ? make_of_stage(own, stage, kv_head_count) : mesh_lent(mesh, own);
}

unsigned mesh_axes_of(const struct mesh *mesh, enum axis parent)
{
    unsigned axes = 0;
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        if ((axis_takes_ranks(parent) ? axis->parent : axis->expert) == parent) axes |= 1u << i;
    }
    return axes;
}

int mesh_size(const struct mesh *mesh, unsigned axes)
{
    assert(axes >> mesh->axis_count == 0);
    int size = 1;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (axes >> i & 1) size *= mesh->axes[i].size;
    }
    return size;
}

bool mesh_has(const struct mesh *mesh, int rank)
{
    int count = mesh->stage_ranks ? mesh->stage_ranks[mesh->stage] : mesh->rank_count;
    return rank >= mesh->first_rank && rank < mesh->first_rank + count;
}

int mesh_coordinate(const struct mesh *mesh, int axis, int rank)
{
    assert(axis >= 0 && axis < mesh->axis_count && mesh_has(mesh, rank));
    return (rank - mesh->first_rank) / mesh->axes[axis].stride % mesh->axes[axis].size;
}

// Of the pipeline, which is in one piece; NULL: there is one stage, or they are unlike.
static const struct mesh_axis *pipeline_of(const struct mesh *mesh)
{
    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axes[a].parent == AXIS_PP) return &mesh->axes[a];
    return NULL;
}

int mesh_stage_of(const struct mesh *mesh, int rank)
{
    const struct mesh_axis *pipeline = pipeline_of(mesh);
    assert(rank >= 0 && rank < mesh->rank_count);
    int stage = 0;
    while (stage < mesh->stage_count && rank >= mesh->stage_ranks[stage])
        rank -= mesh->stage_ranks[stage++];
    return pipeline ? rank / pipeline->stride % pipeline->size : stage;
}

int mesh_stage_ranks(const struct mesh *mesh, int stage)
{
    const struct mesh_axis *pipeline = pipeline_of(mesh);
    if (mesh->stage_ranks) return mesh->stage_ranks[stage];
    assert(stage >= 0 && stage < (pipeline ? pipeline->size : 1));
    return mesh->rank_count / (pipeline ? pipeline->size : 1);
}

int mesh_stage_end(const struct mesh *mesh, int rank)
{
    const struct mesh_axis *pipeline = pipeline_of(mesh);
    if (mesh->stage_ranks) return first_of_stage(mesh, mesh_stage_of(mesh, rank) + 1);
    return pipeline ? (rank / pipeline->stride + 1) * pipeline->stride : mesh->rank_count;
}

int mesh_at_stage(const struct mesh *mesh, int rank, int stage)
{
    const struct mesh_axis *pipeline = pipeline_of(mesh);
    int own = mesh_stage_of(mesh, rank);
    if (mesh->stage_ranks)
        return first_of_stage(mesh, stage) +
               (rank - first_of_stage(mesh, own)) % mesh->stage_ranks[stage];
    return pipeline ? rank + (stage - own) * pipeline->stride : rank;
}

unsigned mesh_shard_axes(const struct mesh *mesh, const struct parallel *parallel,
                         enum parameter_kind kind, enum stored stored)
{
    unsigned axes = mesh_axes_of(mesh, AXIS_CP) | mesh_axes_of(mesh, AXIS_DP);
    if (parameter_kind_is_expert(kind)) {
        axes = 0;
        for (int i = 0; i < mesh->axis_count; i++) {
            bool is_data = mesh->axes[i].expert == AXIS_DP && mesh->axes[i].parent != AXIS_PP;
            if (is_data) axes |= 1u << i;
        }
    }
    for (int i = 0; i < mesh->axis_count; i++) {
        if (!(mesh->axes[i].shards >> stored & 1)) axes &= ~(1u << i);
    }
    assert(parameter_kind_is_expert(kind) || parallel->zero == 0 ||
           mesh_size(mesh, axes) == mesh_shard_ranks(parallel, stored));
    (void)parallel;
    return axes;
}
