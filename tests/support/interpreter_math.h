#pragma once
#include "tests/support/interpreter.h"

// What tests/support/interpreter.c and tests/support/interpreter_math.c share; nobody else includes
// this.

int64_t interpreter_size(const struct interpreter *in, int tensor, enum dim dim);
// The element of a tensor at an index by dim; dims that the tensor lacks do not matter.
double *interpreter_at(const struct interpreter *in, int tensor, const int64_t index[DIM_COUNT]);
// The sizes by dim of one tensor, 0 for dims it lacks.
void interpreter_sizes(const struct interpreter *in, int tensor, int64_t size[DIM_COUNT]);
// Counts an index up; false when it is back at all zeros.
bool interpreter_next(int64_t index[DIM_COUNT], const int64_t size[DIM_COUNT]);

void interpreter_elementwise(struct interpreter *in, const struct op *op);
void interpreter_norm(struct interpreter *in, const struct op *op);
void interpreter_softmax(struct interpreter *in, const struct op *op);
void interpreter_attention(struct interpreter *in, const struct op *op);
void interpreter_flatten(struct interpreter *in, const struct op *op);
void interpreter_clamped(struct interpreter *in, const struct op *op);
void interpreter_modulate(struct interpreter *in, const struct op *op);
void interpreter_concat(struct interpreter *in, const struct op *op);
void interpreter_linear_loss(struct interpreter *in, const struct op *op);
// tests/support/interpreter_images.c
void interpreter_product(struct interpreter *in, const struct op *op);
void interpreter_operator(struct interpreter *in, const struct op *op);
// tests/support/interpreter_scan.c
void interpreter_conv(struct interpreter *in, const struct op *op);
void interpreter_scan(struct interpreter *in, const struct op *op);
// tests/support/interpreter_delta.c
void interpreter_delta(struct interpreter *in, const struct op *op);
// tests/support/interpreter_choose.c
void interpreter_choose(struct interpreter *in, const struct op *op);
// Whether attention lets query `row`, of (batch, seq), see a key that is here.
bool interpreter_is_chosen(const struct interpreter *in, const struct op *op, int64_t row,
                           int64_t key);
// tests/support/interpreter_pool.c
void interpreter_sinkhorn(struct interpreter *in, const struct op *op);
void interpreter_pool(struct interpreter *in, const struct op *op);
void interpreter_pooled(struct interpreter *in, const struct op *op);
// tests/support/interpreter_experts.c
void interpreter_route(struct interpreter *in, const struct op *op);
void interpreter_dispatch(struct interpreter *in, const struct op *op);
void interpreter_combine(struct interpreter *in, const struct op *op);
void interpreter_loss(struct interpreter *in, const struct op *op);
