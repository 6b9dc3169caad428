#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "cost_models/offload.h"
#include "planner/bound.h"
#include "planner/choice.h"
#include "planner/compose.h"
#include "simulator/closed_form.h"

// States of so many layers of each stage leave.

struct counts {
    int plans, without_room, raised, updates;
};

static double update_s_of(const struct memo *memo, const struct search_request *request,
                          const struct bound_facts *facts, const struct space_mesh *mesh,
                          const struct space_tail *tail)
{
    return bound_host_update_s(memo_context(memo), request, facts, mesh, tail->zero > 0);
}

// No plan of a tail holds less than is said to stay, or updates faster than what leaves.
static void check_tail(struct composer *composer, const struct space *space,
                       const struct space_group *group, const struct space_tail *tail,
                       const struct bound_facts *facts, const struct memo *memo,
                       struct counts *counts)
{
    const struct space_mesh *mesh = &space->meshes[group->mesh];
    const struct space_tails alone = {.tails = tail,
                                      .count = 1,
                                      .zero_least = tail->zero,
                                      .zero_most = tail->zero,
                                      .state_tiers = 1u << TIER_HOST};
    double update_s = update_s_of(memo, space->request, facts, mesh, tail);
    struct search_request all = *space->request;
    pins_set(&all.pins, CHOICE_OFFLOAD, 0, 0);
    for (int r = 0; r < tail->recompute_count; r++) {
        struct parallel parallel = space_parallel(space, group, tail, &tail->recomputes[r],
                                                  tail->recomputes[r].layers_high);
        parallel.offload = tail->moves[0].offload;
        composer_group(composer, &parallel);
        int stage;
        struct memory_parts parts = composer_memory(composer, &parallel, &stage);
        // Gradients that pass through rooms are no part of the bound here.
        struct space_tails streams = alone;
        streams.streams = true;
        double least = bound_bytes(space->request, facts, mesh, &streams);
        assert_true(least <= (double)parts.reserved_bytes + 16);
        double step_s = composer_cost(composer, &parallel).step_s;
        assert_true((composer_bound(composer, &parallel) + update_s) * (1 - 1e-12) <= step_s);
        counts->plans++;
        counts->raised += least > bound_bytes(&all, facts, mesh, &streams);
        counts->updates += update_s > 0;
    }
}

static void check_space(const struct search_request *request, struct counts *counts)
{
    struct arena arena = {0}, scratch = {0};
    struct memo *memo = memo_new(&arena, &scratch, request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(&arena, request, &graphs);
    struct composer *composer = composer_new(&arena, &scratch, memo);
    int64_t limit_bytes = cluster_device_bytes(request->cluster);
    for (int g = 0; g < space->group_count; g += 1 + space->group_count / 12) {
        const struct space_group *group = &space->groups[g];
        const struct space_mesh *mesh = &space->meshes[group->mesh];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        const struct graph *graph = memo_graph(memo, group->attention, mesh->degree[AXIS_TP]);
        struct bound_facts facts = bound_facts(graph, request->workload.seq_len);
        bool has_room = bound_has_room(request, &facts, mesh, group, tails, limit_bytes);
        counts->without_room += !has_room;
        for (int t = 0; t < tails->count; t += 1 + tails->count / 4) {
            const struct space_tail *tail = &tails->tails[t];
            check_tail(composer, space, group, tail, &facts, memo, counts);
            struct parallel parallel =
                space_parallel(space, group, tail, &tail->recomputes[tail->recompute_count - 1],
                               tail->recomputes[tail->recompute_count - 1].layers_high);
            parallel.offload = tail->moves[0].offload;
            composer_group(composer, &parallel);
            assert_true(has_room || !composer_meets(composer, &parallel, limit_bytes));
        }
    }
    arena_free(&scratch);
    arena_free(&arena);
}

static bool has_enough(const struct counts *counts)
{
    return counts->plans > 300 && counts->raised > 100 && counts->updates > 100 &&
           counts->without_room > 20;
}

static void what_stays_beside_counts_of_states_is_bounded(void **state)
{
    (void)state;
    struct draw draw = draw_start("counts", 41);
    struct counts counts = {0};
    for (int i = 0; i < 30 || (i < 300 && !has_enough(&counts)); i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct search_request request = random_search(&arena, &draw);
        struct offload some = {.optimizer = TIER_HOST,
                               .optimizer_layers = (int16_t)draw_int(&draw, 1, 6)};
        request.stack = stack_load(&arena, "meshwright", &err);
        request.workload.precision = PRECISION_FP16;
        assert_string_equal(err.text, "");
        pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&some), offload_value(&some));
        check_space(&request, &counts);
        arena_free(&arena);
    }
    print_message("# %d plans, %d of more bytes than with all states away, %d updates, %d groups "
                  "without room\n",
                  counts.plans, counts.raised, counts.updates, counts.without_room);
    assert_true(has_enough(&counts));
}

