#include "models/recommender.h"

#include <assert.h>

int64_t recommender_row_width(const struct recommender *model)
{
    return model->embedding_dim + model->wide;
}

int64_t recommender_row_count(const struct recommender *model)
{
    int64_t rows = 0;
    for (int i = 0; i < model->table_count; i++)
        rows += model->tables[i].row_count;
    return rows;
}

int64_t recommender_table_parameters(const struct recommender *model)
{
    return recommender_row_count(model) * recommender_row_width(model);
}

int64_t recommender_id_count(const struct recommender *model)
{
    int64_t ids = 0;
    for (int i = 0; i < model->table_count; i++)
        ids += model->tables[i].id_count;
    return ids;
}

static int64_t bottom_width(const struct recommender *model)
{
    int layers = model->bottom.layer_count;
    return layers > 0 ? model->bottom.widths[layers - 1] : model->dense_features;
}

int64_t recommender_joined_width(const struct recommender *model)
{
    return bottom_width(model) + model->table_count * model->embedding_dim;
}

int64_t recommender_top_inputs(const struct recommender *model)
{
    if (model->interaction != INTERACTION_DOT) return recommender_joined_width(model);
    int64_t vectors = model->table_count + (bottom_width(model) > 0);
    return bottom_width(model) + vectors * (vectors - 1) / 2;
}

static int put_tower(const struct tower *tower, enum dense_part part, int64_t inputs,
                     struct dense_layer *layers)
{
    for (int i = 0; i < tower->layer_count; i++) {
        layers[i] = (struct dense_layer){part, inputs, tower->widths[i], true};
        inputs = tower->widths[i];
    }
    return tower->layer_count;
}

int recommender_layers(const struct recommender *model, struct dense_layer layers[DENSE_LAYERS_MAX])
{
    int64_t joined = recommender_joined_width(model), rank = model->cross_rank;
    int count = put_tower(&model->bottom, DENSE_BOTTOM, model->dense_features, layers);
    for (int64_t i = 0; i < model->cross_layers; i++) {
        layers[count++] = (struct dense_layer){DENSE_CROSS, joined, rank, false};
        layers[count++] = (struct dense_layer){DENSE_CROSS, rank, joined, true};
    }
    count += put_tower(&model->top, DENSE_TOP, recommender_top_inputs(model), layers + count);
    assert(count <= DENSE_LAYERS_MAX);
    return count;
}

int64_t recommender_dense_parameters(const struct recommender *model)
{
    struct dense_layer layers[DENSE_LAYERS_MAX] = {{0}};
    int count = recommender_layers(model, layers);
    int64_t parameters = 0;
    for (int i = 0; i < count; i++)
        parameters += (layers[i].inputs + layers[i].has_bias) * layers[i].outputs;
    return parameters;
}
