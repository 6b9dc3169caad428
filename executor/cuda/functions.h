#pragma once

// Numbers of the element-wise functions for device code, which cannot include the C header that has
// enum function; elementwise.c asserts that they are equal.
enum map_function {
    MAP_GELU = 1,
    MAP_GELU_TANH,
    MAP_SILU,
    MAP_RELU,
    MAP_RELU_SQUARED,
    MAP_SCALE,
    MAP_SOFTCAP,
    MAP_SIGMOID = 10,
    MAP_CLAMPED_SWIGLU,
    MAP_SOFTPLUS = 21,
    MAP_QUICK_GELU,
    MAP_EXP,
    MAP_RELU_ABOVE,
    MAP_EXP_BELOW = 26,
    MAP_SIGMOID_ABOVE,
    MAP_CLAMPED_SILU,
};
