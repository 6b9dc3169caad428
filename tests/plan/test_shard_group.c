#include "tests/support/test.h"

#include "plan/layout/shard.h"
#include "planner/choice.h"
#include "tests/support/priced.h"

#include <math.h>

// Shards of one node: who proposes them, and what bringing parameters back from their owners costs.

static struct priced sharded(struct arena *arena, bool owned_tensors, int group)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g-x128", "internevo");
    *stack = *of.stack;
    stack->owned_tensors = owned_tensors;
    of.stack = stack;
    of.parallel.zero = 1;
    of.parallel.zero_group = group;
    priced_finish(&of);
    return of;
}

static double gather_s(struct arena *arena, bool owned_tensors, int group)
{
    return sharded(arena, owned_tensors, group).price->classes[0].parameter_gather_s;
}

// 1024 ranks own the tensors, and every broadcast pays the latency of all of them; inside a node
// there are 8, of 8 ranks.
static void every_owner_broadcasts_its_own(void **state)
{
    double whole_s = gather_s(*state, false, 0), each_s = gather_s(*state, true, 0);
    assert_true(each_s > 1.5 * whole_s);
    double node_s = gather_s(*state, false, 8), each_in_node_s = gather_s(*state, true, 8);
    // Every link passes all of a broadcast, and of a gather all but what its reader owns.
    assert_true(each_in_node_s > 1.1 * node_s && each_in_node_s < 1.2 * node_s);
    assert_true(each_in_node_s < 0.3 * each_s);
}

// Layers have 7 products and 2 norms; beside them are two embeddings and the last norm.
static void no_more_owners_broadcast_than_there_are_tensors(void **state)
{
    struct priced of = sharded(*state, true, 0);
    int tensor_count = 32 * 9 + 3;
    double bytes = 2.0 * (double)graph_parameter_count(of.graph);
    unsigned axes = mesh_axes_of(&of.program->mesh, AXIS_DP);
    struct group_shape group = mesh_group(&of.program->mesh, of.cluster, axes);
    double scale = of.stack->network_scale;
    double each_s = broadcast_price(of.fabrics, &group, bytes / tensor_count, scale).s;
    double all_s = of.price->classes[0].parameter_gather_s;
    assert_true(fabs(all_s / (tensor_count * each_s) - 1) < 1e-6);
}

static double buckets_s(const struct priced *of, enum collective collective)
{
    double bytes = 2.0 * (double)graph_parameter_count(of->graph);
    unsigned axes = mesh_axes_of(&of->program->mesh, AXIS_DP);
    struct group_shape group = mesh_group(&of->program->mesh, of->cluster, axes);
    double count = ceil(bytes / (double)of->stack->bucket_bytes);
    double scale = of->stack->network_scale;
    return count * collective_price(of->fabrics, &group, collective, bytes / count, scale).s;
}

// Whoever owns the tensors, every rank takes part in the sum of whole gradients.
static void gradients_of_owned_tensors_are_all_reduced(void **state)
{
    struct priced owned = sharded(*state, true, 0), cut = sharded(*state, false, 0);
    double owned_s = owned.price->classes[0].gradient_reduce_s;
    double cut_s = cut.price->classes[0].gradient_reduce_s;
    assert_true(fabs(owned_s / buckets_s(&owned, COLLECTIVE_ALL_REDUCE) - 1) < 1e-6);
    assert_true(fabs(cut_s / buckets_s(&cut, COLLECTIVE_REDUCE_SCATTER) - 1) < 1e-6);
    double in_node_s = sharded(*state, true, 8).price->classes[0].gradient_reduce_s;
    assert_true(in_node_s == owned_s && owned_s > cut_s);
}

// Zero 3 with the gradients of all micro-batches added up whole: weights are gathered as often as
// ever, gradients are scattered once a step and kept whole till then.
static void whole_gradients_are_scattered_once_a_step(void **state)
{
    struct priced in_shards, whole;
    struct priced *both[] = {&in_shards, &whole};
    for (int i = 0; i < 2; i++) {
        *both[i] = priced_start(*state, "llama-2-7b", "dgx-h100-x16", "fsdp2");
        both[i]->parallel.zero = 3;
        both[i]->parallel.accumulates = i == 1;
        both[i]->parallel.overlap = 0;
        both[i]->parallel.passes &= ~(1u << PASS_BUCKETS);
        priced_finish(both[i]);
    }
    const struct chunk_price *each = &in_shards.price->classes[0], *once = &whole.price->classes[0];
    assert_true(each->phase_s[PHASE_WEIGHT][PART_DP] > 0 && each->gradient_reduce_s == 0);
    assert_true(once->phase_s[PHASE_WEIGHT][PART_DP] == 0);
    assert_true(once->phase_s[PHASE_FORWARD][PART_DP] == each->phase_s[PHASE_FORWARD][PART_DP]);
    assert_true(once->phase_s[PHASE_BACKWARD][PART_DP] == each->phase_s[PHASE_BACKWARD][PART_DP]);
    double bytes = 4.0 * (double)graph_parameter_count(whole.graph);
    unsigned axes = mesh_axes_of(&whole.program->mesh, AXIS_DP);
    struct group_shape group = mesh_group(&whole.program->mesh, whole.cluster, axes);
    int blocks = whole.graph->layer_count + 2;  // each is scattered by itself
    double scatter_s =
        blocks *
        collective_price(whole.fabrics, &group, COLLECTIVE_REDUCE_SCATTER, bytes / blocks, 1).s;
    assert_true(fabs(once->gradient_reduce_s / scatter_s - 1) < 1e-6);
    int64_t kept = memory_of_stage(whole.program, whole.stack, 0).gradients_bytes;
    int64_t shard = memory_of_stage(in_shards.program, in_shards.stack, 0).gradients_bytes;
    assert_true(fabs((double)kept / bytes - 1) < 1e-6);
    assert_true(fabs((double)shard * 128 / bytes - 1) < 1e-6);
}

