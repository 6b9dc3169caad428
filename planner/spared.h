#pragma once

// What recomputing or moving a layer spares: ways to treat it, and mixtures of them.

// One way to treat a layer in one micro-batch, against keeping all of it.
struct spared {
    double bytes, seconds;
};

// The ways that no mixture of others beats: the fastest first, and from each to the next more
// seconds a byte.
enum { SPARED_MAX = 192 };
struct spared_hull {
    int count;
    struct spared points[SPARED_MAX];
};

// Sorts the points. At least one, at most SPARED_MAX of them.
void spared_hull_make(struct spared_hull *hull, struct spared *points, int count);
