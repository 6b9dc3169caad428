#pragma once
#include "memory/stage_graph.h"
#include "tests/support/draw.h"

// A random plan of a shipped model, lowered, for the tests of graphs of stages.

struct stage_case {
    struct program *program;
    const struct stack *stack;
    const char *model;
};

// False where the choices drawn do not go together.
bool stage_case_draw(struct arena *arena, struct draw *draw, struct stage_case *of);
// A test comment that says all of it.
void stage_case_print(const struct stage_case *of, int stage);
// The graph with this many micro-batches; fails the test on an error.
struct stage_graph *stage_case_graph(struct arena *arena, const struct stage_case *of, int stage,
                                     int micro_batches);
// Cases wanted: MESHWRIGHT_CASES, or this many.
int stage_case_count(int otherwise);
