#pragma once
#include "executor/cpu/cpu.h"

// Sums and maxima over a row, by lanes that are joined at the end in one order: compilers may not
// reorder a sum by themselves, and leave one that they must not reorder without vector code. The
// result depends on the number of terms and on nothing else.
//
// `term` is an expression of the index `i`, which runs over first .. end - 1.

enum { LANES = 32 };

#define LANES_OVER(type, i, first, end, start, update)             \
    type lane[LANES];                                              \
    for (int l = 0; l < LANES; l++)                                \
        lane[l] = start;                                           \
    int64_t whole = (first) + ((end) - (first)) / LANES * LANES;   \
    for (int64_t begin = (first); begin < whole; begin += LANES) { \
        VECTOR for (int l = 0; l < LANES; l++)                     \
        {                                                          \
            int64_t i = begin + l;                                 \
            update;                                                \
        }                                                          \
    }                                                              \
    for (int64_t i = whole; i < (end); i++) {                      \
        int l = (int)(i - whole);                                  \
        update;                                                    \
    }

// Halves onto halves.
#define LANES_JOIN(update)                            \
    for (int half = LANES / 2; half > 0; half /= 2) { \
        for (int l = 0; l < half; l++)                \
            update;                                   \
    }

#define SUM_AS(type, i, first, end, term)                     \
    __extension__({                                           \
        LANES_OVER(type, i, first, end, 0, lane[l] += (term)) \
        LANES_JOIN(lane[l] += lane[l + half])                 \
        lane[0];                                              \
    })
#define SUM(i, first, end, term) SUM_AS(REAL, i, first, end, term)

// Part of a function of its own or of a FAST one, which gives it its vector code.
static inline __attribute__((always_inline)) REAL sum_of_products(int64_t count, const REAL *a,
                                                                  const REAL *b)
{
    return SUM(i, 0, count, a[i] * b[i]);
}

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define LARGEST(i, first, end, start, term)                                     \
    __extension__({                                                             \
        LANES_OVER(REAL, i, first, end, start, lane[l] = LARGER(term, lane[l])) \
        LANES_JOIN(lane[l] = LARGER(lane[l + half], lane[l]))                   \
        lane[0];                                                                \
    })
