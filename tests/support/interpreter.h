#pragma once
#include "models/builder.h"

// Runs the ops of a block on small dense arrays of doubles, as plainly as it can be written: the
// oracle for derived gradients and for layouts. Ids are doubles too. A rank that holds a slice
// gives its own sizes and says where the slice starts.

struct interpreter {
    const struct block *block;
    double **values;                     // by tensor; NULL = not known yet
    int64_t (*sizes)[TENSOR_RANK_MAX];   // by tensor: the extents of its array
    int64_t (*firsts)[TENSOR_RANK_MAX];  // by tensor: where its array begins; read of images alone
    int64_t offset[DIM_COUNT];  // first index held, for seq, kv_seq, head, vocab and expert
    int64_t head_count;         // whole, for the slopes of alibi
    int64_t capacity;  // tokens of a sequence that an expert takes, the first; 0: all. Whole alone
    struct arena *arena;
};

// All tensors whole.
struct interpreter interpreter_new(struct arena *arena, const struct block *block, int64_t batch,
                                   int64_t seq);
int64_t interpreter_elements(const struct interpreter *interpreter, int tensor);
// Where number `index` of a weight is when they are counted as x W has them, what is summed over
// outermost: projections that share their input are stored output by output. Of others `index`.
int64_t interpreter_place(const struct interpreter *interpreter, int tensor, int64_t index);
// The array of a tensor, made of zeros when there is none yet.
double *interpreter_array(struct interpreter *interpreter, int tensor);
// Runs ops first .. last - 1; every input must be known, every output is written.
void interpreter_run(struct interpreter *interpreter, int first, int last);
