#include "plan/layout/halo.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// Convolutions split by height and width, each rank with slices alone: the changes of layout that
// layout_change names are carried out between neighbours, element by element, and results are held
// against a convolution that knows of no slices. What is sent is counted.

enum { CHANNELS = 3, RESULTS = 5, SIDE = 17, RANKS_MOST = 16, TAPS = 7 };

struct image {
    double at[RESULTS][SIDE][SIDE];
};

// What a rank holds: the places of `rows` and `columns` are valid.
struct image_part {
    struct slice rows, columns;
    struct image image;
};

struct filter {
    double at[RESULTS][CHANNELS][TAPS][TAPS];
};

struct problem {
    struct mesh mesh;
    struct window window;
    int64_t wide[2], narrow[2];  // height, width
    struct image x, d_y;
    struct filter w;
};

static struct mesh square_mesh(int side)
{
    struct mesh mesh = {.axis_count = 2, .rank_count = side * side};
    mesh.axes[0] = (struct mesh_axis){.name = "w", .parent = AXIS_TP, .size = side, .stride = 1};
    mesh.axes[1] = (struct mesh_axis){.name = "h", .parent = AXIS_CP, .size = side, .stride = side};
    return mesh;
}

static struct layout split_layout(struct halo height, struct halo width)
{
    return (struct layout){.of = {DIM_WIDTH, DIM_HEIGHT}, .halos = {height, width}};
}

static double next_number(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 24) - 0.5;
}

static struct problem *problem_new(struct arena *arena, int side, struct window window,
                                   int64_t height, int64_t width)
{
    struct problem *p = ARENA_NEW(arena, struct problem, 1);
    unsigned seed = 7;
    p->mesh = square_mesh(side);
    p->window = window;
    p->wide[0] = height;
    p->wide[1] = width;
    int64_t extent = window.dilation * (window.taps - 1) + 1;
    for (int d = 0; d < 2; d++)
        p->narrow[d] = (p->wide[d] + 2 * window.pad - extent) / window.stride + 1;
    double *numbers[] = {&p->x.at[0][0][0], &p->d_y.at[0][0][0], &p->w.at[0][0][0][0]};
    size_t counts[] = {sizeof p->x / sizeof(double), sizeof p->d_y / sizeof(double),
                       sizeof p->w / sizeof(double)};
    for (int n = 0; n < 3; n++) {
        for (size_t i = 0; i < counts[n]; i++)
            numbers[n][i] = next_number(&seed);
    }
    return p;
}

// The place of the wide side that a tap of a narrow place reads; -1: padding.
static int64_t place_of(const struct problem *p, int64_t narrow, int tap, int dim)
{
    int64_t at = narrow * p->window.stride - p->window.pad + tap * p->window.dilation;
    return at >= 0 && at < p->wide[dim] ? at : -1;
}

static bool holds(struct slice slice, int64_t at)
{
    return at >= slice.first && at < slice.first + slice.count;
}

enum product { FORWARD, OF_INPUT, OF_WEIGHT };

// One of the three products over all places (y, x) of the narrow side that are held, of the wide
// side those that are: what lies in neither is another rank's.
static void convolve(const struct problem *p, enum product product, struct image_part *wide,
                     struct image_part *narrow, struct filter *w)
{
    for (int o = 0; o < RESULTS; o++)
        for (int64_t y = narrow->rows.first; y < narrow->rows.first + narrow->rows.count; y++)
            for (int64_t x = narrow->columns.first;
                 x < narrow->columns.first + narrow->columns.count; x++)
                for (int t = 0; t < p->window.taps * p->window.taps * CHANNELS; t++) {
                    int c = t % CHANNELS, u = t / CHANNELS % (int)p->window.taps;
                    int v = t / CHANNELS / (int)p->window.taps;
                    int64_t row = place_of(p, y, v, 0), column = place_of(p, x, u, 1);
                    if (row < 0 || column < 0) continue;
                    bool is_held = holds(wide->rows, row) && holds(wide->columns, column);
                    assert_true(is_held || product == OF_INPUT);
                    if (!is_held) continue;
                    double *in = &wide->image.at[c][row][column];
                    double *out = &narrow->image.at[o][y][x], *weight = &w->at[o][c][v][u];
                    if (product == FORWARD) *out += *in * *weight;
                    if (product == OF_INPUT) *in += *out * *weight;
                    if (product == OF_WEIGHT) *weight += *in * *out;
                }
}

