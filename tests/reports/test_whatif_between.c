#include "planner/choice.h"
#include "reports/whatif/whatif_refine.h"
#include "tests/support/test.h"

#include <math.h>

// A question with a limit, of sizes that double, goes on until no size between is better. The
// oracle asks every size.

enum { MOST = 14, SIZES = MOST + 1 };

struct whatif_between_question {
    struct arena *arena;
    struct scenario_request request;
    struct sweep sweep;
};

static struct whatif_between_question question_of(struct arena *arena, const char *model,
                                                  const char *cluster, double tokens)
{
    struct err err = {0};
    struct cluster *loaded = cluster_load(arena, cluster, &err);
    assert_string_equal(err.text, "");
    loaded->price = (struct price){.per_gpu_hour = 2, .currency = "USD"};
    const struct cluster **clusters = ARENA_NEW(arena, const struct cluster *, 1);
    clusters[0] = loaded;
    struct whatif_between_question question = {.arena = arena};
    question.request = (struct scenario_request){
        .model = model_load(arena, model, NULL, NULL, &err),
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = bands_load(arena, &err),
        .workers = 2,
        .nothing = SEARCH_FITS_ONLY,
    };
    question.sweep = (struct sweep){
        .clusters = clusters,
        .cluster_count = 1,
        .workload = {.seq_len = 1024,
                     .global_batch = 96,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW,
                     .tokens = tokens},
        .pins = pins_none(),
    };
    assert_string_equal(err.text, "");
    // What the sizes differ in is left open; a search of fewer plans is as good for that.
    pins_set(&question.sweep.pins, CHOICE_VPP, 1, 1);
    pins_set(&question.sweep.pins, CHOICE_CP, 1, 1);
    return question;
}

static struct scenario_outcome *run(const struct whatif_between_question *question,
                                    const struct sweep_points *points)
{
    struct err err = {0};
    struct arena *arena = question->arena;
    struct scenario *scenarios = ARENA_NEW(arena, struct scenario, points->count);
    struct scenario_outcome *outcomes = ARENA_NEW(arena, struct scenario_outcome, points->count);
    for (int i = 0; i < points->count; i++)
        scenarios[i] = points->items[i].scenario;
    assert_true(scenarios_run(arena, &question->request, scenarios, points->count, outcomes, &err));
    assert_string_equal(err.text, "");
    return outcomes;
}

static struct whatif make(const struct whatif_between_question *question,
                          const struct whatif_question *asked, const struct sweep_points *points,
                          const struct scenario_outcome *outcomes)
{
    struct err err = {0};
    struct whatif whatif;
    assert_true(whatif_make(question->arena, asked, &question->sweep, &question->request, points,
                            outcomes, &whatif, &err));
    return whatif;
}

// Every outcome is asked once, by its number of nodes.
struct all {
    struct sweep_points points;
    struct scenario_outcome *outcomes;
};

static struct all ask_all(struct whatif_between_question *question)
{
    struct err err = {0};
    struct all all;
    assert_true(sweep_parse(question->arena, SWEEP_NODES, "1..14:1",
                            &question->sweep.axes[SWEEP_NODES], &err));
    assert_true(sweep_points(question->arena, &question->sweep, &all.points, &err));
    all.outcomes = run(question, &all.points);
    assert_true(sweep_parse(question->arena, SWEEP_NODES, "1..14",
                            &question->sweep.axes[SWEEP_NODES], &err));
    return all;
}

