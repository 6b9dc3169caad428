#include "cost_models/message.h"
#include "simulator/closed_form.h"
#include "simulator/engine.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// Stages with meshes of their own, priced: what crosses, what each reduces, and the two ways to
// time a step.

enum { SEQ = 2048, HIDDEN = 4096 };

static struct priced price_of(struct arena *arena, const int *tps, bool sp)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-a100-80g-x2", "meshwright");
    of.parallel.degree[AXIS_TP] = 4;
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.micro_batch = 2;
    of.parallel.sp = sp;
    of.parallel.stage_tp = tps;
    of.parallel.stage_tp_count = tps ? 2 : 0;
    priced_finish(&of);
    return of;
}

// Pieces one after another over the link between the stages.
static double pieces_s(const struct priced *of, int count, double each_bytes)
{
    const struct mesh *mesh = &of->program->mesh;
    struct group_shape group = mesh_group(mesh, of->cluster, mesh_axes_of(mesh, AXIS_PP));
    double scale = of->stack->network_scale;
    return count * collective_price(of->fabrics, &group, COLLECTIVE_SEND_RECV, each_bytes, scale).s;
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) <= 1e-12 * wanted) return;
    print_error("found %.12g, wanted %.12g\n", found, wanted);
    fail();
}

static void a_hop_takes_its_pieces_one_after_another(void **state)
{
    double sequence = 2.0 * SEQ * HIDDEN;  // bytes
    struct priced alike = price_of(*state, NULL, false);
    is_near(alike.price->hop_s, pieces_s(&alike, 1, 2 * sequence));
    // Two gradients of a sequence each are longer than the two sequences of an alike hop in one.
    struct priced unlike = price_of(*state, (const int[]){4, 2}, false);
    is_near(unlike.price->hop_s, pieces_s(&unlike, 2, sequence));
    assert_true(unlike.price->hop_s > alike.price->hop_s);
    struct priced parted = price_of(*state, (const int[]){4, 2}, true);
    is_near(parted.price->hop_s, pieces_s(&parted, 2, sequence / 4));
}

static double hop_s(const struct priced *of, struct block_program **blocks, int count)
{
    struct program program = *of->program;
    program.blocks = blocks;
    program.block_count = count;
    return between_hop_s(&of->context, &program);
}

// What tp has whole goes in four parts over the links, of what it has in parts each rank sends its
// own; among outputs alike in bytes, or in layout, the longest message is the hop.
static void a_hop_is_the_longest_of_unlike_outputs(void **state)
{
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-a100-80g-x2", "megatron-2021");
    of.parallel.degree[AXIS_TP] = 4;
    of.parallel.degree[AXIS_PP] = 2;
    priced_finish(&of);
    struct block_program whole = *priced_block(&of, BLOCK_LAYER), split = whole, twice = whole;
    const struct mesh *mesh = &of.program->mesh;
    for (int i = 0; i < mesh->axis_count; i++)
        if (mesh->axes[i].parent == AXIS_TP) split.output_layout.of[i] = DIM_SEQ;
    twice.output_bytes *= 2;
    double whole_s = hop_s(&of, (struct block_program *[]){&whole}, 1);
    double split_s = hop_s(&of, (struct block_program *[]){&split}, 1);
    double twice_s = hop_s(&of, (struct block_program *[]){&twice}, 1);
    is_near(split_s, pieces_s(&of, 1, 2.0 * SEQ * HIDDEN));
    assert_true(whole_s < split_s && whole_s < twice_s);
    is_near(hop_s(&of, (struct block_program *[]){&whole, &whole, &split, &whole}, 4), split_s);
    is_near(hop_s(&of, (struct block_program *[]){&split, &whole, &split}, 3), split_s);
    is_near(hop_s(&of, (struct block_program *[]){&whole, &twice, &whole}, 3), twice_s);
}

static const struct chunk_price *chunk_of(const struct priced *of, int stage)
{
    return &of->price->classes[of->price->class_of[stage]];
}