static struct slice *slice_of(struct image_part *part, enum dim dim)
{
    return dim == DIM_HEIGHT ? &part->rows : &part->columns;
}

static const struct layout WHOLE = {.of = {0}};

static struct image_part *parts_new(struct arena *arena, const struct problem *p,
                                    const struct layout *layout, const int64_t size[2],
                                    const struct image *image)
{
    struct image_part *parts = ARENA_NEW(arena, struct image_part, p->mesh.rank_count);
    for (int r = 0; r < p->mesh.rank_count; r++) {
        parts[r].rows = layout_held(layout, &p->mesh, DIM_HEIGHT, size[0], r);
        parts[r].columns = layout_held(layout, &p->mesh, DIM_WIDTH, size[1], r);
        for (int c = 0; c < RESULTS && image; c++)
            for (int64_t y = parts[r].rows.first; y < parts[r].rows.first + parts[r].rows.count;
                 y++)
                memcpy(&parts[r].image.at[c][y][parts[r].columns.first],
                       &image->at[c][y][parts[r].columns.first],
                       (size_t)parts[r].columns.count * sizeof(double));
    }
    return parts;
}

// Moves or adds one place of all channels.
static void hand_over(const struct image_part *from, struct image_part *to, int64_t y, int64_t x,
                      int channels, bool adds)
{
    for (int c = 0; c < channels; c++)
        to->image.at[c][y][x] = from->image.at[c][y][x] + (adds ? to->image.at[c][y][x] : 0);
}

// One change of `parts`; counts what each rank received (of strips that are added: sent).
// Everything comes from the neighbour along the axis.
static void exchange(const struct problem *p, const struct change *change,
                     const struct layout *after, const int64_t size[2], int channels,
                     struct image_part *parts, int64_t moved[RANKS_MOST])
{
    struct image_part before[RANKS_MOST];
    int axis = change->dim == DIM_HEIGHT ? 1 : 0, d = change->dim == DIM_HEIGHT ? 0 : 1;
    assert_int_equal(change->axes, 1 << axis);
    memcpy(before, parts, (size_t)p->mesh.rank_count * sizeof *parts);
    for (int r = 0; r < p->mesh.rank_count; r++) {
        struct slice own = layout_slice(after, &p->mesh, change->dim, size[d], r);
        struct slice wide = change->combine ? *slice_of(&before[r], change->dim)
                                            : layout_held(after, &p->mesh, change->dim, size[d], r);
        *slice_of(&parts[r], change->dim) = change->combine ? own : wide;
        struct image_part reach = before[r];
        *slice_of(&reach, change->dim) = wide;
        for (int64_t y = reach.rows.first; y < reach.rows.first + reach.rows.count; y++)
            for (int64_t x = reach.columns.first; x < reach.columns.first + reach.columns.count;
                 x++) {
                int64_t at = change->dim == DIM_HEIGHT ? y : x;
                if (holds(own, at)) continue;
                int other = r + (at < own.first ? -1 : 1) * p->mesh.axes[axis].stride;
                assert_true(holds(layout_slice(after, &p->mesh, change->dim, size[d], other), at));
                if (change->combine) hand_over(&before[r], &parts[other], y, x, channels, true);
                if (!change->combine) hand_over(&before[other], &parts[r], y, x, channels, false);
                moved[r] += channels;
            }
    }
}

