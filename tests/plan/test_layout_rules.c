#include "tests/support/test.h"

#include "plan/layout/rules.h"
#include "plan/layout/strategy.h"
#include "tests/support/layout_rules_draw.h"
#include "tests/support/machine.h"
#include "tests/support/tiny_models.h"

// Rules of single operators: what they say is what strategies are, and every set of them that is
// accepted computes what one rank does. MESHWRIGHT_CASES=N for more.

enum { CASES = 40, HEADS = 8 };

#define SIZES                                                            \
    "\"vocab_size\": 16, \"hidden_size\": 8, \"num_hidden_layers\": 1, " \
    "\"num_attention_heads\": 8, \"intermediate_size\": 16, \"num_key_value_heads\": 4, "

static const char *const MODELS[] = {
    "{\"model_type\": \"llama\", " SIZES "\"head_dim\": 4}",
    "{\"model_type\": \"qwen2\", " SIZES "\"tie_word_embeddings\": true}",
    ("{\"model_type\": \"mixtral\", " SIZES
     "\"head_dim\": 4, \"num_local_experts\": 8, \"num_experts_per_tok\": 2}"),
    ("{\"model_type\": \"gpt2\", \"vocab_size\": 16, \"n_embd\": 16, \"n_layer\": 1, "
     "\"n_head\": 8, \"n_positions\": 16}"),
};

static struct parallel draw_parallel(struct draw *draw)
{
    static const int DEGREES[] = {1, 1, 2};
    struct parallel parallel = {.vpp = 1};
    parallel_default_order(&parallel);
    for (int i = 0; i < AXIS_COUNT; i++) {
        // None of the models has an image whose height or width could be split.
        bool is_one = i == AXIS_PP || i == AXIS_SP_H || i == AXIS_SP_W;
        parallel.degree[i] =
            is_one || !axis_takes_ranks((enum axis)i) ? 1 : DRAW_ONE(draw, DEGREES);
    }
    parallel.degree[AXIS_TP] = 1 << draw_int(draw, 1, 3);
    parallel.micro_batch = 1 << draw_int(draw, 0, 2);
    parallel.sp = draw_int(draw, 0, 1);
    parallel.zero = draw_int(draw, 0, 3);
    parallel.cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel.recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    parallel.recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1);
    return parallel;
}

static bool is_legal(const struct parallel *parallel, int64_t kv_head_count)
{
    int tp = parallel->degree[AXIS_TP], cp = parallel->degree[AXIS_CP];
    int64_t left = kv_head_count > tp ? kv_head_count / tp : 1;
    if (parallel_rank_count(parallel) > MACHINE_RANK_MAX || MACHINE_SEQ % (tp * cp) != 0)
        return false;
    bool fits_heads = HEADS % (tp * cp) == 0 && (left % cp == 0 || cp % left == 0);
    if (parallel->cp_kind == CP_ULYSSES && !fits_heads) return false;
    return mesh_folds(parallel, kv_head_count);
}

static void drawn_rules_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("rules of operators", 2026);
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : CASES, found = 0, refused = 0;
    const struct workload workload = {.seq_len = MACHINE_SEQ};
    for (int tries = 0; found < wanted; tries++) {
        assert_true(tries < 1000 * wanted);
        struct arena_mark mark = arena_mark(*state);
        struct import_options options = {.flash = draw_int(&draw, 0, 2) > 0, .vocab_multiple = 8};
        struct graph *graph = tiny_graph(*state, DRAW_ONE(&draw, MODELS), &options);
        struct parallel parallel = draw_parallel(&draw);
        struct drawn_rules drawn = layout_rules_draw(*state, &draw, graph, draw_int(&draw, 1, 8));
        parallel.layouts = drawn.rules;
        parallel.layout_count = drawn.count;
        struct err err = {0};
        bool is_asked = is_legal(&parallel, graph->kv_head_count) && parallel.layout_count > 0;
        bool is_accepted = is_asked && layout_rules_check(graph, &workload, &parallel, &err);
        refused += is_asked && !is_accepted;
        if (is_accepted) {
            struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
            for (int b = 0; b < graph->block_count; b++)
                machine_check(*state, &graph->blocks[b], &mesh, &parallel, parallel.recompute);
            found++;
        }
        arena_reset(*state, mark);
    }
    printf("# %d of %d sets of rules refused\n", refused, refused + found);
    assert_true(refused > 0 && refused < 20 * found);
}

