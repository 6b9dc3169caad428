#include "models/graph.h"
#include "planner/choice.h"
#include "tests/support/test.h"
#include "validation/question.h"
#include "validation/ranking.h"
#include "validation/rows.h"

#include <stdio.h>
#include <unistd.h>

// A row with everything that must be there; `more` are further members, with a leading comma.
static const char *row_text(struct arena *arena, const char *id, const char *more)
{
    return arena_print(
        arena,
        "{\"id\": \"%s\", \"family\": \"f\", \"tier\": \"A\", \"device\": \"a100-sxm4-80g\", "
        "\"stack\": \"megatron-core\", \"model\": {\"layers\": 4, \"hidden\": 512, \"heads\": 8, "
        "\"vocab\": 1000, \"attention\": \"mha\"}, \"gpus\": 8, \"gpus_per_node\": 8, "
        "\"nvlink_domain\": 8, \"intra_bytes_per_s\": 3e11, \"seq_len\": 1024, \"global_batch\": "
        "16, \"measured\": {\"iter_s\": 2}%s}\n",
        id, more);
}

// The rows of a text; with `error`, what is said instead of "FILE".
static struct rows read_text(struct arena *arena, const char *text, const char *error)
{
    char path[] = "/tmp/rows_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    struct rows rows;
    struct err err = {0};
    bool done = rows_read(arena, path, &rows, &err);
    unlink(path);
    assert_int_equal(done, error == NULL);
    if (!error) {
        assert_string_equal(err.text, "");
    } else {
        assert_int_equal(err.kind, ERR_INPUT);
        assert_memory_equal(err.text, path, strlen(path));
        assert_string_equal(err.text + strlen(path), error);
    }
    return rows;
}

static struct row read_one(struct arena *arena, const char *more)
{
    struct rows rows = read_text(arena, row_text(arena, "r", more), NULL);
    assert_int_equal(rows.count, 1);
    return rows.items[0];
}

static void what_a_row_leaves_out_is_not_stated(void **state)
{
    struct row row = read_one(*state, "");
    assert_true(row.step_s == 2 && row.peak_bytes == 0 && row.flop_per_s_per_gpu == 0);
    assert_false(row.network_stated);
    assert_false(row.allocated);
    assert_int_equal(row.facts.zero_stage, -1);
    assert_int_equal(row.facts.zero_group, -1);
    assert_int_equal(row.facts.sp, ROW_UNSTATED);
    assert_int_equal(row.precision, PRECISION_BF16);
    assert_int_equal(row.kind, ROW_KIND_DENSE);
    assert_string_equal(row.model_name, "r");
}

static void null_is_as_good_as_absent(void **state)
{
    struct row row = read_one(*state, ", \"sp\": null, \"network\": null, \"overlap\": null, "
                                      "\"zero_stage\": null, \"precision\": null");
    assert_int_equal(row.facts.sp, ROW_UNSTATED);
    assert_int_equal(row.facts.zero_stage, -1);
    assert_false(row.network_stated);
}

static void recipes_are_read_for_the_width_of_products(void **state)
{
    assert_int_equal(read_one(*state, ", \"precision\": \"MXFP8\"").precision, PRECISION_FP8);
    struct row row = read_one(*state, ", \"precision\": \"nvfp4\"");
    assert_int_equal(row.precision, PRECISION_FP4);
    assert_int_equal(row.kind, ROW_KIND_DENSE_LOW_PRECISION);
    assert_string_equal(row_kind_name(row.kind), "dense-low-precision");
    assert_int_equal(read_one(*state, ", \"precision\": \"fp16 (mixed)\"").precision,
                     PRECISION_FP16);
}

static struct row measured(void *state, const char *members)
{
    struct arena *arena = state;
    const char *text = row_text(arena, "r", "");
    const char *at = strstr(text, "\"iter_s\": 2");
    const char *whole = arena_print(arena, "%.*s%s%s", (int)(at - text), text, members,
                                    at + strlen("\"iter_s\": 2"));
    struct rows rows = read_text(arena, whole, NULL);
    return rows.items[0];
}

static void rates_become_times(void **state)
{
    assert_true(measured(*state, "\"tokens_per_s_per_gpu\": 512").step_s == 4);  // 16384 / 4096
    assert_true(measured(*state, "\"samples_per_s\": 32").step_s == 0.5);
    assert_true(measured(*state, "\"tflops_per_gpu\": 100").step_s == 0);
    assert_true(measured(*state, "\"tflops_per_gpu\": 100").flop_per_s_per_gpu == 1e14);
    assert_true(measured(*state, "\"iter_s\": 3, \"samples_per_s\": 32").step_s == 3);
}

