#include "tests/support/test.h"

#include "plan/layout/mesh.h"

static struct parallel degrees(int tp, int cp, int dp, int pp)
{
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = 1};
    parallel.degree[AXIS_TP] = tp;
    parallel.degree[AXIS_CP] = cp;
    parallel.degree[AXIS_DP] = dp;
    parallel.degree[AXIS_PP] = pp;
    parallel_default_order(&parallel);
    return parallel;
}

static int find_axis(const struct mesh *mesh, const char *name)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        if (strcmp(mesh->axes[i].name, name) == 0) return i;
    }
    fail_msg("the mesh has no axis %s", name);
    return -1;
}

static void strides_follow_the_order_and_axes_of_one_rank_are_left_out(void **state)
{
    (void)state;
    struct parallel parallel = degrees(4, 1, 3, 2);
    struct mesh mesh = mesh_make(&parallel, 0);
    assert_int_equal(mesh.axis_count, 3);
    assert_int_equal(mesh.rank_count, 24);
    assert_int_equal(mesh.axes[find_axis(&mesh, "tp")].stride, 1);
    assert_int_equal(mesh.axes[find_axis(&mesh, "dp")].stride, 4);
    assert_int_equal(mesh.axes[find_axis(&mesh, "pp")].stride, 12);

    parallel.order[0] = AXIS_PP;
    parallel.order[parallel.order_count - 1] = AXIS_TP;
    mesh = mesh_make(&parallel, 0);
    assert_int_equal(mesh.axes[find_axis(&mesh, "pp")].stride, 1);
    assert_int_equal(mesh.axes[find_axis(&mesh, "dp")].stride, 2);
    assert_int_equal(mesh.axes[find_axis(&mesh, "tp")].stride, 6);
}

static void every_rank_has_coordinates_of_its_own(void **state)
{
    (void)state;
    struct parallel parallel = degrees(4, 3, 5, 2);
    struct mesh mesh = mesh_make(&parallel, 2);
    for (int rank = 0; rank < mesh.rank_count; rank++) {
        int again = 0;
        for (int i = 0; i < mesh.axis_count; i++) {
            again += mesh_coordinate(&mesh, i, rank) * mesh.axes[i].stride;
        }
        assert_int_equal(again, rank);
    }
}

static void tp_beyond_the_kv_heads_becomes_two_axes(void **state)
{
    (void)state;
    struct parallel parallel = degrees(16, 1, 2, 1);
    struct mesh mesh = mesh_make(&parallel, 8);
    int split = find_axis(&mesh, "tp.0"), rest = find_axis(&mesh, "tp.1");
    assert_int_equal(mesh.axes[split].size, 8);
    assert_int_equal(mesh.axes[rest].size, 2);
    // The ranks that share a kv head are neighbours.
    assert_int_equal(mesh.axes[rest].stride, 1);
    assert_int_equal(mesh.axes[split].stride, 2);
    assert_int_equal(mesh_axes_of(&mesh, AXIS_TP), 1u << split | 1u << rest);
    assert_int_equal(mesh_size(&mesh, mesh_axes_of(&mesh, AXIS_TP)), 16);

    mesh = mesh_make(&parallel, 32);
    assert_int_equal(mesh.axes[find_axis(&mesh, "tp")].size, 16);
    mesh = mesh_make(&parallel, 1);
    assert_int_equal(mesh.axes[find_axis(&mesh, "tp")].size, 16);
}

static void ulysses_splits_the_kv_heads_that_tp_leaves(void **state)
{
    (void)state;
    struct parallel parallel = degrees(2, 8, 1, 1);
    parallel.cp_kind = CP_ULYSSES;
    struct mesh mesh = mesh_make(&parallel, 8);
    int split = find_axis(&mesh, "cp.0"), rest = find_axis(&mesh, "cp.1");
    assert_int_equal(mesh.axes[split].size, 4);
    assert_int_equal(mesh.axes[rest].size, 2);
    assert_int_equal(mesh.axes[split].stride, 2);
    assert_int_equal(mesh.axes[rest].stride, 8);
    parallel.cp_kind = CP_RING;
    mesh = mesh_make(&parallel, 8);
    assert_int_equal(mesh.axes[find_axis(&mesh, "cp")].size, 8);
}

// Experts take etp, then ep, then their own data parallelism from the inside of a stage.
static void axes_are_cut_where_the_mesh_of_experts_has_boundaries(void **state)
{
    (void)state;
    struct parallel parallel = degrees(4, 1, 8, 2);
    parallel.degree[AXIS_ETP] = 2;
    parallel.degree[AXIS_EP] = 8;
    struct mesh mesh = mesh_make(&parallel, 0);
    static const struct {
        const char *name;
        int size, stride;
        enum axis expert;
    } WANTED[] = {{"tp.1", 2, 1, AXIS_ETP},
                  {"tp.0", 2, 2, AXIS_EP},
                  {"dp.0", 4, 4, AXIS_EP},
                  {"dp.1", 2, 16, AXIS_DP}};
    for (int i = 0; i < 4; i++) {
        const struct mesh_axis *axis = &mesh.axes[find_axis(&mesh, WANTED[i].name)];
        assert_int_equal(axis->size, WANTED[i].size);
        assert_int_equal(axis->stride, WANTED[i].stride);
        assert_int_equal(axis->expert, WANTED[i].expert);
    }
    assert_int_equal(mesh_size(&mesh, mesh_axes_of(&mesh, AXIS_EP)), 8);
    assert_int_equal(mesh_size(&mesh, mesh_axes_of(&mesh, AXIS_ETP)), 2);
    unsigned shared = mesh_shard_axes(&mesh, &parallel, PARAMETER_EXPERT, STORED_STATES);
    assert_int_equal(shared, 1u << find_axis(&mesh, "dp.1"));
    assert_int_equal(
        mesh_size(&mesh, mesh_shard_axes(&mesh, &parallel, PARAMETER_DENSE, STORED_STATES)), 8);
}