static void rules_are_read_as_they_were_written(void **state)
{
    struct layout_rule rules[] = {
        {.operator= "layer.q", .axis = AXIS_TP, .dim = DIM_HEAD},
        {.operator= "layer.up", .axis = AXIS_TP, .dim = DIM_NONE},
        {.operator= "layer.q", .axis = AXIS_CP, .follows = true},
        {.operator= "layer.q", .axis = AXIS_TP, .dim = DIM_SEQ, .is_of_stage = true, .stage = 0},
        {.operator= "layer.q", .axis = AXIS_TP, .is_of_stage = true, .stage = 3}};
    enum { COUNT = sizeof rules / sizeof *rules };
    struct parallel parallel = {.layouts = rules, .layout_count = COUNT}, other = {0};
    struct json_writer writer = {.arena = *state};
    struct json_document document;
    struct err err = {0};
    layout_rules_write(&writer, NULL, &parallel);
    assert_true(json_parse(*state, "rules", writer.text, writer.length, &document, &err));
    struct json root = json_root(&document);
    assert_true(layout_rules_read(*state, &root, &other, &err));
    assert_string_equal(err.text, "");
    assert_int_equal(other.layout_count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(other.layouts[i].operator, rules[i].operator);
        assert_true(other.layouts[i].axis == rules[i].axis && other.layouts[i].dim == rules[i].dim);
        assert_int_equal(other.layouts[i].follows, rules[i].follows);
        assert_int_equal(other.layouts[i].is_of_stage, rules[i].is_of_stage);
        assert_int_equal(other.layouts[i].stage, rules[i].stage);
    }
}

#define RULE(axis, dim) "{\"operator\": \"layer.q\", \"axis\": \"" axis "\", \"dim\": \"" dim "\"}"

#define OF_STAGE(stage) \
    "{\"operator\": \"layer.q\", \"axis\": \"tp\", \"dim\": \"head\", \"stage\": " stage "}"

static void wrong_rules_are_refused(void **state)
{
    static const struct {
        const char *text, *wanted;
    } WRONG[] = {
        {"[" RULE("tq", "head") "]", "\"tq\" is no axis"},
        {"[" RULE("tp", "heads") "]", "\"heads\" is no dim, nor whole or otherwise"},
        {"[" RULE("tp", "head") "," RULE("tp", "seq") "]", "layer.q is laid out over tp twice"},
        {"[{\"operator\": 1, \"axis\": \"tp\", \"dim\": \"head\"}]", "expected a string"},
        {"[" RULE("tp", "head") ",3]", "expected an object"},
        {"[" OF_STAGE("1") "," RULE("tp", "head") "," OF_STAGE("1") "]",
         "layer.q is laid out over tp twice"},
        {"[" OF_STAGE("-1") "]", "stage: "},
        {"[" OF_STAGE("\"1\"") "]", "expected a number"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        struct parallel parallel = {0};
        struct err err = {0};
        struct json_document document;
        const char *text = WRONG[i].text;
        assert_true(json_parse(*state, "rules", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        assert_false(layout_rules_read(*state, &root, &parallel, &err));
        assert_non_null(strstr(err.text, WRONG[i].wanted));
        assert_int_equal(parallel.layout_count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_rules_compute_what_one_rank_does),
        cmocka_unit_test(rules_are_read_as_they_were_written),
        cmocka_unit_test(wrong_rules_are_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
