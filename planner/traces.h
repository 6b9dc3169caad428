#pragma once
#include "plan/lower/lower.h"

// What a lowered block does with each tensor of its differentiated block, as one number: a sum of
// hashes of the instructions that read or write it, and of the buffers that hold it. What two
// programs of a block do alike has equal numbers; what they do not, unlike ones but for one in
// 2^32. [tensor], in `arena`.
uint32_t *traces_of(struct arena *arena, const struct block_program *program);
// Whether one operator of the differentiated block has tensors of both changes of a program: what
// follows its neighbours, where they agree, may do another thing only where both are made.
bool traces_meet(const struct block *block, const uint32_t *base, const uint32_t *a,
                 const uint32_t *b);
