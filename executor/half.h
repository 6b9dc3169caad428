#pragma once
#include <stdint.h>
#include <string.h>

// Numbers of 16 bits on the host. bf16: the upper half of a float's bits. fp16: binary16 of IEEE
// 754-2008. Both round to the nearest, ties to even, as devices do; what is no number stays none.

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bf16_widen(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}
static inline uint16_t bf16_round(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)((value != value ? bits | 0x400000 : rounded) >> 16);
}

// Choices are made by masks, so that compilers make vectors of loops over these.
static inline uint32_t either(uint32_t which, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0 - which;
    return (yes & mask) | (no & ~mask);
}

// The exponent is moved by a product, which gives subnormal numbers their value at once.
static inline float fp16_widen(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = (uint32_t)(bits & 0x7fff) << 13;
    uint32_t value = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
    return float_of_bits(sign | either((bits & 0x7c00) == 0x7c00, magnitude | 0x7f800000, value));
}
// A number is rounded by adding one whose last bit has the weight that the result's last has: of
// normal numbers it is 2^13 of its own, and in the range of subnormal ones always 2^-24.
static inline uint16_t fp16_round(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112U << 23)) >> 13;
    uint32_t small = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
    uint32_t rounded = either(magnitude < 113U << 23, small, normal);
    rounded = either(rounded > 0x7c00, 0x7c00, rounded);
    return (uint16_t)(sign | either(magnitude > 0x7f800000, 0x7e00, rounded));
}
