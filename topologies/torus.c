#include "topologies/torus.h"

#include <assert.h>
#include <math.h>

double torus_link_bytes_per_s(const struct intra_fabric *intra)
{
    assert(intra->torus_count > 0);
    return intra->bandwidth_bytes_per_s / (2.0 * intra->torus_count);
}

// `extent` ranks `gap` apart in a dimension of `size`.
static void add_line(struct torus_group *group, const struct intra_fabric *intra, int size,
                     int extent, int gap)
{
    assert(extent > 1 && gap >= 1 && size % (extent * gap) == 0);
    // Two GPUs have one cable between them, which closes nothing.
    bool is_ring = !intra->torus_open && extent * gap == size && size > 2;
    // On a line all that crosses the middle, of the `gap` groups that lie there; on a ring the mean
    // way to a rank of the group, over the two links of every GPU on it: half of the same.
    int half = extent / 2;
    double links = is_ring ? 2 : 1;
    double crossing = (double)gap * half * (extent - half) / extent;
    group->links += links / gap;
    group->share = fmin(group->share, 1.0 / gap);
    group->load = fmax(group->load, crossing / links);
    group->steps += extent - 1;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

// The ranks of an axis, dimension by dimension. False where they follow none.
static bool add_axis(struct torus_group *group, const struct intra_fabric *intra, int size,
                     int stride)
{
    assert(size >= 1 && stride >= 1);
    int span = 1;
    for (int i = 0; i < intra->torus_count && size > 1; i++) {
        int dimension = intra->torus[i], next = span * dimension;
        if (stride < next) {
            int gap = stride / span;
            if (stride % span != 0 || dimension % gap != 0) return false;
            int extent = least(size, dimension / gap);
            if (size % extent != 0 || dimension % (gap * extent) != 0) return false;
            if (extent > 1) add_line(group, intra, dimension, extent, gap);
            size /= extent;
            stride = next;
        }
        span = next;
    }
    return stride % span == 0 || size == 1;
}

struct torus_group torus_group_of(const struct intra_fabric *intra, const int *sizes,
                                  const int *strides, int count)
{
    struct torus_group group = {.share = 1};
    if (intra->torus_count == 0) return (struct torus_group){0};
    int gpus = 1, widest = 1, ranks = 1;
    bool follows = true;
    for (int i = 0; i < intra->torus_count; i++) {
        gpus *= intra->torus[i];
        widest = intra->torus[i] > widest ? intra->torus[i] : widest;
    }
    for (int i = 0; i < count; i++) {
        follows = follows && add_axis(&group, intra, sizes[i], strides[i]);
        if (strides[i] < gpus) ranks = least(gpus, ranks * least(sizes[i], gpus));
    }
    if (follows) return group;
    double row = 1.0 / widest;
    return (struct torus_group){row, row, widest * ranks / 4.0, ranks - 1};
}
