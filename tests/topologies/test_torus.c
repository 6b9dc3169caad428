#include "tests/support/test.h"
#include "topologies/torus.h"

#include <math.h>

static struct intra_fabric torus_of(const int *sizes, int count, bool is_open)
{
    struct intra_fabric intra = {
        .kind = "ici", .bandwidth_bytes_per_s = 600e9, .torus_count = count, .torus_open = is_open};
    for (int i = 0; i < count; i++)
        intra.torus[i] = sizes[i];
    return intra;
}

static void links_of_groups_by_hand(void **state)
{
    (void)state;
    static const struct {
        int torus[3], torus_count;
        bool is_open;
        int sizes[2], strides[2], count;
        double links, share, load;
        int steps;
    } CASES[] = {
        // A cube of TPU v5p: all of it, a ring, a row that is no ring, two of a row side by side
        // and two apart, with as many of another group between them.
        {{4, 4, 4}, 3, false, {64}, {1}, 1, 6, 1, 0.5, 9},
        {{4, 4, 4}, 3, false, {4}, {1}, 1, 2, 1, 0.5, 3},
        {{4, 4, 4}, 3, true, {4}, {1}, 1, 1, 1, 1, 3},
        {{4, 4, 4}, 3, false, {2}, {1}, 1, 1, 1, 0.5, 1},
        {{4, 4, 4}, 3, false, {2}, {2}, 1, 1, 0.5, 0.5, 1},
        // A row and half a column.
        {{4, 4, 4}, 3, false, {8}, {1}, 1, 3, 1, 0.5, 4},
        // Two axes of a mesh: a row of the first dimension, a column of the third.
        {{4, 4, 4}, 3, false, {4, 4}, {1, 16}, 2, 4, 1, 0.5, 6},
        // Two GPUs have one cable between them.
        {{2, 2, 2}, 3, false, {8}, {1}, 1, 3, 1, 0.5, 3},
        // A pod of TPU v6e, whose sheet gives 400 GB/s a chip to an all-reduce: four links; half of
        // what 256 chips send crosses 32 links: 256 / 2 / 2 / 32 = 2.
        {{16, 16}, 2, false, {256}, {1}, 1, 4, 1, 2, 30},
        // Ranks beyond the node count as those in it.
        {{4, 4}, 2, false, {64}, {1}, 1, 4, 1, 0.5, 6},
        {{4, 4}, 2, false, {8}, {4}, 1, 2, 1, 0.5, 3},
        // Three in a row of four follow no dimension: a link that a whole row shares.
        {{4, 4}, 2, false, {6}, {1}, 1, 0.25, 0.25, 6, 5},
        {{0}, 0, false, {8}, {1}, 1, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct intra_fabric intra =
            torus_of(CASES[i].torus, CASES[i].torus_count, CASES[i].is_open);
        struct torus_group group =
            torus_group_of(&intra, CASES[i].sizes, CASES[i].strides, CASES[i].count);
        assert_true(group.links == CASES[i].links);
        assert_true(group.share == CASES[i].share);
        assert_true(group.load == CASES[i].load);
        assert_int_equal(group.steps, CASES[i].steps);
    }
}

enum { GPUS_MAX = 256 };

// What crosses each link (GPU, dimension, direction) when all groups of the torus exchange all to
// all, each message along the first dimension first, the shorter way, both where they are equal.
struct link_traffic {
    const struct intra_fabric *intra;
    double links[GPUS_MAX][TORUS_DIMENSIONS_MAX][2];
};

static int walk(struct link_traffic *traffic, int rank, int dimension, int span, int steps,
                double bytes)
{
    int size = traffic->intra->torus[dimension];
    int direction = steps < 0;
    for (int i = 0; i < abs(steps); i++) {
        int at = rank / span % size;
        traffic->links[rank][dimension][direction] += bytes;
        int next = (at + (direction ? size - 1 : 1)) % size;
        rank += (next - at) * span;
    }
    return rank;
}

static void send(struct link_traffic *traffic, int from, int to, double bytes)
{
    int span = 1;
    for (int i = 0; i < traffic->intra->torus_count; i++) {
        int size = traffic->intra->torus[i];
        int steps = to / span % size - from / span % size;
        bool wraps = !traffic->intra->torus_open && size > 2;
        if (wraps && 2 * steps > size) steps -= size;
        if (wraps && 2 * steps < -size) steps += size;
        if (wraps && 2 * abs(steps) == size) {
            walk(traffic, from, i, span, -steps, bytes / 2);
            from = walk(traffic, from, i, span, steps, bytes / 2);
        } else {
            from = walk(traffic, from, i, span, steps, bytes);
        }
        span *= size;
    }
    assert_int_equal(from, to);
}

// Of groups of `size` ranks `stride` apart.
static double busiest_link(const struct intra_fabric *intra, int gpus, int size, int stride)
{
    static struct link_traffic traffic;
    traffic = (struct link_traffic){.intra = intra};
    for (int from = 0; from < gpus; from++) {
        int first = from - from / stride % size * stride;
        for (int i = 0; i < size; i++)
            send(&traffic, from, first + i * stride, 1.0 / size);
    }
    double most = 0;
    for (int i = 0; i < gpus * TORUS_DIMENSIONS_MAX * 2; i++)
        most = fmax(most, (&traffic.links[0][0][0])[i]);
    return most;
}

static void an_all_to_all_loads_links_as_routed_messages_do(void **state)
{
    (void)state;
    static const struct {
        int torus[3], count;
    } CASES[] = {{{4, 4, 4}, 3}, {{2, 4}, 2}, {{16, 16}, 2}, {{8}, 1},
                 {{2, 2, 2}, 3}, {{3, 5}, 2}, {{6, 4}, 2},   {{4, 8, 2}, 3}};
    int checked = 0;
    for (size_t i = 0; i < 2 * (sizeof CASES / sizeof *CASES); i++) {
        struct intra_fabric intra = torus_of(CASES[i / 2].torus, CASES[i / 2].count, i % 2);
        int gpus = 1;
        for (int k = 0; k < intra.torus_count; k++)
            gpus *= intra.torus[k];
        for (int size = 2; size <= gpus; size++) {
            for (int stride = 1; size * stride <= gpus; stride++) {
                if (gpus % (size * stride) != 0) continue;
                struct torus_group group = torus_group_of(&intra, &size, &stride, 1);
                double load = busiest_link(&intra, gpus, size, stride);
                // What follows no dimension is bounded only.
                bool is_bound = group.links < 1 && group.share < 1 && group.links == group.share;
                if (is_bound) assert_true(group.load >= load * (1 - 1e-9));
                if (!is_bound) assert_true(fabs(group.load - load) < 1e-9 * load);
                checked += !is_bound;
            }
        }
    }
    assert_true(checked > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_of_groups_by_hand),
        cmocka_unit_test(an_all_to_all_loads_links_as_routed_messages_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
