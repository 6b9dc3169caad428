#include "planner/choice.h"
#include "planner/saturated.h"
#include "tests/support/test.h"

#include <math.h>

// What room costs a group before anything of its mesh is lowered, worked by hand.

// Two stages, which hold 2 and 1 micro-batches of 2 sequences. A layer's 10 elements are 18 bytes
// each; of a sequence it keeps 105 bytes and works on 25, or recomputed it keeps 15 and works on
// 160. So a layer is 600 and 390 bytes, or 240 and 210, beside 50 or 320 that are worked on. Each
// byte that is freed costs 0.01 s: a layer 600 / 2 of them on the first, 390 on the second stage.
struct world {
    struct stack stack;
    struct search_request request;
    struct space_mesh mesh;
    struct space_group group;
    struct space_tails tails;
    struct bound_facts facts;
    struct saturated saturated;
};

static struct world *world_of(struct arena *arena)
{
    struct world *world = ARENA_NEW(arena, struct world, 1);
    world->stack.gradient_bytes = 4;
    world->stack.master_bytes = world->stack.moment_bytes = 4;
    world->request = (struct search_request){.stack = &world->stack,
                                             .pins = pins_none(),
                                             .workload = {.seq_len = 128,
                                                          .global_batch = 32,
                                                          .precision = PRECISION_BF16,
                                                          .optimizer = OPTIMIZER_ADAMW}};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        world->mesh.degree[axis] = 1;
    world->mesh.degree[AXIS_PP] = 2;
    world->group.micro_batch = 2;
    world->tails.hold_ratio = 1;
    world->tails.state_tiers = 1u << TIER_DEVICE;
    world->saturated = (struct saturated){.saved_bytes = 105,
                                          .s_per_byte = 0.01,
                                          .way_count = 2,
                                          .ways = {{.saved_bytes = 105, .transient_bytes = 25},
                                                   {.saved_bytes = 15, .transient_bytes = 160}},
                                          .transient_least_bytes = 25,
                                          .dense_elements = 10};
    return world;
}

static struct saturated_room room(struct world *world, int layers, int64_t limit_bytes,
                                  double layer_s)
{
    const struct saturated_question question = {
        .request = &world->request,
        .facts = &world->facts,
        .saturated = &world->saturated,
        .mesh = &world->mesh,
        .group = &world->group,
        .tails = &world->tails,
        .limit_bytes = limit_bytes,
    };
    world->facts.probe_count = layers;
    return saturated_room(&question, layer_s);
}

static void is_near(const char *what, double found, double wanted)
{
    if (fabs(found - wanted) > 1e-9 * fabs(wanted)) {
        print_error("%s: found %.12g, by hand %.12g\n", what, found, wanted);
        fail();
    }
}

static void recomputes(struct world *world, int layers, int64_t limit_bytes, double wanted_s)
{
    is_near("recompute", room(world, layers, limit_bytes, 1).recompute_s, wanted_s);
}

static void has_room_for(struct world *world, int layers, int64_t limit_bytes)
{
    assert_true(room(world, layers, limit_bytes, 1).recompute_s == 0);
    assert_true(isinf(room(world, layers + 1, limit_bytes, 1).recompute_s));
}

