#pragma once
#include "cost_models/stack.h"
#include "models/import.h"
#include "plan/choice.h"

// A plan as a list of facts, each a name and a value in words: "tp" "8", "recompute" "full:12",
// "offload.optimizer" "host", "model.hidden" "4096". It is the form between a plan and the options
// of other programs: what a program can express is a table of rows from facts to its options
// (exchange/rows.h), read in both directions.
//
// Names, neutral values and what a fact needs to mean something: exchange/facts.inc. Beside the
// choices of a plan (plan/choices.inc) in their own words there are "world", all GPUs; "pieces",
// the layers of every virtual stage in the order of the model, "19,21,21,19"; "recompute" with its
// layers, "full:12"; what is moved and what overlaps, one fact each.

struct fact {
    const char *name, *value;
};

struct facts {
    struct arena *arena;
    struct fact *items;
    int count, capacity;
};

void facts_put(struct facts *facts, const char *name, const char *value);  // in place of another
const char *facts_get(const struct facts *facts, const char *name);        // NULL: not said
int64_t facts_number(const struct facts *facts, const char *name, int64_t absent);
bool facts_is(const struct facts *facts, const char *name, const char *value);

// What a fact is called among people; the name itself of facts of a model.
const char *fact_words(const char *name);
// The fact that it means nothing without; NULL: none.
const char *fact_needs(const char *name);
// Whether it asks nothing: its value is the neutral one, or there is none.
bool facts_is_neutral(const struct facts *facts, const char *name);
// Takes away what means nothing.
void facts_clean(struct facts *facts);

struct facts_request {
    const struct model_config *model;
    const struct stack *stack;  // of the plan: the passes that it has by itself are not told
    const struct workload *workload;
    const struct parallel *parallel;
    const char *builds;  // how the stack is to be built, "eager+standard-ep"; NULL: as it is
};
// The facts of a plan. NULL and a set `err` where its stages or its model cannot be told: a family
// that exchange/model_facts.c does not know is ERR_INPUT.
MUST_CHECK struct facts *facts_make(struct arena *arena, const struct facts_request *request,
                                    struct err *err);

// A plan as far as it is said: which of the choices, of the workload, and its order and stages.
struct said {
    bool choices[CHOICE_COUNT];
    bool order, stages;
    bool seq_len, global_batch, precision, optimizer, capacity;
    struct parallel parallel;
    struct workload workload;
};
// And back. Bits of `overlap` that mean nothing are as the stack has them by itself. A value that a
// plan cannot hold is not said, and its fact named in `odd`, which may be NULL.
void facts_said(struct arena *arena, const struct facts *facts, const struct stack *stack,
                struct said *said, const char **odd);
