#include "plan/layout/layout.h"

#include <assert.h>
#include <string.h>

bool layout_equal(const struct layout *a, const struct layout *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static int halo_index(enum dim dim)
{
    return dim == DIM_HEIGHT ? 0 : dim == DIM_WIDTH ? 1 : -1;
}

struct halo *layout_halo(struct layout *layout, enum dim dim)
{
    int index = halo_index(dim);
    return index < 0 ? NULL : &layout->halos[index];
}

static struct halo halo_of(const struct layout *layout, enum dim dim)
{
    int index = halo_index(dim);
    return index < 0 ? (struct halo){0, 0, 0} : layout->halos[index];
}

unsigned layout_axes_on(const struct layout *layout, enum dim dim)
{
    assert(dim > DIM_NONE && dim < DIM_COUNT);
    unsigned axes = 0;
    for (int i = 0; i < MESH_AXIS_MAX; i++) {
        if (layout->of[i] == (int8_t)dim) axes |= 1u << i;
    }
    return axes;
}

unsigned layout_partial_axes(const struct layout *layout)
{
    unsigned axes = 0;
    for (int i = 0; i < MESH_AXIS_MAX; i++) {
        if (layout->of[i] < 0) axes |= 1u << i;
    }
    return axes;
}

static int64_t divide_up(int64_t size, int64_t by)
{
    return (size + by - 1) / by;
}

int64_t layout_local_size(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                          int64_t size)
{
    int64_t parts = 1;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (layout->of[i] == (int8_t)dim) parts *= mesh->axes[i].size;
    }
    if (parts == 1) return size;
    if (halo_index(dim) < 0) return divide_up(size, parts);
    struct halo halo = halo_of(layout, dim);
    int64_t more = parts > 2 ? halo.lo + halo.hi : halo.lo > halo.hi ? halo.lo : halo.hi;
    int64_t held = divide_up(size, parts) + more;
    return held < size ? held : size;
}

int64_t layout_local_elements(const struct layout *layout, const struct mesh *mesh,
                              const struct tensor *tensor, int64_t batch, int64_t seq)
{
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const struct extent *extent = &tensor->extents[i];
        int64_t size = extent_size(extent, batch, seq);
        elements *= layout_local_size(layout, mesh, extent->dim, size);
    }
    elements = density_share(tensor->density, elements);
    return layout_local_size(layout, mesh, DIM_FLAT, elements);
}

static struct slice part_of(int64_t size, int64_t parts, int64_t part)
{
    int64_t each = divide_up(size, parts);
    int64_t first = part * each < size ? part * each : size;
    return (struct slice){first, each < size - first ? each : size - first};
}

static struct slice with_halo(struct slice own, struct halo halo, int64_t size)
{
    int64_t first = own.first > halo.lo ? own.first - halo.lo : 0;
    int64_t end = own.first + own.count + halo.hi;
    return (struct slice){first, (end < size ? end : size) - first};
}

static double mean_size(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                        int64_t size)
{
    int64_t parts = 1, held = 0;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (layout->of[i] == (int8_t)dim) parts *= mesh->axes[i].size;
    }
    struct halo halo = halo_of(layout, dim);
    if (parts == 1 || halo.lo + halo.hi == 0) return (double)size / (double)parts;
    for (int64_t part = 0; part < parts; part++)
        held += with_halo(part_of(size, parts, part), halo, size).count;
    return (double)held / (double)parts;
}

double layout_mean_elements(const struct layout *layout, const struct mesh *mesh,
                            const struct tensor *tensor, int64_t batch, int64_t seq)
{
    double elements = 1;
    assert(tensor->density <= 0 && !layout_axes_on(layout, DIM_FLAT));
    // Axes that part one dim part no other: the mean of the product is that of the means.
    for (int i = 0; i < tensor->rank; i++) {
        const struct extent *extent = &tensor->extents[i];
        elements *= mean_size(layout, mesh, extent->dim, extent_size(extent, batch, seq));
    }
    return elements;
}

