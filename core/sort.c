#include "core/sort.h"

#include <string.h>

void sort_stable(struct arena *scratch, void *items, int64_t count, size_t size,
                 bool (*before)(const void *a, const void *b))
{
    char *from = items, *to = arena_alloc(scratch, (size_t)count, size);
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t low = 0; low < count; low += 2 * width) {
            int64_t middle = low + width < count ? low + width : count;
            int64_t high = middle + width < count ? middle + width : count;
            int64_t left = low, right = middle;
            for (int64_t at = low; at < high; at++) {
                const char *first = from + (size_t)left * size;
                const char *second = from + (size_t)right * size;
                bool is_second = left == middle || (right < high && before(second, first));
                memcpy(to + (size_t)at * size, is_second ? second : first, size);
                *(is_second ? &right : &left) += 1;
            }
        }
        char *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)count * size);
}
