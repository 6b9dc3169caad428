#pragma once
#include "cost_models/step.h"
#include "memory/stage_graph.h"
#include "plan/script/script.h"
#include "tests/support/draw.h"

// Random plans of small models with the scripts of their stages, for the tests of scripts and of
// their verifier.

struct script_case {
    struct arena *arena;
    struct program *program;
    const struct stack *stack;
    struct price_context context;  // of this plan
    int model;
    bool is_cut;              // graphs of a few micro-batches, which the step repeats
    struct script **scripts;  // [stage]
};

// A plan; false where the choices drawn do not go together. No scripts yet.
bool script_case_draw(struct arena *arena, struct draw *draw, struct script_case *of);
// GPT-2 124M on so many stages, tensor parallel and replicated, 1F1B.
void script_case_gpt2(struct arena *arena, int stages, int micro_batches, struct script_case *of);
// A model on one stage, tensor and sequence parallel, with its script.
void script_case_tensor(struct arena *arena, const char *model, int ranks, struct script_case *of);
// Of whom draws: stack and prices of a lowered plan.
struct priced;
void script_case_keep(const struct priced *priced, struct script_case *of);
// Scripts of all stages: operators of the graphs in program order, buffers by best fit.
void script_case_write(struct script_case *of);
// A test comment that says all of it.
void script_case_print(const struct script_case *of);
// Cases wanted: MESHWRIGHT_CASES, or this many.
int script_case_count(int otherwise);
