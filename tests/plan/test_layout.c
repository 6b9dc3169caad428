#include "tests/support/test.h"

#include "plan/layout/layout.h"

#include <math.h>

// Beside the table of the design, a simulation by brute force: every rank holds counters of a small
// tensor, the changes that layout_change names are carried out on them, and each rank must then
// hold what the wanted layout says, every partial sum added exactly once.

enum { AXES = 3, RANKS = 12, SIDE = 12, CELLS = SIDE * SIDE, NIBBLE = 4 };

// A counter has a nibble for each partial contribution (one a rank at most): 0 = not in it.
static const uint64_t NOT_HELD = UINT64_MAX;

struct held_layout {
    uint64_t cells[RANKS][CELLS];
};

static struct mesh small_mesh(void)
{
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = 1};
    parallel.degree[AXIS_TP] = 2;
    parallel.degree[AXIS_CP] = 3;
    parallel.degree[AXIS_DP] = 2;
    struct mesh mesh = mesh_make(&parallel, 0);
    assert_int_equal(mesh.axis_count, AXES);
    assert_int_equal(mesh.rank_count, RANKS);
    return mesh;
}

// Each axis owns one digit of the index along a dim of SIDE cells.
static int digit(const struct mesh *mesh, int axis, int cell, int8_t dim)
{
    int index = dim == DIM_SEQ ? cell / SIDE : cell % SIDE;
    return index / mesh->axes[axis].stride % mesh->axes[axis].size;
}

static bool is_held(const struct mesh *mesh, const struct layout *layout, int rank, int cell)
{
    for (int i = 0; i < AXES; i++) {
        int8_t of = layout->of[i];
        if (of > 0 && digit(mesh, i, cell, of) != mesh_coordinate(mesh, i, rank)) return false;
    }
    return true;
}

// The counter of a cell on a rank: of the contributions made under `from`, those that a rank with
// `layout` has. An axis partial in both still shows the rank's own contribution alone.
static uint64_t counter(const struct mesh *mesh, const struct layout *from,
                        const struct layout *layout, int rank)
{
    uint64_t value = 0;
    for (int other = 0; other < RANKS; other++) {
        bool counts = true;
        for (int i = 0; i < AXES; i++) {
            int at = mesh_coordinate(mesh, i, other), own = mesh_coordinate(mesh, i, rank);
            int wanted = from->of[i] >= 0 ? 0 : layout->of[i] < 0 ? own : at;
            counts = counts && at == wanted;
        }
        if (counts) value += UINT64_C(1) << (NIBBLE * other);
    }
    return value;
}

static void hold(const struct mesh *mesh, const struct layout *from, const struct layout *layout,
                 struct held_layout *held)
{
    for (int rank = 0; rank < RANKS; rank++) {
        uint64_t value = counter(mesh, from, layout, rank);
        for (int cell = 0; cell < CELLS; cell++) {
            held->cells[rank][cell] = is_held(mesh, layout, rank, cell) ? value : NOT_HELD;
        }
    }
}

static bool is_same_group(const struct mesh *mesh, unsigned axes, int a, int b)
{
    for (int i = 0; i < AXES; i++) {
        bool may_differ = axes >> i & 1;
        if (!may_differ && mesh_coordinate(mesh, i, a) != mesh_coordinate(mesh, i, b)) return false;
    }
    return true;
}

// What the group of a rank makes of one cell: the sum for reductions, else the one copy there is.
static uint64_t combined(const struct mesh *mesh, const struct held_layout *held,
                         const struct change *change, int rank, int cell)
{
    bool sums = change->combine != 0, seen = false;
    uint64_t value = 0;
    for (int other = 0; other < RANKS; other++) {
        if (!is_same_group(mesh, change->axes, rank, other)) continue;
        uint64_t theirs = held->cells[other][cell];
        if (theirs == NOT_HELD) {
            assert_false(sums && seen);
            continue;
        }
        assert_true(sums || !seen);
        value += theirs;
        seen = true;
    }
    return seen ? value : NOT_HELD;
}

// What the change claims of its axes: the innermost of an all-to-all, all of the others.
static void check_dims(const struct change *change, const struct layout *from,
                       const struct layout *to)
{
    int8_t dim = (int8_t)change->dim, to_dim = (int8_t)change->to_dim;
    for (int i = 0; i < AXES; i++) {
        if (!(change->axes >> i & 1)) continue;
        int8_t before = from->of[i], after = to->of[i];
        switch (change->collective) {
        case COLLECTIVE_ALL_TO_ALL:
            assert_true(before == dim && after == to_dim);
            return;
        case COLLECTIVE_ALL_GATHER:
            assert_true(before == dim && after == LAYOUT_WHOLE);
            break;
        case COLLECTIVE_ALL_REDUCE:
            assert_true(before == change->combine && after == LAYOUT_WHOLE && dim == DIM_NONE);
            break;
        default:
            assert_true(after == dim && before == change->combine);
            break;
        }
    }
}

