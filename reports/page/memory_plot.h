#pragma once
#include "core/arena.h"

#include <stdint.h>

// The gnuplot script of addresses over time: one rectangle a buffer, coloured by how long it lives,
// with the line of bytes alive on top. What is too small to be seen is drawn together, cell by cell
// of a grid, so that the picture stays small however many buffers there are. An SVG without a
// ground of its own.

struct memory_plot {
    const char *title;
    const char *time_label;                        // "step"
    const int64_t *lower, *upper, *size, *offset;  // of buffer i, half-open in time
    int count;
    int64_t arena_bytes, capacity;  // capacity 0 = none
};
char *memory_plot_script(struct arena *arena, const struct memory_plot *plot);
