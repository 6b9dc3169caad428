#pragma once
#include "planner/strategy/state.h"
#include "planner/strategy/window.h"

// Makes a choice better, window by window (large-neighbourhood search) and chain by chain: a chain
// sets one node, lets the neighbours that no longer fit follow, and polishes what it changed.
// Everything is drawn from a seed and counted in entries looked at: equal work, equal choices.

enum search_goal {
    SEARCH_PRICED,    // cost and what memory costs at the dual's prices; no limit
    SEARCH_REPAIR,    // less excess over the limit, as cheaply as can be
    SEARCH_FEASIBLE,  // less cost within the limit, and where `trade` says so less memory
};

enum { SEARCH_POOL = 48, SEARCH_ARMS = 24 };

struct choice_search {
    const struct choice_model *model;
    struct choice_state *state;
    struct choice_window *window;
    const double *priced;  // [choice_count]: what the dual's prices add
    uint64_t random;
    int *pool[SEARCH_POOL];  // choices to take from
    int pool_count;
    unsigned char *allowed;  // [choice_count]
    double excess_price;     // of a unit of excess, while repairing
    // What memory that is left free is worth within the limit, as a share of the dual's prices:
    // what one window saves is there for another one, wherever it is. 0: cost alone counts.
    double trade;
    const double *prices;   // [point_count]: of the dual
    double *repair_priced;  // [choice_count]: some of the dual's prices, and that of excess
                            // where the limit is exceeded
    // Kinds of windows, drawn by what they gained for their work.
    struct search_arm {
        int size, table_cap;
        bool from_pool;
        double gain, work, steps;
    } arms[SEARCH_ARMS];
    int arm_count;
    int nodes[WINDOW_MOST], chosen[WINDOW_MOST];
    unsigned char *is_taken;               // [node_count]: of the window that grows
    int *front;                            // [node_count]
    int *journal_nodes, *journal_choices;  // of a chain, [node_count]
    int journal_count;
    int64_t other_work;
    int hot_point;  // that is exceeded
    int64_t steps, chains, gains, chain_gains;
};

struct choice_search *search_new(struct arena *arena, const struct choice_model *model,
                                 struct choice_state *state, uint64_t seed);
int64_t search_work(const struct choice_search *search);
// One window or chain.
void search_step(struct choice_search *search, enum search_goal goal);
// A copy of the choice goes into the pool, in the place of the oldest where it is full.
void search_pool_put(struct choice_search *search, struct arena *arena, const int *choice);

// Steps of a repair after which excess is priced anew: small graphs have few windows to try.
int search_repair_steps(const struct choice_search *search);

// Parts of a step, in files of their own.
// Nodes of a new window, in search->nodes; their count.
int search_grow(struct choice_search *search, int size, bool has_excess);
// Solves the window and keeps the answer where it serves the goal; what it gained.
double search_window(struct choice_search *search, enum search_goal goal,
                     const struct search_arm *arm, int count);
// What the goal counts beside prices, without forbidden pairs, which must never become more.
double search_merit(const struct choice_search *search, enum search_goal goal);
bool search_chain(struct choice_search *search, enum search_goal goal);
int search_draw(struct choice_search *search, int count);
