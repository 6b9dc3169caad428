#include "tests/support/given.h"

#include <math.h>
#include <string.h>

// By its definition: ranges begin where the distance is a power.
void given_buckets(struct interpreter *in, int tensor)
{
    const struct block *block = in->block;
    const struct op *op = block->ops;
    while (op->kind != OP_GATHER || op->inputs[0] != tensor)
        op++;
    int64_t rows = block->tensors[op->inputs[1]].extents[0].size / (op->causal ? 1 : 2);
    int64_t side = in->sizes[tensor][1], ranges = rows - rows / 2;
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        int64_t ahead = i % side - i / side, apart = ahead < 0 ? -ahead : ahead;
        if (op->causal && ahead > 0) apart = 0;
        int64_t bucket = apart < rows / 2 ? apart : rows / 2 - 1;
        for (int64_t r = 0; r < ranges && bucket >= rows / 2 - 1; r++) {
            double begins = (double)(rows / 2) *
                            pow(op->scalar / (double)(rows / 2), (double)r / (double)ranges);
            if ((double)apart >= begins - 1e-9) bucket = rows / 2 + r;
        }
        values[i] = (double)(bucket + (!op->causal && ahead > 0 ? rows : 0));
    }
}

// By its definition: of what is behind, and the negative of that of what is ahead.
void given_distances(struct interpreter *in, int tensor)
{
    const struct block *block = in->block;
    const struct op *op = block->ops;
    while (op->kind != OP_GATHER || op->inputs[0] != tensor)
        op++;
    int64_t span = block->tensors[op->inputs[1]].extents[0].size / 2, exact = span / 2;
    int64_t side = in->sizes[tensor][1];
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        int64_t behind = i / side - i % side, apart = behind < 0 ? -behind : behind, bucket = apart;
        // The first range begins behind `exact`; each ends where the distance is a power.
        double last = (double)exact, factor = pow((op->scalar - 1) / last, 1 / (last - 1));
        if (op->scalar > 0 && apart > exact) {
            bucket = exact;
            while ((double)apart > last * (1 + 1e-12))
                bucket++, last *= factor;
        }
        double row = (double)(span + (behind < 0 ? -bucket : bucket));
        values[i] = fmin(fmax(row, 0), (double)(2 * span - 1));
    }
}

bool given_pairs(struct interpreter *in, int tensor)
{
    const char *name = in->block->tensors[tensor].name;
    int64_t count = interpreter_elements(in, tensor);
    bool is_last = strcmp(name, "last_place") == 0, is_pair = strcmp(name, "pair_ids") == 0;
    bool is_one = strncmp(name, "each_", 5) == 0;
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < count && (is_last || is_pair || is_one); i++)
        values[i] = is_last ? i + 1 == count : is_pair ? (double)i : 1;
    return is_last || is_pair || is_one;
}

void given_places(struct interpreter *in, int tensor, bool is_first, int64_t front)
{
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++)
        values[i] = is_first ? i == 0 : (double)(i < front ? i : front);
}

// The class at the first place, and the mean of all patches, or each of them.
bool given_means(struct interpreter *in, int tensor, int64_t front)
{
    const char *name = in->block->tensors[tensor].name;
    bool is_mean = strcmp(name, "place_means") == 0;
    if (!is_mean && strcmp(name, "place_parts") != 0) return false;
    int64_t places = in->sizes[tensor][0];
    double *values = interpreter_array(in, tensor);
    for (int64_t place = 0; place < places; place++) {
        values[2 * place] = place == 0;
        values[2 * place + 1] = place < front ? 0 : is_mean ? 1 / (double)(places - front) : 1;
    }
    return true;
}

bool given_in_text(struct interpreter *in, int tensor)
{
    const char *name = in->block->tensors[tensor].name;
    bool is_share = strcmp(name, "patch_shares") == 0;
    if (!is_share && strcmp(name, "picture_places") != 0) return false;
    double *values = interpreter_array(in, tensor);
    int64_t rows = in->sizes[tensor][0], columns = in->sizes[tensor][1], tokens = 1, patches = 1;
    for (int64_t place = 0; place < rows && !is_share && place < columns; place++)
        values[place * columns + place] = 1;
    if (!is_share) return true;
    while (tokens * tokens < rows)
        tokens++;
    while (patches * patches < columns)
        patches++;
    // Around each token, as many patches down as across.
    int64_t side = patches / tokens;
    for (int64_t token = 0; token < rows; token++) {
        for (int64_t part = 0; part < side * side; part++) {
            int64_t row = token / tokens * side + part / side;
            int64_t column = token % tokens * side + part % side;
            values[token * columns + row * patches + column] = 1.0 / (double)(side * side);
        }
    }
    return true;
}

// Wavelengths are a geometric row from 2 pi to 10000 times that: without its end, or with it.
bool given_waves(struct interpreter *in, int tensor)
{
    const char *name = in->block->tensors[tensor].name;
    bool is_shifted = strcmp(name, "shifted_sinusoids") == 0;
    if (!is_shifted && strcmp(name, "sinusoids") != 0) return false;
    int64_t columns = in->sizes[tensor][1], half = columns / 2;
    double ratio = pow(10000, 1.0 / (double)(is_shifted ? half - 1 : half));
    double *values = interpreter_array(in, tensor);
    for (int64_t place = 0; place < in->sizes[tensor][0]; place++) {
        double length = 1;
        for (int64_t pair = 0; pair < half; pair++, length *= ratio) {
            double angle = (double)(place + (is_shifted ? 2 : 0)) / length;
            values[place * columns + pair] = sin(angle);
            values[place * columns + half + pair] = cos(angle);
        }
    }
    return true;
}

void given_experts(struct interpreter *in, int tensor, const double *tokens, int64_t length,
                   int64_t experts)
{
    const int64_t *sizes = in->sizes[tensor];
    double *values = interpreter_array(in, tensor);
    for (int64_t i = 0; i < interpreter_elements(in, tensor); i++) {
        int64_t row = i / sizes[2],
                token = (int64_t)tokens[row / sizes[1] * length + row % sizes[1]];
        values[i] = (double)((token * sizes[2] + i % sizes[2]) % experts);
    }
}
