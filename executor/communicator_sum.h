#pragma once
#include "executor/communicator.h"

// Numbers that transports add up or compare on the host.

enum number { NUMBER_FLOAT, NUMBER_DOUBLE };

static inline int64_t number_bytes(enum number number)
{
    return number == NUMBER_FLOAT ? (int64_t)sizeof(float) : (int64_t)sizeof(double);
}

// to[i] = sources[0][i] + sources[1][i] + ... in that order; `to` may be one of the sources. Of
// maxima one that is no number wins.
void numbers_combine(enum number number, enum combine combine, void *to, const void *const *sources,
                     int source_count, int64_t count);