// 2000 bytes: 1950 / 600 = 3.25 and 1950 / 390 = 5 layers as they are, 1680 / 240 = 7 and
// 1680 / 210 = 8 recomputed. What is left over goes where a layer costs 3 s, then where 3.9 s.
static void the_first_stages_recompute_first(void **state)
{
    struct world *world = world_of(*state);
    assert_true(room(world, 8, 2000, 1).recompute_s == 0);
    recomputes(world, 9, 2000, 0.75 * 3);
    recomputes(world, 10, 2000, 1.75 * 3);
    recomputes(world, 13, 2000, 3.75 * 3 + 1 * 3.9);
    recomputes(world, 15, 2000, 3.75 * 3 + 3 * 3.9);
    assert_true(isinf(room(world, 16, 2000, 1).recompute_s));
    assert_true(isinf(room(world, 1, 40, 1).recompute_s));
    // Micro-batches of which there is one, or whose number is capped: 390 and 210 on both stages.
    world->request.workload.global_batch = 2;
    recomputes(world, 11, 2000, 1 * 3.9);
    world->request.workload.global_batch = 32;
    world->mesh.degree[AXIS_DP] = 16;
    recomputes(world, 11, 2000, 1 * 3.9);
    world->mesh.degree[AXIS_DP] = 1;
    world->tails.in_flight_least = 1;
    recomputes(world, 11, 2000, 1 * 3.9);
}

// A rank of tp 2 has half of everything. The reserve is the stack's, and half as much again of what
// is kept and worked on is a layer of 810 and 495 bytes, or 270 and 225, beside 75 or 480.
static void ranks_share_and_the_allocator_takes(void **state)
{
    struct world *world = world_of(*state);
    world->mesh.degree[AXIS_TP] = 2;
    recomputes(world, 13, 1000, 3.75 * 1.5 + 1 * 1.95);
    world->mesh.degree[AXIS_TP] = 1;
    world->stack.reserve_bytes = 700;
    recomputes(world, 13, 2700, 3.75 * 3 + 1 * 3.9);
    world->stack.reserve_ratio = 0.5;
    double kept = 1950 / 810.0 + 1950 / 495.0, first = 1545 / 270.0 - 1950 / 810.0;
    recomputes(world, 12, 2725, first * 2.7 + (12 - kept - first) * 3.3);
    // Less fits as it is where the least that is worked on belongs to another way.
    world->stack.reserve_ratio = 0;
    world->stack.reserve_bytes = 0;
    world->saturated.way_count = 1;
    world->saturated.ways[0].transient_bytes = 160;
    has_room_for(world, 7, 2000);  // 1680 / 600 + 1680 / 390
}

// Of activations that are moved away a stage holds none: 2000 / 180 layers on each.
static void what_is_moved_takes_no_room(void **state)
{
    struct world *world = world_of(*state);
    world->tails.moves_activations = true;
    has_room_for(world, 22, 2000);
    // 20 elements more that are not trained: 220 bytes.
    world->saturated.frozen_elements[0] = 20;
    has_room_for(world, 18, 2000);
}

// In fp8 both kinds of GEMMs read weights, whose casts are a byte each where they are kept: 200
// bytes. Inside experts, 16 of the elements over ep 4: 180 + 72 + 2 (10 + 4) = 280.
static void casts_of_weights_are_kept_beside_them(void **state)
{
    struct world *world = world_of(*state);
    world->tails.moves_activations = true;
    world->request.workload.precision = PRECISION_FP8;
    world->stack.fp8_gemms = 1u << PHASE_FORWARD | 1u << PHASE_BACKWARD | 1u << PHASE_WEIGHT;
    world->saturated.linear_elements = 10;
    has_room_for(world, 22, 2000);
    world->stack.cached_weight_cast = true;
    has_room_for(world, 20, 2000);
    world->stack.fp8_gemms = 1u << PHASE_FORWARD;  // 190
    has_room_for(world, 21, 2000);
    world->stack.fp8_gemms |= 1u << PHASE_BACKWARD;
    // Where they stand for the weights, as ZeRO 1 has them, 180 are left.
    world->stack.narrow_weights = true;
    has_room_for(world, 20, 2000);
    world->tails.zero_most = 1;
    has_room_for(world, 22, 2000);
    world->stack.narrow_weights = false;
    world->tails.zero_most = 0;
    world->saturated.expert_elements = 16;
    world->saturated.linear_elements = 26;
    world->mesh.degree[AXIS_EP] = 4;
    has_room_for(world, 14, 2000);
    // Two that no GEMM reads are taken off where they are split least: 180 + 72 + 2 (8 + 4) = 276,
    // or with tp 2 and no ep 90 + 288 + 2 (5 + 14) = 416.
    world->saturated.linear_elements = 24;
    has_room_for(world, 14, 7 * 276);
    has_room_for(world, 13, 7 * 276 - 1);
    world->mesh.degree[AXIS_TP] = 2;
    world->mesh.degree[AXIS_EP] = 1;
    has_room_for(world, 2, 416);
    has_room_for(world, 1, 415);
    world->saturated.linear_elements = 26;
    world->mesh.degree[AXIS_EP] = 4;
    // With tp 2, and etp 2: 90 + 36 + 2 (5 + 2).
    world->mesh.degree[AXIS_TP] = world->mesh.degree[AXIS_ETP] = 2;
    has_room_for(world, 28, 2000);
    // Neither beside weights that are gathered, nor in our own engine: 90 + 36.
    world->stack.flags_of = "meshwright plan";
    has_room_for(world, 31, 2000);
    world->stack.flags_of = NULL;
    world->tails.zero_most = 3;
    has_room_for(world, 31, 2000);
}

