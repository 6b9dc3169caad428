#include "planner/bound.h"
#include "tests/support/lowered.h"
#include "tests/support/test.h"
#include "topologies/kernels.h"

#include <math.h>

// What search says of a group before it is lowered, worked by hand.

struct world {
    struct device device;
    struct node_group node;
    struct cluster cluster;
    struct stack stack;
    struct search_request request;
    struct space_mesh mesh;
    struct space_tails tails;
};

// A device of 100 Tflop/s in bf16 of which products reach half; a step of 32 sequences of 128.
static struct world *world_of(struct arena *arena)
{
    struct world *world = ARENA_NEW(arena, struct world, 1);
    world->device.peak_flop_per_s[PRECISION_BF16] = 100e12;
    world->device.efficiency.gemm_ratio[PRECISION_BF16] = 0.5;
    world->node.count = world->node.gpus = 1;
    world->node.device = &world->device;
    world->cluster.nodes = &world->node;
    world->cluster.node_group_count = 1;
    world->cluster.rank_count = 1;
    world->stack.gemm_scale = 1;
    world->stack.attention_forward_scale = world->stack.attention_backward_scale = 1;
    world->stack.gradient_bytes = 4;
    world->stack.master_bytes = world->stack.moment_bytes = 4;
    world->request = (struct search_request){
        .cluster = &world->cluster,
        .stack = &world->stack,
        .workload = {.seq_len = 128, .global_batch = 32, .precision = PRECISION_BF16}};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        world->mesh.degree[axis] = 1;
    world->tails.kinds = PIPELINE_CHUNKED;
    world->tails.hold_ratio = 1;
    world->tails.state_tiers = 1u << TIER_DEVICE;
    return world;
}

static void is_near(const char *what, double found, double wanted)
{
    if (fabs(found - wanted) > 1e-9 * fabs(wanted)) {
        print_error("%s: found %.12g, by hand %.12g\n", what, found, wanted);
        fail();
    }
}

// 6 s of work a micro-batch, 4 s of them on its way: 3 of them on 2 stages are 9 s a stage. Where
// each stage waits for those in front, 6 / (1 - (2/3)^2) = 10.8 s.
static void a_pipeline_is_as_long_as_its_mean_stage_and_its_way(void **state)
{
    (void)state;
    struct bound_work work = {6, 4};
    is_near("fused", bound_pipeline_s(work, 2, 3, PIPELINE_FUSED), 10.8);
    is_near("chunked", bound_pipeline_s(work, 2, 3, PIPELINE_CHUNKED), 9);
    is_near("any", bound_pipeline_s(work, 2, 3, PIPELINE_FUSED | PIPELINE_PARTED), 9);
    // One micro-batch: the way through all 4 stages, with or without what can be put off.
    is_near("one, fused", bound_pipeline_s(work, 4, 1, PIPELINE_FUSED), 6);
    is_near("one, chunked", bound_pipeline_s(work, 4, 1, PIPELINE_CHUNKED), 6);
    is_near("one, parted", bound_pipeline_s(work, 4, 1, PIPELINE_PARTED), 4);
    is_near("the fastest", bound_pipeline_s(work, 4, 1, PIPELINE_CHUNKED | PIPELINE_PARTED), 4);
}

