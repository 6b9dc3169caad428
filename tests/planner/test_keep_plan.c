#include "planner/keep_plan.h"

#include "memory/plan_chunk.h"
#include "planner/choice.h"
#include "planner/keep_memo.h"
#include "planner/plan_keep.h"
#include "planner/space.h"
#include "tests/support/draw.h"
#include "tests/support/keep_problems.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// A plan of a shipped model with the composer that prices it.
struct asked {
    struct arena scratch;
    struct search_request request;
    struct composer *composer;
    struct parallel parallel;
    struct space_values recomputes;
    struct keep_question question;
};

static struct parallel plain_parallel(const struct search_request *request, int pp)
{
    struct parallel parallel = {.vpp = 1,
                                .micro_batch = 2,
                                .overlap = request->stack->overlap_default,
                                .passes = request->stack->passes,
                                .schedule = SCHEDULE_1F1B,
                                .recompute_layers = -1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel.degree[AXIS_PP] = pp;
    parallel.degree[AXIS_DP] = request->cluster->rank_count / pp;
    parallel_default_order(&parallel);
    return parallel;
}

static struct asked *asked(struct arena *arena, const char *model, const char *stack, int pp)
{
    struct asked *of = ARENA_NEW(arena, struct asked, 1);
    struct err err = {0};
    of->request = (struct search_request){.pins = pins_none()};
    of->request.model = model_load(arena, model, NULL, NULL, &err);
    of->request.cluster = cluster_load(arena, "dgx-a100-80g", &err);
    of->request.stack = stack_load(arena, stack, &err);
    of->request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    of->request.workload = (struct workload){.seq_len = 2048,
                                             .global_batch = 128,
                                             .precision = PRECISION_BF16,
                                             .optimizer = OPTIMIZER_ADAMW};
    struct memo *memo = memo_new(arena, &of->scratch, &of->request);
    of->composer = composer_new(arena, &of->scratch, memo);
    of->parallel = plain_parallel(&of->request, pp);
    composer_group(of->composer, &of->parallel);
    of->recomputes = space_recomputes(&of->request, memo_graph(memo, ATTENTION_FLASH, 1));
    of->question = (struct keep_question){
        .parallel = of->parallel,
        .recomputes = of->recomputes.values,
        .recompute_count = of->recomputes.count,
        .may_move = true,
    };
    return of;
}

// The most that all stages count when nothing is recomputed or moved, and the least that is left.
static int64_t kept_bytes(const struct asked *of, const struct keep_plan *plan)
{
    struct keep_result nothing = {0};
    int64_t most = 0;
    for (int s = 0; s < of->parallel.degree[AXIS_PP]; s++) {
        int64_t bytes = (int64_t)ceil(keep_plan_bytes(plan, &nothing, s));
        if (bytes > most) most = bytes;
    }
    return most;
}

static int64_t live_bytes(struct asked *of, const struct parallel *parallel, int stage)
{
    struct memory_parts parts = composer_stage_memory(of->composer, parallel, stage);
    return parts.activations_bytes + parts.transient_bytes + parts.logits_bytes;
}

// A step of one stage is its micro-batches: what the program adds to one is what the prices of
// plans add to each. And a stage needs what the memory model says that it needs, or, where only
// some layers are recomputed, less than the program says.
static void check_answer(struct asked *of, const struct keep_plan *plan,
                         const struct keep_result *result)
{
    struct parallel chosen = keep_plan_chosen(plan, result);
    int64_t micro_batches = parallel_micro_batch_count(&chosen, of->request.workload.global_batch);
    if (of->parallel.degree[AXIS_PP] == 1) {
        double kept_s = composer_cost(of->composer, &plan->base).step_s;
        double chosen_s = composer_cost(of->composer, &chosen).step_s;
        double added_s = (double)micro_batches * result->added_s;
        assert_true(fabs(chosen_s - kept_s - added_s) < 1e-9 * kept_s);
    }
    for (int s = 0; s < of->parallel.degree[AXIS_PP]; s++) {
        double said = keep_plan_bytes(plan, result, s);
        double needed = (double)live_bytes(of, &chosen, s);
        assert_true(needed < said + 100);
        bool is_exact = result->recompute_layers == 0;
        if (is_exact) assert_true(said < needed + 100);
    }
}

static void answers_come_to_what_plans_are_priced_at(void **state)
{
    static const struct {
        const char *model, *stack;
        int pp;
    } CASES[] = {{"gpt2-xl", "meshwright", 1},
                 {"llama-2-7b", "meshwright", 1},
                 {"llama-2-7b", "meshwright", 4},
                 {"gpt2-xl", "fsdp2", 1},
                 {"gpt2-xl", "megatron-core", 4}};
    int recomputed = 0, moved = 0, waited = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct asked *of = asked(*state, CASES[i].model, CASES[i].stack, CASES[i].pp);
        struct keep_plan *plan = keep_plan_make(*state, of->composer, &of->question);
        int64_t most = kept_bytes(of, plan);
        for (int part = 2; part <= 8; part += 3) {
            int64_t limits[4];
            for (int s = 0; s < 4; s++)
                limits[s] = most / 10 * part;
            of->question.limit_bytes = limits;
            plan = keep_plan_make(*state, of->composer, &of->question);
            struct milp_options options = {.node_cap = 100};
            struct keep_result result = keep_solve(*state, &plan->problem, &options);
            check_answer(of, plan, &result);
            recomputed += result.recompute_layers > 0;
            moved += keep_tier(&result) != TIER_DEVICE;
            waited += result.added_s > 0;
        }
        arena_free(&of->scratch);
    }
    assert_true(recomputed > 3 && moved > 3 && waited > 6);
}

