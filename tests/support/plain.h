#pragma once
#include "models/graph.h"
#include "tests/support/run_case.h"

// Plain loops over one sample, for tests that compute by them what the executor computes of a model
// of diffusion. They share nothing with graph and kernels but the names of weights and the data.

struct plain {
    struct arena *arena;
    const struct run_outcome *outcome;  // whose weights are read
    int position;                       // of the block that they are of
};

// Of weights that training has moved `steps` times, so that biases are no zeros.
struct run_outcome *plain_trained(struct arena *arena, const char *config, int64_t tokens,
                                  int64_t batch, int steps);
double *plain_weight(const struct plain *plain, const char *name, const char *suffix);
// All of one kind of data of a sample, as the run draws it.
double *plain_data(struct arena *arena, const struct graph *graph, uint64_t sample,
                   const char *name, struct tensor tensor);

double plain_silu(double x);
double plain_gelu(double x);
void plain_linear(const struct plain *plain, const char *name, int in, int out, const double *x,
                  double *y);
// Two products with a function between: "NAME.in" and "NAME.out".
void plain_embed(const struct plain *plain, const char *name, int in, int hidden, const double *x,
                 double (*function)(double x), double *y);
// layer norm without weights, times 1 + scale, plus shift
void plain_adapt(int hidden, const double *x, const double *shift, const double *scale, double *y);
void plain_head_norm(int heads, int width, const double *by, double *x);
// One query against `count` keys of which each is heads times width, one behind the other.
void plain_attend(int heads, int width, int count, const double *query, const double *keys,
                  const double *values, double *y);

// That the loss changes with each weight, its first element or its last, as `last` says; there are
// more weights than `least`.
void plain_check_gradients(const struct plain *plain, const struct run_outcome *last,
                           double (*loss)(void *context), void *context, int least);
