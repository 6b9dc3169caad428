#pragma once
#include "plan/layout/grid.h"
#include "topologies/route.h"

// The mesh: named axes laid over the ranks. A named axis may be the product of finer axes, and
// layouts use the finer ones: tp = 16 over 8 kv heads becomes tp.0 = 8 (splits kv_head) and
// tp.1 = 2 (whole for k and v, so that their weight gradient is partial over it). tp.1 is the inner
// one, so that the ranks that share a kv head are neighbours. ZeRO shard groups smaller than dp cut
// it: the smallest of them is dp.0, and outside of the largest are its replicas. Under Ulysses cp
// becomes cp.0, which splits the kv heads that tp leaves, and cp.1, over which k and v are whole.
// pp is an axis of the mesh too, but no layout uses it: stages are programs of their own. As a grid
// (plan/layout/grid.h) tp is ty innermost, which splits the kv heads, then tz and tx.
//
// Where stages have meshes of their own (struct parallel, stage_tp) tp, each axis of its grid, and
// Ulysses' cp are cut where they end in each of them. All stages then have the same finer axes; the
// outer ones of tp are of dp in a stage with fewer ranks of tp, inside of its other dp, so that
// what a rank has of the batch lies inside of what it has in a stage with more.
//
// Experts see the same ranks of a stage as another mesh: etp innermost, then ep, the rest is their
// own data parallelism (Megatron-Core's folding). The finer axes are cut at the boundaries of both,
// so each has a parent in the dense mesh and a role in the experts' one.

enum { MESH_AXIS_MAX = 12 };

// Dense parameters and those inside experts are stored over different axes.
// Frozen ones have neither gradient nor state, and ZeRO shards them at stage 3 alone.
enum parameter_kind {
    PARAMETER_DENSE,
    PARAMETER_EXPERT,
    PARAMETER_FROZEN,
    PARAMETER_FROZEN_EXPERT,
    PARAMETER_KIND_COUNT
};
static inline bool parameter_kind_is_expert(enum parameter_kind kind)
{
    return kind == PARAMETER_EXPERT || kind == PARAMETER_FROZEN_EXPERT;
}
static inline bool parameter_kind_is_trained(enum parameter_kind kind)
{
    return kind < PARAMETER_FROZEN;
}
static inline enum parameter_kind parameter_kind_of(bool is_expert, bool is_frozen)
{
    if (is_frozen) return is_expert ? PARAMETER_FROZEN_EXPERT : PARAMETER_FROZEN;
    return is_expert ? PARAMETER_EXPERT : PARAMETER_DENSE;
}

// What ZeRO stores in shards, each over a shard group of its own. The group of weights lies inside
// that of gradients, and that inside the group of the optimizer's states, so that a rank updates
// part of the gradients that it has, and of the weights that it stores.
enum stored { STORED_WEIGHTS, STORED_GRADIENTS, STORED_STATES, STORED_COUNT };

struct mesh_axis {
    const char *name;  // "tp", "tp.1", "dp"
    enum axis parent;
    enum grid_axis grid;  // which axis of a grid of tp this is; GRID_LINE elsewhere
    enum grid_axis home;  // which it is in the widest stage
    int size;
    int stride;        // distance of neighbours in rank numbers
    int part;          // 0 of "dp.0"; which of the finer axes of its parent this is
    enum axis expert;  // its role inside experts: AXIS_EP, AXIS_ETP, or AXIS_DP for the rest
    unsigned shards;   // 1 << enum stored: inside its shard group
    bool is_lent;      // of tp in the widest stage, whatever its parent is here
};

struct mesh {
    struct mesh_axis axes[MESH_AXIS_MAX];  // innermost first
    int axis_count;
    int rank_count;  // of all stages
    // Where stages have unlike numbers of ranks (struct parallel, stage_ranks) a mesh is that of
    // one of them, has no axis of pp, and is laid over its ranks from the first on. Else NULL and
    // 0.
    const int *stage_ranks;
    int stage_count, stage, first_rank;
};

// `kv_head_count` decides how tp is factored (0: not at all). Axes of size 1 are kept out. An
// order_count of 0 is the default order. With experts the boundaries must nest: see mesh_folds.
// Of stages with unlike numbers of ranks that of the first.
struct mesh mesh_make(const struct parallel *parallel, int64_t kv_head_count);

// The mesh as the ranks of a stage have it, of whom `own` is parallel_at.
struct mesh mesh_at(const struct mesh *mesh, const struct parallel *own, int stage,
                    int64_t kv_head_count);

// Whether the experts' mesh can be laid over the ranks of a stage: etp and etp * ep must divide or
// be multiples of every boundary of the dense axes in their order, and divide dp * cp * tp. Where
// cp and tp both split seq, cp must not leave it before tp on the way into the experts (with sp, no
// etp on tp beside ep on cp), nor may etp take ranks of Ulysses' cp: slices would not be
// contiguous. Of stages with meshes of their own: whether all of this holds in each of them, where
// what tp lends to dp must not stay on the batch after the rest of dp has left it for the experts,
// and whether the ranks that share a kv head are neighbours in all of them.
bool mesh_folds(const struct parallel *parallel, int64_t kv_head_count);

// Bit i = axes[i]. All finer axes of a named axis; of ep and etp those with that role.
unsigned mesh_axes_of(const struct mesh *mesh, enum axis parent);
int mesh_size(const struct mesh *mesh, unsigned axes);  // product of the sizes
int mesh_coordinate(const struct mesh *mesh, int axis, int rank);

// Whether a rank is one of those that the axes are laid over.
bool mesh_has(const struct mesh *mesh, int rank);
// The stage that a rank is of, how many ranks that has, the first rank behind a run of ranks of one
// stage, and the rank in the same place of another.
int mesh_stage_of(const struct mesh *mesh, int rank);
int mesh_stage_ranks(const struct mesh *mesh, int stage);
int mesh_stage_end(const struct mesh *mesh, int rank);
int mesh_at_stage(const struct mesh *mesh, int rank, int stage);
// Whether axis a stays on the tokens longer than axis b on the way into the experts.
bool mesh_leaves_later(const struct mesh *mesh, int a, int b);

// The axes that ZeRO shards over: dense parameters over all of dp and cp, those of experts over
// their own data parallelism; of either only what lies in the shard group of what is stored.
unsigned mesh_shard_axes(const struct mesh *mesh, const struct parallel *parallel,
                         enum parameter_kind kind, enum stored stored);

// Ranks of a shard group of dense parameters, cp among them.
int mesh_shard_ranks(const struct parallel *parallel, enum stored stored);

// The communicator over these axes on that cluster, the same by the links of the ranks of one stage
// (axes of the pipeline among them: of all), and that of all ranks of all stages.
struct group_shape mesh_group(const struct mesh *mesh, const struct cluster *cluster,
                              unsigned axes);
struct group_shape mesh_group_at(const struct mesh *mesh, const struct cluster *cluster,
                                 unsigned axes, int stage);
// Of the pairs of ranks that are in the same place of two stages, the first in front of the second,
// the slowest, beside as many as the smaller stage has ranks. Where all nodes are alike: of the two
// that are farthest apart.
struct group_shape mesh_group_between(const struct mesh *mesh, const struct cluster *cluster,
                                      int first, int second);
// Of ranks that are in the same place of several stages, ascending: by the slowest link between two
// of them that follow each other.
struct group_shape mesh_group_of_stages(const struct mesh *mesh, const struct cluster *cluster,
                                        const int *stages, int count);
struct group_shape mesh_group_of_all(const struct mesh *mesh, const struct cluster *cluster);
