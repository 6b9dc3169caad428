#pragma once
#include "plan/layout/rules.h"
#include "planner/memo.h"
#include "planner/moments.h"
#include "simulator/evaluate.h"

// Plans that differ in layouts of single operators alone, priced as whole plans: of blocks that are
// lowered and priced once for what is said of their operators, on every plan that uses them so
// (planner/memo.h). A step is that of evaluate to the last bits of rounding, memory is the same.

enum { LAYOUT_SITES_MAX = 96 };  // operators that are ruled

// What is known of all plans of one search. Lives in `arena`; `scratch` is reset. The request must
// outlive it.
struct layout_memo;
struct layout_memo *layout_memo_new(struct arena *arena, struct arena *scratch,
                                    const struct search_request *request);

// A plan without rules, which must be legal, in `scratch` of the memo.
struct layout_prices;
struct layout_prices *layout_prices_new(struct layout_memo *memo,
                                        const struct evaluation_request *request);
// The graph whose blocks and operators are ruled.
const struct graph *layout_prices_graph(const struct layout_prices *prices);

// Whether a stage has blocks like this one; stages are told apart where they have numbers of ranks,
// else 0 stands for all.
bool layout_prices_is_on(const struct layout_prices *prices, int stage, int block);
// Whether such blocks read parameters that another one has as well.
bool layout_prices_is_tied(const struct layout_prices *prices, int block);

// An operator of graph->blocks[block] and the rule of it, which may be one of a stage where it is
// not tied.
struct layout_said {
    int block, op;
    struct layout_rule rule;
};

struct layout_value {
    bool is_legal;
    double step_s;           // in closed form
    int64_t reserved_bytes;  // of the fullest stage
};

// What the plan with rules does with each tensor of its blocks, for layout_traces_meet: in
// `scratch` of the memo. NULL: rules that cannot be, or a search that was not asked for layouts.
const uint32_t *const *layout_prices_traces(struct layout_prices *prices,
                                            const struct layout_said *said, int count);
// Whether two changes of the plan, from traces without them, meet in an operator. Where they do not
// both together do to the blocks what each does by itself, and a step costs more by the sum of both
// but for what gradients of both have in common at its end.
bool layout_traces_meet(const struct layout_prices *prices, const uint32_t *const *base,
                        const uint32_t *const *a, const uint32_t *const *b);

// With these rules, in the order of blocks and operators, and those that follow from them
// (annotations_fill). Memory is asked of steps shorter than `below_s` alone, else it is INT64_MAX.
struct layout_value layout_prices_value(struct layout_prices *prices,
                                        const struct layout_said *said, int count, double below_s);
