#include "plan/layout/mesh.h"

#include <assert.h>

enum { PART_MAX = 6 };

static const char *const PART_NAMES[AXIS_COUNT][PART_MAX] = {
#define AXIS(id, name, ...) \
    [AXIS_##id] = {name ".0", name ".1", name ".2", name ".3", name ".4", name ".5"},
#include "plan/axes.inc"
};

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

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
static struct factors factors_of(const struct parallel *parallel, enum axis axis,
                                 int64_t kv_head_count)
{
    int degree = axis == AXIS_TP ? head_ranks(parallel) : parallel->degree[axis];
    bool splits_heads =
        axis == AXIS_TP || (axis == AXIS_CP && parallel->cp_kind == CP_ULYSSES && degree > 1);
    if (!splits_heads || kv_head_count == 0) return (struct factors){degree, 1};
    int64_t left = kv_head_count;
    if (axis == AXIS_CP) left /= gcd(head_ranks(parallel), kv_head_count);
    int split = (int)gcd(degree, left), rest = degree / split;
    return axis == AXIS_TP ? (struct factors){rest, split} : (struct factors){split, rest};
}

enum { TP_CUT_MAX = 16 };

// Adds a cut in its place; false where there is no room.
static bool add_cut(int *cuts, int *count, int cut)
{
    int at = 0;
    while (at < *count && cuts[at] < cut)
        at++;
    if (at < *count && cuts[at] == cut) return true;
    if (*count == TP_CUT_MAX) return false;
    for (int i = (*count)++; i > at; i--)
        cuts[i] = cuts[i - 1];
    cuts[at] = cut;
    return true;
}

// tp in a line, cut where the factors of each stage end.
static bool add_line(struct mesh *mesh, const struct parallel *parallel, const struct cuts *cuts,
                     int64_t kv_head_count, int64_t *stage_ranks)
{
    int ends[TP_CUT_MAX] = {1}, count = 1, stages = parallel->stage_tp_count;
    for (int s = 0; s < (stages > 0 ? stages : 1); s++) {
        struct parallel own = *parallel;
        own.degree[AXIS_TP] = parallel_stage_tp(parallel, s);
        struct factors factors = factors_of(&own, AXIS_TP, kv_head_count);
        bool has_room = add_cut(ends, &count, factors.inner) &&
                        add_cut(ends, &count, factors.inner * factors.outer);
        if (!has_room) return false;
    }
    for (int i = 1; i < count; i++) {
        if (ends[i] % ends[i - 1] != 0) return false;
        struct mesh_axis piece = {.parent = AXIS_TP,
                                  .size = ends[i] / ends[i - 1],
                                  .shards = SHARDS_ALL,
                                  .is_lent = true};
        if (!add_pieces(mesh, cuts, piece, stage_ranks)) return false;
    }
    return true;
}

int mesh_shard_ranks(const struct parallel *parallel, enum stored stored)
{
    int ranks[STORED_COUNT] = {[STORED_WEIGHTS] = parallel->zero_parameters,
                               [STORED_GRADIENTS] = parallel->zero_gradients,
                               [STORED_STATES] = parallel->zero_group};
    int all = parallel->degree[AXIS_DP] * parallel->degree[AXIS_CP];
    for (int i = (int)stored; i < STORED_COUNT; i++)
        if (ranks[i] > 0) return ranks[i];
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
        [GRID_X] = {"tx.0", "tx.1", "tx.2", "tx.3", "tx.4", "tx.5"},
        [GRID_Y] = {"ty.0", "ty.1", "ty.2", "ty.3", "ty.4", "ty.5"},
        [GRID_Z] = {"tz.0", "tz.1", "tz.2", "tz.3", "tz.4", "tz.5"},
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
    return true;
}

// The axes of a grid of tp behind ty.
static bool add_grid(struct mesh *mesh, const struct parallel *parallel, const struct cuts *cuts,
                     int64_t *stage_ranks)
{
    struct tp_grid grid = grid_of(parallel);
    struct mesh_axis z = {.parent = AXIS_TP, .grid = GRID_Z, .size = grid.z, .shards = SHARDS_ALL};
    struct mesh_axis x = {.parent = AXIS_TP, .grid = GRID_X, .size = grid.x, .shards = SHARDS_ALL};
    return add_pieces(mesh, cuts, z, stage_ranks) && add_pieces(mesh, cuts, x, stage_ranks);
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
        struct factors factors = factors_of(parallel, axis, kv_head_count);
        bool is_grid = axis == AXIS_TP && parallel->tp_kind != TP_1D;
        enum grid_axis grid = is_grid ? GRID_Y : GRID_LINE;
        struct mesh_axis inner = {
            .parent = axis, .grid = grid, .size = factors.inner, .shards = SHARDS_ALL};
        struct mesh_axis outer = inner;
        outer.size = factors.outer;
        assert(axis_takes_ranks(axis) && parallel->degree[axis] >= 1);
        // The experts' mesh lies over the ranks of one stage.
        const struct cuts *at = is_pipeline ? &none : &cuts;
        int64_t *counted = is_pipeline ? &alone : &stage_ranks;
        if (axis == AXIS_TP && !is_grid) {
            if (!add_line(mesh, parallel, at, kv_head_count, counted)) return false;
            continue;
        }
        if (axis == AXIS_DP) {
            if (!add_data(mesh, parallel, at, counted)) return false;
            continue;
        }
        if (!add_pieces(mesh, at, inner, counted) || !add_pieces(mesh, at, outer, counted)) {
            return false;
        }
        if (is_grid && !add_grid(mesh, parallel, at, counted)) return false;
    }
    if (stage_ranks % cuts.ep != 0) return false;
    int lent = parallel_has_meshes(parallel) ? part_count(mesh, AXIS_TP) : 0;
    if (lent + part_count(mesh, AXIS_DP) > PART_MAX) return false;
    name_parts(mesh);
    bool has_experts = cuts.ep > 1;
    return !has_experts || leaves_in_order(mesh, parallel);
}

