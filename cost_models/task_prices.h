#pragma once
#include "cost_models/ledger.h"
#include "plan/script/graph.h"

// The prices of a step by the tasks of its step graph: what each takes alone. Of operators that run
// as one the first has the price of all, of a ring of exchanges the first of what is streamed.
// What is said of the price of each: that it has one; that it is in that of another task, as what
// runs as one with it; that it neither reads nor writes anything, and takes no time; or that there
// is none, which is a fault of our own stacks.
enum task_pricing { TASK_UNPRICED, TASK_PRICED, TASK_PRICED_WITH, TASK_FREE };

struct task_prices {
    const struct step_graph *graph;
    double *s;        // [task of the graph] one of them, on one rank
    double beside_s;  // of what a step has that is no task: contention, launches, maxima of scales
    double unrun_s;   // of what is no task of the graph, and should be: software that ends a step
                      // otherwise than our executor. Of ours 0.
};

enum task_pricing task_pricing_of(const struct task_prices *prices, int task);
// "alone", "with another", "nothing", "not".
const char *task_pricing_name(enum task_pricing pricing);

// `ledger` is that of the price of the graph's program. Lives in `arena`.
struct task_prices task_prices_of(struct arena *arena, const struct step_graph *graph,
                                  const struct ledger *ledger);