static void one_micro_batch_has_nothing_to_add_up(void **state)
{
    struct err err = {0};
    const struct stack *stack = stack_load(*state, "fsdp2@kempnerforge", &err);
    struct parallel parallel = {
        .degree = {[0 ... AXIS_COUNT - 1] = 1}, .micro_batch = 2, .zero = 3};
    parallel.degree[AXIS_DP] = 8;
    assert_true(stack_accumulates(stack, &parallel, 32));
    // torchtitan does so in its pipelines alone.
    const struct stack *titan = stack_load(*state, "fsdp2", &err);
    assert_false(stack_accumulates(titan, &parallel, 32));
    parallel.degree[AXIS_PP] = 2;
    assert_true(stack_accumulates(titan, &parallel, 32));
    assert_false(stack_accumulates(titan, &parallel, 16));
    parallel.degree[AXIS_PP] = 1;
    assert_false(stack_accumulates(stack, &parallel, 16));
    parallel.zero = 1;
    assert_false(stack_accumulates(stack, &parallel, 32));
    parallel.zero = 3;
    assert_false(stack_accumulates(stack_load(*state, "fsdp", &err), &parallel, 32));
}

static int group_chosen(struct arena *arena, const char *stack, int zero)
{
    struct err err = {0};
    struct search_request request = {
        .model = model_load(arena, "llama-2-7b", NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-a100-80g-x128", &err),
        .stack = stack_load(arena, stack, &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 2048, .global_batch = 2048, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
    };
    assert_string_equal(err.text, "");
    pins_set(&request.pins, CHOICE_DP, 1024, 1024);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&request.pins, CHOICE_ZERO, zero, zero);
    struct search_result result = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    assert_true(result.best_count > 0);
    return result.best[0].parallel.zero_group;
}

// Hybrid ZeRO is what InternEvo is for: a group, of whole nodes. Of Megatron-Core's optimizer it is
// asked for by name.
static void a_group_of_whole_nodes_is_chosen_unasked(void **state)
{
    int group = group_chosen(*state, "internevo", 1);
    assert_true(group >= 8 && group < 1024 && group % 8 == 0);
    assert_int_equal(group_chosen(*state, "megatron-core", 1), 0);
}

// Of 25 elements over 2, 4 and 8 of 8 ranks: cut into 13 and 12, those into 7 and 6 or 6 and 6, and
// those once more. Neighbours are in one group of parameters.
static void who_stores_little_stores_part_of_what_it_stores_more_of(void **state)
{
    (void)state;
    static const struct slice PARTS[STORED_COUNT][8] = {
        [STORED_WEIGHTS] =
            {{0, 13}, {13, 12}, {0, 13}, {13, 12}, {0, 13}, {13, 12}, {0, 13}, {13, 12}},
        [STORED_GRADIENTS] = {{0, 7}, {13, 6}, {7, 6}, {19, 6}, {0, 7}, {13, 6}, {7, 6}, {19, 6}},
        [STORED_STATES] = {{0, 4}, {13, 3}, {7, 3}, {19, 3}, {4, 3}, {16, 3}, {10, 3}, {22, 3}},
    };
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                .zero = 3,
                                .zero_gradients = 4,
                                .zero_parameters = 2};
    parallel.degree[AXIS_DP] = 8;
    struct mesh mesh = mesh_make(&parallel, 0);
    int sum = 0;
    for (int i = 0; i < STORED_COUNT; i++) {
        unsigned axes = mesh_shard_axes(&mesh, &parallel, PARAMETER_DENSE, (enum stored)i);
        for (int rank = 0; rank < 8; rank++) {
            struct slice slice = shard_slice(&mesh, axes, 25, rank);
            assert_int_equal(slice.first, PARTS[i][rank].first);
            assert_int_equal(slice.count, PARTS[i][rank].count);
            sum += i == STORED_STATES ? (int)slice.count : 0;
        }
    }
    static const int ORDER[] = {0, 4, 2, 6, 1, 5, 3, 7};
    int ranks[8];
    unsigned all = mesh_shard_axes(&mesh, &parallel, PARAMETER_DENSE, STORED_STATES);
    assert_int_equal(shard_members(&mesh, all, 5, ranks), 8);
    assert_memory_equal(ranks, ORDER, sizeof ranks);
    assert_int_equal(sum, 25);
}