// What `whatif` does, with the oracle's outcomes in place of searches.
static struct whatif refined(const struct whatif_between_question *question,
                             const struct whatif_question *asked, const struct all *all,
                             int *asked_count)
{
    struct err err = {0};
    struct arena *arena = question->arena;
    struct sweep_points points;
    assert_true(sweep_points(arena, &question->sweep, &points, &err));
    struct sweep_point *items = ARENA_NEW(arena, struct sweep_point, SIZES);
    struct scenario_outcome *outcomes = ARENA_NEW(arena, struct scenario_outcome, SIZES);
    int count = 0;
    for (int untried = 1, round = 0; points.count > 0; round++) {
        for (int i = 0; i < points.count; i++) {
            int nodes = (int)points.items[i].at[SWEEP_NODES];
            assert_true(count < SIZES);
            items[count] = points.items[i];
            outcomes[count++] = all->outcomes[nodes - 1];
        }
        const struct sweep_points so_far = {items, count};
        struct sweep_points *kept = ARENA_NEW(arena, struct sweep_points, 1);
        *kept = so_far;
        struct whatif whatif = make(question, asked, kept, outcomes);
        assert_true(whatif_between(arena, &whatif, round == 0, &points, &untried, &err));
        *asked_count = count;
        if (points.count > 0) continue;
        assert_int_equal(untried, 0);
        return whatif;
    }
    fail();
    return (struct whatif){0};
}

static double measure(const struct whatif *whatif, const struct whatif_row *row)
{
    if (whatif->goal == WHATIF_MOST_TOKENS) return -row->tokens;
    return whatif->goal == WHATIF_CHEAPEST ? row->cost : row->time_s;
}

// Deadlines and budgets from what nothing makes to what all make.
static void check_questions(struct whatif_between_question *question, double tokens, int *between,
                            int *spared)
{
    struct all all = ask_all(question);
    for (int i = 0; i < 36; i++) {
        double part = pow(1.25, i / 3 - 2);
        const struct whatif_question asked = {
            .tokens = i % 3 == 2 ? 0 : tokens,
            .deadline_s = i % 3 == 1 ? 0 : part * 86400,
            .budget = i % 3 == 0 ? 0 : part * 2200,
        };
        int asked_count = 0;
        struct whatif wanted = make(question, &asked, &all.points, all.outcomes);
        struct whatif found = refined(question, &asked, &all, &asked_count);
        const struct whatif_row *best = whatif_best(&wanted), *answer = whatif_best(&found);
        assert_int_equal(best != NULL, answer != NULL);
        *spared += MOST - asked_count;
        if (!best) continue;
        assert_true(measure(&found, answer) == measure(&wanted, best));
        double nodes = answer->point->at[SWEEP_NODES];
        *between += nodes != 1 && nodes != 2 && nodes != 4 && nodes != 8 && nodes != 14;
    }
}

static void no_size_between_is_better(void **state)
{
    int between = 0, spared = 0;
    struct whatif_between_question gpt = question_of(*state, "gpt2", "dgx-a100-80g", 2e12);
    check_questions(&gpt, 2e12, &between, &spared);
    struct whatif_between_question llama = question_of(*state, "llama-2-7b", "dgx-h100", 60e9);
    check_questions(&llama, 60e9, &between, &spared);
    // Some answers are none of the sizes given, and the bound saves some of the questions.
    if (between < 6 || spared < 50) fail_msg("%d between, %d spared", between, spared);
}

