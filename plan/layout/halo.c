#include "plan/layout/halo.h"

#include <assert.h>

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Of a numerator that may be negative.
static int64_t divide_down(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static int64_t extent_of(const struct window *window)
{
    return window->dilation * (window->taps - 1) + 1;
}

static struct slice between(int64_t first, int64_t end)
{
    return (struct slice){first, larger(0, end - first)};
}

struct slice window_reads(const struct window *window, int64_t wide, struct slice narrow)
{
    assert(window->taps > 0 && window->stride > 0 && window->dilation > 0);
    if (narrow.count == 0) return narrow;
    int64_t last = narrow.first + narrow.count - 1;
    int64_t first = narrow.first * window->stride - window->pad;
    int64_t end = last * window->stride - window->pad + extent_of(window);
    return between(smaller(larger(first, 0), wide), smaller(end, wide));
}

struct slice window_feeds(const struct window *window, int64_t narrow, struct slice wide)
{
    assert(window->taps > 0 && window->stride > 0 && window->dilation > 0);
    if (wide.count == 0) return wide;
    int64_t last = wide.first + wide.count - 1;
    // The first whose end lies behind wide.first, rounded up, to the last that begins at `last`.
    int64_t first =
        -divide_down(-(wide.first + window->pad - extent_of(window) + 1), window->stride);
    int64_t end = divide_down(last + window->pad, window->stride) + 1;
    return between(smaller(larger(first, 0), narrow), smaller(end, narrow));
}

// As layout_slice cuts.
static struct slice part_of(int64_t size, int parts, int part)
{
    assert(parts >= 1 && part >= 0 && part < parts);
    int64_t each = (size + parts - 1) / parts, first = smaller(part * each, size);
    return (struct slice){first, smaller(each, size - first)};
}

static void widen(struct halo *halo, struct slice own, struct slice wanted)
{
    if (wanted.count == 0) return;
    int64_t lo = own.first - wanted.first;
    int64_t hi = wanted.first + wanted.count - own.first - own.count;
    halo->lo = (int16_t)smaller(larger(halo->lo, lo), INT16_MAX);
    halo->hi = (int16_t)smaller(larger(halo->hi, hi), INT16_MAX);
}

struct halo halo_to_read(const struct window *window, int64_t wide, int64_t narrow, int parts)
{
    struct halo halo = {0, 0, 0};
    for (int p = 0; p < parts; p++) {
        struct slice reads = window_reads(window, wide, part_of(narrow, parts, p));
        widen(&halo, part_of(wide, parts, p), reads);
    }
    return halo;
}

struct halo halo_to_feed(const struct window *window, int64_t wide, int64_t narrow, int parts)
{
    struct halo halo = {0, 0, 0};
    for (int p = 0; p < parts; p++) {
        struct slice feeds = window_feeds(window, narrow, part_of(wide, parts, p));
        widen(&halo, part_of(narrow, parts, p), feeds);
    }
    return halo;
}

bool halo_is_near(const struct halo *halo, int64_t size, int parts)
{
    if (halo->lo == INT16_MAX || halo->hi == INT16_MAX) return false;
    for (int p = 0; p < parts; p++) {
        struct slice own = part_of(size, parts, p);
        // What the neighbour in front wants is its hi, the one behind its lo.
        bool is_enough =
            (p == 0 || own.count >= halo->hi) && (p + 1 == parts || own.count >= halo->lo);
        if (own.count == 0 || !is_enough) return false;
    }
    return true;
}
