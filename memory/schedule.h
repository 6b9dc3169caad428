#pragma once
#include "memory/certify.h"
#include "memory/pack/allocator.h"

// From a graph or a packing problem to a schedule: order, addresses, and what is proven about them.

enum memory_method {
    MEMORY_PROGRAM,     // program order, PyTorch's caching allocator
    MEMORY_GREEDY,      // list scheduling, longest-lived first, best fit
    MEMORY_GLOBAL_ILP,  // one integer program over the whole graph, greedy addresses
    MEMORY_ROAM,        // divided, each part exact: order.h, pack.h
    MEMORY_METHOD_COUNT
};
const char *memory_method_name(enum memory_method method);  // "global-ilp"
bool memory_method_from_name(const char *name, enum memory_method *method);

struct memory_schedule;

struct memory_options {
    enum memory_method method;
    int64_t alignment;                                // of offsets and sizes
    int64_t capacity;                                 // 0 = none
    double time_limit_s;                              // of this method; 0 = none
    int64_t node_cap;                                 // as of pack_options; 0 = the default
    double patience;                                  // of pack_options, for one order; of others
                                                      // that are tried a quarter
    int64_t enough_bytes;                             // as of pack_options
    bool certify;                                     // small segments and layouts by GLPK as well
    void (*spoil)(struct memory_schedule *schedule);  // before it is checked: tests of the checker
    void (*log)(void *context, const char *line);
    void *log_context;
    void (*progress)(void *context, int done, int count);  // stages of a plan; NULL: not told
    void *progress_context;
};

struct memory_schedule {
    enum memory_method method;
    const int *order;                        // operators by step; NULL of packing problems
    const int64_t *birth, *death, *offsets;  // of the problem's buffers
    int buffer_count;
    int64_t live_bytes;   // most alive at once under this order
    int64_t arena_bytes;  // what has to be reserved: height of the arena; of the caching allocator
                          // its segments (offsets are then those of a plain first fit)
    int64_t bound_bytes;  // proven: no order and no layout needs less
    int64_t persistent_bytes;
    bool order_proven, layout_proven;  // live_bytes = bound, arena_bytes = live_bytes
    bool fits, infeasible;             // see struct pack_result
    double seconds;                    // clock; never written to a file
    struct order_result order_counts;
    struct pack_result pack_counts;
};

// fragmentation = arena / live - 1; gap = arena / bound - 1.
double memory_fragmentation(const struct memory_schedule *schedule);
double memory_gap(const struct memory_schedule *schedule);

// `problem` is memory_problem_make's of `graph`. False with ERR_SYSTEM when the independent checker
// (check.h) finds fault with the result: a bug; `err` has what is wrong.
MUST_CHECK bool memory_schedule_graph(struct arena *arena, struct arena *scratch,
                                      const struct memory_graph *graph,
                                      const struct memory_problem *problem,
                                      const struct memory_options *options,
                                      struct memory_schedule *schedule, struct err *err);
// The same of a packing problem: no order, methods greedy and roam; `program` allocates by start
// of life.
MUST_CHECK bool memory_schedule_packing(struct arena *arena, struct arena *scratch,
                                        const struct pack_problem *problem,
                                        const struct memory_options *options,
                                        struct memory_schedule *schedule, struct err *err);
