#pragma once
#include "executor/communicators/communicator.h"
#include "executor/number.h"

#include <string.h>

// Numbers that transports add up or compare on the host.

// The byte at data + bytes. Structs that hold what is read and what is written alike have no const.
static inline void *bytes_at(const void *data, int64_t bytes)
{
    void *start;
    memcpy(&start, &data, sizeof start);
    return (char *)start + bytes;
}

// Of all parts, or of those in front of member `count`.
static inline int64_t counts_sum(const int64_t *counts, int count)
{
    int64_t sum = 0;
    for (int member = 0; member < count; member++)
        sum += counts[member];
    return sum;
}

// Part `index` of `count` nearly equal ones begins here.
static inline int64_t counts_split(int64_t numbers, int64_t index, int64_t count)
{
    return numbers / count * index + numbers % count * index / count;
}

// to[i] = sources[0][i] + sources[1][i] + ... in that order; `to` may be one of the sources. Of
// maxima one that is no number wins. Numbers of 16 bits are added as floats.
void numbers_combine(enum number number, enum combine combine, void *to, const void *const *sources,
                     int source_count, int64_t count);