static void carry_out(const struct mesh *mesh, const struct change *change,
                      const struct layout *from, const struct layout *to, struct held_layout *held)
{
    static struct held_layout before;
    before = *held;
    check_dims(change, from, to);
    struct layout kept = {.of = {0}};
    for (int i = 0; i < AXES; i++) {
        if (change->axes >> i & 1) kept.of[i] = to->of[i];
    }
    for (int rank = 0; rank < RANKS; rank++) {
        for (int cell = 0; cell < CELLS; cell++) {
            bool alone = change->collective == COLLECTIVE_SLICE;
            uint64_t value =
                alone ? before.cells[rank][cell] : combined(mesh, &before, change, rank, cell);
            held->cells[rank][cell] = is_held(mesh, &kept, rank, cell) ? value : NOT_HELD;
        }
    }
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static struct layout random_layout(uint64_t *seed, const struct layout *from)
{
    static const int8_t CHOICES[] = {LAYOUT_WHOLE, DIM_SEQ, DIM_HIDDEN, LAYOUT_SUM};
    struct layout layout = {.of = {0}};
    for (int i = 0; i < AXES; i++) {
        uint32_t count = !from || from->of[i] == LAYOUT_SUM ? 4 : 3;
        layout.of[i] = CHOICES[next_random(seed) % count];
    }
    return layout;
}

static void changes_of_random_layouts_give_each_rank_what_the_layout_says(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    static struct held_layout held, wanted;
    uint64_t seed = 20261121;
    print_message("# seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 1500; round++) {
        struct layout from = random_layout(&seed, NULL), to = random_layout(&seed, &from);
        struct change changes[CHANGE_MAX];
        int count = layout_change(&mesh, &from, &to, changes), differing = 0;
        for (int i = 0; i < AXES; i++)
            differing += from.of[i] != to.of[i];
        assert_int_equal(count == 0, layout_equal(&from, &to));
        assert_true(count <= differing);

        hold(&mesh, &from, &from, &held);
        struct layout now = from;
        for (int i = 0; i < count; i++) {
            carry_out(&mesh, &changes[i], &now, &to, &held);
            now = layout_after(&mesh, &now, &to, &changes[i]);
        }
        assert_true(layout_equal(&now, &to));
        hold(&mesh, &from, &to, &wanted);
        assert_memory_equal(&held, &wanted, sizeof held);
    }
}

static struct change only_change(int8_t from, int8_t to)
{
    struct mesh mesh = small_mesh();
    struct layout a = {.of = {from}}, b = {.of = {to}};
    struct change changes[CHANGE_MAX];
    assert_int_equal(layout_change(&mesh, &a, &b, changes), 1);
    assert_int_equal(changes[0].axes, 1);
    return changes[0];
}

static void each_change_is_the_collective_of_the_table(void **state)
{
    (void)state;
    struct change change = only_change(DIM_SEQ, LAYOUT_WHOLE);
    assert_int_equal(change.collective, COLLECTIVE_ALL_GATHER);
    assert_int_equal(change.dim, DIM_SEQ);
    change = only_change(LAYOUT_SUM, LAYOUT_WHOLE);
    assert_int_equal(change.collective, COLLECTIVE_ALL_REDUCE);
    assert_int_equal(change.combine, LAYOUT_SUM);
    change = only_change(LAYOUT_MAX, LAYOUT_WHOLE);
    assert_int_equal(change.combine, LAYOUT_MAX);
    change = only_change(LAYOUT_SUM, DIM_SEQ);
    assert_int_equal(change.collective, COLLECTIVE_REDUCE_SCATTER);
    assert_int_equal(change.dim, DIM_SEQ);
    change = only_change(DIM_SEQ, DIM_HEAD);
    assert_int_equal(change.collective, COLLECTIVE_ALL_TO_ALL);
    assert_int_equal(change.dim, DIM_SEQ);
    assert_int_equal(change.to_dim, DIM_HEAD);
    change = only_change(LAYOUT_WHOLE, DIM_HEAD);
    assert_int_equal(change.collective, COLLECTIVE_SLICE);
    assert_string_equal(collective_name(COLLECTIVE_REDUCE_SCATTER), "reduce-scatter");
}

static void axes_that_change_alike_are_one_collective(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    struct layout from = {.of = {DIM_SEQ, DIM_SEQ, LAYOUT_SUM}}, to = {.of = {0}};
    struct change changes[CHANGE_MAX];
    assert_int_equal(layout_change(&mesh, &from, &to, changes), 2);
    assert_int_equal(changes[0].collective, COLLECTIVE_ALL_REDUCE);
    assert_int_equal(changes[1].collective, COLLECTIVE_ALL_GATHER);
    assert_int_equal(changes[1].axes, 3);
}

static void all_to_alls_between_other_dims_are_one(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    struct layout from = {.of = {DIM_SEQ, LAYOUT_WHOLE, DIM_BATCH}};
    struct layout to = {.of = {DIM_EXPERT, DIM_EXPERT, DIM_EXPERT}};
    struct change changes[CHANGE_MAX];
    assert_int_equal(layout_change(&mesh, &from, &to, changes), 2);
    assert_int_equal(changes[0].collective, COLLECTIVE_SLICE);
    assert_int_equal(changes[1].collective, COLLECTIVE_ALL_TO_ALL);
    assert_int_equal(changes[1].axes, 5);
    assert_int_equal(changes[1].dim, DIM_SEQ);
    struct layout after = layout_after(&mesh, &from, &to, &changes[1]);
    assert_int_equal(after.of[0], DIM_EXPERT);
    assert_int_equal(after.of[1], LAYOUT_WHOLE);
    assert_int_equal(after.of[2], DIM_EXPERT);
}

// A dim is split by what joins it last in the innermost digit: rows of a table of axes.
static void what_joins_a_dim_last_is_its_inner_digit(void **state)
{
    (void)state;
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .cp_kind = CP_ULYSSES};
    parallel.degree[AXIS_TP] = 2;
    parallel.degree[AXIS_CP] = 4;
    struct mesh mesh = mesh_make(&parallel, 4);
    assert_int_equal(mesh.axis_count, 3);
    struct layout heads = {.of = {DIM_HEAD, DIM_HEAD, DIM_HEAD}};
    struct layout keys = {.of = {DIM_KV_HEAD, DIM_KV_HEAD, LAYOUT_WHOLE}};
    for (int rank = 0; rank < mesh.rank_count; rank++) {
        // Every rank holds the kv head of its query heads.
        int64_t head = layout_slice(&heads, &mesh, DIM_HEAD, 8, rank).first;
        assert_int_equal(layout_slice(&keys, &mesh, DIM_KV_HEAD, 4, rank).first, head / 2);
    }
    parallel.cp_kind = CP_RING;
    parallel.degree[AXIS_ETP] = 2;
    parallel.degree[AXIS_TP] = 4;
    parallel.degree[AXIS_CP] = 1;
    parallel.degree[AXIS_EP] = 2;
    mesh = mesh_make(&parallel, 0);
    struct layout tokens = {.of = {DIM_SEQ, DIM_SEQ}};
    // The ranks that exchange experts, two apart, hold neighbouring tokens.
    assert_int_equal(mesh.axes[1].expert, AXIS_EP);
    assert_int_equal(layout_slice(&tokens, &mesh, DIM_SEQ, 8, 2).first, 2);
    assert_int_equal(layout_slice(&tokens, &mesh, DIM_SEQ, 8, 1).first, 4);
}