// Past a node stand whole nodes, inside one any count.
static void counts_of_gpus_between_are_whole_nodes(void **state)
{
    struct err err = {0};
    struct whatif_between_question question = question_of(*state, "gpt2", "dgx-a100-80g", 1e12);
    assert_true(sweep_parse(*state, SWEEP_GPUS, "2..32", &question.sweep.axes[SWEEP_GPUS], &err));
    struct sweep_points points, more;
    assert_true(sweep_points(*state, &question.sweep, &points, &err));
    struct scenario_outcome *outcomes = run(&question, &points);
    const struct whatif_question asked = {.tokens = 1e12, .deadline_s = 1e9};
    struct whatif whatif = make(&question, &asked, &points, outcomes);
    int untried = 0;
    assert_true(whatif_between(*state, &whatif, true, &more, &untried, &err));
    static const int WANTED[] = {3, 5, 6, 7, 24};
    assert_int_equal(more.count, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(more.items[i].scenario.cluster->rank_count, WANTED[i]);
    assert_string_equal(more.items[4].scenario.label, "dgx-a100-80g, 24 GPUs");
}

// Counts the sizes that were cut, and those that were not.
static void check_cuts(const struct whatif_between_question *question, struct sweep_points *more,
                       int *cut, int *kept)
{
    struct scenario_outcome *found = run(question, more);
    double slowest_s[SIZES];
    for (int i = 0; i < more->count; i++) {
        slowest_s[i] = more->items[i].scenario.slowest_s;
        more->items[i].scenario.slowest_s = 0;
        assert_true(slowest_s[i] > 0);
    }
    struct scenario_outcome *all = run(question, more);
    for (int i = 0; i < more->count; i++) {
        bool fits = all[i].status == SCENARIO_FITS, is_found = found[i].status == SCENARIO_FITS;
        double step_s = all[i].prediction.step_s;
        bool is_fast = fits && step_s <= slowest_s[i] / 1.05;
        assert_true(!is_fast || (is_found && found[i].prediction.step_s == step_s));
        *cut += fits && !is_found;
        *kept += is_found;
    }
}

// A size is searched for plans that can be the answer alone; those it finds as if for all.
static void a_plan_that_is_fast_enough_is_not_cut(void **state)
{
    struct err err = {0};
    struct whatif_between_question question = question_of(*state, "llama-2-7b", "dgx-h100", 60e9);
    assert_true(sweep_parse(*state, SWEEP_NODES, "1..14", &question.sweep.axes[SWEEP_NODES], &err));
    struct sweep_points points, more;
    assert_true(sweep_points(*state, &question.sweep, &points, &err));
    struct scenario_outcome *outcomes = run(&question, &points);
    int untried = 0, cut = 0, kept = 0;
    for (double days = 0.5; days < 20; days *= 1.5) {
        const struct whatif_question asked = {.tokens = 60e9, .budget = days * 1000};
        struct whatif whatif = make(&question, &asked, &points, outcomes);
        assert_true(whatif_between(*state, &whatif, true, &more, &untried, &err));
        check_cuts(&question, &more, &cut, &kept);
        const struct whatif_question other = {.tokens = 60e9, .deadline_s = days * 86400};
        whatif = make(&question, &other, &points, outcomes);
        assert_true(whatif_between(*state, &whatif, true, &more, &untried, &err));
        check_cuts(&question, &more, &cut, &kept);
    }
    if (cut < 5 || kept < 5) fail_msg("%d cut, %d kept", cut, kept);
}

// Too many sizes: some of each stretch, then those beside the best.
static void many_sizes_are_closed_in_on(void **state)
{
    struct err err = {0};
    struct whatif_between_question question = question_of(*state, "gpt2", "dgx-a100-80g", 1e12);
    assert_true(
        sweep_parse(*state, SWEEP_NODES, "1,2000", &question.sweep.axes[SWEEP_NODES], &err));
    struct sweep_points points, more;
    assert_true(sweep_points(*state, &question.sweep, &points, &err));
    struct scenario_outcome outcomes[2] = {0};
    points.count = 1;
    memcpy(outcomes, run(&question, &points), sizeof *outcomes);
    points.count = 2;
    outcomes[1].status = SCENARIO_IMPOSSIBLE;
    const struct whatif_question asked = {.tokens = 1e12, .deadline_s = 1e9};
    struct whatif whatif = make(&question, &asked, &points, outcomes);
    int untried = 0;
    assert_true(whatif_between(*state, &whatif, true, &more, &untried, &err));
    assert_int_equal(untried, 1998);
    assert_true(more.count > WHATIF_BETWEEN_MAX - 10 && more.count <= WHATIF_BETWEEN_MAX);
    double stride = more.items[1].at[SWEEP_NODES] - more.items[0].at[SWEEP_NODES];
    assert_true(stride == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_size_between_is_better),
        cmocka_unit_test(counts_of_gpus_between_are_whole_nodes),
        cmocka_unit_test(a_plan_that_is_fast_enough_is_not_cut),
        cmocka_unit_test(many_sizes_are_closed_in_on),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
