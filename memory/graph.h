#pragma once
#include "core/err.h"

#include <stdint.h>

// What the memory scheduler works on: operators, the tensors they make and read, and how large
// those are. Made from the program of a plan's stage (stage_graph.h), a JSON graph, an ONNX model
// or operators measured by others (formats.h).
//
// Rules of memory. A step runs one operator. Outputs and workspace of an operator are alive while
// it runs, and so are its inputs; a tensor is freed after its last reader unless it is `kept`. A
// tensor without producer is there from the first step. Tensors that share storage (views, results
// written in place) are one buffer, alive from the first producer to the last user of any of them.
// Persistent tensors (weights, optimizer states) are never freed and have an arena of their own:
// order and addresses leave them alone.

struct memory_tensor {
    const char *name;
    int64_t bytes;    // not aligned; 0 is allowed
    int producer;     // operator, or -1; filled by memory_graph_finish. A view may have none: it
                      // is there when what it shares is
    int storage;      // tensor whose memory it uses: itself, or the first of those that share. Of a
                      // group the root is what is made first; its bytes are the largest
    bool overwrites;  // written in place: every other reader of `shares` runs before its producer
    int shares;       // tensor it is a view of or overwrites; -1: none
    bool persistent, kept;
};

struct memory_operator {
    const char *name;
    const int *inputs, *outputs;  // tensors, each at most once
    int input_count, output_count;
    const int *after;  // operators that have to run before, beside the producers of inputs
    int after_count;
    int64_t workspace_bytes;
    double seconds;  // 0 = unknown
    bool update;     // of the weight update: may wait, see order.h
};

struct memory_graph {
    const char *name;
    struct memory_operator *operators;  // in program order: every producer before its readers
    int operator_count;
    struct memory_tensor *tensors;
    int tensor_count;
};

// Checks a graph whose operators may stand in any order, brings them into program order (as given
// where that respects the edges, else the given order as far as the edges let it), and fills
// `producer` and `storage`. False and ERR_INPUT, one line naming operator or tensor: a cycle, two
// producers, a tensor index out of range, negative bytes, sharing that is circular, persistent on
// one side only, larger than what it shares or with a reader (of the tensor or of a view of it)
// that cannot run before the overwriting. `place` starts the line ("x.json").
MUST_CHECK bool memory_graph_finish(struct arena *arena, struct memory_graph *graph,
                                    const char *place, struct err *err);

// The graph as order and packing see it: storages instead of tensors, every precedence an edge.
struct memory_buffer {
    int64_t bytes;   // aligned
    int producer;    // operator that runs first on it; -1: alive from the start
    int first_user;  // in users[]: operators that touch it, ascending, the producer not among them
    int user_count;  // 0: freed right after its producer
    bool kept;       // alive to the end
    int tensor;      // root of the storage; -1: workspace of `producer`
};
struct memory_problem {
    int operator_count, buffer_count;
    const struct memory_buffer *buffers;  // persistent tensors and those of 0 bytes are not among
                                          // them
    const int *users;
    // CSR, ascending, no duplicates: successors of operator o are successors[first_successor[o]]
    // to successors[first_successor[o + 1] - 1]; likewise predecessors, and the buffers that an
    // operator makes or touches.
    const int *first_successor, *successors;
    const int *first_predecessor, *predecessors;
    const int *first_touched, *touched;
    const bool *update;
    int64_t persistent_bytes;  // aligned, of persistent storages
};
// Bytes are rounded up to multiples of `alignment`. Lives in `arena`.
struct memory_problem *memory_problem_make(struct arena *arena, const struct memory_graph *graph,
                                           int64_t alignment);

// Lifetimes under an order: buffer b is alive in steps birth[b] .. death[b] - 1 of operator_count
// (at least one step where there is any operator). Returns the most bytes alive at once.
int64_t memory_lifetimes(struct arena *scratch, const struct memory_problem *problem,
                         const int *order, int *birth, int *death);
