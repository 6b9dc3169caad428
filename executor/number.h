#pragma once
#include "executor/backend.h"
#include "executor/half.h"

#include <assert.h>

// What the reals of a back end are, for those on the host that add them up, read or write them.

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

static inline double number_get(enum number number, const void *numbers, int64_t at)
{
    switch (number) {
    case NUMBER_FLOAT:
        return (double)((const float *)numbers)[at];
    case NUMBER_DOUBLE:
        return ((const double *)numbers)[at];
    case NUMBER_BF16:
        return (double)bf16_widen(((const uint16_t *)numbers)[at]);
    case NUMBER_FP16:
        break;
    }
    return (double)fp16_widen(((const uint16_t *)numbers)[at]);
}

static inline void number_put(enum number number, void *numbers, int64_t at, double value)
{
    switch (number) {
    case NUMBER_FLOAT:
        ((float *)numbers)[at] = (float)value;
        return;
    case NUMBER_DOUBLE:
        ((double *)numbers)[at] = value;
        return;
    case NUMBER_BF16:
        ((uint16_t *)numbers)[at] = bf16_round((float)value);
        return;
    case NUMBER_FP16:
        ((uint16_t *)numbers)[at] = fp16_round((float)value);
    }
}