// 1e12 flop a sequence, 4 in a micro-batch, on 8 ranks at 50 Tflop/s: 0.01 s; 4 of them a step for
// each of 2 replicas.
static void the_best_kernel_sets_the_rate(void **state)
{
    struct world *world = world_of(*state);
    struct bound_facts facts = {.layer_flop = 1e12, .rest_flop = 2.5e11};
    world->mesh.degree[AXIS_TP] = 4;
    world->mesh.degree[AXIS_CP] = 2;
    world->mesh.degree[AXIS_DP] = 2;
    const struct search_request *request = &world->request;
    const struct space_mesh *mesh = &world->mesh;
    const struct space_tails *tails = &world->tails;
    is_near("products", bound_step_s(request, &facts, mesh, 4, tails), 0.04);
    // The rest is a quarter, two thirds of which are on the way.
    is_near("rest", bound_rest(request, &facts, mesh, 4, 0).all_s, 0.0025);
    is_near("its way", bound_rest(request, &facts, mesh, 4, 0).chain_s, 0.0025 * 2 / 3);
    // All but what another kind of layers has of it.
    facts.others[0].flop = 1.5e11;
    is_near("less", bound_rest(request, &facts, mesh, 4, 1).all_s, 0.001);
    // Attention at 0.8 one way is faster than products, at 1.25 times the other as fast again.
    world->device.efficiency.attention_forward_ratio = 0.8;
    world->device.efficiency.attention_backward_ratio = 0.7;
    is_near("attention", bound_step_s(request, &facts, mesh, 4, tails), 0.025);
    world->device.efficiency.attention_forward_ratio = 0.1;
    is_near("its backward", bound_step_s(request, &facts, mesh, 4, tails), 0.02 / 0.7);
    world->stack.attention_backward_scale = 0.5;
    is_near("as the stack has it", bound_step_s(request, &facts, mesh, 4, tails), 0.04);
    world->stack.attention_forward_scale = 8;
    is_near("as the stack has it", bound_step_s(request, &facts, mesh, 4, tails), 0.025);
    // Half of the rows have no room.
    world->request.workload.capacity_factor = 0.5;
    is_near("dropped", bound_step_s(request, &facts, mesh, 4, tails), 0.0125);
    world->request.workload.capacity_factor = 1.5;
    is_near("room for all", bound_step_s(request, &facts, mesh, 4, tails), 0.025);
}

// fp8 at 400 Tflop/s of 0.5 does not help a run in bf16, but fp32 that is faster would; attention
// of a run in fp8 has 16 bits or more. A measured kernel of 180 Tflop/s is faster than both.
static void nothing_runs_narrower_than_the_run(void **state)
{
    struct world *world = world_of(*state);
    struct bound_facts facts = {.layer_flop = 1e12};
    const struct search_request *request = &world->request;
    world->request.workload.global_batch = 1;
    world->device.peak_flop_per_s[PRECISION_FP8] = 400e12;
    world->device.efficiency.gemm_ratio[PRECISION_FP8] = 0.5;
    world->device.efficiency.attention_forward_ratio = 0.75;
    is_near("bf16", bound_step_s(request, &facts, &world->mesh, 1, &world->tails), 1.0 / 75);
    world->request.workload.precision = PRECISION_FP8;
    is_near("fp8", bound_step_s(request, &facts, &world->mesh, 1, &world->tails), 1.0 / 200);
    world->request.workload.precision = PRECISION_BF16;
    const struct kernel_table kernels = {.flop_per_s_most = 90e12};
    world->device.kernels = &kernels;
    world->stack.gemm_scale = 0.5;
    world->stack.attention_backward_scale = 2;
    is_near("kernels", bound_step_s(request, &facts, &world->mesh, 1, &world->tails), 1.0 / 180);
}

// 1000 elements outside and 600 inside experts; tp 2, dp 4: 500 a rank, of experts over 2 ranks
// 300. A shard is a fourth of both: 8 ranks have experts split over 2.
static void a_rank_keeps_its_shards(void **state)
{
    struct world *world = world_of(*state);
    const struct search_request *request = &world->request;
    const struct space_mesh *mesh = &world->mesh;
    struct space_tails *tails = &world->tails;
    world->request.workload.optimizer = OPTIMIZER_ADAMW;
    world->mesh.degree[AXIS_TP] = 2;
    world->mesh.degree[AXIS_DP] = 4;
    world->mesh.degree[AXIS_EP] = 2;
    static const double ZERO_BYTES[] = {
        800 * (4 + 12 + 2.0),        // gradients, states and weights whole
        800 * (4 + 2) + 200 * 12.0,  // states of 200
        800 * 2 + 200 * (4 + 12.0),  // and gradients
        200 * (4 + 12 + 2.0),        // and weights
    };
    for (int zero = 0; zero < 4; zero++) {
        tails->zero_most = zero;
        is_near("kept", bound_kept_bytes(request, mesh, tails, 1000, 600), ZERO_BYTES[zero]);
    }
    // Weights that are cast when they are gathered are not kept beside the states.
    world->stack.fp32_weights = true;
    is_near("cast late", bound_kept_bytes(request, mesh, tails, 1000, 600), 200 * 16.0);
    tails->state_tiers = 1u << TIER_DEVICE | 1u << TIER_HOST;
    is_near("moved", bound_kept_bytes(request, mesh, tails, 1000, 600), 200 * 4.0);
    // More experts' ranks than there are: a shard is never less than an element's own.
    world->mesh.degree[AXIS_EP] = 16;
    is_near("spread", bound_kept_bytes(request, mesh, tails, 0, 1600), 100 * 4.0);
    // Half of it a stage, and the reserve.
    world->mesh.degree[AXIS_EP] = 2;
    world->mesh.degree[AXIS_PP] = 2;
    world->stack.reserve_bytes = 1000;
    struct bound_facts facts = {.dense_elements = 1000, .expert_elements = 600};
    is_near("mean", bound_bytes(request, &facts, mesh, tails), 200 * 4.0 / 2 + 1000);
}