static void memory_says_of_which_kind_it_is(void **state)
{
    struct row row = read_one(*state, ", \"peak_mem_kind\": \"allocated\"");
    assert_true(row.allocated);
    assert_true(measured(*state, "\"peak_mem_gb\": 40").peak_bytes == 40e9);
    read_text(*state, row_text(*state, "r", ", \"peak_mem_kind\": \"used\""),
              ":1:339: $.peak_mem_kind: expected allocated or reserved, found \"used\"");
}

static void errors_name_line_and_place(void **state)
{
    struct arena *arena = *state;
    const char *good = row_text(arena, "a", "");
    read_text(arena, arena_print(arena, "%s\n{\"id\": 3}\n", good),
              ":3:1: $: missing \"family\", \"tier\", \"device\", \"stack\"; 3:8: $.id: expected a "
              "string, found a number");
    read_text(arena, arena_print(arena, "%s%s", good, row_text(arena, "b", ", \"tp\": \"2\"")),
              ":2:328: $.tp: expected a number, found a string");
    read_text(arena, arena_print(arena, "%s{\"id\": \"b\"\n", good),
              ":2:11: not valid JSON from here on");
    read_text(arena, arena_print(arena, "%s%s", good, good),
              ":2:8: $.id: \"a\" is already the id of line 1");
    read_text(arena, "\n \n", ": holds no row");
    read_text(arena, "", ": holds no row");
    read_text(arena, row_text(arena, "a", ", \"model\": {}"), ":1:322: $.model: duplicate key");
    read_text(arena, row_text(arena, "a", ", \"overlap\": {\"tp\": 1}"),
              ":1:340: $.overlap.tp: expected true or false, found a number");
    read_text(arena, row_text(arena, "a", ", \"network\": {\"nics_per_host\": 8}"),
              ":1:333: $.network: missing \"nic_bytes_per_s\"");
}

static void filters_keep_the_order(void **state)
{
    struct arena *arena = *state;
    const char *text = arena_print(arena, "%s%s%s", row_text(arena, "a", ""),
                                   row_text(arena, "b", ""), row_text(arena, "c", ""));
    struct rows rows = read_text(arena, text, NULL);
    rows.items[1].family = "g";
    rows_keep(&rows, &(struct row_filter){.family = "f", .tiers = "AB"});
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.items[1].id, "c");
    rows_keep(&rows, &(struct row_filter){.tiers = "C"});
    assert_int_equal(rows.count, 0);
}

static void what_joins_the_gpus_and_how_blocks_stand_is_asked(void **state)
{
    struct arena *arena = *state;
    struct row row = read_one(arena, "");
    assert_non_null(strstr(question_cluster(arena, &row), "\"kind\": \"nvswitch\""));
    assert_non_null(strstr(question_config(arena, &row), "\"model_type\": \"gpt2\""));
    row.facts.intra_kind = "nvlink";
    row.facts.model.parallel_blocks = true;
    assert_non_null(strstr(question_cluster(arena, &row), "\"kind\": \"nvlink\""));
    assert_non_null(strstr(question_config(arena, &row), "\"parallel_attn\": true"));
    assert_non_null(strstr(question_config(arena, &row), "\"new_decoder_architecture\": false"));
    row.facts.model.attention = "gqa";
    row.facts.model.kv_heads = row.facts.model.heads / 2;
    const char *grouped = question_config(arena, &row);
    assert_non_null(strstr(grouped, "\"new_decoder_architecture\": true"));
    assert_non_null(
        strstr(grouped, arena_print(arena, "\"num_kv_heads\": %d", row.facts.model.kv_heads)));
    assert_string_equal(read_one(arena, ", \"intra_kind\": \"xgmi\"").facts.intra_kind, "xgmi");
}

static void a_dense_model_with_a_window_is_asked_as_mistral(void **state)
{
    struct row row = read_one(*state, "");
    row.facts.model.attention = "gqa";
    row.facts.model.ffn_gated = true;
    const char *whole = question_config(*state, &row);
    assert_non_null(strstr(whole, "\"model_type\": \"llama\""));
    assert_null(strstr(whole, "sliding_window"));
    row.facts.model.sliding_window = 4096;
    const char *windowed = question_config(*state, &row);
    assert_non_null(strstr(windowed, "\"model_type\": \"mistral\""));
    assert_non_null(strstr(windowed, "\"sliding_window\": 4096"));
}

