#include "plan/layout/grid.h"
#include "core/divisor.h"

#include <assert.h>

const char *grid_name(enum grid_axis grid)
{
    static const char *const NAMES[GRID_COUNT] = {"tp", "tx", "ty", "tz"};
    assert(grid >= 0 && grid < GRID_COUNT);
    return NAMES[grid];
}

static int power(int base, int exponent)
{
    int64_t result = 1;
    for (int i = 0; i < exponent && result <= INT32_MAX; i++)
        result *= base;
    return result <= INT32_MAX ? (int)result : INT32_MAX;
}

// The largest divisor of `size` whose power is no larger than it.
static int root_of(int size, int exponent)
{
    assert(size >= 1 && exponent >= 1);
    int root = 1;
    for (int i = 1; power(i, exponent) <= size; i++) {
        if (size % i == 0) root = i;
    }
    return root;
}

// Squares, as published; where the size has none, rectangles.
static struct tp_grid deep_grid(int size)
{
    struct tp_grid square = {0, 0, 0}, grid = {0, 0, 0};
    for (int depth = 1; power(depth, 3) <= size; depth++) {
        int side = size % depth == 0 ? root_of(size / depth, 2) : 0;
        if (side < depth) continue;
        grid = (struct tp_grid){side, size / depth / side, depth};
        if (grid.x == grid.y) square = grid;
    }
    return square.z > 0 ? square : grid;
}

struct tp_grid grid_of(const struct parallel *parallel)
{
    int size = parallel->degree[AXIS_TP], z = 1;
    switch (parallel->tp_kind) {
    case TP_2_5D:
    case TP_2_5D_SUMMA:
        return deep_grid(size);
    case TP_3D:
        z = root_of(size, 3);
        break;
    case TP_2D:
    case TP_2D_SUMMA:
        break;
    default:
        return (struct tp_grid){1, size, 1};
    }
    int x = root_of(size / z, 2);
    assert(x * (size / z / x) * z == size && "every rank has a place on the grid");
    return (struct tp_grid){x, size / z / x, z};
}

int64_t grid_batch_parts(const struct parallel *parallel)
{
    struct tp_grid grid = grid_of(parallel);
    switch (parallel->tp_kind) {
    case TP_2D:
    case TP_2D_SUMMA:
        return grid.x;
    case TP_2_5D:
    case TP_2_5D_SUMMA:
        return (int64_t)grid.x * grid.z;
    case TP_3D:  // tokens are split over ty or over tz, never over both
        return (int64_t)grid.x * grid.y * grid.z / common_divisor(grid.y, grid.z);
    default:
        return 1;
    }
}

int64_t grid_hidden_parts(const struct parallel *parallel)
{
    struct tp_grid grid = grid_of(parallel);
    switch (parallel->tp_kind) {
    case TP_2D:
    case TP_2_5D:
    case TP_2D_SUMMA:
    case TP_2_5D_SUMMA:
        return (int64_t)grid.x * grid.y / common_divisor(grid.x, grid.y);
    case TP_3D:
        return (int64_t)grid.x * grid.z;
    default:
        return 1;
    }
}