// Two layers of 10 and one of 4 outside experts, of 0, 50 and 20 inside, on two stages of one rank.
// Fewest of two: 14 and 20. Of one away each, no more than 20 and 70 leave both: 1000 - 20 and
// 600 - 70 stay, in states of 12 bytes.
static void sums_of_layers_are_exact(void **state)
{
    (void)state;
    const struct bound_facts facts = {.dense_elements = 1000,
                                      .expert_elements = 600,
                                      .layer_count = 3,
                                      .size_count = 2,
                                      .sizes = {{{4, 1}, {10, 2}}, {{20, 2}, {50, 1}}}};
    assert_true(bound_layers(&facts, 0, 2, false) == 14 && bound_layers(&facts, 0, 2, true) == 20);
    assert_true(bound_layers(&facts, 1, 2, false) == 40 && bound_layers(&facts, 1, 2, true) == 70);
    assert_true(bound_layers(&facts, 0, 9, true) == 24 && bound_layers(&facts, 1, 0, true) == 0);
    struct arena arena = {0};
    struct err err = {0};
    struct stack stack = *stack_load(&arena, "meshwright", &err);
    struct search_request request = {.stack = &stack, .pins = pins_none()};
    struct space_mesh mesh = {.degree = {0}};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        mesh.degree[axis] = 1;
    mesh.degree[AXIS_PP] = 2;
    request.workload.optimizer = OPTIMIZER_ADAMW;
    request.workload.precision = PRECISION_BF16;
    struct space_tails tails = {.state_tiers = 1u << TIER_HOST};
    struct offload all = {.optimizer = TIER_HOST}, one = all;
    one.optimizer_layers = 1;
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&all), offload_value(&all));
    double away_bytes = bound_bytes(&request, &facts, &mesh, &tails);
    pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&one), offload_value(&one));
    double state_bytes =
        stack_state_bytes(&stack, request.workload.optimizer, request.workload.precision);
    assert_true(bound_bytes(&request, &facts, &mesh, &tails) ==
                away_bytes + state_bytes * (980 + 530) / 2);
    arena_free(&arena);
}

// Two stages of the same layers: of the one that has two at least its first leaves, or both, which
// are no fewer elements than the fewest of one, 4 and 20, and of two, 14 and 40.
static void the_fewest_are_updated(void **state)
{
    (void)state;
    static const double ELEMENTS[] = {4 + 20, 14 + 40, 14 + 40};
    const struct bound_facts facts = {.dense_elements = 1000,
                                      .expert_elements = 600,
                                      .layer_count = 3,
                                      .size_count = 2,
                                      .sizes = {{{4, 1}, {10, 2}}, {{20, 2}, {50, 1}}}};
    struct draw draw = draw_start("fewest", 5);
    struct arena arena = {0}, scratch = {0};
    struct err err = {0};
    struct search_request request = random_search(&arena, &draw);
    request.stack = stack_load(&arena, "meshwright", &err);
    const struct price_context *context = memo_context(memo_new(&arena, &scratch, &request));
    struct space_mesh mesh = {.degree = {0}};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        mesh.degree[axis] = 1;
    mesh.degree[AXIS_PP] = 2;
    for (int layers = 1; layers <= 3; layers++) {
        struct offload some = {.optimizer = TIER_HOST, .optimizer_layers = (int16_t)layers};
        pins_set(&request.pins, CHOICE_OFFLOAD, offload_value(&some), offload_value(&some));
        double found_s = bound_host_update_s(context, &request, &facts, &mesh, false);
        assert_true(found_s > 0);
        assert_true(found_s ==
                    host_update_least_s(context, request.workload.optimizer, ELEMENTS[layers - 1]));
    }
    arena_free(&scratch);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_layers_are_exact),
        cmocka_unit_test(the_fewest_are_updated),
        cmocka_unit_test(what_stays_beside_counts_of_states_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