static void what_a_source_calls_its_network_is_asked(void **state)
{
    struct arena *arena = *state;
    struct row row = read_one(arena, ", \"inter_node\": null");
    assert_non_null(strstr(question_cluster(arena, &row), "\"kind\": \"infiniband\""));
    row = read_one(arena, ", \"inter_node\": \"8x200G RoCE\"");
    assert_non_null(strstr(question_cluster(arena, &row), "\"kind\": \"infiniband\""));
    row = read_one(arena, ", \"inter_node\": \"AWS EFA (p5: 32 x 100G)\"");
    assert_non_null(strstr(question_cluster(arena, &row), "\"kind\": \"efa\""));
}

static void a_row_is_asked_as_it_came(void **state)
{
    struct arena *arena = *state;
    const char *text = arena_print(arena, "%s%s", row_text(arena, "a", ", \"stack_then\": \"xla\""),
                                   row_text(arena, "b", ""));
    struct rows rows = read_text(arena, text, NULL);
    assert_string_equal(rows.items[0].stack, "megatron-core");
    rows_as_they_came(&rows);
    assert_string_equal(rows.items[0].stack, "xla");
    assert_string_equal(rows.items[1].stack, "megatron-core");
    assert_string_equal(rows.items[0].rules_of, "megatron-core");
    assert_null(rows.items[1].rules_of);
}

static void adapters_and_failures_are_known(void **state)
{
    struct row row = read_one(*state, "");
    assert_false(row.has_narrow_base || row.gave_nothing);
    assert_int_equal(row.facts.lora.rank, 0);
    row = read_one(*state, ", \"lora\": {\"rank\": 8, \"targets\": \"q, v, output (recipe)\", "
                           "\"base_bits\": 16}");
    assert_int_equal(row.facts.lora.rank, 8);
    assert_int_equal(row.facts.lora.targets, 1 << ADAPTER_Q | 1 << ADAPTER_V | 1 << ADAPTER_O);
    assert_false(row.has_narrow_base);
    row = read_one(*state, ", \"lora\": {\"rank\": 4, \"targets\": \"*_proj\", \"base_bits\": 4}");
    assert_int_equal(row.facts.lora.targets, ADAPTERS_ALL);
    assert_true(row.has_narrow_base);
    assert_true(read_one(*state, ", \"failed\": true").gave_nothing);
    row = read_one(*state, ", \"failed\": true, \"refused\": \"a rule\"");
    assert_string_equal(row.refused, "a rule");
    read_text(*state, row_text(*state, "r", ", \"refused\": \"a rule\""),
              ":1:333: $.refused: expected a run that failed");
}

// The head of GPT-2 is its embedding unless the row says otherwise; that of others only if it does.
static void a_head_is_tied_where_the_row_says_so(void **state)
{
    struct row row = read_one(*state, "");
    static const char TIED[] = "\"tie_word_embeddings\": true";
    assert_non_null(strstr(question_config(*state, &row), TIED));
    row.facts.model.tied = ROW_NO;
    assert_null(strstr(question_config(*state, &row), TIED));
    row.facts.model.ffn_gated = true;
    assert_null(strstr(question_config(*state, &row), TIED));
    row.facts.model.tied = ROW_YES;
    assert_non_null(strstr(question_config(*state, &row), TIED));
}

static struct stack only_overlap(void)
{
    return (struct stack){
        .overlap = OVERLAP_TP | OVERLAP_GRAD_REDUCE | OVERLAP_PP,
        .overlap_default = OVERLAP_GRAD_REDUCE,
        .recompute_classes = 1u << OP_CLASS_NORM | 1u << OP_CLASS_ACTIVATION,
    };
}

static void overlap_is_the_default_but_for_what_the_row_states(void **state)
{
    struct stack stack = only_overlap();
    struct row row = read_one(*state, ", \"overlap\": {\"tp_comm_overlap\": true, "
                                      "\"param_gather\": true, \"other\": \"x\"}");
    struct pins pins = question_pins(&row, &stack, QUESTION_STATED);
    assert_int_equal(pins.overlap, OVERLAP_TP | OVERLAP_GRAD_REDUCE);  // it cannot gather so
    assert_int_equal(question_pins(&row, &stack, QUESTION_COARSE).overlap, -1);
    row = read_one(*state, ", \"overlap\": {\"dp\": false, \"pp\": true}");
    assert_int_equal(question_pins(&row, &stack, QUESTION_STATED).overlap, OVERLAP_PP);
    row = read_one(*state, ", \"overlap\": {\"fsdp_prefetch\": true}");
    assert_int_equal(question_pins(&row, &stack, QUESTION_STATED).overlap, -1);
}

