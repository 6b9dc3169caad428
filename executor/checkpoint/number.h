#pragma once
#include <stdbool.h>
#include <stdint.h>

// Numbers as files of safetensors hold them.

enum checkpoint_number {
    CHECKPOINT_F64,
    CHECKPOINT_F32,
    CHECKPOINT_BF16,
    CHECKPOINT_F16,
    CHECKPOINT_NUMBER_COUNT
};
int64_t checkpoint_number_bytes(enum checkpoint_number number);
const char *checkpoint_number_name(enum checkpoint_number number);  // "F32"
bool checkpoint_number_find(const char *name, enum checkpoint_number *number);
// Element `at` as a double, and the nearest to it.
double checkpoint_number_get(enum checkpoint_number number, const void *from, int64_t at);
void checkpoint_number_put(enum checkpoint_number number, void *to, int64_t at, double value);