bool mesh_folds(const struct parallel *parallel, int64_t kv_head_count)
{
    struct mesh mesh;
    return build(parallel, kv_head_count, &mesh);
}

struct mesh mesh_make(const struct parallel *parallel, int64_t kv_head_count)
{
    struct mesh mesh;
    bool folds = build(parallel, kv_head_count, &mesh);
    assert(folds && mesh.rank_count == parallel_rank_count(parallel));
    (void)folds;
    return mesh;
}

struct mesh mesh_at_tp(const struct mesh *mesh, int tp)
{
    struct mesh at = *mesh;
    int ranks = 1;
    for (int i = 0; i < at.axis_count; i++) {
        struct mesh_axis *axis = &at.axes[i];
        if (!axis->is_lent) continue;
        ranks *= axis->size;
        axis->parent = ranks <= tp ? AXIS_TP : AXIS_DP;
    }
    name_parts(&at);
    return at;
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

int mesh_coordinate(const struct mesh *mesh, int axis, int rank)
{
    assert(axis >= 0 && axis < mesh->axis_count && rank >= 0 && rank < mesh->rank_count);
    return rank / mesh->axes[axis].stride % mesh->axes[axis].size;
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
    assert(parameter_kind_is_expert(kind) || parallel->zero == 0 || parallel_has_meshes(parallel) ||
           mesh_size(mesh, axes) == mesh_shard_ranks(parallel, stored));
    (void)parallel;
    return axes;
}

struct group_shape mesh_group(const struct mesh *mesh, const struct cluster *cluster, unsigned axes)
{
    assert(axes >> mesh->axis_count == 0);
    struct route_axes group = {0}, all = {.count = mesh->axis_count};
    for (int i = 0; i < mesh->axis_count; i++) {
        all.sizes[i] = mesh->axes[i].size;
        all.strides[i] = mesh->axes[i].stride;
        if (!(axes >> i & 1)) continue;
        group.sizes[group.count] = mesh->axes[i].size;
        group.strides[group.count++] = mesh->axes[i].stride;
    }
    return route_group(cluster, &group, &all);
}