// Of tokens tx owns the outer digit and ty or tz, which are gathered and scattered within it, the
// inner one; of features tx, over which stored parameters are gathered, the inner one.
static bool is_outer_on_grid(enum dim dim, enum grid_axis a, enum grid_axis b)
{
    static const int TOKENS[GRID_COUNT] = {[GRID_X] = 3, [GRID_Z] = 2, [GRID_Y] = 1};
    static const int FEATURES[GRID_COUNT] = {[GRID_Y] = 3, [GRID_Z] = 2, [GRID_X] = 1};
    bool is_token = dim == DIM_BATCH || dim == DIM_SEQ || dim == DIM_KV_SEQ;
    return is_token ? TOKENS[a] > TOKENS[b] : FEATURES[a] > FEATURES[b];
}

// Whether axis a owns a more significant digit of this dim than axis b. What joins a dim later or
// leaves it earlier must be the inner digit, else slices would not be contiguous: heads are split
// by tp where they are made and by Ulysses' cp within that, experts by tp where its tokens are
// whole and by the others within that; tokens leave for the experts in the order of their roles.
bool layout_is_outer(const struct mesh *mesh, enum dim dim, int a, int b)
{
    const struct mesh_axis *x = &mesh->axes[a], *y = &mesh->axes[b];
    bool is_head = dim == DIM_HEAD || dim == DIM_KV_HEAD;
    if (x->parent != y->parent) {
        bool is_larger = axis_digit(x->parent) > axis_digit(y->parent);
        return is_larger != (is_head || dim == DIM_EXPERT);
    }
    // What tp lends to dp lies inside of the rest of dp, wherever its ranks are.
    if (dim == DIM_BATCH && x->is_lent != y->is_lent) return y->is_lent;
    if (x->grid != y->grid) return is_outer_on_grid(dim, x->grid, y->grid);
    // tp.1 is the inner part of tp, dp.0 that of dp: positions in the mesh say which. cp.0 is the
    // inner part too, but splits the kv heads.
    if (is_head) return x->parent == AXIS_CP ? a < b : a > b;
    if (mesh_leaves_later(mesh, a, b)) return true;
    return a > b && !mesh_leaves_later(mesh, b, a);
}

struct slice layout_slice(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                          int64_t size, int rank)
{
    int64_t part = 0, parts = 1;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (layout->of[i] != (int8_t)dim) continue;
        int64_t weight = 1;
        for (int j = 0; j < mesh->axis_count; j++) {
            bool counts = layout->of[j] == (int8_t)dim && layout_is_outer(mesh, dim, i, j);
            if (counts) weight *= mesh->axes[j].size;
        }
        part += weight * mesh_coordinate(mesh, i, rank);
        parts *= mesh->axes[i].size;
    }
    return part_of(size, parts, part);
}

struct slice layout_held(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                         int64_t size, int rank)
{
    struct slice own = layout_slice(layout, mesh, dim, size, rank);
    struct halo halo = halo_of(layout, dim);
    if (!layout_axes_on(layout, dim)) return own;
    return with_halo(own, halo, size);
}

const char *collective_name(enum collective collective)
{
    static const char *const NAMES[COLLECTIVE_COUNT] = {
        "none",  "all-gather", "all-reduce", "reduce-scatter", "all-to-all",
        "slice", "send-recv",  "broadcast",  "fetch",
    };
    assert(collective >= 0 && collective < COLLECTIVE_COUNT);
    return NAMES[collective];
}

// The table of the design: what one axis must do.
static struct change axis_change(int8_t from, int8_t to)
{
    if (from == to) return (struct change){.collective = COLLECTIVE_NONE};
    assert(to >= 0 && "only a producer makes partial results");
    enum dim from_dim = from > 0 ? (enum dim)from : DIM_NONE;
    enum dim to_dim = (enum dim)to;
    if (from == LAYOUT_WHOLE) return (struct change){.collective = COLLECTIVE_SLICE, .dim = to_dim};
    if (from < 0 && to == LAYOUT_WHOLE) {
        return (struct change){.collective = COLLECTIVE_ALL_REDUCE, .combine = from};
    }
    if (from < 0)
        return (struct change){
            .collective = COLLECTIVE_REDUCE_SCATTER, .dim = to_dim, .combine = from};
    if (to == LAYOUT_WHOLE) {
        return (struct change){.collective = COLLECTIVE_ALL_GATHER, .dim = from_dim};
    }
    return (struct change){.collective = COLLECTIVE_ALL_TO_ALL, .dim = from_dim, .to_dim = to_dim};
}

