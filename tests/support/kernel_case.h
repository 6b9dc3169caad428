#pragma once
#include "executor/backend.h"
#include "models/autodiff.h"
#include "tests/support/draw.h"
#include "tests/support/interpreter.h"

// An operator on slices, run by a back end and by the plain interpreter. The slices are ranges of
// dims, alike for all of its tensors; keys and values of fused attention have a range of their own
// (their seq is kv_seq).

struct slices {
    int64_t first[DIM_COUNT], count[DIM_COUNT];
};

struct kernel_case {
    const struct backend *backend;
    struct device *device;
    struct arena *arena;
    const struct interpreter *whole;  // every tensor of the block known
    int64_t batch, seq;
    int op;
    struct slices slices;
    unsigned adds;
    bool is_ragged;  // rows of experts one after another, those that exist
    bool merges;
    int weights;  // tensor that says which rows exist; -1
    uint64_t key;
    double tolerance;
    bool is_half;  // where elements have 2 bytes they are fp16, else bf16
};

// Whole slices of all dims of an op.
struct slices slices_whole(const struct interpreter *whole, int op);
// Some of them: ranges that a rank may hold.
struct slices slices_draw(struct draw *draw, const struct interpreter *whole, int op);
// A call with the arrays of the case in the host's memory, as the back end has them: inputs filled,
// outputs as garbage or, where they are added to, as numbers; `before[output]` gets these, as
// doubles.
struct kernel_call kernel_case_call(const struct kernel_case *c, double *before[OP_OUTPUT_MAX]);
// The values of an array as doubles.
double *kernel_case_read(const struct kernel_case *c, const struct kernel_array *array);
// Bytes of an element of the array on the back end of the case.
int64_t kernel_case_element_bytes(const struct kernel_case *c, enum element element);
// Runs both and compares; fails the test naming the op and the element.
void kernel_case_check(const struct kernel_case *c);
// Where the back end's memory is not the host's, arrays are carried there and back.
void kernel_case_run(const struct kernel_case *c, const struct kernel_call *call);
// |found - expected| within the tolerance of the largest expected.
void kernel_case_compare(const struct kernel_case *c, const char *what, const double *found,
                         const double *expected, int64_t count);

// A block with every tensor known: parameters, ids and output gradients drawn, the rest computed.
struct interpreter *kernel_whole(struct arena *arena, const struct block *forward, int64_t batch,
                                 int64_t seq);

// A box inside two larger ones, of up to four dims of at most five, with gaps.
struct box_copy draw_box(struct draw *draw, enum element element);