// The stage with tp 2 reduces twice the gradients over four ranks in place of two, and sums nothing
// over more than two within a micro-batch.
static void each_stage_reduces_over_its_own_ranks(void **state)
{
    struct priced alike = price_of(*state, NULL, false);
    struct priced unlike = price_of(*state, (const int[]){4, 2}, false);
    is_near(chunk_of(&unlike, 0)->gradient_reduce_s, chunk_of(&alike, 0)->gradient_reduce_s);
    assert_true(chunk_of(&unlike, 1)->gradient_reduce_s >
                2 * chunk_of(&alike, 1)->gradient_reduce_s);
    assert_true(chunk_of(&unlike, 1)->phase_s[PHASE_FORWARD][PART_TP] <
                chunk_of(&alike, 1)->phase_s[PHASE_FORWARD][PART_TP]);
    is_near(chunk_of(&unlike, 0)->phase_s[PHASE_FORWARD][PART_TP],
            chunk_of(&alike, 0)->phase_s[PHASE_FORWARD][PART_TP]);
}

static void the_closed_form_agrees_with_the_events(void **state)
{
    static const int MESHES[][2] = {{4, 2}, {2, 4}, {4, 1}, {1, 4}};
    for (int i = 0; i < 8; i++) {
        struct arena scratch = {0};
        struct priced of = priced_start(*state, "llama-3-8b", "dgx-a100-80g-x2", "meshwright");
        of.parallel.degree[AXIS_TP] = 4;
        of.parallel.degree[AXIS_PP] = 2;
        of.parallel.micro_batch = 4;
        of.parallel.sp = i % 2;
        of.parallel.stage_tp = MESHES[i / 2];
        of.parallel.stage_tp_count = 2;
        priced_finish(&of);
        const struct simulation *events =
            simulate_step(*state, &scratch, of.price, &(struct engine_options){0});
        struct cost formula = closed_form(of.price);
        assert_true(fabs(formula.step_s / events->cost.step_s - 1) < 0.01);
        arena_free(&scratch);
    }
}

// Of 16 ranks, the first with tp in the first stage.
static struct priced ranks_of(struct arena *arena, const int *ranks, const int *tps,
                              int micro_batch)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-a100-80g-x2", "meshwright");
    of.parallel.degree[AXIS_TP] = tps[0];
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.micro_batch = micro_batch;
    of.parallel.stage_ranks = ranks;
    of.parallel.stage_tp = tps;
    of.parallel.stage_ranks_count = of.parallel.stage_tp_count = ranks ? 2 : 0;
    of.workload.global_batch = (int64_t)16 * micro_batch;
    priced_finish(&of);
    return of;
}

static double step_of(struct arena *arena, const struct step_price *price)
{
    struct arena scratch = {0};
    double s = simulate_step(arena, &scratch, price, &(struct engine_options){0})->cost.step_s;
    arena_free(&scratch);
    return s;
}

// Told that both have 8 ranks, a plan costs what it costs when they need not be told.
static void as_many_ranks_in_all_are_one_mesh(void **state)
{
    struct priced told = ranks_of(*state, (const int[]){8, 8}, (const int[]){8, 8}, 2);
    struct priced plain = ranks_of(*state, NULL, (const int[]){8, 8}, 2);
    is_near(told.price->hop_s, plain.price->hop_s);
    is_near(told.price->norm_s, plain.price->norm_s);
    for (int stage = 0; stage < 2; stage++) {
        const struct chunk_price *a = chunk_of(&told, stage), *b = chunk_of(&plain, stage);
        for (int i = 0; i < PHASE_COUNT * PART_COUNT; i++)
            is_near((&a->phase_s[0][0])[i], (&b->phase_s[0][0])[i]);
        is_near(a->gradient_reduce_s, b->gradient_reduce_s);
        is_near(a->update_s, b->update_s);
    }
    is_near(step_of(*state, told.price), step_of(*state, plain.price));
}

