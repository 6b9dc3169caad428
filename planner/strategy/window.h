#pragma once
#include "planner/strategy/model.h"

// A window is a set of nodes that are chosen anew at once while all others stay as they are: solved
// exactly by eliminating one node after another (dynamic programming over tables), smallest table
// first. Where the next table would be too large, a node with a large neighbourhood keeps its
// choice, a drawn one, so that a window may be as large as WINDOW_MOST whatever the graph.

enum { WINDOW_MOST = 256, WINDOW_WORDS = WINDOW_MOST / 64, WINDOW_EXTRAS = 8 };
enum { WINDOW_PAIRS = 8 * WINDOW_MOST };  // edges inside

struct window_options {
    const double *priced;          // [choice_count]: what the use of memory adds, or NULL
    double price_ratio;            // of `priced`
    const unsigned char *allowed;  // [choice_count]: what may be chosen beside what is; NULL: all
    int table_cap;                 // entries of a table
    // Prices at single points of time, on top.
    struct window_extra {
        int point;
        double price;
    } extras[WINDOW_EXTRAS];
    int extra_count;
};

struct window_factor {
    int scope[20];  // variables, the last is the fastest
    int count;
    const double *cells;
};

struct choice_window {
    const struct choice_model *model;
    int *index_of;  // [node_count]: in the window, -1 outside
    int count;
    const int *nodes;
    int *domains[WINDOW_MOST];
    int sizes[WINDOW_MOST];
    double *unary[WINDOW_MOST];
    bool is_fixed[WINDOW_MOST];
    int chosen[WINDOW_MOST];  // the answer, [index]: a choice of the node
    int order[WINDOW_MOST], order_count;
    uint64_t near[WINDOW_MOST][WINDOW_WORDS];
    struct window_factor factors[WINDOW_PAIRS + WINDOW_MOST];
    int factor_count;
    struct {
        int scope[20], count;
        const unsigned short *best;
    } traces[WINDOW_MOST];
    double *cells;  // room for tables, from the front
    int64_t cell_count, cell_most;
    unsigned short *bests;
    int64_t best_count;
    int *labels;
    int label_count;
    uint64_t random;  // which nodes keep their choice where tables are too large
    int64_t work;     // entries looked at since the window was made
};

struct choice_window *window_new(struct arena *arena, const struct choice_model *model);
// Chooses the `count` nodes anew where the others choose `choice`; the answer is in `chosen`, never
// dearer by the options' costs than what is. `nodes` must differ and outlive the call.
void window_solve(struct choice_window *window, const struct window_options *options,
                  const int *nodes, int count, const int *choice);
