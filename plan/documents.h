#pragma once
#include "plan/program.h"

// Attention that stays within documents of so many tokens (models/attended.h): the flops of fused
// kernels and the keys that one meets. The chain of steps that they stand for computes all scores
// and masks them, and exchanges of keys and values are as long as ever.
void documents_apply(struct program *program, double tokens);
