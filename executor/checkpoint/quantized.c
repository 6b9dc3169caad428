#include "executor/checkpoint/quantized.h"

#include <math.h>
#include <string.h>

enum { WORD_BITS = 32, WORD_BYTES = WORD_BITS / 8 };

int64_t quantized_row_bytes(int bits, int64_t columns)
{
    int codes = WORD_BITS / bits;
    return (columns + codes - 1) / codes * WORD_BYTES;
}

// Added to a code, so that none is below 0.
static int offset_of(const struct quantized *of)
{
    return 1 << (of->bits - 1);
}

static void put_code(const struct quantized *of, char *row, int64_t column, int code)
{
    uint32_t word;
    int64_t codes = WORD_BITS / of->bits;
    char *at = row + column / codes * WORD_BYTES;
    memcpy(&word, at, sizeof word);
    word |= (uint32_t)(code + offset_of(of)) << of->bits * (column % codes);
    memcpy(at, &word, sizeof word);
}

static int get_code(const struct quantized *of, const char *row, int64_t column)
{
    uint32_t word, mask = (1u << of->bits) - 1;
    int64_t codes = WORD_BITS / of->bits;
    memcpy(&word, row + column / codes * WORD_BYTES, sizeof word);
    return (int)(word >> of->bits * (column % codes) & mask) - offset_of(of);
}

static float scale_of(const struct quantized *of, const double *values)
{
    double most = 0;
    for (int64_t i = 0; i < of->group; i++)
        if (fabs(values[i]) > most) most = fabs(values[i]);
    return (float)(most / (offset_of(of) - 1));
}

void quantized_put(const struct quantized *of, int64_t rows, const double *values, void *codes,
                   float *scales, struct quantized_error *error)
{
    int64_t row_bytes = quantized_row_bytes(of->bits, of->columns);
    memset(codes, 0, (size_t)(rows * row_bytes));
    for (int64_t i = 0; i < rows * of->columns; i++) {
        int64_t row = i / of->columns, column = i % of->columns;
        float *scale = &scales[i / of->group];
        if (column % of->group == 0) *scale = scale_of(of, values + i);
        int code = *scale > 0 ? (int)lrint(values[i] / (double)*scale) : 0;
        put_code(of, (char *)codes + row * row_bytes, column, code);
        double lost = fabs(values[i] - code * (double)*scale);
        error->lost += lost * lost;
        error->whole += values[i] * values[i];
        if (lost > error->most) error->most = lost;
    }
    error->elements += rows * of->columns;
}

double quantized_get(const struct quantized *of, const void *arrays, const void *codes,
                     int64_t element)
{
    int64_t row = element / of->columns, column = element % of->columns;
    const char *scales = (const char *)arrays + of->scale_at_bytes;
    const char *at = (const char *)codes + row * quantized_row_bytes(of->bits, of->columns);
    return get_code(of, at, column) *
           checkpoint_number_get(of->scale_number, scales, element / of->group);
}