static bool fits(struct asked *of, const struct parallel *parallel)
{
    int stage;
    const char *why = NULL;
    if (!stack_can_run(of->request.stack, parallel, &of->scratch, &why)) return false;
    struct memory_parts memory = composer_memory(of->composer, parallel, &stage);
    return memory.reserved_bytes <= cluster_device_bytes(of->request.cluster) &&
           composer_host_shortfall(of->composer, parallel) == 0;
}

// What is found fits by the word of the memory model, and where all layers recomputed fit,
// something is found.
static void what_is_found_fits(void **state)
{
    (void)state;
    struct draw draw = draw_start("keep plans", 8);
    int found_count = 0, missed_count = 0;
    for (int i = 0; i < 40; i++) {
        struct arena arena = {0};
        struct asked of = {.request = random_search(&arena, &draw)};
        struct err err = {0};
        struct memo *memo = memo_new(&arena, &of.scratch, &of.request);
        struct space_graphs graphs = {memo_graph_of, memo};
        struct space *space = space_make(&arena, &of.request, &graphs);
        of.composer = composer_new(&arena, &of.scratch, memo);
        for (int k = 0; k < 12 && space->group_count > 0; k++) {
            const struct space_group *group =
                &space->groups[draw_int(&draw, 0, space->group_count - 1)];
            const struct space_tails *tails = space_tails(space, &graphs, group);
            if (tails->count == 0) continue;
            const struct space_tail *tail = &tails->tails[draw_int(&draw, 0, tails->count - 1)];
            struct parallel parallel = space_first(space, group, tail), found;
            composer_group(of.composer, &parallel);
            of.question = (struct keep_question){
                .parallel = parallel,
                .recomputes = space->recomputes.values,
                .recompute_count = space->recomputes.count,
                .may_move = draw_int(&draw, 0, 1),
            };
            bool is_found = keep_plan_find(of.composer, &of.question, &found);
            struct parallel full = parallel;
            full.recompute = RECOMPUTE_FULL;
            full.recompute_classes = 0;
            full.recompute_layers = -1;
            bool is_there = fits(&of, &full);
            missed_count += is_there && !is_found;
            if (!is_found) continue;
            assert_true(fits(&of, &found));
            const struct graph *graph = memo_graph(memo, found.attention, found.degree[AXIS_TP]);
            assert_true(
                program_check(graph, of.request.cluster, &of.request.workload, &found, &err));
            bool keeps_all =
                found.recompute == RECOMPUTE_NONE && !offload_moves_activations(&found.offload);
            found_count += !keeps_all;
        }
        arena_free(&of.scratch);
        arena_free(&arena);
    }
    assert_true(found_count > 5 && missed_count == 0);
}

