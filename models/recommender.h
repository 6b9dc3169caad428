#pragma once
#include "core/json.h"

#include <stdint.h>

// A recommendation model: tables of rows that sparse ids look up, and small dense towers around
// them (DLRM, Naumov et al. 2019, arXiv 1906.00091; its cross network DCN-v2, Wang et al. 2021,
// arXiv 2008.13535, section 3.3; Wide & Deep, Cheng et al. 2016, arXiv 1606.07792).
//
//   dense features -> bottom mlp --+
//   ids -> rows of tables, summed -+-> interaction -> top mlp -> click or not
//
// It is no sequence of layers over tokens: what fills memory is the tables, and what decides speed
// is who holds which of their rows (plan/tables/placement.h). A sample has `id_count` ids of every
// table, whose rows are summed (a bag).
//
// models/recommenders/NAME.json; docs/recommendation.md tells each key.

enum { TABLE_COUNT_MAX = 4096, TOWER_LAYERS_MAX = 16 };

struct table_shape {
    const char *name;
    int64_t row_count;
    int64_t id_count;  // ids of one sample
};

enum interaction {
    INTERACTION_DOT,  // products of every two of the T + 1 vectors, behind the bottom's own
    INTERACTION_DCN,  // x0 = all vectors; x := x0 * (V (U x) + b) + x, `cross_layers` times
    INTERACTION_CAT,  // all vectors, one behind the other
    INTERACTION_COUNT
};

struct tower {
    int layer_count;
    int64_t widths[TOWER_LAYERS_MAX];  // of the outputs
};

struct recommender {
    const char *name, *model_type;
    struct json_document document;
    struct json config;  // the object itself, to be embedded in plans
    int64_t dense_features;
    int64_t embedding_dim;
    struct table_shape *tables;
    int table_count;
    struct tower bottom, top;  // bottom: of no layers hands the dense features on as they are
    enum interaction interaction;
    int64_t cross_layers, cross_rank;  // INTERACTION_DCN
    bool wide;  // every row has one weight more, whose sum is added to the result (the wide part)
    double zipf_exponent;     // of how often rows are looked up: the k-th hottest as k^-s
    const char *zipf_source;  // who says so
};

// Whether MODEL of a command line is one: a file of such a model_type, or a name that only
// models/recommenders has. What cannot be read is none, with a set `err` where the machine fails.
bool recommender_is(const char *name, struct err *err);
// NULL and a set `err` where the file is wrong. Lives as long as `arena`.
MUST_CHECK struct recommender *recommender_load(struct arena *arena, const char *name,
                                                struct err *err);
// The same from an object inside a plan.
MUST_CHECK struct recommender *recommender_read(struct arena *arena, const char *name,
                                                const struct json *object, struct err *err);

// Numbers of one row, and of all rows.
int64_t recommender_row_width(const struct recommender *model);
int64_t recommender_row_count(const struct recommender *model);
int64_t recommender_table_parameters(const struct recommender *model);
int64_t recommender_dense_parameters(const struct recommender *model);
// Ids of one sample, all tables together.
int64_t recommender_id_count(const struct recommender *model);

// The products of the dense towers, in the order in which forward runs them.
enum dense_part { DENSE_BOTTOM, DENSE_CROSS, DENSE_TOP, DENSE_PART_COUNT };
struct dense_layer {
    enum dense_part part;
    int64_t inputs, outputs;
    bool has_bias;
};
enum { DENSE_LAYERS_MAX = 2 * TOWER_LAYERS_MAX + 2 * 64 };
int recommender_layers(const struct recommender *model,
                       struct dense_layer layers[DENSE_LAYERS_MAX]);
// What goes into interaction and top: all vectors side by side, and what the interaction gives.
int64_t recommender_joined_width(const struct recommender *model);
int64_t recommender_top_inputs(const struct recommender *model);
