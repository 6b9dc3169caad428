#pragma once
#include "tests/bench/plain_gpt2.h"

#include <stddef.h>

// What the two sources of plain_gpt2.h share: memory of a layer and operators on it. Backward
// operators add to the gradients of their inputs.

// Weights, or gradients of them, of one layer; matrices are [out][in].
struct gpt2_layer {
    float *norm1, *norm1_bias, *qkv, *qkv_bias, *out, *out_bias;
    float *norm2, *norm2_bias, *up, *up_bias, *down, *down_bias;
};
struct weights {
    float *all, *tokens, *positions, *norm, *norm_bias;
    struct gpt2_layer *layers;
};

// What a layer computes, or the gradients of it. Of gradients there is one set for all layers.
struct kept {
    float *norm1, *mean1, *scale1, *qkv, *scores, *shares, *mixed, *attended, *middle;
    float *norm2, *mean2, *scale2, *up, *active, *down, *result;
};

void plain_normalise(float *out, float *mean, float *scale, const float *in, const float *weight,
                     const float *bias, int rows, int width);
void plain_normalise_back(float *d_in, float *d_weight, float *d_bias, const float *d_out,
                          const float *in, const float *weight, const float *mean,
                          const float *scale, int rows, int width);
// out[rows][columns] = in[rows][inner] weight[columns][inner]^T + bias.
void plain_multiply(float *out, const float *in, const float *weight, const float *bias, int rows,
                    int inner, int columns);
void plain_multiply_back(float *d_in, float *d_weight, float *d_bias, const float *d_out,
                         const float *in, const float *weight, int rows, int inner, int columns);
// Every query of every head; backward where `d` is given.
void plain_attend(const struct plain_shape *shape, const struct kept *k, const struct kept *d);
void plain_gelu(float *out, const float *in, size_t count);
void plain_gelu_back(float *d_in, const float *in, const float *d_out, size_t count);
void plain_add(float *out, const float *a, const float *b, size_t count);
void plain_add_to(float *out, const float *in, size_t count);
