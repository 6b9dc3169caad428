#include "executor/cpu/image.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct window_run window_run(const struct window *window, int64_t tap, int64_t narrow_first,
                             int64_t narrow_count, int64_t wide_first, int64_t wide_count)
{
    int64_t shift = window->dilation * tap - window->pad;
    int64_t first = floor_div(wide_first - shift + window->stride - 1, window->stride);
    int64_t end = floor_div(wide_first + wide_count - 1 - shift, window->stride) + 1;
    if (first < narrow_first) first = narrow_first;
    if (end > narrow_first + narrow_count) end = narrow_first + narrow_count;
    return (struct window_run){first, end > first ? end : first};
}
