#pragma once
#include "core/err.h"

#include <stdint.h>

// A strategy problem: one strategy is chosen for every node so that the costs of nodes and edges
// are least in sum, while at no time the usages of the nodes that live then exceed the limit. The
// format is that of the IOPDDL contest (ASPLOS 2025), plain or packed by gzip:
//   {"problem": {"name": "tiny",
//     "nodes": {"intervals": [[0, 9], ...], "costs": [[15, 7], ...], "usages": [[4, 2], ...]},
//     "edges": {"nodes": [[0, 1], ...], "costs": [[0, 3, 3, 0], ...]},
//     "usage_limit": 50}}
// A node lives in the half-open interval [birth, death); costs of an edge stand row by row, the
// strategies of its first node down, of its second across. A cost of STRATEGY_FORBIDDEN or more
// forbids the choice. Nodes may be joined by many edges, and a node with itself.

#define STRATEGY_FORBIDDEN 1000000000000000000
// What a single cost or usage may be: sums over a file stay whole in a double.
#define STRATEGY_MOST 100000000000000

enum {
    STRATEGY_NODES_MOST = 1 << 22,
    STRATEGY_CHOICES_MOST = 1 << 12,  // of a node
    STRATEGY_TIME_MOST = 1 << 24
};

// Lists of whole numbers, one behind the other: list i is values[starts[i]] .. [starts[i + 1] - 1].
struct strategy_lists {
    int64_t *values;
    int64_t *starts;  // [count + 1]
    int64_t *places;  // [count]: where the list stands in the text, in bytes
    int count;
};

struct strategy_problem {
    const char *name;                                // "" where the file has none
    struct strategy_lists intervals, costs, usages;  // [node_count]
    struct strategy_lists ends, edge_costs;          // [edge_count]
    int64_t usage_limit;
    bool has_limit;
    int node_count, edge_count;
    int time_count;  // the last death
};

// Reads and checks a file. False with ERR_INPUT, the error at its line, column and JSON path.
// The problem lives as long as `arena`.
MUST_CHECK bool strategy_problem_load(struct arena *arena, const char *path,
                                      struct strategy_problem *problem, struct err *err);
// The same of a text in memory that ends in NUL; `path` names it in errors.
MUST_CHECK bool strategy_problem_parse(struct arena *arena, const char *path, const char *text,
                                       size_t bytes, struct strategy_problem *problem,
                                       struct err *err);

static inline int strategy_count(const struct strategy_problem *problem, int node)
{
    return (int)(problem->costs.starts[node + 1] - problem->costs.starts[node]);
}

// What a choice costs, in whole numbers, straight from the file.
struct strategy_value {
    int64_t cost;       // without what is forbidden
    int64_t forbidden;  // nodes and edges whose choice is forbidden
    int64_t peak;       // the largest usage at any time
    bool is_valid;      // nothing forbidden, the peak within the limit
};
struct strategy_value strategy_problem_value(struct arena *scratch,
                                             const struct strategy_problem *problem,
                                             const int *choice);
