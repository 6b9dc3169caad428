#include "core/sort.h"

#include <assert.h>
#include <stdlib.h>
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

static int compare_f64s(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void sort_f64s(double *values, size_t count)
{
    if (count > 1) qsort(values, count, sizeof *values, compare_f64s);
}

static int compare_i64s(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void sort_i64s(int64_t *values, size_t count)
{
    if (count > 1) qsort(values, count, sizeof *values, compare_i64s);
}

static int compare_ints(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void sort_ints(int *values, size_t count)
{
    if (count > 1) qsort(values, count, sizeof *values, compare_ints);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void sort_texts(const char **texts, size_t count)
{
    if (count > 1) qsort(texts, count, sizeof *texts, compare_texts);
}

double sort_median(double *values, size_t count)
{
    assert(count > 0);
    sort_f64s(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}