static void slices_come_first_and_gathers_last(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    struct layout from = {.of = {DIM_SEQ, LAYOUT_SUM, LAYOUT_WHOLE}};
    struct layout to = {.of = {LAYOUT_WHOLE, DIM_HIDDEN, DIM_SEQ}};
    struct change changes[CHANGE_MAX];
    assert_int_equal(layout_change(&mesh, &from, &to, changes), 3);
    assert_int_equal(changes[0].collective, COLLECTIVE_SLICE);
    assert_int_equal(changes[1].collective, COLLECTIVE_REDUCE_SCATTER);
    assert_int_equal(changes[2].collective, COLLECTIVE_ALL_GATHER);
}

// An outer digit that comes in front of one that stays would give ranks the rows of others: what
// stays is gathered first. An inner digit comes as it is.
static void what_stays_behind_an_outer_digit_is_whole_between(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    int outer = layout_is_outer(&mesh, DIM_SEQ, 0, 1) ? 0 : 1;
    struct layout from = {0}, to = {0}, via;
    to.of[0] = to.of[1] = from.of[1 - outer] = DIM_SEQ;
    from.of[outer] = LAYOUT_SUM;
    assert_false(layout_keeps_order(&mesh, &from, &to));
    assert_true(layout_detour(&mesh, &from, &to, &via));
    assert_int_equal(via.of[outer], LAYOUT_SUM);
    assert_int_equal(via.of[1 - outer], LAYOUT_WHOLE);
    assert_int_equal(via.of[2], LAYOUT_WHOLE);
    struct layout next;
    assert_true(layout_keeps_order(&mesh, &from, &via));
    assert_false(layout_detour(&mesh, &from, &via, &next));
    assert_false(layout_detour(&mesh, &via, &to, &next));
    from.of[outer] = DIM_SEQ;
    from.of[1 - outer] = LAYOUT_SUM;
    assert_false(layout_detour(&mesh, &from, &to, &via));
}