// 1600 elements outside and 600 inside experts that are not trained, in 16 bits; tp 2, dp 2, cp 2,
// ep 2: 800 and 300 a rank. The four ranks of dp and cp have a fourth of each at ZeRO 3: 8 ranks
// have experts, split over 2. Over 16 ranks they are, and no shard is less than an element's own.
static void what_is_not_trained_is_held_in_its_width(void **state)
{
    struct world *world = world_of(*state);
    const struct search_request *request = &world->request;
    static const double FROZEN[] = {1600, 600};
    world->request.pins = pins_none();
    world->mesh.degree[AXIS_TP] = world->mesh.degree[AXIS_EP] = 2;
    world->mesh.degree[AXIS_DP] = world->mesh.degree[AXIS_CP] = 2;
    world->tails.zero_most = 2;
    is_near("whole", bound_frozen_bytes(request, &world->mesh, &world->tails, FROZEN), 1100 * 2.0);
    world->tails.zero_most = 3;
    is_near("shards", bound_frozen_bytes(request, &world->mesh, &world->tails, FROZEN), 275 * 2.0);
    world->mesh.degree[AXIS_EP] = 16;
    is_near("spread", bound_frozen_bytes(request, &world->mesh, &world->tails, FROZEN), 237.5 * 2);
    world->request.pins.search_parameters = TIER_HOST;
    is_near("moved", bound_frozen_bytes(request, &world->mesh, &world->tails, FROZEN), 0);
}

// 8000 elements on 2 stages of 4 ranks: at ZeRO 1 each has 1000, for which hosts take states of 12
// bytes and gradients of 4: 128,000 of all ranks, on 2 hosts of 4. Drives take 96,000 of them. Less
// than a byte a rank is cut off.
static void states_go_where_hosts_have_room(void **state)
{
    struct world *world = world_of(*state);
    const struct search_request *request = &world->request;
    const unsigned host = 1u << TIER_HOST, nvme = 1u << TIER_NVME, here = 1u << TIER_DEVICE;
    struct bound_facts facts = {.dense_elements = 8000, .layer_count = 1};
    struct space_group group = {.micro_batch = 1};
    world->request.pins = pins_none();
    world->request.workload.optimizer = OPTIMIZER_ADAMW;
    world->mesh.degree[AXIS_PP] = 2;
    world->mesh.degree[AXIS_DP] = 4;
    world->cluster.rank_count = world->node.gpus = 8;
    world->node.gpus_per_host = 4;
    world->tails.zero_most = 1;
    world->tails.state_tiers = here | host | nvme;
    static const struct {
        int64_t memory_bytes, nvme_bytes;
        unsigned tiers;
    } CASES[] = {
        {64000, 48000, 1u << TIER_DEVICE | 1u << TIER_HOST | 1u << TIER_NVME},
        {63990, 48000, 1u << TIER_DEVICE | 1u << TIER_NVME},
        {64000, 47990, 1u << TIER_DEVICE | 1u << TIER_HOST},
        {16000, 48000, 1u << TIER_DEVICE | 1u << TIER_NVME},
        {15990, 48000, 1u << TIER_DEVICE},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        world->node.host.memory_bytes = CASES[i].memory_bytes;
        world->node.host.nvme_bytes = CASES[i].nvme_bytes;
        assert_int_equal(bound_state_tiers(request, &facts, &world->mesh, &world->tails),
                         CASES[i].tiers);
    }
    // Whole on every rank they are four times as much; 5 of the ranks are on both hosts still.
    world->node.host.memory_bytes = world->node.host.nvme_bytes = 64000;
    world->tails.zero_most = 0;
    assert_int_equal(bound_state_tiers(request, &facts, &world->mesh, &world->tails), here);
    world->tails.zero_most = 1;
    world->node.host.memory_bytes = 40000;
    world->cluster.rank_count = 5;
    assert_true(bound_state_tiers(request, &facts, &world->mesh, &world->tails) & host);
    world->cluster.rank_count = 4;
    assert_false(bound_state_tiers(request, &facts, &world->mesh, &world->tails) & host);
    // Nowhere is no room at all.
    assert_true(bound_has_room(request, &facts, &world->mesh, &group, &world->tails, INT64_MAX));
    world->tails.state_tiers = 0;
    assert_false(bound_has_room(request, &facts, &world->mesh, &group, &world->tails, INT64_MAX));
}

