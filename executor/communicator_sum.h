#pragma once
#include "executor/communicator.h"

#include <assert.h>
#include <string.h>

// Numbers that transports add up or compare on the host.

enum number { NUMBER_FLOAT, NUMBER_DOUBLE, NUMBER_BF16, NUMBER_FP16 };

static inline int64_t number_bytes(enum number number)
{
    return number == NUMBER_FLOAT ? 4 : number == NUMBER_DOUBLE ? 8 : 2;
}

// What an element is on this back end: ELEMENT_COMPUTE or ELEMENT_FP32.
static inline enum number number_of(const struct backend *backend, enum element element)
{
    assert(element == ELEMENT_COMPUTE || element == ELEMENT_FP32);
    int bytes = element == ELEMENT_FP32 ? backend->real_bytes : backend->compute_bytes;
    if (bytes == 8) return NUMBER_DOUBLE;
    if (bytes == 4) return NUMBER_FLOAT;
    return backend->compute == PRECISION_FP16 ? NUMBER_FP16 : NUMBER_BF16;
}

// The byte at data + bytes. Structs that hold what is read and what is written alike have no const.
static inline void *bytes_at(const void *data, int64_t bytes)
{
    void *start;
    memcpy(&start, &data, sizeof start);
    return (char *)start + bytes;
}

// to[i] = sources[0][i] + sources[1][i] + ... in that order; `to` may be one of the sources. Of
// maxima one that is no number wins. Numbers of 16 bits are added as floats.
void numbers_combine(enum number number, enum combine combine, void *to, const void *const *sources,
                     int source_count, int64_t count);
