#include "tests/random_search.h"
#include "tests/test.h"

#include "planner/bound.h"
#include "planner/compose.h"
#include "planner/scan.h"

#include <math.h>

// What the search drops without lowering it: no plan may be below the bounds of the graph, nor a
// micro-batch below the family's share of its largest one.
static void check_bounds(struct arena *arena, const struct search_request *request, int step)
{
    struct arena scratch = {0};
    struct memo *memo = memo_new(arena, &scratch, request);
    struct space_graphs graphs = {memo_graph_of, memo};
    struct space *space = space_make(arena, request, &graphs);
    struct composer *composer = composer_new(arena, &scratch, memo);
    for (int g = 0; g < space->group_count; g += step) {
        const struct space_group *group = &space->groups[g];
        const struct space_mesh *mesh = &space->meshes[group->mesh];
        const struct space_tails *tails = space_tails(space, &graphs, group);
        const struct graph *graph = memo_graph(memo, group->attention, mesh->degree[AXIS_TP]);
        struct bound_facts facts = bound_facts(graph, request->workload.seq_len);
        double least_s = bound_step_s(request, &facts, mesh, group->micro_batch, tails);
        double least_bytes = bound_bytes(request, &facts, mesh, tails);
        for (int i = 0; i < tails->count; i++) {
            const struct space_tail *tail = &tails->tails[i];
            struct parallel parallel = space_first(space, group, tail);
            composer_group(composer, &parallel);
            double layer_s = composer_probe(composer, &parallel, facts.probe_kind);
            double probe_s = bound_pipeline_s(
                facts.probe_count * layer_s +
                    bound_rest_s(request, &facts, mesh, group->micro_batch),
                mesh->degree[AXIS_PP],
                (int)parallel_micro_batch_count(&parallel, request->workload.global_batch),
                tails->one_chunk);
            int stage;
            struct cost cost = composer_cost(composer, &parallel);
            double bytes = (double)composer_memory(composer, &parallel, &stage).reserved_bytes;
            assert_true(least_s <= cost.step_s && probe_s <= cost.step_s * (1 + 1e-12));
            assert_true(least_bytes <= bytes);
            assert_true((double)composer_floor_bytes(composer, &parallel) <= bytes);
        }
    }
    arena_free(&scratch);
}

static void bounds_of_the_graph_are_below_every_plan(void **state)
{
    (void)state;
    struct draw draw = draw_start("bounds", 17);
    for (int i = 0; i < 20; i++) {
        struct arena arena = {0};
        struct search_request request = random_search(&arena, &draw);
        check_bounds(&arena, &request, 7);
        arena_free(&arena);
    }
}

static void a_larger_micro_batch_takes_hardly_more_time_a_sequence(void **state)
{
    (void)state;
    struct draw draw = draw_start("families", 23);
    int pairs = 0;
    for (int i = 0; i < 20; i++) {
        struct arena arena = {0}, scratch = {0};
        struct search_request request = random_search(&arena, &draw);
        struct memo *memo = memo_new(&arena, &scratch, &request);
        struct space_graphs graphs = {memo_graph_of, memo};
        struct space *space = space_make(&arena, &request, &graphs);
        struct composer *composer = composer_new(&arena, &scratch, memo);
        double least_s = INFINITY;
        for (int g = 0; g < space->group_count; g++) {
            const struct space_group *group = &space->groups[g];
            const struct space_tails *tails = space_tails(space, &graphs, group);
            bool new_family = g == 0 || group->micro_batch <= group[-1].micro_batch;
            if (new_family) least_s = INFINITY;
            if (tails->count == 0) continue;
            const struct graph *graph =
                memo_graph(memo, group->attention, space->meshes[group->mesh].degree[AXIS_TP]);
            struct bound_facts facts = bound_facts(graph, request.workload.seq_len);
            struct parallel parallel = space_first(space, group, &tails->tails[0]);
            composer_group(composer, &parallel);
            double sequence_s =
                composer_probe(composer, &parallel, facts.probe_kind) / group->micro_batch;
            assert_true(SCAN_LAST_WAVE_RATIO * sequence_s <= least_s);
            pairs += !isinf(least_s);
            least_s = fmin(least_s, sequence_s);
        }
        arena_free(&scratch);
        arena_free(&arena);
    }
    assert_true(pairs > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_the_graph_are_below_every_plan),
        cmocka_unit_test(a_larger_micro_batch_takes_hardly_more_time_a_sequence),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
