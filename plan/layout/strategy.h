#pragma once
#include "models/op.h"
#include "plan/layout/layout.h"

// A technique is a row: which dims an axis prefers to split, in order, and what it falls back to.
// "Tensor parallelism" exists nowhere else in the program.

enum { PREFER_MAX = 4 };

struct technique {
    const char *name;                   // "tensor (1D)", "tensor + sequence", "data"
    enum axis axis;                     // a named axis, or a role inside experts (ep, etp)
    enum grid_axis grid;                // of tp: which axis of a grid
    unsigned tp_kinds;                  // of tp: 1 << the kinds that have it
    enum dim prefers[PREFER_MAX];       // DIM_NONE ends the list
    enum dim in_attention[PREFER_MAX];  // ahead of those, in the attention core
    bool alternates;      // of its dims the one that the next op to mix any of them does not mix
    enum dim otherwise;   // for ops that have none of the preferred dims; DIM_NONE = whole
    enum dim tokens;      // what it splits as the data parallelism of experts
    bool splits_queries;  // attention gathers k and v, each rank answers its own queries
    bool streams;         // their blocks pass by and are not kept
    bool prefers_result;  // of products with a parameter: the dims of it that the result has
    bool stores;          // matrices and tables are kept split over it, and gathered for use
};

// Of an axis of a mesh; of a named axis or a role inside experts, which are no grids.
const struct technique *technique_at(const struct parallel *parallel, const struct mesh_axis *axis);
const struct technique *technique_of(const struct parallel *parallel, enum axis axis);

// What each mesh axis splits in one operator: a dim, or DIM_NONE for "all of the axis does the
// same". Backward operators take the strategy of the forward op they derive from; sums of gradients
// have their own. An op that has a preferred dim that cannot be split further (2 kv heads over
// tp.1) stays whole over that axis: such axes are `used_up`, and partial gradients pass through.
//
// Inside experts (ops that have DIM_EXPERT) axes follow their roles there: ep and etp their own
// rows, the rest does with tokens what its dense row says. Dispatching and combining follow the
// tokens; where an axis has them whole (tp without sp) they already take what the experts will.
struct strategy {
    enum dim of[MESH_AXIS_MAX];
    unsigned used_up;
};
struct strategy strategy_of(const struct mesh *mesh, const struct parallel *parallel,
                            const struct block *block, const struct op *op);

// The layouts the op needs for input i and makes for output i under a strategy.
struct layout strategy_input(const struct mesh *mesh, const struct strategy *strategy,
                             const struct block *block, const struct op *op, int input);
struct layout strategy_output(const struct mesh *mesh, const struct strategy *strategy,
                              const struct block *block, const struct op *op, int output);

// The gradient of what an operator reads in the layout `read`, as its backward makes it: partial
// over axes that split something else there.
struct layout strategy_gradient(const struct mesh *mesh, const struct strategy *strategy,
                                struct layout read);
// A gradient of zeros, of a parameter whose derivative nothing has: as the gradient that the first
// operator to read the parameter would make. `gradient` is a tensor with `gradient_of`.
struct layout strategy_zeros(const struct mesh *mesh, const struct parallel *parallel,
                             const struct block *block, int gradient);

// Where a parameter is kept that an op reads in the layout `read`: the same, but that techniques
// which store split one more of its dims. What has one dim alone (biases, weights of norms) is kept
// as it is read.
struct layout strategy_stored(const struct mesh *mesh, const struct parallel *parallel,
                              const struct tensor *tensor, const struct layout *read);

// Whether this input or output of attention (or of its backward) holds keys or values: they keep
// the name seq but are read whole by every query.
bool strategy_is_keys(const struct op *op, bool output, int index);
// Whether the op belongs to the attention core, and whether to the experts.
bool strategy_in_attention(const struct block *block, const struct op *op);
bool strategy_in_experts(const struct block *block, const struct op *op);

// The layout of a tensor that passes from one block to the next: what the techniques prefer for a
// tensor with these dims, never partial, so that blocks of a kind chain.
struct layout strategy_boundary(const struct mesh *mesh, const struct parallel *parallel,
                                const struct tensor *tensor);