// Carries `parts` from one layout to the other; the most that a rank receives or hands back.
static int64_t carry(const struct problem *p, const struct layout *from, const struct layout *to,
                     const int64_t size[2], int channels, struct image_part *parts)
{
    struct change changes[CHANGE_MAX];
    struct layout at = *from;
    int64_t moved[RANKS_MOST] = {0}, most = 0, priced = 0;
    const struct tensor tensor = {
        .rank = 3,
        .extents = {{DIM_CHANNEL, channels}, {DIM_HEIGHT, size[0]}, {DIM_WIDTH, size[1]}}};
    int count = layout_change(&p->mesh, from, to, changes);
    for (int i = 0; i < count; i++) {
        assert_true(changes[i].is_halo);
        assert_int_equal(changes[i].collective, COLLECTIVE_SEND_RECV);
        // Rows first, and back last.
        assert_int_equal(changes[i].dim == DIM_HEIGHT,
                         count == 1 || (i == 0) == !changes[i].combine);
        struct layout after = layout_after(&p->mesh, &at, to, &changes[i]);
        priced += llabs(layout_local_elements(&after, &p->mesh, &tensor, 1, 1) -
                        layout_local_elements(&at, &p->mesh, &tensor, 1, 1));
        exchange(p, &changes[i], &after, size, channels, parts, moved);
        at = after;
    }
    assert_true(layout_equal(&at, to));
    for (int r = 0; r < p->mesh.rank_count; r++)
        most = moved[r] > most ? moved[r] : most;
    assert_int_equal(priced, most);
    return most;
}

static void expect_equal(const struct image_part *parts, const struct image *whole, int rank_count,
                         int channels, double within)
{
    for (int r = 0; r < rank_count; r++)
        for (int c = 0; c < channels; c++)
            for (int64_t y = parts[r].rows.first; y < parts[r].rows.first + parts[r].rows.count;
                 y++)
                for (int64_t x = parts[r].columns.first;
                     x < parts[r].columns.first + parts[r].columns.count; x++)
                    assert_true(fabs(parts[r].image.at[c][y][x] - whole->at[c][y][x]) <= within);
}

struct halos {
    struct halo reads[2], feeds[2];  // height, width
};

static struct halos halos_of(const struct problem *p, int side)
{
    struct halos halos;
    for (int d = 0; d < 2; d++) {
        halos.reads[d] = halo_to_read(&p->window, p->wide[d], p->narrow[d], side);
        halos.feeds[d] = halo_to_feed(&p->window, p->wide[d], p->narrow[d], side);
        assert_true(halo_is_near(&halos.reads[d], p->wide[d], side));
        assert_true(halo_is_near(&halos.feeds[d], p->narrow[d], side));
    }
    return halos;
}

struct counts {
    int64_t forward, way_a, way_b;
};

