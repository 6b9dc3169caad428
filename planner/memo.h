#pragma once
#include "plan/stays.h"
#include "planner/search.h"

// What the search has lowered and priced so far. A model has few distinct blocks and a search few
// distinct ways to split one, so each is lowered once and priced once per set of links; all plans
// are composed of these. Meshes are kept in one canonical axis order (tp, cp, dp, pp, with the
// strides of the order chosen), so that plans that differ only in placement share their lowering.

struct memo_block {
    // The block cut down to what memory and the once-a-step prices read: sums, like parameters
    // as one, the loss. Asked about a whole program they give the same answers, faster.
    struct block_program *light;
    struct block_price price;
    const uint32_t *traces;  // of the whole program (planner/traces.h), where layouts are searched
};

// What of ZeRO changes the program of a micro-batch.
enum sharding {
    SHARDING_STATES,      // ZeRO 0 and 1, and 2 that scatters once a step: nothing
    SHARDING_GRADIENTS,   // ZeRO 2
    SHARDING_PARAMETERS,  // ZeRO 3
    SHARDING_ONCE,        // ZeRO 3 that scatters gradients once a step
    SHARDING_COUNT
};
enum sharding memo_sharding(const struct parallel *parallel);

struct memo;
struct memo *memo_new(struct arena *arena, struct arena *scratch,
                      const struct search_request *request);
// Whether weights are cast once a step (our own stack in fp8): micro-batches find the casts where
// they gather nothing and every product of a weight can read one of them.
bool memo_keeps_casts(const struct memo *memo);
const struct price_context *memo_context(const struct memo *memo);
const struct search_request *memo_request(const struct memo *memo);

// The longest that parameters of some layers of its plans may stay though those of others leave.
enum stays memo_longest_stay(const struct memo *memo);

// The graph of a tensor-parallel degree (its vocabulary is padded to it).
const struct graph *memo_graph(struct memo *memo, enum attention attention, int tp);
// The same with the memo as a void pointer: struct space_graphs' `of`.
const struct graph *memo_graph_of(void *memo, enum attention attention, int tp);
// A kind of its blocks with its backward pass.
const struct differentiated *memo_gradients(struct memo *memo, const struct graph *graph, int kind);

// The mesh of these choices with its axes in canonical order.
struct mesh memo_mesh(const struct graph *graph, const struct parallel *parallel);

// A block kind under these choices; `recompute` is the block's own; `stays`: how long
// its parameters do, where those of the search leave. Lives as long as the memo.
// Layouts of single operators are told apart by the address of the plan's rules, which live as long
// (NULL: none).
const struct memo_block *memo_block(struct memo *memo, const struct graph *graph, int kind,
                                    const struct mesh *mesh, const struct parallel *parallel,
                                    enum recompute recompute, enum stays stays);

struct memo_counts {
    int graph_count, lowered_count, priced_count;
};
struct memo_counts memo_counts(const struct memo *memo);