static void a_stage_holds_what_is_in_flight(void **state)
{
    struct space_tails tails = world_of(*state)->tails;
    is_near("stages to the end", bound_held(&tails, 3, 8), 3);
    is_near("micro-batches", bound_held(&tails, 8, 3), 3);
    tails.hold_ratio = 0.5;
    is_near("half", bound_held(&tails, 5, 8), 2.5);
    is_near("at least one", bound_held(&tails, 1, 8), 1);
    tails.in_flight_least = 2;
    is_near("capped", bound_held(&tails, 8, 8), 2);
    tails.in_flight_least = 5;
    is_near("below the cap", bound_held(&tails, 8, 8), 4);
    tails.moves_activations = true;
    assert_true(bound_held(&tails, 8, 8) == 0);
}

// A layer keeps 10 elements of 18 bytes and one input of 256 elements of 2 bytes, 512, in each
// micro-batch in flight: 180 + 512 h. On 4 stages with 4, 3, 2 and 1 of them a layer is 2228, 1716,
// 1204 and 692 bytes; 4456 have room for 2, 2, 3 and 6.
static void layers_are_shared_out_by_room(void **state)
{
    struct world *world = world_of(*state);
    const struct search_request *request = &world->request;
    const struct space_mesh *mesh = &world->mesh;
    const struct space_tails *tails = &world->tails;
    world->request.workload.optimizer = OPTIMIZER_ADAMW;
    world->mesh.degree[AXIS_PP] = 4;
    struct space_group group = {.micro_batch = 2};
    struct bound_facts facts = {
        .layer_count = 13, .layer_dense_elements = 10, .layer_input_elements = 128};
    assert_true(bound_has_room(request, &facts, mesh, &group, tails, 4456));
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 4455));
    facts.layer_count = 14;
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 4456));
    // The reserve is the stack's, slack is on inputs: of 1536 bytes a layer keeps 180 + 768 h.
    world->stack.reserve_bytes = 1000;
    world->stack.reserve_ratio = 0.5;
    facts.layer_count = 1 + 1 + 2 + 4;
    assert_true(bound_has_room(request, &facts, mesh, &group, tails, 1000 + 180 + 4 * 768 + 772));
    facts.layer_count++;
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 1000 + 180 + 4 * 768 + 772));
}

// With cp 2 a rank has half of an input, with sp over tp 2 a quarter. Only the ends may hold none.
static void inner_stages_hold_a_layer_at_least(void **state)
{
    struct world *world = world_of(*state);
    const struct search_request *request = &world->request;
    const struct space_mesh *mesh = &world->mesh;
    const struct space_tails *tails = &world->tails;
    world->mesh.degree[AXIS_PP] = 3;
    struct space_group group = {.micro_batch = 2};
    struct bound_facts facts = {.layer_count = 2, .layer_input_elements = 128};
    // Three, two, one in flight of 512 bytes: without room on the first there is some behind.
    assert_true(bound_has_room(request, &facts, mesh, &group, tails, 1024));
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 1023));
    world->mesh.degree[AXIS_CP] = 2;
    assert_true(bound_has_room(request, &facts, mesh, &group, tails, 512));
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 511));
    group.sp = true;
    world->mesh.degree[AXIS_TP] = 2;
    assert_true(bound_has_room(request, &facts, mesh, &group, tails, 256));
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 255));
    // What the whole keeps counts as well: 3 stages of 100 elements of 4 bytes.
    facts.dense_elements = 300;
    world->stack.master_bytes = world->stack.moment_bytes = 0;
    world->stack.fp32_weights = true;
    world->tails.zero_most = 3;
    world->mesh.degree[AXIS_TP] = 1;
    world->mesh.degree[AXIS_CP] = 4;
    group.sp = false;
    assert_true(bound_has_room(request, &facts, mesh, &group, tails, 256));
    facts.dense_elements = 4 * 3 * 65;
    assert_false(bound_has_room(request, &facts, mesh, &group, tails, 256));
}

