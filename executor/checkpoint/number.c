#include "executor/checkpoint/number.h"

#include "executor/half.h"

#include <string.h>

// Numbers as files hold them. Arrays of a file begin at any byte, so each is copied.

static const struct {
    const char *name;
    int bytes;
} NUMBERS[CHECKPOINT_NUMBER_COUNT] = {{"F64", 8}, {"F32", 4}, {"BF16", 2}, {"F16", 2}};

int64_t checkpoint_number_bytes(enum checkpoint_number number)
{
    return NUMBERS[number].bytes;
}

const char *checkpoint_number_name(enum checkpoint_number number)
{
    return NUMBERS[number].name;
}

bool checkpoint_number_find(const char *name, enum checkpoint_number *number)
{
    for (int i = 0; i < CHECKPOINT_NUMBER_COUNT; i++) {
        if (strcmp(NUMBERS[i].name, name) != 0) continue;
        *number = (enum checkpoint_number)i;
        return true;
    }
    return false;
}

double checkpoint_number_get(enum checkpoint_number number, const void *from, int64_t at)
{
    const char *place = (const char *)from + at * NUMBERS[number].bytes;
    double wide;
    float single;
    uint16_t half;
    switch (number) {
    case CHECKPOINT_F64:
        memcpy(&wide, place, sizeof wide);
        return wide;
    case CHECKPOINT_F32:
        memcpy(&single, place, sizeof single);
        return (double)single;
    case CHECKPOINT_BF16:
        memcpy(&half, place, sizeof half);
        return (double)bf16_widen(half);
    case CHECKPOINT_F16:
    case CHECKPOINT_NUMBER_COUNT:
        break;
    }
    memcpy(&half, place, sizeof half);
    return (double)fp16_widen(half);
}

void checkpoint_number_put(enum checkpoint_number number, void *to, int64_t at, double value)
{
    char *place = (char *)to + at * NUMBERS[number].bytes;
    float single = (float)value;
    uint16_t half = 0;
    switch (number) {
    case CHECKPOINT_F64:
        memcpy(place, &value, sizeof value);
        return;
    case CHECKPOINT_F32:
        memcpy(place, &single, sizeof single);
        return;
    case CHECKPOINT_BF16:
        half = bf16_round(single);
        break;
    case CHECKPOINT_F16:
    case CHECKPOINT_NUMBER_COUNT:
        half = fp16_round(single);
        break;
    }
    memcpy(place, &half, sizeof half);
}
