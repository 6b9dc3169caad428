#include "executor/engine/apart.h"

#include <assert.h>
#include <math.h>

// What is a whole number but for rounding counts as that.
static const double ROUNDING = 1e-9;

static const struct op *lookup_of(const struct block *block, const struct tensor *ids)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (op->kind == OP_GATHER && &block->tensors[op->inputs[0]] == ids) return op;
    }
    assert(false && "nothing looks these up");
    return NULL;
}

// The row of a table that a key takes which is so far behind its query, or ahead of it (Raffel et
// al. 2020, section 2.1, and the code of its authors): half of the rows for either direction where
// keys stand on both sides, half of those for single distances, the rest for ranges that grow as
// powers do, up to `distance`.
static int64_t bucket_of(int64_t ahead, int64_t rows, double distance, bool is_one_sided)
{
    int64_t first = 0, apart = ahead < 0 ? -ahead : ahead;
    if (!is_one_sided) {
        rows /= 2;
        first = ahead > 0 ? rows : 0;
    } else if (ahead > 0) {
        apart = 0;
    }
    int64_t exact = rows / 2;
    if (apart < exact) return first + apart;
    double part = log((double)apart / (double)exact) / log(distance / (double)exact);
    int64_t range = exact + (int64_t)(part * (double)(rows - exact) + ROUNDING);
    return first + (range < rows ? range : rows - 1);
}

int64_t apart_bucket(const struct block *block, const struct tensor *ids, int64_t ahead)
{
    const struct op *op = lookup_of(block, ids);
    int64_t rows = block->tensors[op->inputs[1]].extents[0].size;
    return bucket_of(ahead, rows, op->scalar, op->causal);
}

// He et al. 2021, equation 2, and the code of DeBERTa v2: half of the rows for what is behind, of
// which, where there are ranges, half of those are for single distances and the rest for ranges
// that grow as powers do, up to `distance`. The first half is for what is ahead, its rows the other
// way round.
int64_t apart_distance(const struct block *block, const struct tensor *ids, int64_t ahead)
{
    const struct op *op = lookup_of(block, ids);
    int64_t span = block->tensors[op->inputs[1]].extents[0].size / 2, exact = span / 2;
    int64_t apart = ahead < 0 ? -ahead : ahead;
    if (op->scalar > 0 && apart > exact) {
        double part = log((double)apart / (double)exact) / log((op->scalar - 1) / (double)exact);
        apart = exact + (int64_t)ceil(part * (double)(exact - 1) - ROUNDING);
    }
    if (ahead > 0) return apart < span ? span - apart : 0;
    return apart < span ? span + apart : 2 * span - 1;
}

// Vaswani et al. 2017, section 3.5, with the cosines behind the sines; or with the last frequency
// 1/10000, as tensor2tensor has them.
double apart_wave(int64_t place, int64_t column, int64_t columns, bool is_shifted)
{
    int64_t half = columns / 2, pair = column % half;
    double power =
        is_shifted ? (double)pair / (double)(half - 1) : 2 * (double)pair / (double)columns;
    double angle = (double)place * pow(10000, -power);
    return column < half ? sin(angle) : cos(angle);
}