static struct evaluation_request small_plan(struct arena *arena, int pp)
{
    struct err err = {0};
    struct evaluation_request request = {
        .model = model_load(arena, "gpt2", NULL, NULL, &err),
        .cluster = cluster_load(arena, "dgx-a100-80g", &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = bands_load(arena, &err),
        .workload = {.seq_len = 512,
                     .global_batch = 64,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW},
    };
    assert_string_equal(err.text, "");
    struct search_request like = {.stack = request.stack, .cluster = request.cluster};
    request.parallel = plain_parallel(&like, pp);
    return request;
}

static void the_planned_arena_is_kept_under_its_capacity(void **state)
{
    struct arena scratch = {0};
    for (int pp = 1; pp <= 2; pp++) {
        struct evaluation_request request = small_plan(*state, pp);
        struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 512};
        const struct plan_keep_request asked = {&request, &options, true, true};
        struct plan_kept kept = {0};
        struct err err = {0};
        assert_true(plan_keep(*state, &scratch, &asked, &kept, &err));
        assert_true(kept.fits && offload_is_none(&kept.request.parallel.offload));
        int64_t all_bytes = kept.evaluation->prediction.planned_bytes;
        assert_true(all_bytes > 0 && kept.request.parallel.recompute == RECOMPUTE_NONE);
        options.capacity = all_bytes * 3 / 4;
        assert_true(plan_keep(*state, &scratch, &asked, &kept, &err));
        assert_true(kept.fits && kept.lack_bytes <= 0);
        assert_true(kept.evaluation->prediction.step_s >= kept.kept_s);
        assert_true(kept.evaluation->prediction.step_s < 2 * kept.kept_s);
        for (int i = 0; i < kept.stages.count; i++)
            assert_true(kept.stages.stages[i].result.arena_bytes <= options.capacity);
        options.capacity = 1 << 20;
        assert_true(plan_keep(*state, &scratch, &asked, &kept, &err));
        assert_true(!kept.fits && kept.lack_bytes > 0);
    }
    arena_free(&scratch);
}

// Where parameters come from the host their fetches take the link, and recomputing hides in what is
// waited for: nothing else is moved then that all layers recomputed would have room for.
static void blocks_are_priced_with_their_fetches(void **state)
{
    struct arena scratch = {0};
    struct evaluation_request request = small_plan(*state, 1);
    struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 512};
    struct plan_keep_request asked = {&request, &options, false, false};
    struct plan_kept all = {0}, full = {0}, kept = {0};
    struct err err = {0};
    request.workload.unclipped = true;
    assert_true(offload_parse("optimizer,parameters", &request.parallel.offload));
    assert_true(plan_keep(*state, &scratch, &asked, &all, &err));
    request.parallel.recompute = RECOMPUTE_FULL;
    assert_true(plan_keep(*state, &scratch, &asked, &full, &err));
    request.parallel.recompute = RECOMPUTE_NONE;
    int64_t most_bytes = all.evaluation->prediction.planned_bytes;
    int64_t least_bytes = full.evaluation->prediction.planned_bytes;
    asked.may_recompute = asked.may_move = true;
    for (int i = 1; i < 4; i++) {
        options.capacity = least_bytes + (most_bytes - least_bytes) * i / 4;
        assert_true(plan_keep(*state, &scratch, &asked, &kept, &err));
        assert_true(kept.fits);
        double full_s = full.evaluation->prediction.step_s;
        assert_true(kept.evaluation->prediction.step_s <= full_s * (1 + 1e-9));
    }
    arena_free(&scratch);
}

// Software that recomputes whole stages or nothing is asked for no part of one.
static void all_layers_are_recomputed_where_some_cannot_be(void **state)
{
    struct arena scratch = {0};
    struct evaluation_request request = small_plan(*state, 1);
    struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 512};
    struct plan_keep_request asked = {&request, &options, true, false};
    struct plan_kept all = {0}, full = {0}, kept = {0};
    struct err err = {0};
    request.stack = stack_load(*state, "fsdp2", &err);
    const struct search_request like = {.stack = request.stack, .cluster = request.cluster};
    request.parallel = plain_parallel(&like, 1);
    request.parallel.zero = 3;
    assert_true(request.stack->recompute_whole >> RECOMPUTE_FULL & 1);
    assert_true(plan_keep(*state, &scratch, &asked, &all, &err));
    request.parallel.recompute = RECOMPUTE_FULL;
    asked.may_recompute = false;
    assert_true(plan_keep(*state, &scratch, &asked, &full, &err));
    asked.may_recompute = true;
    int64_t most_bytes = all.evaluation->prediction.planned_bytes;
    int64_t least_bytes = full.evaluation->prediction.planned_bytes;
    assert_true(least_bytes < most_bytes);
    options.capacity = least_bytes + (most_bytes - least_bytes) / 2;
    assert_true(plan_keep(*state, &scratch, &asked, &kept, &err));
    const struct parallel *chosen = &kept.request.parallel;
    assert_true(kept.fits && chosen->recompute != RECOMPUTE_NONE);
    bool is_whole = request.stack->recompute_whole >> chosen->recompute & 1;
    assert_true(!is_whole || chosen->recompute_layers == -1);
    arena_free(&scratch);
}