// Llama 2 7B on 16 nodes of 8: an eighth of the weights and gradients, a 128th of the states; once
// a step each block's eighth of the gradients goes to the states of 16 nodes, and the weights back.
static void states_over_all_nodes_cost_one_exchange_between_them_a_step(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-h100-x16", "meshwright");
    of.parallel.zero = 3;
    of.parallel.zero_gradients = 8;
    of.parallel.overlap = 0;
    priced_finish(&of);
    double elements = (double)graph_parameter_count(of.graph);
    const struct memory_parts memory = memory_of_stage(of.program, of.stack, 0);
    enum precision precision = of.program->workload.precision;
    double gradients = elements / 8 * stack_gradient_bytes(of.stack, precision);
    assert_true(fabs((double)memory.gradients_bytes / gradients - 1) < 1e-3);
    struct parallel alike = of.parallel;
    alike.zero_gradients = 0;
    struct priced all = priced_start(*state, "llama-2-7b", "dgx-h100-x16", "meshwright");
    all.parallel = alike;
    priced_finish(&all);
    struct memory_parts whole = memory_of_stage(all.program, all.stack, 0);
    assert_int_equal(memory.optimizer_bytes, whole.optimizer_bytes);
    assert_true(fabs((double)memory.weights_bytes / (double)whole.weights_bytes / 16 - 1) < 1e-3);
    const struct mesh *mesh = &of.program->mesh;
    unsigned shards = mesh_shard_axes(mesh, &of.parallel, PARAMETER_DENSE, STORED_WEIGHTS);
    struct group_shape between =
        mesh_group(mesh, of.cluster, mesh_axes_of(mesh, AXIS_DP) & ~shards);
    assert_int_equal(between.rank_count, 16);
    int blocks = of.graph->layer_count + 2;
    double bytes = elements / 8 / blocks * stack_reduce_bytes(of.stack, precision);
    double reduce_s = blocks * collective_price(of.fabrics, &between, COLLECTIVE_REDUCE_SCATTER,
                                                bytes, of.stack->network_scale)
                                   .s;
    const struct chunk_price *price = &of.price->classes[0];
    assert_true(fabs(price->gradient_reduce_s / reduce_s - 1) < 1e-6);
    assert_int_equal(price->counts.reduce, blocks);
    assert_int_equal(price->counts.gather, blocks);
    assert_true(all.price->classes[0].parameter_gather_s == 0);
    assert_true(price->parameter_gather_s > 0);
}

static double searched_s(struct arena *arena, const int groups[2][2], int *gradients)
{
    struct err err = {0};
    struct search_request request = {
        .model = model_load(arena, "llama-2-7b", NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-h100-x2", &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 4096, .global_batch = 64, .precision = PRECISION_BF16},
        .pins = pins_none(),
        .top = 1,
    };
    assert_string_equal(err.text, "");
    static const enum choice CHOICES[] = {CHOICE_ZERO_GRADIENTS, CHOICE_ZERO_PARAMETERS};
    pins_set(&request.pins, CHOICE_DP, 16, 16);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    pins_set(&request.pins, CHOICE_ZERO, 3, 3);
    pins_set(&request.pins, CHOICE_ZERO_GROUP, 0, 0);
    for (int i = 0; i < 2; i++)
        pins_set(&request.pins, CHOICES[i], groups[i][0], groups[i][1]);
    struct search_result result = {0};
    assert_true(search_plans(arena, &request, &result, &err));
    if (result.best_count == 0) return INFINITY;
    *gradients = result.best[0].parallel.zero_gradients;
    return result.best[0].closed_form_s;
}

// Against every pair of groups asked by itself.
static void a_range_of_groups_finds_the_best_of_its_values(void **state)
{
    int gradients = 0, other;
    double found_s = searched_s(*state, (const int[2][2]){{1, 16}, {1, 16}}, &gradients);
    double best_s = INFINITY, one_s = searched_s(*state, (const int[2][2]){{0, 0}, {0, 0}}, &other);
    for (int g = 1; g <= 16; g *= 2) {
        for (int p = 1; p <= g; p *= 2) {
            double s = searched_s(*state, (const int[2][2]){{g, g}, {p, p}}, &other);
            best_s = fmin(best_s, s);
        }
    }
    assert_true(isfinite(best_s) && found_s == best_s && found_s <= one_s && gradients > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_owner_broadcasts_its_own),
        cmocka_unit_test(no_more_owners_broadcast_than_there_are_tensors),
        cmocka_unit_test(gradients_of_owned_tensors_are_all_reduced),
        cmocka_unit_test(whole_gradients_are_scattered_once_a_step),
        cmocka_unit_test(one_micro_batch_has_nothing_to_add_up),
        cmocka_unit_test(a_group_of_whole_nodes_is_chosen_unasked),
        cmocka_unit_test(who_stores_little_stores_part_of_what_it_stores_more_of),
        cmocka_unit_test(states_over_all_nodes_cost_one_exchange_between_them_a_step),
        cmocka_unit_test(a_range_of_groups_finds_the_best_of_its_values),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
