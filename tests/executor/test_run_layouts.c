#include "tests/support/test.h"

#include "tests/support/layout_rules_draw.h"
#include "tests/support/run_draw.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdlib.h>

// Plans with drawn layouts of single operators on up to eight ranks, each against one rank that
// does it all, in double precision: losses, weights, gradients, what ranks exchanged and what they
// held. MESHWRIGHT_CASES runs more of them. And layouts that a change must keep the order of.

static const double TOLERANCE = 1e-12;

enum { OTHERWISE_CASES = 4 };

static const char *difference_of(struct arena *arena, const struct run_outcome *expected,
                                 const struct run_outcome *found)
{
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (!difference) difference = run_outcome_traffic(arena, found);
    if (difference) return difference;
    double planned = (double)run_outcome_planned_bytes(found);
    if (fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static void add_rules(struct arena *arena, struct draw *draw, int model, struct run_case *of)
{
    const struct import_options options = {.flash = of->parallel.attention == ATTENTION_FLASH};
    struct graph *graph = tiny_graph(arena, run_draw_config(model), &options);
    struct drawn_rules drawn = layout_rules_draw(arena, draw, graph, draw_int(draw, 1, 6));
    of->parallel.layouts = drawn.rules;
    of->parallel.layout_count = drawn.count;
}

static void drawn_layouts_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("runs with layouts", 2026);
    struct run_outcome *known[DRAWN_MODEL_COUNT][2] = {0};
    struct arena scratch = {0};
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : OTHERWISE_CASES, ran = 0, failed = 0, refused = 0;
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct run_case of = run_draw(&draw, &scratch, &model);
        add_rules(&scratch, &draw, model, &of);
        struct err why = {0};
        bool is_asked = of.parallel.degree[AXIS_TP] > 1 && of.parallel.layout_count > 0;
        struct run_outcome *found = is_asked ? run_case_run(&scratch, &of, &why) : NULL;
        if (!found) {
            if (is_asked && why.kind != ERR_USAGE) fail_msg("%s", why.text);
            arena_free(&scratch);
            assert_in_range(++refused, 0, 100 * wanted + 100);
            continue;
        }
        struct run_outcome **expected = &known[model][of.dropout];
        struct run_case one = run_case_new(run_draw_config(model), DRAWN_SEQ, DRAWN_BATCH);
        one.dropout = of.dropout;
        if (!*expected) *expected = run_case_done(*state, &one);
        ran++;
        const char *difference = difference_of(&scratch, *expected, found);
        if (difference) {
            failed++;
            const char *rules = "";
            for (int i = 0; i < of.parallel.layout_count; i++)
                rules = arena_print(&scratch, "%s %s: %s", rules, of.parallel.layouts[i].operator,
                                    layout_rule_word(&of.parallel.layouts[i]));
            print_error("# MESHWRIGHT_SEED=%llu, model %d,%s: %s: %s\n",
                        (unsigned long long)seed.state, model, rules, run_case_text(&scratch, &of),
                        difference);
        }
        arena_free(&scratch);
    }
    print_message("# %d plans ran, %d drawn were refused or had none\n", ran, refused);
    assert_int_equal(failed, 0);
}

// Where a grid splits more query heads than there are kv heads, the axis with the outer digit takes
// these: each rank has the keys of its queries.
static void heads_on_a_grid_have_their_own_keys(void **state)
{
    static const struct {
        const char *operator;
        enum dim dim;
    } HEADS[] = {{"layer.attention.q", DIM_HEAD},        {"layer.attention.q_rope", DIM_HEAD},
                 {"layer.attention.core", DIM_HEAD},     {"layer.attention.out", DIM_HEAD},
                 {"layer.attention.k", DIM_KV_HEAD},     {"layer.attention.v", DIM_KV_HEAD},
                 {"layer.attention.k_rope", DIM_KV_HEAD}};
    enum { COUNT = sizeof HEADS / sizeof *HEADS };
    struct layout_rule rules[COUNT];
    for (int i = 0; i < COUNT; i++)
        rules[i] = (struct layout_rule){
            .operator= HEADS[i].operator, .axis = AXIS_TP, .dim = HEADS[i].dim};
    static const char CONFIG[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": 16, "
        "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 8, "
        "\"num_key_value_heads\": 2, \"max_position_embeddings\": 16}";
    struct run_case one = run_case_new(CONFIG, 8, 4), of = one;
    const struct run_outcome *expected = run_case_done(*state, &one);
    of.parallel.degree[AXIS_TP] = 4;
    of.parallel.layouts = rules;
    of.parallel.layout_count = COUNT;
    for (int grid = 0; grid < 2; grid++) {
        of.parallel.tp_kind = grid ? TP_2D_SUMMA : TP_1D;
        const char *difference = difference_of(*state, expected, run_case_done(*state, &of));
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

// A norm over all heads has the tokens split, which of kv heads that are fewer than ranks come by
// an exchange over some ranks and a slice of the others: in the order that keeps the tokens' own.
// Where the gradient of a norm of the layer (minimax_m2) comes back split over some ranks and
// partial over those with the outer digits, no order does, and the tokens are gathered between.
static void norms_over_fewer_heads_than_ranks_keep_the_tokens(void **state)
{
#define TINY                                                                                      \
    "\"vocab_size\": 64, \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": " \
    "2, "                                                                                         \
    "\"num_attention_heads\": 8, \"num_key_value_heads\": 2"
    static const char *const CONFIGS[] = {
        "{\"model_type\": \"olmo2\", " TINY "}",
        "{\"model_type\": \"minimax_m2\", " TINY ", \"head_dim\": 2, \"rotary_dim\": 2, "
        "\"num_local_experts\": 4, \"num_experts_per_tok\": 2}",
    };
    for (int i = 0; i < 2; i++) {
        struct run_case one = run_case_new(CONFIGS[i], 8, 4), of = one;
        const struct run_outcome *expected = run_case_done(*state, &one);
        for (int tp = 2; tp <= 8; tp *= 2) {
            of.parallel.degree[AXIS_TP] = tp;
            of.parallel.sp = true;
            const char *difference = difference_of(*state, expected, run_case_done(*state, &of));
            if (difference) fail_msg("model %d, %s: %s", i, run_case_text(*state, &of), difference);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_layouts_compute_what_one_rank_does),
        cmocka_unit_test(heads_on_a_grid_have_their_own_keys),
        cmocka_unit_test(norms_over_fewer_heads_than_ranks_keep_the_tokens),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