// The same of stages that are a tree, of which one hands on past another. A hop is that of the
// picture, 257 places; where meshes are alike it is taken for as long as if a stage ended where
// picture and text are handed on together.
static void as_many_ranks_in_all_branches_are_one_mesh(void **state)
{
    static const int EIGHT[] = {2, 2, 2, 2};
    struct priced of[2];
    for (int told = 0; told < 2; told++) {
        of[told] = priced_start(*state, "two-towers-2b", "dgx-a100-80g", "meshwright");
        struct parallel *parallel = &of[told].parallel;
        parallel->degree[AXIS_TP] = 2;
        parallel->degree[AXIS_PP] = 4;
        parallel->branches = true;
        parallel->stage_ranks = EIGHT;
        parallel->stage_ranks_count = told ? 4 : 0;
        of[told].workload.seq_len = 256;
        of[told].workload.global_batch = 6;
        priced_finish(&of[told]);
        assert_non_null(of[told].program->shape.tree);
    }
    is_near(of[1].price->hop_s, pieces_s(&of[0], 1, 2.0 * 257 * 1408));
    assert_true(of[1].price->hop_s < of[0].price->hop_s);
    of[1].price->hop_s = of[0].price->hop_s;
    is_near(step_of(*state, of[1].price), step_of(*state, of[0].price));
}

// 12 sequences on 4 ranks of tp, of which the 12 ranks behind have one each. A gradient goes back
// from each of these to all four, who get 12 one after another.
static void a_hop_between_unlike_ranks_is_that_of_the_busiest(void **state)
{
    struct priced of = ranks_of(*state, (const int[]){4, 12}, (const int[]){4, 1}, 12);
    double sequence = 2.0 * SEQ * HIDDEN, scale = of.stack->network_scale;
    struct group_shape pair = route_pair(of.cluster, 0, 15, 4);
    assert_int_equal(pair.node_count, 2);
    is_near(of.price->hop_s,
            12 * collective_price(of.fabrics, &pair, COLLECTIVE_SEND_RECV, sequence, scale).s);
    // The norm is of all ranks; gradients are reduced over the 12, which are in both nodes.
    const struct route_axes all = {1, {16}, {1}}, behind = {1, {12}, {1}}, none = {0};
    struct group_shape every = route_group(of.cluster, &all, &all);
    is_near(of.price->norm_s,
            collective_price(of.fabrics, &every, COLLECTIVE_ALL_REDUCE, sizeof(float), scale).s);
    struct program room;
    const struct program *seen = program_at(of.program, 1, &room);
    struct group_shape found =
        mesh_group(&seen->mesh, of.cluster, mesh_axes_of(&seen->mesh, AXIS_DP));
    struct group_shape wanted = route_group_from(of.cluster, &behind, &behind, &none, 4);
    assert_int_equal(found.rank_count, 12);
    assert_int_equal(found.node_count, 2);
    assert_int_equal(found.ranks_per_node, 8);
    assert_int_equal(found.ranks_per_node_least, 4);
    assert_int_equal(wanted.ranks_per_node_least, 4);
    assert_true(chunk_of(&of, 0)->gradient_reduce_s == 0);
    assert_true(chunk_of(&of, 1)->gradient_reduce_s > 0);
    assert_true(fabs(closed_form(of.price).step_s / step_of(*state, of.price) - 1) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hop_takes_its_pieces_one_after_another),
        cmocka_unit_test(a_hop_is_the_longest_of_unlike_outputs),
        cmocka_unit_test(each_stage_reduces_over_its_own_ranks),
        cmocka_unit_test(the_closed_form_agrees_with_the_events),
        cmocka_unit_test(as_many_ranks_in_all_are_one_mesh),
        cmocka_unit_test(as_many_ranks_in_all_branches_are_one_mesh),
        cmocka_unit_test(a_hop_between_unlike_ranks_is_that_of_the_busiest),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