static bool is_same_change(const struct change *a, const struct change *b)
{
    if (a->collective != b->collective || a->combine != b->combine) return false;
    return a->collective == COLLECTIVE_ALL_TO_ALL || a->dim == b->dim;
}

// What ty and tz of a grid take turns on they leave before the other comes: each would find the
// innermost digit taken.
static bool waits_for_other(const struct mesh *mesh, const struct layout *from,
                            const struct layout *to, int axis)
{
    const struct mesh_axis *own = &mesh->axes[axis];
    for (int i = 0; own->grid != GRID_LINE && to->of[axis] > 0 && i < mesh->axis_count; i++) {
        bool leaves = from->of[i] == to->of[axis] && to->of[i] != to->of[axis];
        if (leaves && mesh->axes[i].grid != GRID_LINE && mesh->axes[i].grid != own->grid)
            return true;
    }
    return false;
}

// When a change comes. Reduce-scatter before all-reduce: it makes the latter smaller.
static int rank_of(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                   const struct change *change, int axis)
{
    static const int RANK_OF[COLLECTIVE_COUNT] = {
        [COLLECTIVE_SLICE] = 0,      [COLLECTIVE_REDUCE_SCATTER] = 1, [COLLECTIVE_ALL_REDUCE] = 2,
        [COLLECTIVE_ALL_TO_ALL] = 3, [COLLECTIVE_ALL_GATHER] = 4,
    };
    int rank = RANK_OF[change->collective];
    return waits_for_other(mesh, from, to, axis) ? COLLECTIVE_COUNT + rank : rank;
}

// The changes found so far, in the order in which they come.
struct change_list {
    struct change *changes;
    int ranks[CHANGE_MAX], count;
};

// Strips go back before all else, columns before rows; they are fetched last, rows before columns,
// each for the rows that came. What is left out is least to begin with.
static int halo_rank(const struct change *change)
{
    if (change->collective == COLLECTIVE_SLICE) return 0;
    return change->combine ? -1 - halo_index(change->dim)
                           : 2 * COLLECTIVE_COUNT + halo_index(change->dim);
}

static void insert(struct change_list *list, const struct change *change, int rank)
{
    assert(list->count < CHANGE_MAX);
    int at = list->count++;
    for (; at > 0 && list->ranks[at - 1] > rank; at--) {
        list->changes[at] = list->changes[at - 1];
        list->ranks[at] = list->ranks[at - 1];
    }
    list->changes[at] = *change;
    list->ranks[at] = rank;
}

// What becomes of a halo: its strips are added to who owns them, left out, or fetched.
static void change_halos(const struct layout *from, const struct layout *to,
                         struct change_list *list)
{
    static const enum dim DIMS[HALO_DIMS] = {DIM_HEIGHT, DIM_WIDTH};
    for (int d = 0; d < HALO_DIMS; d++) {
        struct halo old = from->halos[d], new = to->halos[d];
        bool has_old = old.lo || old.hi, has_new = new.lo || new.hi;
        if (old.lo == new.lo && old.hi == new.hi &&old.sums == new.sums) continue;
        assert(!new.sums && "only a producer makes strips to be added");
        struct change change = {.dim = DIMS[d], .is_halo = true};
        change.axes = layout_axes_on(from, DIMS[d]);
        change.collective = old.sums ? COLLECTIVE_SEND_RECV : COLLECTIVE_SLICE;
        change.combine = old.sums ? LAYOUT_SUM : 0;
        if (has_old) insert(list, &change, halo_rank(&change));
        change.axes = layout_axes_on(to, DIMS[d]);
        change.collective = COLLECTIVE_SEND_RECV;
        change.combine = 0;
        if (has_new) insert(list, &change, halo_rank(&change));
    }
}

