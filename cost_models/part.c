#include "cost_models/part.h"

#include <assert.h>

static const enum part PARTS[AXIS_COUNT] = {
#define AXIS(id, name, takes_ranks, stream, part, ...) [AXIS_##id] = part,
#include "plan/axes.inc"
};

enum part part_of_axis(enum axis axis)
{
    assert(axis < AXIS_COUNT);
    return PARTS[axis];
}

// Parts of no communication have no axis.
enum axis part_axis(enum part part)
{
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        if (PARTS[axis] == part) return axis;
    }
    return AXIS_TP;
}