// Forward and every gradient on side x side ranks, against one.
static struct counts check(struct arena *arena, int side, struct window window, int64_t height,
                           int64_t width)
{
    struct problem *p = problem_new(arena, side, window, height, width);
    struct halos halos = halos_of(p, side);
    const struct halo none = {0, 0, 0};
    struct layout plain = split_layout(none, none);
    struct layout wide = split_layout(halos.reads[0], halos.reads[1]);
    struct layout fed = split_layout(halos.feeds[0], halos.feeds[1]);
    struct layout sums = wide;
    for (int d = 0; d < HALO_DIMS; d++)
        sums.halos[d].sums = wide.halos[d].lo || wide.halos[d].hi;
    int ranks = p->mesh.rank_count;

    // One rank.
    struct image_part *x = parts_new(arena, p, &WHOLE, p->wide, &p->x);
    struct image_part *y = parts_new(arena, p, &WHOLE, p->narrow, NULL);
    struct image_part *d_x = parts_new(arena, p, &WHOLE, p->wide, NULL);
    struct image_part *d_y = parts_new(arena, p, &WHOLE, p->narrow, &p->d_y);
    struct filter *d_w = ARENA_NEW(arena, struct filter, 1);
    convolve(p, FORWARD, x, y, &p->w);
    convolve(p, OF_INPUT, d_x, d_y, &p->w);
    convolve(p, OF_WEIGHT, x, d_y, d_w);

    struct counts counts;
    struct image_part *xs = parts_new(arena, p, &plain, p->wide, &p->x);
    counts.forward = carry(p, &plain, &wide, p->wide, CHANNELS, xs);
    struct image_part *ys = parts_new(arena, p, &plain, p->narrow, NULL);
    for (int r = 0; r < ranks; r++)
        convolve(p, FORWARD, &xs[r], &ys[r], &p->w);
    expect_equal(ys, &y->image, ranks, RESULTS, 0);

    // Way A: own places of x from all of d_y that they went into.
    struct image_part *fed_ys = parts_new(arena, p, &plain, p->narrow, &p->d_y);
    counts.way_a = carry(p, &plain, &fed, p->narrow, RESULTS, fed_ys);
    struct image_part *a = parts_new(arena, p, &plain, p->wide, NULL);
    for (int r = 0; r < ranks; r++)
        convolve(p, OF_INPUT, &a[r], &fed_ys[r], &p->w);
    expect_equal(a, &d_x->image, ranks, CHANNELS, 0);

    // Way B: all that own places of d_y give, of which the strips go back.
    struct image_part *own_ys = parts_new(arena, p, &plain, p->narrow, &p->d_y);
    struct image_part *b = parts_new(arena, p, &wide, p->wide, NULL);
    for (int r = 0; r < ranks; r++)
        convolve(p, OF_INPUT, &b[r], &own_ys[r], &p->w);
    counts.way_b = carry(p, &sums, &plain, p->wide, CHANNELS, b);
    expect_equal(b, &d_x->image, ranks, CHANNELS, 1e-12);

    struct filter *sum = ARENA_NEW(arena, struct filter, 1);
    for (int r = 0; r < ranks; r++)
        convolve(p, OF_WEIGHT, &xs[r], &own_ys[r], sum);
    for (size_t i = 0; i < sizeof *sum / sizeof(double); i++)
        assert_true(fabs((&sum->at[0][0][0][0])[i] - (&d_w->at[0][0][0][0])[i]) <= 1e-12);
    return counts;
}