int layout_change(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                  struct change changes[CHANGE_MAX])
{
    struct change_list list = {.changes = changes, .count = 0};
    if (layout_equal(from, to)) return 0;
    for (int i = 0; i < mesh->axis_count; i++) {
        struct change change = axis_change(from->of[i], to->of[i]);
        if (change.collective == COLLECTIVE_NONE) continue;
        int at = 0;
        while (at < list.count && !is_same_change(&changes[at], &change))
            at++;
        int rank = rank_of(mesh, from, to, &change, i);
        if (at < list.count && list.ranks[at] == rank) {
            changes[at].axes |= 1u << i;
            continue;
        }
        change.axes = 1u << i;
        insert(&list, &change, rank);
    }
    change_halos(from, to, &list);
    return list.count;
}

struct layout layout_after(const struct mesh *mesh, const struct layout *from,
                           const struct layout *to, const struct change *change)
{
    assert(change->axes && change->axes >> mesh->axis_count == 0);
    struct layout layout = *from;
    if (change->is_halo) {
        bool is_fetched = change->collective == COLLECTIVE_SEND_RECV && !change->combine;
        *layout_halo(&layout, change->dim) =
            is_fetched ? halo_of(to, change->dim) : (struct halo){0, 0, 0};
        return layout;
    }
    for (int i = 0; i < mesh->axis_count; i++) {
        if (change->axes >> i & 1) layout.of[i] = to->of[i];
    }
    return layout;
}

// Whether the axes that move are inside of those that stay on the dim, if it is one.
static bool is_innermost(const struct mesh *mesh, const struct layout *layout, unsigned moving,
                         int8_t part)
{
    enum dim dim = part > 0 ? (enum dim)part : DIM_NONE;
    unsigned on = part > 0 ? layout_axes_on(layout, dim) : 0;
    for (int a = 0; on >> a; a++) {
        for (int b = 0; (on & moving) >> b; b++) {
            bool is_pair = on >> a & 1 && !(moving >> a & 1) && (on & moving) >> b & 1;
            if (is_pair && !layout_is_outer(mesh, dim, a, b)) return false;
        }
    }
    return true;
}

static bool keeps_order(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                        const struct change *changes, int count)
{
    struct layout before = *from;
    for (int i = 0; i < count; i++) {
        struct layout after = layout_after(mesh, &before, to, &changes[i]);
        for (int a = 0; a < mesh->axis_count; a++) {
            bool is_kept = !(changes[i].axes >> a & 1) ||
                           (is_innermost(mesh, &before, changes[i].axes, before.of[a]) &&
                            is_innermost(mesh, &after, changes[i].axes, after.of[a]));
            if (!is_kept) return false;
        }
        before = after;
    }
    return true;
}

// Heap's algorithm, until an order of the changes keeps that of the digits.
static bool reorder(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                    struct change *changes, int count, int left)
{
    if (left <= 1) return keeps_order(mesh, from, to, changes, count);
    for (int i = 0; i < left; i++) {
        if (reorder(mesh, from, to, changes, count, left - 1)) return true;
        int at = left % 2 ? 0 : i;
        struct change last = changes[left - 1];
        changes[left - 1] = changes[at];
        changes[at] = last;
    }
    return false;
}

int layout_change_in_order(const struct mesh *mesh, const struct layout *from,
                           const struct layout *to, struct change changes[CHANGE_MAX])
{
    int count = layout_change(mesh, from, to, changes);
    struct change other[CHANGE_MAX];
    memcpy(other, changes, (size_t)count * sizeof *changes);
    if (reorder(mesh, from, to, other, count, count))
        memcpy(changes, other, (size_t)count * sizeof *changes);
    return count;
}

bool layout_detour(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                   struct layout *via)
{
    *via = *from;
    for (int a = 0; a < mesh->axis_count; a++) {
        if (from->of[a] <= 0 || from->of[a] != to->of[a]) continue;
        enum dim dim = (enum dim)from->of[a];
        unsigned moving = layout_axes_on(from, dim) ^ layout_axes_on(to, dim);
        for (int b = 0; moving >> b; b++)
            if (moving >> b & 1 && layout_is_outer(mesh, dim, b, a)) via->of[a] = LAYOUT_WHOLE;
    }
    return !layout_equal(via, from);
}

bool layout_keeps_order(const struct mesh *mesh, const struct layout *from, const struct layout *to)
{
    struct change changes[CHANGE_MAX];
    int count = layout_change(mesh, from, to, changes);
    return keeps_order(mesh, from, to, changes, count);
}