static void what_may_not_be_chosen_stays_or_is_refused(void **state)
{
    struct arena scratch = {0};
    struct evaluation_request request = small_plan(*state, 1);
    struct memory_options options = {.method = MEMORY_GREEDY, .alignment = 512};
    struct plan_keep_request asked = {&request, &options, false, true};
    struct plan_kept kept = {0};
    struct err err = {0};
    request.parallel.recompute = RECOMPUTE_FULL;
    assert_true(plan_keep(*state, &scratch, &asked, &kept, &err));
    assert_int_equal(kept.request.parallel.recompute, RECOMPUTE_FULL);
    assert_int_equal(kept.request.parallel.recompute_layers, -1);
    request.parallel.recompute_layers = 3;
    assert_false(plan_keep(*state, &scratch, &asked, &kept, &err));
    assert_non_null(strstr(err.text, "say --recompute auto"));
    asked.may_recompute = true;
    asked.may_move = false;
    assert_true(offload_parse("activations", &request.parallel.offload));
    err = (struct err){0};
    assert_false(plan_keep(*state, &scratch, &asked, &kept, &err));
    assert_non_null(strstr(err.text, "say --offload auto"));
    arena_free(&scratch);
}

// Every parameter of a stage is in a chunk, and no chunk is smaller than the largest of them.
static void the_gradients_of_a_stage_are_in_chunks(void **state)
{
    struct arena scratch = {0};
    struct evaluation_request request = small_plan(*state, 2);
    struct evaluation evaluation;
    struct err err = {0};
    assert_true(evaluate(*state, &scratch, &request, &evaluation, &err));
    const struct program *program = evaluation.program;
    for (int stage = 0; stage < 2; stage++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[stage]];
        struct plan_chunk found = plan_chunk_of(&scratch, program, request.stack, stage);
        double element_bytes = stack_gradient_bytes(request.stack, PRECISION_BF16);
        int64_t bytes = (int64_t)(element_bytes * (double)chunk->parameter_elements);
        assert_true(found.tensor_count > 6 * 8 && found.tensor_bytes == bytes);
        assert_true(found.chunk_bytes >= (int64_t)(32 << 20) * 4 && found.wasted_bytes >= 0);
    }
    arena_free(&scratch);
}

// What is found again is what was asked; a byte more is another question.
static void a_program_is_asked_once(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("keep memo", 5);
    struct keep_memo memo = {.arena = arena};
    const struct milp_options options = {0};
    for (int i = 0; i < 20; i++) {
        struct keep_drawn drawn;
        keep_draw(&draw, &drawn);
        struct keep_problem *problem = &drawn.problem;
        int before = memo.count;
        for (int more = 0; more < 2; more++) {
            problem->device_bytes += more;
            struct keep_result own = keep_solve(arena, problem, &options);
            for (int again = 0; again < 2; again++) {
                struct keep_result found = keep_memo_solve(&memo, arena, problem, &options);
                assert_int_equal(found.status, own.status);
                assert_memory_equal(found.layers, own.layers, sizeof own.layers);
                assert_true(found.added_s == own.added_s && found.recompute == own.recompute);
                assert_int_equal(memo.count, before + 1 + more);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_asked_once),
        cmocka_unit_test(answers_come_to_what_plans_are_priced_at),
        cmocka_unit_test(what_is_found_fits),
        cmocka_unit_test(the_planned_arena_is_kept_under_its_capacity),
        cmocka_unit_test(blocks_are_priced_with_their_fetches),
        cmocka_unit_test(all_layers_are_recomputed_where_some_cannot_be),
        cmocka_unit_test(what_may_not_be_chosen_stays_or_is_refused),
        cmocka_unit_test(the_gradients_of_a_stage_are_in_chunks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
