#pragma once
#include "plan/lower/lower.h"

// Values that products in 8 bits read twice, once as they lie and once turned (x in forward and in
// the weight's gradient, a gradient in the input's and in the weight's), are cast once, for both:
// the first such product has a further output, the value in 8 bits turned as the second reads it
// (struct buffer, `cast`), behind the factor of its numbers. What is kept for backward is that, of
// half the bytes, where nobody else reads the value.
//
// Of plain products of a layer with its parameters whose local sides are multiples of 16, on every
// rank alike; those of experts, and what is gathered again for backward, are cast where they are
// read. GEMMs that run as one share one cast.

// Of the sides of products in 8 bits (executor/cuda/low_precision.c).
enum { CASTS_GRAIN = 16 };

// Of instructions whose groups are formed; before lifetimes are known. `buffer_capacity`: what the
// array of buffers had room for when lowering had written it.
void casts_form(struct arena *arena, struct block_program *program, int buffer_capacity,
                const struct mesh *mesh);
// Whether an instruction is a product of a layer with its parameters, or a gradient of one, that
// has its operands in 8 bits on every rank.
bool casts_is_product(const struct block_program *program, const struct mesh *mesh,
                      const struct instr *instr);
// What neither the router nor experts read.
bool casts_is_plain_parameter(const struct tensor *tensor);

// plan/lower/weight_casts.c: weights that a rank has whole for the whole step are cast once in it,
// as they lie and turned, which the products forward and backward read (struct instr,
// `weight_cast`). Those of GEMMs that are one are one to every reader, with one factor; where
// readers differ, or one has it in 16 bits, each casts for itself. `stays` is false where
// micro-batches gather weights or fetch them: then all do. Counts what is kept so in
// `linear_elements` and `linear_count`. Of instructions whose casts are formed.
void casts_keep_weights(struct arena *arena, struct block_program *program, const struct mesh *mesh,
                        bool stays);
