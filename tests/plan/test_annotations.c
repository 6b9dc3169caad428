#include "tests/support/test.h"

#include "plan/layout/annotations.h"
#include "tests/support/draw.h"
#include "tests/support/tiny_models.h"

// Text to rules of operators: what is said, what follows, and what is refused.

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 16, \"hidden_size\": 8, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"intermediate_size\": 16}";
static const char MIXTURE[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 16, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
    "\"intermediate_size\": 16, \"num_local_experts\": 4, \"num_experts_per_tok\": 2}";
enum { STAGES = 3 };

static struct annotations read_of(struct arena *arena, const char *model, const char *text,
                                  struct err *err)
{
    const struct import_options fused = {.flash = true}, chain = {.flash = false};
    const struct graph *const graphs[] = {tiny_graph(arena, model, &fused),
                                          tiny_graph(arena, model, &chain)};
    struct annotations found;
    bool done = annotations_read(arena, "a", text, graphs, 2, STAGES, &found, err);
    assert_int_equal(done, err->kind == ERR_NONE);
    return found;
}

// "layer.mlp.up=ffn ...", in the order of the operators; with "@1" of that stage alone, behind all.
static const char *rules_of(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct annotations found = read_of(arena, LLAMA, text, &err);
    const char *words = "";
    assert_string_equal(err.text, "");
    for (int i = 0; i < found.count; i++) {
        const struct layout_rule *rule = &found.rules[i];
        words = arena_print(arena, "%s%s%s=%s", words, i ? " " : "", rule->operator,
                            layout_rule_word(rule));
        if (rule->is_of_stage) words = arena_print(arena, "%s@%d", words, rule->stage);
    }
    return words;
}

static void nothing_is_said_by_an_empty_file(void **state)
{
    assert_string_equal(rules_of(*state, ""), "");
    assert_string_equal(rules_of(*state, "\n# mlp.up: ffn/tp\n   \n"), "");
}

static void a_parameter_stands_for_its_operator(void **state)
{
    assert_string_equal(rules_of(*state, "*.mlp.up.weight: hidden/tp"), "layer.mlp.up=hidden");
    assert_string_equal(rules_of(*state, "\"mlp.up\": 'hidden/tp' # row\r\n"),
                        "layer.mlp.up=hidden");
    assert_string_equal(rules_of(*state, "layer.mlp.up.weight: whole"), "layer.mlp.up=otherwise");
    assert_string_equal(rules_of(*state, "layer.mlp.up: whole/tp"), "layer.mlp.up=whole");
    // An activation for who makes it, with attention fused and not; what surrounds it follows.
    assert_string_equal(rules_of(*state, "attention.context: head/tp"),
                        "layer.attention.q_rope=head layer.attention.core=head "
                        "layer.attention.v_heads=head layer.attention.context=head");
}

static void a_whole_weight_leaves_its_operator_what_the_weight_has_not(void **state)
{
    const char *both = rules_of(*state, "mlp.up.weight: whole\nmlp.up: seq/tp\n");
    assert_string_equal(both, "layer.mlp.up=seq");
    both = rules_of(*state, "mlp.up: seq/tp\nmlp.up.weight: whole\n");
    assert_string_equal(both, "layer.mlp.up=seq");
}

static void operators_without_a_matrix_follow_neighbours_that_agree(void **state)
{
    const char *text = "mlp.gate: seq/tp\nmlp.up: seq/tp\n";
    assert_string_equal(rules_of(*state, text), "layer.mlp.norm=seq layer.mlp.gate=seq "
                                                "layer.mlp.up=seq layer.mlp.activation=seq");
    // What they cannot be split by they do not follow; nor do they where neighbours differ.
    assert_string_equal(rules_of(*state, "mlp.gate: hidden/tp\nmlp.up: hidden/tp\n"),
                        "layer.mlp.gate=hidden layer.mlp.up=hidden");
    assert_string_equal(rules_of(*state, "mlp.gate: ffn/tp\nmlp.up: seq/tp\n"),
                        "layer.mlp.gate=ffn layer.mlp.up=seq");
    // What is said of them stands.
    assert_string_equal(rules_of(*state, "mlp.gate: seq/tp\nmlp.up: seq/tp\nmlp.act*: ffn/tp\n"
                                         "mlp.norm: batch/tp"),
                        "layer.mlp.norm=batch layer.mlp.gate=seq layer.mlp.up=seq "
                        "layer.mlp.activation=ffn");
}

static void a_pattern_takes_the_kind_of_block_or_leaves_it(void **state)
{
    assert_string_equal(rules_of(*state, "head.*: seq/tp\nloss: seq/tp"),
                        "head.head.norm=seq head.head.lm=seq head.loss=seq");
    assert_string_equal(rules_of(*state, "embedding.embedding.token: hidden/tp"),
                        "embedding.embedding.token=hidden");
}

static void what_is_said_of_a_stage_goes_before_what_is_said_of_all(void **state)
{
    assert_string_equal(rules_of(*state, "mlp.up.weight: hidden/tp on stage 1"),
                        "layer.mlp.up=hidden@1");
    assert_string_equal(rules_of(*state, "mlp.up: seq/tp\n\"mlp.up\": \"hidden/tp  on stage 2\""),
                        "layer.mlp.up=seq layer.mlp.up=hidden@2");
    // Of two stages in one line, in the order of the stages.
    assert_string_equal(rules_of(*state, "mlp.up: whole on stage 2, seq/tp on stage 0"),
                        "layer.mlp.up=seq@0 layer.mlp.up=whole@2");
    // What follows on that stage follows there, and of what all have nothing is said again.
    assert_string_equal(rules_of(*state, "mlp.gate: seq/tp on stage 1\nmlp.up: seq/tp on stage 1"),
                        "layer.mlp.norm=seq@1 layer.mlp.gate=seq@1 layer.mlp.up=seq@1 "
                        "layer.mlp.activation=seq@1");
    const char *all = "layer.mlp.norm=seq layer.mlp.gate=seq layer.mlp.up=seq "
                      "layer.mlp.activation=seq";
    assert_string_equal(
        rules_of(*state, "mlp.gate: seq/tp\nmlp.up: seq/tp\nmlp.up: seq/tp on stage 1"), all);
    // With one of all and one of the stage.
    assert_string_equal(rules_of(*state, "mlp.gate: seq/tp\nmlp.up: seq/tp on stage 0"),
                        "layer.mlp.gate=seq layer.mlp.norm=seq@0 layer.mlp.up=seq@0 "
                        "layer.mlp.activation=seq@0");
    // Where neighbours on the stage differ what follows does as on all others.
    all = arena_print(*state, "%s layer.mlp.up=hidden@0", all);
    assert_string_equal(
        rules_of(*state, "mlp.gate: seq/tp\nmlp.up: seq/tp\nmlp.up: hidden/tp on stage 0"), all);
    // `whole` of a weight asks about the others that are said of the stage.
    assert_string_equal(
        rules_of(*state, "mlp.up.weight: whole on stage 1\nmlp.up: seq/tp on stage 1"),
        "layer.mlp.up=seq@1");
    assert_string_equal(rules_of(*state, "mlp.up.weight: whole on stage 1\nmlp.up: ffn/tp"),
                        "layer.mlp.up=ffn layer.mlp.up=otherwise@1");
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    static const struct {
        const char *text, *error;
        enum err_kind kind;
    } CASES[] = {
        {"mlp.up", "a:1:1: expected PATTERN: DIM/AXIS, found \"mlp.up\"", ERR_INPUT},
        {"\n: ffn/tp", "a:2:1: expected PATTERN: DIM/AXIS, found \": ffn/tp\"", ERR_INPUT},
        {"mlp.up: ", "a:1:9: expected DIM/AXIS, as ffn/tp, or whole, found \"\"", ERR_INPUT},
        {"mlp.up: ffm/tp", "a:1:9: expected DIM/AXIS, as ffn/tp, or whole, found \"ffm/tp\"",
         ERR_INPUT},
        {"mlp.up: otherwise/tp",
         "a:1:9: expected DIM/AXIS, as ffn/tp, or whole, found \"otherwise/tp\"", ERR_INPUT},
        {"mlp.up: ffn", "a:1:9: expected DIM/AXIS, as ffn/tp, or whole, found \"ffn\"", ERR_INPUT},
        {"mlp.up: ffn/tq", "a:1:9: \"tq\" is no axis", ERR_INPUT},
        {"mlp.up: seq/cp",
         "a:1:9: \"mlp.up\": layer.mlp.up cannot be laid out over cp: tp is the one axis that "
         "can be",
         ERR_USAGE},
        {"mlp.upp: ffn/tp",
         "a:1:10: \"mlp.upp\" names no operator and no tensor, did you mean \"mlp.up\"?",
         ERR_USAGE},
        {"zzzzzzzzz: ffn/tp", "a:1:12: \"zzzzzzzzz\" names no operator and no tensor", ERR_USAGE},
        {"attention.q_rope: head_dim/tp",
         "a:1:19: \"attention.q_rope\": layer.attention.q_rope cannot be split over head_dim; "
         "what of it can: batch, seq, head",
         ERR_USAGE},
        {"mlp.up.weight: seq/tp", "a:1:16: \"mlp.up.weight\": layer.mlp.up.weight has no seq",
         ERR_USAGE},
        {"*.up: ffn/tp\nmlp.up.weight: hidden/tp\n",
         "a:2:16: \"mlp.up.weight: hidden/tp\" contradicts line 1, \"*.up: ffn/tp\": layer.mlp.up "
         "cannot be both",
         ERR_USAGE},
        {"mlp.up: ffn/tp, seq/tp",
         "a:1:17: \"mlp.up: seq/tp\" contradicts line 1, \"mlp.up: ffn/tp\": layer.mlp.up cannot "
         "be both",
         ERR_USAGE},
        {"mlp.up: ffn/tp on stage 1\nmlp.gate: ffn/tp\n*.up.weight: hidden/tp on stage 1",
         "a:3:14: \"*.up.weight: hidden/tp on stage 1\" contradicts line 1, \"mlp.up: ffn/tp on "
         "stage 1\": layer.mlp.up cannot be both",
         ERR_USAGE},
        {"mlp.up: ffn/tp on stage 3",
         "a:1:9: there is no stage 3: --stage-ranks has 3 of them, from 0 on", ERR_USAGE},
        {"mlp.up: ffn/tp on stage one", "a:1:9: \"one\" is no stage's number", ERR_INPUT},
        {"mlp.up: ffn/tp on stage ", "a:1:9: \"tp on stage\" is no axis", ERR_INPUT},
        {"mlp.up: ffn/tp on stage -1", "a:1:9: \"-1\" is no stage's number", ERR_INPUT},
        {"mlp.up: on stage 1",
         "a:1:9: expected DIM/AXIS, as ffn/tp, or whole, found \"on stage 1\"", ERR_INPUT},
        {"mlp.upp: ffn/tp on stage 1",
         "a:1:10: \"mlp.upp\" names no operator and no tensor, did you mean \"mlp.up\"?",
         ERR_USAGE},
        {"mlp.up.weight: whole\nmlp.up: ffn/tp",
         "a:1:16: \"mlp.up.weight: whole\" contradicts line 2, \"mlp.up: ffn/tp\": layer.mlp.up "
         "cannot be both",
         ERR_USAGE},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        read_of(*state, LLAMA, CASES[i].text, &err);
        assert_string_equal(err.text, CASES[i].error);
        assert_int_equal(err.kind, CASES[i].kind);
    }
}

static void stages_without_numbers_of_ranks_are_not_told_apart(void **state)
{
    const struct import_options fused = {.flash = true};
    const struct graph *const graphs[] = {tiny_graph(*state, LLAMA, &fused)};
    struct annotations found;
    struct err err = {0};
    assert_false(
        annotations_read(*state, "a", "mlp.up: ffn/tp on stage 0", graphs, 1, 0, &found, &err));
    assert_string_equal(err.text, "a:1:9: stages have no numbers of ranks (--stage-ranks N,N), "
                                  "which alone tell them apart");
    assert_int_equal(err.kind, ERR_USAGE);
}

static void experts_go_with_ep_and_etp(void **state)
{
    struct err err = {0};
    read_of(*state, MIXTURE, "experts.up.weight: ffn/tp", &err);
    assert_string_equal(err.text, "a:1:20: \"experts.up.weight\": layer.experts.up is laid out as "
                                  "its experts are, by ep and etp");
}

// Whatever is written is read or refused with its place.
static void drawn_texts_are_read_or_refused(void **state)
{
    static const char *const NAMES[] = {
        "mlp.up",  "mlp.*",       "*",        "loss",          "[", "\\",
        "head.l?", "attention.q", "*.weight", "mlp.up.weight", ""};
    static const char *const MARKS[] = {": ", ": ", ":", " : \"", "\n", "#"};
    static const char *const DIMS[] = {"ffn", "seq", "whole", "hidden", "head", "otherwise", ""};
    static const char *const ENDS[] = {
        "/tp\n", "/tp\n", "/tp, seq/tp",      "\n",         "/cp\r\n",
        "/",     "",      "/tp on stage 1\n", " on stage 7"};
    struct draw draw = draw_start("annotations", 2026);
    int read = 0;
    for (int i = 0; i < 400; i++) {
        struct arena_mark mark = arena_mark(*state);
        struct err err = {0};
        const char *text = "";
        for (int line = draw_int(&draw, 0, 3); line > 0; line--)
            text =
                arena_print(*state, "%s%s%s%s%s", text, DRAW_ONE(&draw, NAMES),
                            DRAW_ONE(&draw, MARKS), DRAW_ONE(&draw, DIMS), DRAW_ONE(&draw, ENDS));
        struct annotations found = read_of(*state, LLAMA, text, &err);
        read += found.count > 0;
        if (err.kind) assert_true(strncmp(err.text, "a:", 2) == 0);
        arena_reset(*state, mark);
    }
    assert_true(read > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_by_an_empty_file),
        cmocka_unit_test(a_parameter_stands_for_its_operator),
        cmocka_unit_test(a_whole_weight_leaves_its_operator_what_the_weight_has_not),
        cmocka_unit_test(operators_without_a_matrix_follow_neighbours_that_agree),
        cmocka_unit_test(a_pattern_takes_the_kind_of_block_or_leaves_it),
        cmocka_unit_test(what_is_said_of_a_stage_goes_before_what_is_said_of_all),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(stages_without_numbers_of_ranks_are_not_told_apart),
        cmocka_unit_test(experts_go_with_ep_and_etp),
        cmocka_unit_test(drawn_texts_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
