#pragma once
#include "core/json.h"
#include "core/json_write.h"

#include <stdint.h>
#include <stdlib.h>

// Which numbers of its inputs an operator of an imported graph goes with: the numbers of one sample
// of its result (of a Split: of what it reads) are loops, the last of which goes round fastest, and
// a turn of each skips so many numbers of a sample of an input. What a turn does not skip is
// repeated. So permutations, slices, strides, channels that are shuffled and operands that
// broadcast are one rule. Of attention and of sums over places the result is an operand as well.

enum { LOOPS_MOST = 6, LOOPS_INPUTS = 4 };
static const int64_t STRIDED_MOST = 1000000000000;  // numbers of a sample
struct strided {
    int count;
    int64_t sizes[LOOPS_MOST];
    int64_t first[LOOPS_INPUTS];  // where an input is read first
    int64_t steps[LOOPS_INPUTS][LOOPS_MOST];
};

void strided_write(struct json_writer *writer, const char *key, const struct strided *strided);
// In `arena`. NULL and an error where it is not as `strided_write` writes it.
const struct strided *strided_read(struct arena *arena, const struct json *object, struct err *err);
// Whether so many numbers of a sample are there for input i wherever the loops go.
static inline bool strided_fits(const struct strided *strided, int i, int64_t elements)
{
    double least = (double)strided->first[i], most = least;
    for (int l = 0; l < strided->count; l++) {
        double way = (double)(strided->sizes[l] - 1) * (double)strided->steps[i][l];
        if (way > 0) most += way;
        if (way < 0) least += way;
    }
    return least >= 0 && most < (double)elements;
}
// What the loops go over; -1: more than a sample may have.
static inline int64_t strided_elements(const struct strided *strided)
{
    double elements = 1;
    for (int i = 0; i < strided->count; i++)
        elements *= (double)strided->sizes[i];
    return elements < (double)STRIDED_MOST ? (int64_t)elements : -1;
}

// Loops along which an input goes on, that of the longest step first, which is so many; -1: two
// turns may read one number, so that gradients of numbers are sums over turns that are not whole
// loops. What is left out repeats the input.
static inline int strided_order(const struct strided *strided, int i, int order[LOOPS_MOST])
{
    int count = 0;
    double reach = 0;
    for (int l = 0; l < strided->count; l++) {
        int64_t step = strided->steps[i][l], at = count;
        if (step == 0 || strided->sizes[l] == 1) continue;
        for (; at > 0 && llabs(strided->steps[i][order[at - 1]]) < llabs(step); at--)
            order[at] = order[at - 1];
        order[at] = l;
        count++;
    }
    for (int k = count - 1; k >= 0; k--) {
        double step = (double)llabs(strided->steps[i][order[k]]);
        if (step <= reach) return -1;
        reach += step * (double)(strided->sizes[order[k]] - 1);
    }
    return count;
}
