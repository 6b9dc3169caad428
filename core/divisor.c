#include "core/divisor.h"

#include <assert.h>

int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t common_multiple(int64_t a, int64_t b)
{
    assert(a > 0 && b > 0);
    int64_t divisor = common_divisor(a, b);
    assert(divisor > 0);
    return a / divisor * b;
}