static void local_sizes_round_up(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    struct layout layout = {.of = {DIM_SEQ, DIM_SEQ, DIM_BATCH}};
    assert_int_equal(layout_local_size(&layout, &mesh, DIM_SEQ, 13), 3);
    assert_int_equal(layout_local_size(&layout, &mesh, DIM_HIDDEN, 13), 13);
    struct tensor tensor = {.rank = 3, .extents = {{DIM_BATCH, 0}, {DIM_SEQ, 0}, {DIM_HIDDEN, 5}}};
    assert_int_equal(layout_local_elements(&layout, &mesh, &tensor, 4, 12), 2 * 2 * 5);
    // Of ragged rows a share exists, and one at least.
    tensor.density = 0.3;
    assert_int_equal(layout_local_elements(&layout, &mesh, &tensor, 4, 12), 6);
    assert_int_equal(layout_local_elements(&layout, &mesh, &tensor, 1, 1), 2);
    tensor.density = 0;
    struct layout flat = {.of = {DIM_HIDDEN, DIM_FLAT, DIM_FLAT}};
    assert_int_equal(layout_local_elements(&flat, &mesh, &tensor, 1, 1), 1);
}

// Of 13 in six parts the ranks hold 3, 3, 3, 3, 1 and nothing, of 5 in two parts 3 and 2. With one
// row more on each side they hold 4, 5, 5, 5, 2 and, of the last one's neighbour, 1.
static void the_mean_rank_holds_what_all_hold_shared_out(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    struct tensor tensor = {.rank = 2, .extents = {{DIM_SEQ, 0}, {DIM_HIDDEN, 5}}};
    struct layout layout = {.of = {DIM_SEQ, DIM_SEQ, DIM_HIDDEN}};
    double mean = layout_mean_elements(&layout, &mesh, &tensor, 1, 13);
    assert_true(fabs(mean - 13.0 / 6 * 5 / 2) < 1e-12);
    assert_int_equal(layout_local_elements(&layout, &mesh, &tensor, 1, 13), 3 * 3);

    struct tensor rows = {.rank = 1, .extents = {{DIM_HEIGHT, 13}}};
    struct layout strips = {.of = {DIM_HEIGHT, DIM_HEIGHT, LAYOUT_WHOLE}};
    *layout_halo(&strips, DIM_HEIGHT) = (struct halo){.lo = 1, .hi = 1};
    int64_t held = 0;
    for (int rank = 0; rank < RANKS; rank++)
        held += layout_held(&strips, &mesh, DIM_HEIGHT, 13, rank).count;
    assert_int_equal(held, RANKS / 6 * (4 + 5 + 5 + 5 + 2 + 1));
    mean = layout_mean_elements(&strips, &mesh, &rows, 1, 1);
    assert_true(fabs(mean - (double)held / RANKS) < 1e-12);
}

static void slices_of_all_ranks_cover_a_dim_once(void **state)
{
    (void)state;
    struct mesh mesh = small_mesh();
    struct layout layout = {.of = {DIM_SEQ, DIM_SEQ, LAYOUT_WHOLE}};
    for (int64_t size = 1; size <= 25; size++) {
        int64_t covered = 0;
        for (int rank = 0; rank < RANKS / 2; rank++) {
            struct slice slice = layout_slice(&layout, &mesh, DIM_SEQ, size, rank);
            assert_true(slice.first >= 0 && slice.first + slice.count <= size);
            covered += slice.count;
        }
        assert_int_equal(covered, size);
    }
    // cp is the outer digit: its first part is the tp ranks 0 and 1 of coordinate 0.
    assert_int_equal(layout_slice(&layout, &mesh, DIM_SEQ, 12, 1).first, 2);
    assert_int_equal(layout_slice(&layout, &mesh, DIM_SEQ, 12, 2).first, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_random_layouts_give_each_rank_what_the_layout_says),
        cmocka_unit_test(each_change_is_the_collective_of_the_table),
        cmocka_unit_test(axes_that_change_alike_are_one_collective),
        cmocka_unit_test(all_to_alls_between_other_dims_are_one),
        cmocka_unit_test(what_joins_a_dim_last_is_its_inner_digit),
        cmocka_unit_test(slices_come_first_and_gathers_last),
        cmocka_unit_test(what_stays_behind_an_outer_digit_is_whole_between),
        cmocka_unit_test(local_sizes_round_up),
        cmocka_unit_test(the_mean_rank_holds_what_all_hold_shared_out),
        cmocka_unit_test(slices_of_all_ranks_cover_a_dim_once),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