static bool folds(int tp, int cp, int dp, int ep, int etp, bool sp)
{
    struct parallel parallel = degrees(tp, cp, dp, 3);
    parallel.degree[AXIS_EP] = ep;
    parallel.degree[AXIS_ETP] = etp;
    parallel.sp = sp;
    return mesh_folds(&parallel, 0);
}

static void experts_fold_where_the_boundaries_nest(void **state)
{
    (void)state;
    assert_true(folds(2, 1, 4, 8, 1, true));
    assert_true(folds(2, 3, 4, 6, 1, true));
    assert_true(folds(2, 3, 4, 3, 2, false));
    assert_false(folds(2, 1, 4, 16, 1, true));  // more than the ranks of a stage
    assert_false(folds(2, 1, 9, 3, 1, true));   // 3 ends inside dp without dividing 2
    assert_false(folds(2, 1, 4, 8, 2, true));
    // Tokens would leave cp before the tp inside it does.
    assert_false(folds(2, 3, 4, 3, 2, true));
}

static void a_zero_group_is_the_inner_part_of_dp_with_all_of_cp(void **state)
{
    (void)state;
    struct parallel parallel = degrees(2, 2, 8, 1);
    parallel.zero = 3;
    parallel.zero_group = 8;
    struct mesh mesh = mesh_make(&parallel, 0);
    int group = find_axis(&mesh, "dp.0"), replicas = find_axis(&mesh, "dp.1");
    assert_int_equal(mesh.axes[group].size, 4);
    assert_int_equal(mesh.axes[group].stride, 4);
    assert_int_equal(mesh.axes[replicas].size, 2);
    unsigned axes = mesh_shard_axes(&mesh, &parallel, PARAMETER_DENSE, STORED_STATES);
    assert_int_equal(axes, mesh_axes_of(&mesh, AXIS_CP) | 1u << group);
    assert_int_equal(mesh_size(&mesh, axes), 8);

    parallel.zero_group = 0;
    mesh = mesh_make(&parallel, 0);
    assert_int_equal(
        mesh_size(&mesh, mesh_shard_axes(&mesh, &parallel, PARAMETER_DENSE, STORED_STATES)), 16);
}

static void a_group_within_a_node_stays_on_its_fabric(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-h100-x2", &err);
    assert_string_equal(err.text, "");
    struct parallel parallel = degrees(8, 1, 2, 1);
    struct mesh mesh = mesh_make(&parallel, 8);
    struct group_shape tp = mesh_group(&mesh, cluster, mesh_axes_of(&mesh, AXIS_TP));
    struct group_shape dp = mesh_group(&mesh, cluster, mesh_axes_of(&mesh, AXIS_DP));
    assert_int_equal(tp.rank_count, 8);
    assert_int_equal(tp.node_count, 1);
    assert_int_equal(dp.rank_count, 2);
    assert_int_equal(dp.node_count, 2);
    assert_int_equal(dp.ranks_per_node, 1);
}

static void names_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < AXIS_COUNT; i++) {
        enum axis axis = AXIS_COUNT;
        assert_true(axis_from_name(axis_name((enum axis)i), &axis));
        assert_int_equal(axis, i);
    }
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        enum optimizer optimizer = OPTIMIZER_COUNT;
        assert_true(optimizer_from_name(optimizer_name((enum optimizer)i), &optimizer));
        assert_int_equal(optimizer, i);
    }
    enum recompute recompute;
    assert_true(recompute_from_name("selective", &recompute));
    assert_int_equal(recompute, RECOMPUTE_SELECTIVE);
    assert_false(recompute_from_name("some", &recompute));
}

static void ep_takes_no_ranks_of_its_own(void **state)
{
    (void)state;
    struct parallel parallel = degrees(2, 3, 5, 7);
    parallel.degree[AXIS_EP] = 4;
    assert_int_equal(parallel_rank_count(&parallel), 210);
    parallel.micro_batch = 2;
    assert_int_equal(parallel_micro_batch_count(&parallel, 60), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_follow_the_order_and_axes_of_one_rank_are_left_out),
        cmocka_unit_test(every_rank_has_coordinates_of_its_own),
        cmocka_unit_test(tp_beyond_the_kv_heads_becomes_two_axes),
        cmocka_unit_test(ulysses_splits_the_kv_heads_that_tp_leaves),
        cmocka_unit_test(axes_are_cut_where_the_mesh_of_experts_has_boundaries),
        cmocka_unit_test(experts_fold_where_the_boundaries_nest),
        cmocka_unit_test(a_zero_group_is_the_inner_part_of_dp_with_all_of_cp),
        cmocka_unit_test(a_group_within_a_node_stays_on_its_fabric),
        cmocka_unit_test(names_read_back),
        cmocka_unit_test(ep_takes_no_ranks_of_its_own),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
