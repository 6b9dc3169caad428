#pragma once
#include "executor/array.h"
#include "executor/backend.h"
#include "tests/support/draw.h"

// Calls on images, run by the CPU's back end in double precision and by the emulated CUDA one.

struct image_pair {
    struct arena *arena;
    struct draw draw;
    double tolerance;
    const struct backend *backend[2];  // the CPU's, and that which is tested
    struct device *device[2];
};

// A call on one back end, and what its arrays begin with.
struct image_call {
    struct op op;
    struct kernel_call call;
    const double *inputs[OP_INPUT_MAX], *outputs[OP_OUTPUT_MAX];
    double *inner[2];  // of either side, where a part of the operator exchanges something
};

// What is here of one dimension of a wide and a narrow side.
struct image_range {
    int64_t first, count, whole;
};
struct sizes {
    int64_t batch, channels;
    struct image_range height, width;  // height.whole 0: a line
    bool is_inward;                    // classes stand innermost
};

struct image_pair image_pair_open(struct arena *arena, enum precision precision, double tolerance);
void image_pair_close(struct image_pair *pair);
// A call without arrays yet; backward adds to results as it is drawn. And its next array.
struct image_call image_call_new(struct image_pair *pair, const char *name, enum op_kind kind,
                                 enum phase phase, enum imported_kind type);
struct kernel_array *image_call_input(struct image_call *tried, struct kernel_array array);
struct kernel_array *image_call_output(struct image_call *tried, struct kernel_array array);
// Runs the call on both and compares what they make. What the CPU makes is left in `kept`, which
// may be NULL. Inputs, and what outputs begin with, are drawn where they are not given.
void image_call_check(struct image_pair *pair, struct image_call *tried, double **kept);
// The same of parts of one operator on two ranks, which add up what they exchange.
void image_calls_check(struct image_pair *pair, struct image_call ranks[2], int64_t sums);

struct kernel_array image_vector(enum dim dim, int64_t size, enum element element);
void image_add_dim(struct kernel_array *array, enum dim dim, struct image_range range);
struct kernel_array image_array(const struct sizes *sizes);
struct image_range draw_range(struct draw *draw, int64_t whole);
