#pragma once
#include "core/zipf.h"
#include "executor/tables/table_run.h"

// Inside of a rank that trains a recommendation model.

// Drawn data (data.c).
struct table_data {
    const struct recommender *model;
    int64_t seed;
    struct zipf *laws;        // [table]
    int64_t *factor, *shift;  // [table] of the spread over rows
};
struct table_data table_data_make(struct arena *arena, const struct recommender *model,
                                  int64_t seed);
int64_t table_data_id(const struct table_data *data, int step, int64_t sample, int table,
                      int64_t at);
double table_data_feature(const struct table_data *data, int step, int64_t sample, int64_t at);
double table_data_label(const struct table_data *data, int step, int64_t sample);
double table_data_weight(const struct table_data *data, int table, int64_t row, int64_t column);
double table_data_dense(const struct table_data *data, int layer, int64_t at, int64_t inputs);

// The dense part of a rank's samples (towers.c).
struct towers {
    const struct recommender *model;
    struct dense_layer layers[DENSE_LAYERS_MAX];
    int layer_count;
    int64_t samples;
    int64_t first[DENSE_LAYERS_MAX];  // of a layer's parameters
    int64_t parameter_count;
    double *parameters, *gradients, *state;
    double *inputs[DENSE_LAYERS_MAX];   // [samples][inputs]
    double *outputs[DENSE_LAYERS_MAX];  // [samples][outputs], activated
    double *features;                   // [samples][dense_features]
    double *joined, *d_joined;          // [samples][joined width]
    double *top_inputs, *d_top_inputs;  // [samples][top inputs]
    double *d_cross;                    // [samples][joined width], of x0
    double *sums, *d_sums;              // [samples][table][row width]
    double *logits, *labels;            // [samples]
    double *flow[2];                    // [samples][widest of a layer]: gradients on their way
};
struct towers towers_make(struct arena *arena, const struct recommender *model, int64_t samples,
                          const struct table_data *data);
void towers_bottom(struct towers *towers);
// Interaction, top, loss: the sum over the samples of the loss over the step's samples.
double towers_top(struct towers *towers, int64_t global_batch);
void towers_top_back(struct towers *towers, int64_t global_batch);
void towers_bottom_back(struct towers *towers);

// One row's step of any optimizer: `square` is the mean of the squares of the whole row's gradient.
struct row_update {
    enum table_optimizer optimizer;
    double learning_rate;
    int64_t columns;
};
void row_apply(const struct row_update *update, double *weights, double *state,
               const double *gradient, double square);
