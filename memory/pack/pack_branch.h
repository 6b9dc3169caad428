#pragma once
#include "memory/pack/pack_state.h"

// Branch and bound over a packing state: one attempt, by one member of the portfolio, within a
// limit on nodes. What an attempt has refuted and learnt is kept for the next one.
//
// A node takes a section of a valley of the skyline. The lowest unplaced buffer there either starts
// at the floor, one branch for each candidate, or nothing does: then candidates wait for something
// that may carry them, since a packing can be pushed down until each buffer rests on another or on
// the ground. Parts of time that no unplaced buffer joins are solved apart from each other.

enum pack_choice {    // of the section
    CHOOSE_FEWEST,    // fewest candidates
    CHOOSE_LOWEST,    // lowest floor, then fewest candidates
    CHOOSE_WEIGHTED,  // fewest candidates for its weight: how often it refuted a placement
    CHOOSE_HEAVIEST,  // greatest weight where more than one candidate is left
    CHOOSE_BUFFER,    // none: the lowest buffer, by value among equals, starts at its low or waits
    PACK_CHOICE_COUNT
};
// Largest first. The last three are MiniMalloc's: W lifetime, A area, T most size alive during it.
enum pack_value {
    VALUE_AREA,
    VALUE_LIFE,
    VALUE_SIZE,
    VALUE_WAT,
    VALUE_TAW,
    VALUE_TWA,
    PACK_VALUE_COUNT
};

struct pack_member {
    const char *name;
    enum pack_choice choice;
    enum pack_value value;
};

struct pack_branch {
    struct arena *arena;
    struct pack_state *state;
    bool has_rules;     // false: no memo, no twins, no supports
    double deadline_s;  // 0 = none
    bool is_late;

    struct pack_member member;
    bool is_flush;
    int64_t node_count, node_limit;  // of this attempt
    double *weight;                  // [section]
    double *value;                   // [buffer]: the greatest is tried first
    double *rank[PACK_VALUE_COUNT];  // [buffer]

    int *frames;  // candidates of the nodes on the path
    int frame_count, frame_room;
    uint64_t *memo;  // keys of refuted parts: which buffers are unplaced, and their lows
    uint64_t memo_mask;
};

// `state` must have started. Lives in `arena`.
struct pack_branch *pack_branch_make(struct arena *arena, struct pack_state *state,
                                     const struct pack_options *options);
// How an attempt differs from others by the same member.
struct pack_attempt {
    double noise;  // values are multiplied by up to 1 + noise, drawn from `seed`
    uint64_t seed;
    bool is_flush;  // candidates that end level with the floor beside them go first
    int64_t node_limit;
};
// Yes: everything is placed.
enum pack_answer pack_branch_attempt(struct pack_branch *branch, const struct pack_member *member,
                                     const struct pack_attempt *attempt);

// The portfolio, and the search by those whose bits are in `members`: what each is worth.
extern const struct pack_member PACK_MEMBERS[];
int pack_member_count(void);
enum pack_answer pack_search_by(struct arena *scratch, const struct pack_problem *problem,
                                int64_t height, const struct pack_options *options,
                                unsigned members, int64_t *offsets, struct pack_result *counts);
