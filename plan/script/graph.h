#pragma once
#include "plan/step_end.h"
#include "plan/task.h"

// The step graph: every task of a step, once for each class of chunks and once for what a stage
// does as a whole; symbolic in micro-batches and in layers that repeat. Scripts are this graph
// written out, task by task (script_task.in_graph), prices are added up by its tasks
// (simulator/task_prices.h), and `run` joins what it measured to what was predicted on their
// numbers.

// What a task reads and writes, or the payload that it moves, on the mean rank: in numbers that
// kernels compute with, in those of the optimizer (reals), and in whole bytes, whoever computes.
struct task_bytes {
    double compute;  // elements
    double reals;    // elements
    double plain;    // bytes
};

struct graph_task {
    enum task_kind kind;
    int use;           // of the chunk's blocks; -1: none
    int block, instr;  // of the program; -1
    int group;         // of the chunk's step_end: among its groups, TASK_SMALL_REDUCE: smalls; -1
    const char *tie;   // TASK_TIED_REDUCE
    double count;      // on one rank: in each micro-batch of work in slots, else in the step
    struct task_bytes bytes;  // of one
    bool is_repeated;         // in each micro-batch
    bool is_ragged;           // bytes depend on routing: these are the mean rank's
};

struct step_graph {
    const struct program *program;
    struct graph_task *tasks;  // class by class, behind them those of a whole stage
    int task_count;
    int *first;        // [class] and behind them: the first task; one more: task_count
    int **use_first;   // [class][use]: the task of its first instruction; the others follow
    int *place_first;  // [stage * chunks + chunk], then [stage]: the number of its first task
    int number_count;  // of tasks at all places
};

// Where two operators make terms of one parameter's gradient both add to it, and the sum of the
// terms is no task.
bool step_is_term_sum(const struct block_program *block, const struct instr *instr);

// Lives in `arena`, and holds on to `program`.
struct step_graph *step_graph_make(struct arena *arena, const struct program *program,
                                   const struct step_rules *rules);

// Places: a chunk of a stage, or (chunk -1) the stage as a whole. Its tasks: tasks[*first] and
// `count` from there on.
int step_graph_place(const struct step_graph *graph, int stage, int chunk);
int step_graph_tasks(const struct step_graph *graph, int place, int *first);
// How often one rank runs a task of a place in a step: 0 where there is none, as messages between
// chunks of one stage.
double step_graph_count(const struct step_graph *graph, int place, int at);
// The number by which everybody knows a task: of all that there are at all places.
int step_graph_number(const struct step_graph *graph, int place, int task);

// What a script looks its tasks up with; -1: there is none. `use` by position in the chunk.
struct graph_key {
    enum task_kind kind;
    int position, instr, group;  // as in struct graph_task; -1
};
int step_graph_find(const struct step_graph *graph, int place, const struct graph_key *key);
