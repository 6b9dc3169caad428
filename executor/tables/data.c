#include "core/divisor.h"
#include "executor/random.h"
#include "executor/tables/parts.h"

#include <assert.h>
#include <math.h>

// What is drawn; a key each, with the index of what it is of.
enum drawn { DRAWN_ID, DRAWN_FEATURE, DRAWN_LABEL, DRAWN_WEIGHT, DRAWN_DENSE, DRAWN_SPREAD };

// Steps of SplitMix64 between the parts, so that neighbours in any of them have unlike keys.
static uint64_t key_of(int64_t seed, enum drawn drawn, int64_t a, int64_t b)
{
    uint64_t key = (uint64_t)seed * 0x9E3779B97F4A7C15u + (uint64_t)drawn + 1;
    key = (key ^ key >> 29) * 0xBF58476D1CE4E5B9u + (uint64_t)a;
    key = (key ^ key >> 32) * 0x94D049BB133111EBu + (uint64_t)b;
    return key ^ key >> 31;
}

// In [0, 1): 64 bits round up to 1 in a double, the last factor keeps it below.
static double uniform(uint64_t key, int64_t index)
{
    const struct random_bits bits = random_at(key, (uint64_t)index);
    return ((double)bits.word[0] * 0x1p32 + bits.word[1]) * 0x1p-64 * (1 - 0x1p-53);
}

struct table_data table_data_make(struct arena *arena, const struct recommender *model,
                                  int64_t seed)
{
    struct table_data data = {.model = model,
                              .seed = seed,
                              .laws = ARENA_NEW(arena, struct zipf, model->table_count),
                              .factor = ARENA_NEW(arena, int64_t, model->table_count),
                              .shift = ARENA_NEW(arena, int64_t, model->table_count)};
    for (int t = 0; t < model->table_count; t++) {
        int64_t rows = model->tables[t].row_count;
        assert(rows > 0);
        uint64_t key = key_of(seed, DRAWN_SPREAD, t, 0);
        data.laws[t] = zipf_make(rows, model->zipf_exponent);
        data.shift[t] = (int64_t)(uniform(key, 0) * (double)rows);
        data.factor[t] = 1 + (int64_t)(uniform(key, 1) * (double)rows);
        // Prime to the rows, so that every rank of popularity has a row of its own.
        while (common_divisor(data.factor[t], rows) != 1)
            data.factor[t]++;
    }
    return data;
}

int64_t table_data_id(const struct table_data *data, int step, int64_t sample, int table,
                      int64_t at)
{
    int64_t ids = data->model->tables[table].id_count;
    assert(table >= 0 && table < data->model->table_count && at >= 0 && at < ids);
    double drawn = uniform(key_of(data->seed, DRAWN_ID, step, table), sample * ids + at);
    unsigned __int128 spread = (unsigned __int128)zipf_rank(&data->laws[table], drawn) *
                                   (unsigned __int128)data->factor[table] +
                               (unsigned __int128)data->shift[table];
    return (int64_t)(spread % (unsigned __int128)data->model->tables[table].row_count);
}

double table_data_feature(const struct table_data *data, int step, int64_t sample, int64_t at)
{
    uint64_t key = key_of(data->seed, DRAWN_FEATURE, step, 0);
    return 2 * uniform(key, sample * data->model->dense_features + at) - 1;
}

double table_data_label(const struct table_data *data, int step, int64_t sample)
{
    return uniform(key_of(data->seed, DRAWN_LABEL, step, 0), sample) < 0.5;
}

// Uniform in +- 1 / sqrt(rows), as DLRM begins (dlrm_s_pytorch.py).
double table_data_weight(const struct table_data *data, int table, int64_t row, int64_t column)
{
    int64_t width = recommender_row_width(data->model);
    double drawn = uniform(key_of(data->seed, DRAWN_WEIGHT, table, 0), row * width + column);
    return (2 * drawn - 1) / sqrt((double)data->model->tables[table].row_count);
}

// Of variance 1 / inputs: a layer's outputs are about as large as its inputs.
double table_data_dense(const struct table_data *data, int layer, int64_t at, int64_t inputs)
{
    assert(inputs > 0);
    double drawn = uniform(key_of(data->seed, DRAWN_DENSE, layer, 0), at);
    return (2 * drawn - 1) * sqrt(3 / (double)inputs);
}
