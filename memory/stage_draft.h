#pragma once
#include "memory/stage_graph.h"
#include "memory/stage_slots.h"

// The graph of a stage while it grows. Included by memory/stage_*.c alone.

struct index_list {
    int *items;
    int count;
};
// Each item at most once.
void index_list_add(struct arena *arena, struct index_list *list, int item);

struct draft_operator {
    const char *name;
    struct index_list inputs, outputs, after;
    enum task_kind kind;
    int instr, chunk, position, micro_batch, slot;
};
struct draft_tensor {
    const char *name;
    int64_t bytes;
    int producer;  // -1
    int shares;    // -1
    int finished;  // by the last exchange inside its producer, which readers follow; 0: none
    bool overwrites, persistent, kept;
    int chunk, position, value, micro_batch, buffer;  // value -1: of no block
    int turns;                                        // see struct stage_graph
};
struct draft {
    struct arena *arena;
    struct arena growing;  // operators and tensors, until draft_finish
    const struct stage_slots *slots;
    struct draft_operator *operators;
    int operator_count;
    struct draft_tensor *tensors;
    int tensor_count;
};

// Indices. What is not said is -1.
int draft_operator_add(struct draft *draft, const struct draft_operator *operator);
int draft_tensor_add(struct draft *draft, const struct draft_tensor *tensor);
void draft_reads(struct draft *draft, int operator, int tensor);
void draft_makes(struct draft *draft, int operator, int tensor);
void draft_follows(struct draft *draft, int operator, int before);
// An exchange inside an operator that it follows: what that made is there for readers, those of
// other blocks too, when this is done.
void draft_finishes(struct draft *draft, int operator);

// memory/stage_ring.c: gives tensors that live while other micro-batches work the places
// that operator 0, which must have been added first, holds from the start.
void draft_hold_places(struct draft *draft);

MUST_CHECK struct stage_graph *draft_finish(struct draft *draft, const char *name, struct err *err);