// C = 3, O = 5, on 2 x 2 ranks; counts worked by hand from the radii: a corner rank of a 3 x 3
// window has 9 x 9 places of which 8 x 8 are its own, (81 - 64) x 3.
static void splits_of_images_equal_the_whole_and_move_what_the_radii_say(void **state)
{
    static const struct {
        struct window window;  // taps, stride, dilation, pad
        int64_t height, width;
        struct counts wanted;
    } CASES[] = {
        {{3, 1, 1, 1}, 16, 16, {51, 85, 51}},    {{5, 1, 1, 2}, 16, 16, {108, 180, 108}},
        {{3, 1, 2, 2}, 16, 16, {108, 180, 108}}, {{3, 2, 1, 1}, 16, 16, {51, 45, 51}},
        {{7, 2, 1, 3}, 16, 16, {171, 100, 171}}, {{2, 2, 1, 0}, 16, 16, {0, 0, 0}},
        {{1, 1, 1, 0}, 16, 16, {0, 0, 0}},       {{3, 1, 1, 1}, 17, 15, {54, 90, 54}},
        {{3, 1, 1, 0}, 16, 16, {51, 75, 51}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct counts found = check(*state, 2, CASES[i].window, CASES[i].height, CASES[i].width);
        assert_int_equal(found.forward, CASES[i].wanted.forward);
        assert_int_equal(found.way_a, CASES[i].wanted.way_a);
        assert_int_equal(found.way_b, CASES[i].wanted.way_b);
    }
}

static void ranks_inside_have_neighbours_on_all_sides(void **state)
{
    struct counts found = check(*state, 4, (struct window){3, 1, 1, 1}, 16, 16);
    assert_int_equal(found.forward, 3 * (6 * 6 - 4 * 4));
    assert_int_equal(found.way_a, 100);
    assert_int_equal(found.way_b, 60);
}

// A window that reaches beyond the image is cut off at the border; slices that are empty read
// nothing.
static void windows_end_at_the_borders(void **state)
{
    (void)state;
    const struct window window = {3, 1, 1, 1}, strided = {3, 2, 1, 1};
    struct slice reads = window_reads(&window, 8, (struct slice){0, 8});
    assert_true(reads.first == 0 && reads.count == 8);
    reads = window_reads(&window, 8, (struct slice){3, 2});
    assert_true(reads.first == 2 && reads.count == 4);
    struct slice feeds = window_feeds(&strided, 8, (struct slice){8, 8});
    assert_true(feeds.first == 4 && feeds.count == 4);
    feeds = window_feeds(&strided, 8, (struct slice){7, 1});
    assert_true(feeds.first == 3 && feeds.count == 2);
    assert_int_equal(window_reads(&window, 8, (struct slice){8, 0}).count, 0);
    // Windows of one at stride 2 leave every other place out.
    const struct window sparse = {1, 2, 1, 0};
    assert_int_equal(window_feeds(&sparse, 8, (struct slice){7, 1}).count, 0);
}

// 225 rows, each side cut by itself: 57 and 29 a rank, so that rank 3 begins at 171 and 87 x 2 - 1.
static void strides_that_do_not_divide_widen_a_halo(void **state)
{
    (void)state;
    const struct window window = {3, 2, 1, 1};
    struct halo even = halo_to_read(&window, 224, 112, 4);
    assert_int_equal(even.lo + even.hi, 1);
    struct halo uneven = halo_to_read(&window, 225, 113, 4);
    assert_int_equal(uneven.lo + uneven.hi, 3);
}

static void a_halo_wider_than_a_neighbour_is_too_far(void **state)
{
    (void)state;
    const struct halo wide = {3, 3, 0}, one = {1, 1, 0}, none = {0, 0, 0};
    assert_true(halo_is_near(&wide, 12, 4));
    assert_false(halo_is_near(&wide, 11, 4));  // 3, 3, 3, 2
    assert_true(halo_is_near(&one, 7, 4));
    assert_false(halo_is_near(&none, 4, 3));  // 2, 2, 0
}

// Leaving out a halo is free, and what is fetched into another split follows it.
static void halos_change_with_their_splits(void **state)
{
    (void)state;
    struct mesh mesh = square_mesh(2);
    struct change changes[CHANGE_MAX];
    const struct halo none = {0, 0, 0}, one = {1, 1, 0};
    struct layout plain = split_layout(none, none), wide = split_layout(one, one);
    assert_int_equal(layout_change(&mesh, &wide, &plain, changes), 2);
    assert_int_equal(changes[0].collective, COLLECTIVE_SLICE);
    assert_int_equal(changes[1].collective, COLLECTIVE_SLICE);
    assert_int_equal(layout_change(&mesh, &WHOLE, &wide, changes), 4);
    assert_int_equal(changes[0].collective, COLLECTIVE_SLICE);
    assert_int_equal(changes[3].collective, COLLECTIVE_SEND_RECV);
    assert_int_equal(layout_change(&mesh, &wide, &WHOLE, changes), 4);
    assert_true(changes[0].is_halo && changes[1].is_halo);
    assert_int_equal(changes[3].collective, COLLECTIVE_ALL_GATHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_of_images_equal_the_whole_and_move_what_the_radii_say),
        cmocka_unit_test(ranks_inside_have_neighbours_on_all_sides),
        cmocka_unit_test(windows_end_at_the_borders),
        cmocka_unit_test(strides_that_do_not_divide_widen_a_halo),
        cmocka_unit_test(a_halo_wider_than_a_neighbour_is_too_far),
        cmocka_unit_test(halos_change_with_their_splits),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
