#pragma once
#include "cost_models/offload.h"
#include "planner/bound.h"
#include "planner/division.h"
#include "planner/memo.h"

// A plan's price and memory, composed of memoised blocks. The formulas stay where they are: the
// composer hands a program of memoised blocks to the functions of cost_models/ and simulator/ that
// also judge whole programs, and keeps what many plans share. It gives the same answer as lowering
// the plan anew, to the last bits of rounding (tests/planner/test_search.c), in less than a
// microsecond.

struct composer;
struct saturated;
struct composer *composer_new(struct arena *arena, struct arena *scratch, struct memo *memo);

// The plans that follow have these degrees, axis order, attention, sequence parallelism and
// micro-batch; the other members of `parallel` may differ from call to call.
void composer_group(struct composer *composer, const struct parallel *parallel);

// The division of a plan of the group: its stages, chunks and `recompute_layers`.
const struct division *composer_division(struct composer *composer,
                                         const struct parallel *parallel);
struct cost composer_cost(struct composer *composer, const struct parallel *parallel);
struct memory_parts composer_memory(struct composer *composer, const struct parallel *parallel,
                                    int *stage);
// Whether no stage holds more: asks no further than the first that does.
bool composer_meets(struct composer *composer, const struct parallel *parallel,
                    int64_t limit_bytes);
struct memory_parts composer_stage_memory(struct composer *composer,
                                          const struct parallel *parallel, int stage);
// What the fullest host lacks for what the plan moves to it, 0 = it has room.
int64_t composer_host_shortfall(struct composer *composer, const struct parallel *parallel);
// Both in one: what composer_memory says, and where that is within the limit what hosts lack; else
// 0.
struct memory_parts composer_memory_and_hosts(struct composer *composer,
                                              const struct parallel *parallel, int64_t limit_bytes,
                                              int *stage, int64_t *short_bytes);
// Bytes that the plan needs whatever it recomputes: parameters, gradients, states, buffers and the
// stack's reserve. Lowers nothing that composer_bound has not.
int64_t composer_floor_bytes(struct composer *composer, const struct parallel *parallel);
// Seconds that no plan with this division, schedule and block prices goes below: the closed form
// without anything that happens once a step; where W stands apart, the work of the slowest stage.
double composer_bound(struct composer *composer, const struct parallel *parallel);
// Seconds that the price is not below, whatever the schedule: the work of the busiest stage and
// what comes behind it. Where a stage has several chunks their order is dear to go through.
double composer_busiest(struct composer *composer, const struct parallel *parallel);
// Whether all layers of the plan are lowered as it recomputes them.
bool composer_knows(struct composer *composer, const struct parallel *parallel);
// Seconds that its price is not below, for which less is lowered: recomputed layers of the kinds
// that are not NULL here ([kind of block]) and that nobody has asked about yet are taken for what
// large kernels say. Where W stands apart, or what comes once a step hangs on what is recomputed,
// without that.
double composer_guessed(struct composer *composer, const struct parallel *parallel,
                        const struct saturated *const *guesses);

// Ways to recompute (recompute_value), nothing among them, and whether whole layers are moved, too.
struct composer_ways {
    const int *recomputes;
    int count;
    bool moves;
    // [kind of block] What such a layer spares is taken for what this one does, which nothing is
    // lowered for; no layer spares as much for as little. NULL: each is lowered.
    const struct saturated *const *saturated;
    double enough_s;  // how far past this the answer is need not be found out; 0: it must
};
// Seconds that no plan goes below which differs from this one, priced with everything kept, in what
// of these is done to whichever layers, and has room: the work of the slowest stage, the update.
// INFINITY: none has room. Whatever the schedule: a stage does its tasks one after the other, and
// what waits for W needs room beside what is alive. Of a plan without a price: but for the update.
double composer_pressed(struct composer *composer, const struct candidate *kept,
                        const struct composer_ways *ways, int64_t limit_bytes);

// One micro-batch through one block of a kind, forward and backward, with nothing recomputed and
// nothing sharded: no plan of the group is faster at it. And what it computes beside copies, and
// waits for that more compute may hide.
struct composer_probe {
    struct bound_work work;
    struct copy_window window;
    double hideable_s;
};
struct composer_probe composer_probe(struct composer *composer, const struct parallel *parallel,
                                     int kind);

// The fastest split of the layers over the stages of the group, when it is faster than the even
// one; NULL when it is not. Equal splits have one address.
const int *composer_balance(struct composer *composer, const struct parallel *parallel);
