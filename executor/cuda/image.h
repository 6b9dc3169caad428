#pragma once
#include "executor/cuda/cuda.h"
#include "executor/cuda/image_kernels.h"
#include "executor/image_call.h"

// NULL, or why the array is no image.
const char *cuda_image_of(const struct run *run, const struct kernel_array *array,
                          struct image_reals *image);
// executor/cuda/statistics.c: norms over places and their backward.
const char *cuda_statistics(const struct run *run);
// executor/cuda/strided.c: what goes with loops, and norms of rows.
const char *cuda_strided(const struct run *run);
const char *cuda_split(const struct run *run);
const char *cuda_row_place(const struct run *run);
const char *cuda_row_norm(const struct run *run);
// executor/cuda/loops.c: of rows and matrices.
const char *cuda_row_softmax(const struct run *run);
const char *cuda_row_products(const struct run *run);
const char *cuda_row_attention(const struct run *run);
