#include "memory/keep/keep.h"

#include <assert.h>
#include <math.h>

static double limit_bytes(const int64_t *tensor_bytes, int tensor_count)
{
    double mean = 0, variance = 0;
    for (int i = 0; i < tensor_count; i++)
        mean += (double)tensor_bytes[i] / tensor_count;
    for (int i = 0; i < tensor_count; i++) {
        double off_bytes = (double)tensor_bytes[i] - mean;
        variance += off_bytes * off_bytes / tensor_count;
    }
    return mean + 3 * sqrt(variance);
}

// A tensor that does not fit into what is left opens the next chunk. Counted as far as it is below
// `most_bytes`: what is wasted once stays so.
static int64_t waste_bytes(const int64_t *tensor_bytes, int tensor_count, double limit,
                           int64_t chunk_bytes, int64_t most_bytes)
{
    int64_t wasted = 0, left = 0;
    for (int i = 0; i < tensor_count && wasted < most_bytes; i++) {
        if ((double)tensor_bytes[i] > limit) continue;
        if (tensor_bytes[i] > left) {
            wasted += left;
            left = chunk_bytes;
        }
        left -= tensor_bytes[i];
    }
    return wasted + left;
}

int64_t keep_chunk_bytes(const int64_t *tensor_bytes, int tensor_count, int64_t low, int64_t range,
                         int64_t step, int64_t *wasted_bytes)
{
    assert(step > 0 && low > 0 && range >= 0);
    double limit = limit_bytes(tensor_bytes, tensor_count);
    int64_t largest = low, sum = 0, none = 0;
    int64_t *wasted = wasted_bytes ? wasted_bytes : &none;
    *wasted = 0;
    for (int i = 0; i < tensor_count; i++) {
        bool is_chunked = (double)tensor_bytes[i] <= limit;
        if (is_chunked && tensor_bytes[i] > largest) largest = tensor_bytes[i];
        sum += tensor_bytes[i];
    }
    if (sum < low) return sum;
    int64_t first = (largest + step - 1) / step * step, best = first;
    *wasted = waste_bytes(tensor_bytes, tensor_count, limit, first, INT64_MAX);
    for (int64_t size = first + step; size <= first + range && *wasted > 0; size += step) {
        int64_t found = waste_bytes(tensor_bytes, tensor_count, limit, size, *wasted);
        if (found >= *wasted) continue;
        *wasted = found;
        best = size;
    }
    assert(best % step == 0 && best >= largest);
    return best;
}