static void a_kind_of_context_parallelism_is_asked_of_a_stack_that_has_it(void **state)
{
    const struct stack stack = {.cp_kinds = 1u << CP_RING};
    struct row row = read_one(*state, ", \"cp_kind\": \"ring\"");
    assert_int_equal(question_pins(&row, &stack, QUESTION_STATED).cp_kind, CP_RING);
    assert_int_equal(question_pins(&row, &stack, QUESTION_COARSE).cp_kind, -1);
    row = read_one(*state, ", \"cp_kind\": \"ulysses\"");
    assert_int_equal(question_pins(&row, &stack, QUESTION_STATED).cp_kind, -1);
}

// The recompute that is pinned for these words, -1 for none.
static int recompute_of(void *state, const char *words, enum question_detail detail)
{
    struct stack stack = only_overlap();
    struct row row = read_one(state, arena_print(state, ", \"recompute\": \"%s\"", words));
    struct pins pins = question_pins(&row, &stack, detail);
    assert_int_equal(pins.recompute_layers.set, pins.recompute >= 0);
    return pins.recompute;
}

static void recompute_is_read_from_the_words_of_the_source(void **state)
{
    unsigned light = 1u << OP_CLASS_NORM | 1u << OP_CLASS_ACTIVATION;
    int selective = recompute_value(RECOMPUTE_SELECTIVE, 0);
    assert_int_equal(recompute_of(*state, "selective (norm, act)", QUESTION_STATED),
                     recompute_value(RECOMPUTE_SELECTIVE, light));
    assert_int_equal(recompute_of(*state, "selective (norm, act)", QUESTION_COARSE), selective);
    assert_int_equal(recompute_of(*state, "selective (norm, moe)", QUESTION_STATED), selective);
    assert_int_equal(recompute_of(*state, "selective (some blocks)", QUESTION_STATED), selective);
    assert_int_equal(recompute_of(*state, "selective (core_attn)", QUESTION_STATED), selective);
    assert_int_equal(recompute_of(*state, "full (not stated in text)", QUESTION_STATED),
                     recompute_value(RECOMPUTE_FULL, 0));
    assert_int_equal(recompute_of(*state, "none", QUESTION_STATED), 0);
    assert_int_equal(recompute_of(*state, "full on 5 of 32 layers", QUESTION_STATED), -1);
}

static void a_sweep_differs_in_how_only(void **state)
{
    struct arena *arena = *state;
    struct row a = read_one(arena, ""), b = read_one(arena, ", \"tp\": 2, \"vpp\": 3");
    assert_string_equal(row_sweep(arena, &a), row_sweep(arena, &b));
    b.facts.global_batch = 32;
    assert_string_not_equal(row_sweep(arena, &a), row_sweep(arena, &b));
    struct row c = read_one(arena, ", \"software\": \"25.04\"");
    assert_string_not_equal(row_sweep(arena, &a), row_sweep(arena, &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_row_leaves_out_is_not_stated),
        cmocka_unit_test(null_is_as_good_as_absent),
        cmocka_unit_test(recipes_are_read_for_the_width_of_products),
        cmocka_unit_test(rates_become_times),
        cmocka_unit_test(memory_says_of_which_kind_it_is),
        cmocka_unit_test(errors_name_line_and_place),
        cmocka_unit_test(filters_keep_the_order),
        cmocka_unit_test(what_joins_the_gpus_and_how_blocks_stand_is_asked),
        cmocka_unit_test(a_dense_model_with_a_window_is_asked_as_mistral),
        cmocka_unit_test(what_a_source_calls_its_network_is_asked),
        cmocka_unit_test(a_row_is_asked_as_it_came),
        cmocka_unit_test(adapters_and_failures_are_known),
        cmocka_unit_test(a_head_is_tied_where_the_row_says_so),
        cmocka_unit_test(overlap_is_the_default_but_for_what_the_row_states),
        cmocka_unit_test(a_kind_of_context_parallelism_is_asked_of_a_stack_that_has_it),
        cmocka_unit_test(recompute_is_read_from_the_words_of_the_source),
        cmocka_unit_test(a_sweep_differs_in_how_only),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
