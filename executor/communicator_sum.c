#include "executor/communicator_sum.h"

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

static void combine_block(enum number number, enum combine combine, void *sum, const void *from,
                          int64_t count)
{
    if (number == NUMBER_FLOAT)
        (combine == COMBINE_SUM ? add_floats : max_floats)(sum, from, count);
    else
        (combine == COMBINE_SUM ? add_doubles : max_doubles)(sum, from, count);
}

void numbers_combine(enum number number, enum combine combine, void *to, const void *const *sources,
                     int source_count, int64_t count)
{
    int64_t bytes = number_bytes(number);
    double sum[BLOCK];  // room for a block of either
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t length = count - first < BLOCK ? count - first : BLOCK;
        memcpy(sum, (const char *)sources[0] + first * bytes, (size_t)(length * bytes));
        for (int i = 1; i < source_count; i++)
            combine_block(number, combine, sum, (const char *)sources[i] + first * bytes, length);
        memcpy((char *)to + first * bytes, sum, (size_t)(length * bytes));
    }
}