// A split in which no stage takes longer than T: by hand its layers are all there are. What is
// found is at most as long, and by 12 halvings of its logarithm not much shorter.
static void slowest(struct world *world, int layers, int64_t limit_bytes, double layer_s,
                    double wanted_s)
{
    double found_s = room(world, layers, limit_bytes, layer_s).stage_s;
    if (found_s > wanted_s * (1 + 1e-9) || found_s < wanted_s * (1 - 1.1e-3)) {
        print_error("%d layers of %g s: found %.12g, by hand %.12g\n", layers, layer_s, found_s,
                    wanted_s);
        fail();
    }
}

static void the_slowest_stage_has_what_the_others_leave(void **state)
{
    struct world *world = world_of(*state);
    assert_true(room(world, 8, 2000, 1).stage_s == 0);   // nothing is recomputed
    assert_true(room(world, 16, 2000, 1).stage_s == 0);  // there is no room
    assert_true(room(world, 13, 2000, 0).stage_s == 0);
    // 3.25 + (T - 3.25) / 4 + 5 + (T - 5) / 4.9 = 13
    slowest(world, 13, 2000, 1, (4.75 + 3.25 / 4 + 5 / 4.9) / (1 / 4.0 + 1 / 4.9));
    // 3.25 + (T - 6.5) / 5 + 5 + (T - 10) / 5.9 = 13
    slowest(world, 13, 2000, 2, (4.75 + 6.5 / 5 + 10 / 5.9) / (1 / 5.0 + 1 / 5.9));
    // The first stage is full with 1681 / 240: the second has the others, 1951 / 390 as they are.
    slowest(world, 15, 2001, 1, 1951 / 390.0 + (15 - 1681 / 240.0 - 1951 / 390.0) * 4.9);
    // The second recomputes none: 1850 / 600 + (T - 1850 / 600) / 4 + T = 8
    slowest(world, 8, 1900, 1, 4.55);
}

static struct saturated made(struct arena *arena, const char *model, int recompute, int layers)
{
    struct err err = {0};
    struct arena scratch = {0};
    struct search_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-h100", &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 1024, .global_batch = 64, .precision = PRECISION_BF16},
        .pins = pins_none(),
    };
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_RECOMPUTE, recompute, recompute);
    if (layers >= 0) pins_set(&request.pins, CHOICE_RECOMPUTE_LAYERS, layers, layers);
    struct memo *memo = memo_new(arena, &scratch, &request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(arena, &request, &graphs);
    enum attention attention = ATTENTION_FLASH;
    struct bound_facts facts = bound_facts(memo_graph(memo, attention, 1), 1024);
    struct saturated saturated = saturated_make(memo, space, &facts, attention);
    arena_free(&scratch);
    return saturated;
}

