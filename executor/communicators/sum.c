#include "executor/communicators/sum.h"

#include <assert.h>
#include <string.h>

// Blocks stay in the first cache between one source and the next, and their fixed length lets
// compilers use vectors.
enum { BLOCK = 512 };

#define ADD(a, b) ((a) + (b))
#define LARGER(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define DEFINE_COMBINE(name, real, operation)                                      \
    static void name(real *restrict sum, const real *restrict from, int64_t count) \
    {                                                                              \
        if (count == BLOCK) {                                                      \
            for (int i = 0; i < BLOCK; i++)                                        \
                sum[i] = operation(sum[i], from[i]);                               \
        } else {                                                                   \
            for (int64_t i = 0; i < count; i++)                                    \
                sum[i] = operation(sum[i], from[i]);                               \
        }                                                                          \
    }
DEFINE_COMBINE(add_floats, float, ADD)
DEFINE_COMBINE(add_doubles, double, ADD)
DEFINE_COMBINE(max_floats, float, LARGER)
DEFINE_COMBINE(max_doubles, double, LARGER)
// NOLINTEND(bugprone-macro-parentheses)

// NOLINTBEGIN(bugprone-macro-parentheses)
#define DEFINE_CONVERT(name, to_type, from_type, convert)                                 \
    static void name(to_type *restrict to, const from_type *restrict from, int64_t count) \
    {                                                                                     \
        if (count == BLOCK) {                                                             \
            for (int i = 0; i < BLOCK; i++)                                               \
                to[i] = convert(from[i]);                                                 \
        } else {                                                                          \
            for (int64_t i = 0; i < count; i++)                                           \
                to[i] = convert(from[i]);                                                 \
        }                                                                                 \
    }
DEFINE_CONVERT(bf16_widen_all, float, uint16_t, bf16_widen)
DEFINE_CONVERT(fp16_widen_all, float, uint16_t, fp16_widen)
DEFINE_CONVERT(bf16_round_all, uint16_t, float, bf16_round)
DEFINE_CONVERT(fp16_round_all, uint16_t, float, fp16_round)
// NOLINTEND(bugprone-macro-parentheses)

static void combine_wide(enum number number, enum combine combine, const void *const *sources,
                         int source_count, int64_t first, int64_t count, void *to)
{
    int64_t bytes = number_bytes(number);
    // By way of a block of its own: `to` may be one of the sources, which is read before it is
    // written.
    double sum[BLOCK];  // room for a block of either
    memcpy(sum, bytes_at(sources[0], first * bytes), (size_t)(count * bytes));
    for (int i = 1; i < source_count; i++) {
        const void *from = bytes_at(sources[i], first * bytes);
        if (number == NUMBER_FLOAT)
            (combine == COMBINE_SUM ? add_floats : max_floats)((float *)sum, from, count);
        else
            (combine == COMBINE_SUM ? add_doubles : max_doubles)(sum, from, count);
    }
    memcpy(bytes_at(to, first * bytes), sum, (size_t)(count * bytes));
}

// Rounded once at the end: rounding after every source would lose what is smaller than half a step
// of the sum so far, and the more sources the more of it.
static void combine_narrow(enum number number, enum combine combine, const void *const *sources,
                           int source_count, int64_t first, int64_t count, void *to)
{
    float sum[BLOCK], term[BLOCK];
    void (*widen)(float *restrict, const uint16_t *restrict, int64_t) =
        number == NUMBER_BF16 ? bf16_widen_all : fp16_widen_all;
    widen(sum, (const uint16_t *)sources[0] + first, count);
    for (int i = 1; i < source_count; i++) {
        widen(term, (const uint16_t *)sources[i] + first, count);
        (combine == COMBINE_SUM ? add_floats : max_floats)(sum, term, count);
    }
    (number == NUMBER_BF16 ? bf16_round_all : fp16_round_all)((uint16_t *)to + first, sum, count);
}

void numbers_combine(enum number number, enum combine combine, void *to, const void *const *sources,
                     int source_count, int64_t count)
{
    bool is_wide = number == NUMBER_FLOAT || number == NUMBER_DOUBLE;
    assert(source_count > 0);
    assert(is_wide || number == NUMBER_BF16 || number == NUMBER_FP16);
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t length = count - first < BLOCK ? count - first : BLOCK;
        (is_wide ? combine_wide : combine_narrow)(number, combine, sources, source_count, first,
                                                  length, to);
    }
}
