#pragma once
#include "planner/balance.h"
#include "planner/compose.h"
#include "planner/keep_memo.h"
#include "planner/moments.h"
#include "simulator/closed_form.h"

// What the composer's sources share: its tables, and a plan's program in memoised blocks.

// Beside the ways to shard no ZeRO at all, where a shard group of the others cuts the mesh.
enum { WAY_WHOLE = SHARDING_COUNT, WAY_COUNT };
enum { RECOMPUTE_WAYS_MAX = 96, HIDING_COUNT = 4 };

// Blocks of the group in one way of sharding and recompute, by kind; NULL: not asked yet.
struct variant {
    int64_t group;  // that they are of
    const struct memo_block *blocks[DIVISION_KIND_MAX];
};

struct phases {
    double s[PHASE_COUNT][PART_COUNT];
    double adding_s;  // see struct block_price
};

// Chunks of the division at hand, one micro-batch, in one way of sharding and recompute.
struct chunk_phases {
    bool known;
    int capacity;
    struct phases *classes;
};

// What happens once a step is known by mesh, division and ZeRO; what neighbours send (no division)
// by mesh and micro-batch. Compared byte by byte.
struct once_key {
    const struct division *division;
    const struct graph *graph;
    int number;  // ZeRO, negative where it scatters gradients once a step; or the micro-batch
    int sp, axis_count, cp_kind;
    int optimizer;  // where its states are
    int recompute;  // where what happens once hangs on it
    int grain;      // where casts are kept: what the micro-batch shares with CASTS_GRAIN
    int bucket_bytes;
    struct {
        int32_t size, stride;
        uint8_t parent, part, expert, shards;
    } axes[MESH_AXIS_MAX];
};

struct once_entry {
    struct once_key key;
    const struct step_price *price;  // its classes have no phases
};

struct composer {
    struct arena *arena, *scratch;
    struct memo *memo;
    const struct search_request *request;
    struct divisions divisions;
    struct index onces;
    struct moments moments;
    struct balances balances;
    struct keep_memo answers;
    // of the group
    const struct graph *graph;
    bool has_ties;
    bool sums;         // gradients of biases among its weights'
    bool only_tokens;  // rows of its activations are those of the sequence, none of pictures
    struct parallel group;
    int64_t group_number;
    struct mesh mesh[2];           // without and with ZeRO: a shard group of its own factors dp
    const struct step_price *hop;  // NULL: not asked yet
    int recompute_values[RECOMPUTE_WAYS_MAX];  // ways to recompute met so far; 0 is none
    int recompute_count;
    struct variant variants[HIDING_COUNT][WAY_COUNT][RECOMPUTE_WAYS_MAX][STAYS_COUNT];
    // of the division at hand
    const struct division *division;
    struct chunk_phases phases[HIDING_COUNT][WAY_COUNT][RECOMPUTE_WAYS_MAX];
    struct chunk_price *classes;
    int class_capacity;
    struct closed_form_paths paths;
    const struct saturated *const *guesses;  // see composer_guessed; NULL: nothing is guessed
};

// A kind of block of the group in the sharding of the plan, and in this way to recompute (index).
// `stays`: how long its parameters do, where those of others leave.
const struct memo_block *composing_kind(struct composer *composer, const struct parallel *parallel,
                                        int recompute_way, enum stays stays, int kind);
// A block of the division (division_block).
const struct memo_block *composing_block(struct composer *composer, const struct parallel *parallel,
                                         int block);
// The same with what the plan recomputes recomputed.
const struct memo_block *composing_recomputed(struct composer *composer,
                                              const struct parallel *parallel, int kind);
// All that a micro-batch takes.
static inline double composing_block_s(const struct memo_block *block)
{
    double sum_s = 0;
    for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
        sum_s += (&block->price.phase_s[0][0])[i];
    return sum_s;
}
// All of the division, as many as DIVISION_WAYS of each kind.
void composing_blocks(struct composer *composer, const struct parallel *parallel,
                      struct block_program **blocks);
struct program composing_program(struct composer *composer, const struct parallel *parallel,
                                 const struct division *division, struct block_program **blocks);
// The step of a plan without what happens once a step, and that, by class of the division that it
// is made for: *of.
struct step_price composing_steady(struct composer *composer, const struct parallel *parallel);
const struct step_price *composing_once(struct composer *composer, const struct parallel *parallel,
                                        const struct division *division,
                                        const struct division **of);
// planner/compose_bounds.c: how much longer a layer takes when it is recomputed as the plan does,
// at least, as large kernels say; `plain` is it with everything kept.
double composing_guessed_s(const struct parallel *parallel, const struct saturated *saturated,
                           const struct memo_block *plain);
// planner/compose_pressed.c: whether backward is one task and chunks go down the stages in order:
// then a stage waits for the first forward to pass the stages before it, and they for the last of
// its gradients.
bool composing_waits(const struct composer *composer, const struct parallel *parallel);
// Whether what happens once a step hangs on what is recomputed.
bool composing_once_hangs(const struct composer *composer, const struct parallel *parallel);
// What the stage holds whatever it recomputes or moves of activations, and the stack's reserve.
int64_t composing_stored_bytes(struct composer *composer, struct program *program, int stage);
// planner/compose_gradients.c: adds copies of gradients that are kept on the host to the classes of
// the division at hand.
void composing_add_gradients(struct composer *composer, const struct parallel *parallel);