// Beside a pinned number of layers that are recomputed stand those that are not, which are faster.
static void what_recomputes_nothing_is_fastest(void **state)
{
    struct saturated none = made(*state, "gpt2", RECOMPUTE_NONE, -1);
    struct saturated full = made(*state, "gpt2", RECOMPUTE_FULL, -1);
    struct saturated some = made(*state, "gpt2", RECOMPUTE_FULL, 3);
    assert_int_equal(none.way_count, 1);
    assert_int_equal(full.way_count, 1);
    assert_int_equal(some.way_count, 2);
    assert_true(none.sequence.all_s < full.sequence.all_s && none.saved_bytes > full.saved_bytes);
    assert_true(none.s_per_byte == 0 && full.s_per_byte == 0);
    is_near("all", some.sequence.all_s, none.sequence.all_s);
    is_near("chain", some.sequence.chain_s, fmin(none.sequence.chain_s, full.sequence.chain_s));
    is_near("saved", some.saved_bytes, none.saved_bytes);
    is_near("price", some.s_per_byte,
            (full.sequence.all_s - none.sequence.all_s) / (none.saved_bytes - full.saved_bytes));
    is_near("first way", some.ways[0].saved_bytes, full.saved_bytes);
    is_near("second way", some.ways[1].saved_bytes, none.saved_bytes);
    is_near("worked on", some.transient_least_bytes,
            fmin(none.transient_least_bytes, full.transient_least_bytes));
    // Fully recomputed a layer keeps its input: 1024 rows of 768 numbers of 2 bytes.
    is_near("an input", full.saved_bytes, 1024 * 768 * 2.0);
}

// A layer of gpt2 has matrices of 12 d^2 for d = 768; one of Mixtral 8 experts of 3 matrices 4096
// by 14336, q and o of 4096 by 4096, k and v of 4096 by 1024. No such GEMM reads biases, norms or a
// router of 4096 by 8.
static void elements_of_gemms_are_told_apart(void **state)
{
    struct saturated gpt2 = made(*state, "gpt2", RECOMPUTE_NONE, -1);
    is_near("gpt2", gpt2.linear_elements, 12.0 * 768 * 768);
    is_near("of all", gpt2.dense_elements, 12.0 * 768 * 768 + 13 * 768);
    assert_true(gpt2.expert_elements == 0);
    struct saturated mixtral = made(*state, "mixtral-8x7b", RECOMPUTE_NONE, -1);
    double experts = 8 * 3 * 4096.0 * 14336, others = 4096.0 * (2 * 4096 + 2 * 1024);
    is_near("experts", mixtral.expert_elements, experts);
    is_near("others", mixtral.dense_elements, others + 4096 * 8 + 2 * 4096);
    is_near("of GEMMs", mixtral.linear_elements, experts + others);
}

// 12 layers of 3 and 2 s a sequence, in micro-batches of 4 on 8 ranks.
static void work_is_that_of_all_layers(void **state)
{
    struct world *world = world_of(*state);
    world->facts.probe_count = 12;
    world->saturated.sequence = (struct bound_work){3, 2};
    world->mesh.degree[AXIS_TP] = 4;
    world->mesh.degree[AXIS_CP] = 2;
    struct bound_work work = saturated_work(&world->facts, &world->saturated, &world->mesh, 4);
    is_near("all", work.all_s, 18);
    is_near("chain", work.chain_s, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_stages_recompute_first),
        cmocka_unit_test(ranks_share_and_the_allocator_takes),
        cmocka_unit_test(what_is_moved_takes_no_room),
        cmocka_unit_test(casts_of_weights_are_kept_beside_them),
        cmocka_unit_test(the_slowest_stage_has_what_the_others_leave),
        cmocka_unit_test(what_recomputes_nothing_is_fastest),
        cmocka_unit_test(elements_of_gemms_are_told_apart),
        cmocka_unit_test(work_is_that_of_all_layers),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
