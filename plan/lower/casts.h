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

// Of instructions whose groups are formed; before lifetimes are known. `buffer_capacity`: what the
// array of buffers had room for when lowering had written it.
void casts_form(struct arena *arena, struct block_program *program, int buffer_capacity,
                const struct mesh *mesh);
