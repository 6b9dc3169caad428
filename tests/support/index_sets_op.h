#pragma once
#include "tests/support/index_sets.h"

// What the operators of models/op.h read for each element they write, in signatures; see
// tests/support/index_sets.h. Written from the meaning of the operators alone.

enum { VIEW_RANK_MAX = TENSOR_RANK_MAX };
static const uint64_t FIELD_PRIME = ((uint64_t)1 << 61) - 1;

static inline uint64_t field_add(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b;
    return sum >= FIELD_PRIME ? sum - FIELD_PRIME : sum;
}

// A slice of a tensor in whole indices.
struct index_box {
    int rank;
    int64_t first[VIEW_RANK_MAX], count[VIEW_RANK_MAX], elements;
};
void box_index(const struct index_box *box, int64_t at, int64_t index[VIEW_RANK_MAX]);
int64_t box_place(const struct index_box *box,
                  const int64_t index[VIEW_RANK_MAX]);  // -1: not in it

// What one rank holds of a tensor, and what the complete set of each element is.
struct view {
    const struct tensor *tensor;
    struct index_box box, whole;
    uint64_t *values;       // by place in `box`
    const uint64_t *truth;  // by place in `whole`
};

struct index_work {
    const struct op *op;
    int op_index, rank;
    struct view inputs[OP_INPUT_MAX], outputs[OP_OUTPUT_MAX];
    int input_count, output_count;  // of an OP_ADD any terms; else those of the op
    // A norm over rows of which each rank has a part: the same inputs with the last dim of a whole
    // group, which its exchanges stand for. Read wherever an output needs all of a row.
    bool has_rows;
    struct view rows[OP_INPUT_MAX];
    struct sets_result *result;
};

void sets_violate(struct sets_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// A random signature: of an element that comes from outside.
uint64_t sets_signature(uint64_t what, uint64_t element);

// Fills the outputs' values from the inputs' on one rank.
void sets_compute(struct index_work *work);
