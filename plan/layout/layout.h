#pragma once
#include "models/graph.h"
#include "plan/layout/mesh.h"

// A layout says, for one tensor, what each mesh axis does to it: nothing (whole on every rank of
// the axis), split one of its dims, or hold a partial result still to be combined. One function
// turns a difference of layouts into collectives; nothing else in the program invents
// communication.
//
// A dim that several axes split is split by the outer named axis first (pp, dp, cp, tp; heads and
// experts by tp first; within one, tp.0 before tp.1; of tokens what goes to the experts last),
// whatever the order of ranks: each axis owns one digit of the index. Of a grid of tp, tx is the
// outer one of tokens and the inner one of features.

// Where windows slide over a split dim, a rank holds so many places more of what its neighbours own
// in front of its slice (lo) and behind it (hi); at the borders of the image there are none. With
// `sums` these strips hold what the rank adds to the places of its neighbours, and its own slice
// still lacks what they add to it.
enum { HALO_DIMS = 2 };  // height, width
struct halo {
    int16_t lo, hi, sums;
};

enum { LAYOUT_WHOLE = 0, LAYOUT_SUM = -1, LAYOUT_MAX = -2, LAYOUT_LSE = -3 };  // partial: < 0

struct layout {
    int8_t of[MESH_AXIS_MAX];  // > 0: enum dim that the axis splits; 0 whole; < 0 partial
    struct halo halos[HALO_DIMS];
};

bool layout_equal(const struct layout *a, const struct layout *b);
// The halo of a dim; NULL of a dim that has none.
struct halo *layout_halo(struct layout *layout, enum dim dim);
// The axes that split this dim, and the axes over which it is partial.
unsigned layout_axes_on(const struct layout *layout, enum dim dim);
unsigned layout_partial_axes(const struct layout *layout);
// Local size of a dim: the whole divided by every axis that splits it, rounded up, and the halo of
// the rank that has most of one: of two ranks neither has neighbours on both sides.
int64_t layout_local_size(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                          int64_t size);
// Elements that the rank with most of them holds, of a ragged tensor those that exist on the mean
// rank; axes on DIM_FLAT divide the product of the others.
int64_t layout_local_elements(const struct layout *layout, const struct mesh *mesh,
                              const struct tensor *tensor, int64_t batch, int64_t seq);

// Elements that the mean rank holds: no tensor with ragged rows, and no layout on DIM_FLAT.
double layout_mean_elements(const struct layout *layout, const struct mesh *mesh,
                            const struct tensor *tensor, int64_t batch, int64_t seq);

// Whether axis a owns a more significant digit of a split dim than axis b.
bool layout_is_outer(const struct mesh *mesh, enum dim dim, int a, int b);
// What a rank holds of a dim of `size`: the last ranks get less, or nothing, when it does not
// divide.
struct slice {
    int64_t first, count;
};
struct slice layout_slice(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                          int64_t size, int rank);
// The same with its halo.
struct slice layout_held(const struct layout *layout, const struct mesh *mesh, enum dim dim,
                         int64_t size, int rank);

enum collective {
    COLLECTIVE_NONE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_SLICE,
    COLLECTIVE_SEND_RECV,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_FETCH,  // of one rank: parameters from its host, see plan/offload.h
    COLLECTIVE_COUNT
};
const char *collective_name(enum collective collective);

// One step of a change of layout. `dim` is split before (all-gather, all-to-all) or after
// (reduce-scatter, slice); `to_dim` the second dim of an all-to-all. `combine` is the partial's
// operator for reductions. Order: reductions, all-to-alls, gathers; slices first, since they make
// what follows smaller. A halo comes last, rows before columns, which bring the corners; its strips
// go back first, columns before rows. Axes that make the same change are one collective over their
// product; so are all-to-alls between other dims (tokens split as batch here and as seq there go to
// their experts at once): `dim` and `to_dim` are then those of the innermost axis.
struct change {
    enum collective collective;
    unsigned axes;
    enum dim dim, to_dim;
    int8_t combine;
    bool is_halo;  // of `dim`: a send-recv with both neighbours, of strips that are added where
                   // `combine` says so; a slice leaves the strips out
};
enum { CHANGE_MAX = 12 };

// How many changes turn `from` into `to` (0 = equal). Partial results of `from` that `to` keeps
// partial stay as they are. Turning whole into partial is impossible (assert): a producer makes
// those.
int layout_change(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                  struct change changes[CHANGE_MAX]);
// The layout after one change on the way to `to`.
struct layout layout_after(const struct mesh *mesh, const struct layout *from,
                           const struct layout *to, const struct change *change);
// Whether an axis that stays on a dim has an inner digit of one that comes or goes, which no order
// of changes keeps: then the layout in which such axes are whole comes between.
bool layout_detour(const struct mesh *mesh, const struct layout *from, const struct layout *to,
                   struct layout *via);
// Whether each change on the way takes and gives inner digits alone, so that what a rank holds of a
// dim stays one slice of it. Those between layouts of the table of techniques do, by a detour.
bool layout_keeps_order(const struct mesh *mesh, const struct layout *from,
                        const struct layout *to);
// As layout_change; where its order does not keep that of the digits, in another that does, if
// there is one.
int layout_change_in_order(const struct mesh *mesh, const struct layout *from,
                           const struct layout *to, struct change changes[CHANGE_MAX]);