// GPT-2's published 124,439,808 parameters, the head's with the embedding's; a layer has 12 d^2 +
// 13 d of them for d = 768 and reads one row of d a token.
static void a_graph_is_counted_once(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "gpt2"}, 1);
    struct bound_facts facts = bound_facts(l.graph, 128);
    double padded = 50304 - 50257;  // rows of the vocabulary, to a multiple of 128
    is_near("all", facts.dense_elements, 124439808 + padded * 768);
    assert_true(facts.expert_elements == 0);
    assert_int_equal(facts.layer_count, 12);
    assert_int_equal(facts.probe_count, 12);
    is_near("a layer", facts.layer_dense_elements, 12.0 * 768 * 768 + 13 * 768);
    is_near("the probe", facts.probe_elements[0], 12.0 * 768 * 768 + 13 * 768);
    is_near("an input", facts.layer_input_elements, 128 * 768.0);
    // The rest is the head: 6 flop for each of its elements and tokens.
    is_near("the rest", facts.rest_flop, 6.0 * 768 * 50257 * 128);
}

// T5 base has 12 layers that encode and 12 that decode, the last of which is of a kind of its own,
// for what it hands the head; it does as much work as the 11 others each, and with the head it is
// what is left.
static void other_kinds_of_layers_are_found(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "t5-base"}, 1);
    struct bound_facts facts = bound_facts(l.graph, 128);
    assert_int_equal(facts.probe_count, 12);
    assert_int_equal(facts.other_count, 1);
    assert_int_equal(facts.others[0].count, 11);
    assert_int_not_equal(facts.others[0].kind, facts.probe_kind);
    is_near("the head", facts.rest_flop - facts.others[0].flop * 12 / 11, 6.0 * 768 * 32128 * 128);
    facts = bound_facts(lowered_make(*state, (struct setup){.model = "gpt2"}, 1).graph, 128);
    assert_int_equal(facts.other_count, 0);
}

// A matrix that all 12 layers share counts once, and to none of them.
static void what_layers_share_is_counted_once(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "gpt2"}, 1);
    struct bound_facts before = bound_facts(l.graph, 128);
    struct block *layer = &l.graph->blocks[before.probe_kind];
    int shared = 0;
    while (tensor_elements(&layer->tensors[shared], 1, 1) != 768 * 3072 ||
           layer->tensors[shared].role != TENSOR_PARAMETER)
        shared++;
    layer->tensors[shared].tie = "shared";
    struct bound_facts facts = bound_facts(l.graph, 128);
    is_near("all", facts.dense_elements, before.dense_elements - 11.0 * 768 * 3072);
    is_near("a layer", facts.layer_dense_elements, before.layer_dense_elements - 768.0 * 3072);
    is_near("the probe", facts.probe_elements[0], facts.layer_dense_elements);
}

// Mixtral's published 46.7 billion parameters: 32 layers of 8 experts of 3 matrices 4096 by 14336.
static void experts_are_counted_apart(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = "mixtral-8x7b"}, 1);
    struct bound_facts facts = bound_facts(l.graph, 128);
    is_near("experts", facts.expert_elements, 32 * 8 * 3 * 4096.0 * 14336);
    is_near("all", facts.expert_elements + facts.dense_elements, 46702792704.0);
    is_near("a layer", facts.layer_expert_elements, 8 * 3 * 4096.0 * 14336);
    is_near("the probe", facts.probe_elements[1], 8 * 3 * 4096.0 * 14336);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_is_as_long_as_its_mean_stage_and_its_way),
        cmocka_unit_test(the_best_kernel_sets_the_rate),
        cmocka_unit_test(nothing_runs_narrower_than_the_run),
        cmocka_unit_test(a_rank_keeps_its_shards),
        cmocka_unit_test(what_is_not_trained_is_held_in_its_width),
        cmocka_unit_test(states_go_where_hosts_have_room),
        cmocka_unit_test(a_stage_holds_what_is_in_flight),
        cmocka_unit_test(layers_are_shared_out_by_room),
        cmocka_unit_test(inner_stages_hold_a_layer_at_least),
        cmocka_unit_test(a_graph_is_counted_once),
        cmocka_unit_test(other_kinds_of_layers_are_found),
        cmocka_unit_test(what_layers_share_is_counted_once),
        cmocka_unit_test(experts_are_counted_apart),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
