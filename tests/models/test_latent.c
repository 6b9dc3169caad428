#include "tests/support/test.h"

#include "models/import.h"
#include "models/op.h"
#include "tests/support/interpreter.h"
#include "tests/support/lowered.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Latent attention: the families that have it, its operators, and what splitting it costs.

static struct graph *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, name, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

static const struct op *find_op(const struct block *block, const char *name)
{
    for (int o = 0; o < block->op_count; o++) {
        if (strcmp(block->ops[o].name, name) == 0) return &block->ops[o];
    }
    fail_msg("no op is called %s", name);
    return NULL;
}

static int find_tensor(const struct block *block, const char *name)
{
    for (int t = 0; t < block->tensor_count; t++) {
        if (strcmp(block->tensors[t].name, name) == 0) return t;
    }
    fail_msg("no tensor is called %s", name);
    return -1;
}

static void check_near(double found, double expected)
{
    if (fabs(found - expected) <= 1e-12 * fabs(expected)) return;
    fail_msg("found %.15g, expected %.15g", found, expected);
}

// Attention of one layer of transformers' DeepseekV3Attention (5.23, in double precision, rope not
// interleaved) with hidden 8, 2 heads, ranks 5 and 6, dims 3, 4 and 5, for four tokens. The n-th
// of these tensors is 0.5 * sin(1.3 i + n) for its element i, counted from 1, in our order of dims.
static const char *const FILLED[] = {
    "layer.input",
    "attention.norm.weight",
    "attention.q_a.weight",
    "attention.q_a_norm.weight",
    "attention.q_b.weight",
    "attention.kv_a.weight",
    "attention.k_shared.weight",
    "attention.kv_a_norm.weight",
    "attention.k_b.weight",
    "attention.v_b.weight",
    "attention.out.weight",
};
enum { TOKENS = 4, WIDTH = 8 };
static const double EXPECTED[TOKENS][WIDTH] = {
    {-0.514077832230, -0.376454265478, 0.312675682138, 0.543735022900, -0.021778718722,
     -0.555386586394, -0.275351803867, 0.408074016406},
    {-0.051080982520, 0.013187181118, 0.058136093524, 0.017915492719, -0.048551346890,
     -0.043890349562, 0.025070112699, 0.057302801123},
    {0.039302080593, -0.018134495888, -0.049003993408, -0.008082525781, 0.044679861051,
     0.031986146770, -0.027567347464, -0.046734613080},
    {-0.082654136457, -0.110666419670, 0.023447861198, 0.123210970478, 0.042469719355,
     -0.100489770119, -0.096231510946, 0.049006137209},
};

static void check_numbers(struct arena *arena, bool is_flash)
{
    static const char TEXT[] =
        "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 11, \"hidden_size\": 8, "
        "\"intermediate_size\": 18432, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 2, "
        "\"q_lora_rank\": 5, \"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, "
        "\"qk_rope_head_dim\": 4, \"v_head_dim\": 5, \"n_routed_experts\": null}";
    struct graph *graph = tiny_graph(arena, TEXT, &(struct import_options){.flash = is_flash});
    const struct block *block = &graph->blocks[graph->sequence[1]];
    struct interpreter in = interpreter_new(arena, block, 1, TOKENS);
    for (int n = 0; n < (int)(sizeof FILLED / sizeof *FILLED); n++) {
        int tensor = find_tensor(block, FILLED[n]);
        double *values = interpreter_array(&in, tensor);
        for (int64_t i = 0; i < interpreter_elements(&in, tensor); i++) {
            values[interpreter_place(&in, tensor, i)] = 0.5 * sin(1.3 * (double)i + n + 1);
        }
    }
    int out = find_tensor(block, "attention.out");
    interpreter_run(&in, 0, block->tensors[out].producer + 1);
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        double expected = EXPECTED[i / WIDTH][i % WIDTH];
        if (fabs(in.values[out][i] - expected) > 1e-11) {
            fail_msg("element %d: %.12f, expected %.12f", i, in.values[out][i], expected);
        }
    }
}

static void latent_attention_computes_what_transformers_does(void **state)
{
    check_numbers(*state, true);
    check_numbers(*state, false);
}

// DeepSeek says 236B with 21B active, 16B, 671B with 37B active; Kimi 1T with 32B active.
static void active_parameters_are_those_that_the_authors_state(void **state)
{
    static const struct {
        const char *name;
        double total, active;
    } STATED[] = {
        {"deepseek-v2", 236e9, 21e9}, {"deepseek-v3", 671e9, 37e9}, {"kimi-k2", 1.03e12, 32e9}};
    for (size_t i = 0; i < sizeof STATED / sizeof *STATED; i++) {
        struct graph *graph = load(*state, STATED[i].name);
        assert_true(fabs((double)graph->parameter_count / STATED[i].total - 1) < 0.005);
        assert_true(fabs((double)graph->active_parameter_count / STATED[i].active - 1) < 0.03);
    }
}

// transformers' DeepseekV3Attention.scaling for the two configs: YaRN's factor is in it.
static void scores_are_sharpened_as_far_as_positions_are_stretched(void **state)
{
    static const struct {
        const char *name;
        double scaling;
    } KNOWN[] = {{"deepseek-v3", 0.1352337788608801}, {"deepseek-v2-lite", 0.1147213867929261}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        struct graph *graph = load(*state, KNOWN[i].name);
        const struct block *layer = &graph->blocks[graph->sequence[1]];
        check_near(find_op(layer, "attention.core")->scalar, KNOWN[i].scaling);
    }
}

static void the_first_layers_and_those_between_have_no_experts(void **state)
{
    static const char TEXT[] =
        "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 11, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 7, \"num_attention_heads\": 2, \"num_experts_per_tok\": 2, "
        "\"first_k_dense_replace\": 2, \"moe_layer_freq\": 3, \"intermediate_size\": 16, "
        "\"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, \"v_head_dim\": 5, "
        "\"q_lora_rank\": 5, \"n_routed_experts\": 4, \"moe_intermediate_size\": 8, "
        "\"n_shared_experts\": 1}";
    struct graph *graph = tiny_graph(*state, TEXT, &(struct import_options){0});
    for (int layer = 0; layer < 7; layer++) {
        const struct block *block = &graph->blocks[graph->sequence[1 + layer]];
        bool has_experts = false;
        for (int o = 0; o < block->op_count; o++)
            has_experts = has_experts || block->ops[o].kind == OP_DISPATCH;
        assert_int_equal(has_experts, layer == 3 || layer == 6);
    }
}

static enum split split(const struct block *block, const char *name, enum dim dim)
{
    const struct op *op = find_op(block, name);
    return op_rule(op->kind)->split(block, op, dim);
}

static void a_shared_part_is_whole_for_every_head_and_its_gradient_partial(void **state)
{
    struct graph *graph =
        tiny_graph(*state, TINY_DEEPSEEK_DENSE, &(struct import_options){.flash = true});
    struct block_gradients gradients;
    const struct block *block = autodiff_block(*state, &graph->blocks[1], &gradients);
    static const enum dim TOKENS_AND_HEADS[] = {DIM_BATCH, DIM_SEQ, DIM_HEAD};
    for (int i = 0; i < 3; i++) {
        enum dim dim = TOKENS_AND_HEADS[i];
        assert_int_equal(split(block, "attention.k", dim), SPLIT_FREE);
        assert_int_equal(split(block, "d_attention.k", dim),
                         dim == DIM_HEAD ? SPLIT_PARTIAL : SPLIT_FREE);
    }
    assert_int_equal(split(block, "attention.k", DIM_HEAD_DIM), SPLIT_NO);
    assert_int_equal(split(block, "d_attention.k", DIM_HEAD_DIM), SPLIT_NO);
    assert_int_equal(split(block, "attention.k", DIM_FFN), SPLIT_NO);
    // What was repeated to two of the heads is added up, what was not is copied.
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 3, [DIM_SEQ] = 10, [DIM_HEAD] = 2, [DIM_HEAD_DIM] = 7};
    const struct op *op = find_op(block, "d_attention.k");
    check_near(op_rule(op->kind)->flop(block, op, size), 3 * 10 * 2 * 4);
}

static void attention_works_on_keys_and_values_of_two_widths(void **state)
{
    struct graph *graph =
        tiny_graph(*state, TINY_DEEPSEEK_DENSE, &(struct import_options){.flash = true});
    struct block_gradients gradients;
    const struct block *block = autodiff_block(*state, &graph->blocks[1], &gradients);
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 3, [DIM_SEQ] = 10,      [DIM_KV_SEQ] = 10,
                               [DIM_HEAD] = 2,  [DIM_VALUE_DIM] = 5, [DIM_HEAD_DIM] = 7};
    double rows = 3 * 2, pairs = 10 * 10 / 2.0;
    const struct op *forward = find_op(block, "attention.core");
    const struct op *backward = find_op(block, "d_attention.core");
    check_near(op_rule(forward->kind)->flop(block, forward, size), 2 * rows * pairs * (7 + 5));
    check_near(op_rule(backward->kind)->flop(block, backward, size),
               2 * rows * pairs * (3 * 7 + 2 * 5));
    const struct tensor *context = &block->tensors[forward->outputs[0]];
    assert_int_equal(context->extents[3].dim, DIM_VALUE_DIM);
    assert_int_equal(context->extents[3].size, 5);
}

// Every product and the attention of deepseek-v2-lite by hand: 27 layers, one of them dense.
static void model_flops_are_those_of_the_products(void **state)
{
    struct graph *graph = load(*state, "deepseek-v2-lite");
    double hidden = 2048, heads = 16, seq = 4096;
    double attention = hidden * heads * (128 + 64)  // q
                       + hidden * (512 + 64)        // kv_a with the shared part
                       + 512 * heads * (128 + 128)  // kv_b
                       + heads * 128 * hidden;
    double dense = 3 * hidden * 10944;
    double mixture = hidden * 64 + 3 * hidden * 1408 * (6 + 2);
    double products = 27 * attention + dense + 26 * mixture + hidden * 102400;
    double pairs = seq * seq / 2;
    double core = 27 * 3 * 2 * heads * (128 + 64 + 128) * pairs;
    check_near(graph_model_flop(graph, (int64_t)seq), 6 * products * seq + core);
}

enum { V3_HIDDEN = 7168, BYTES = 2 };

// With sequence parallelism the low-rank vectors are gathered, not the hidden states: 1536, 512 and
// the shared 64 numbers a token for 7168.
static void tensor_parallel_ranks_gather_the_low_rank_vectors(void **state)
{
    struct lowered l =
        lowered_make(*state, (struct setup){.model = "deepseek-v3", .tp = 4, .sp = true}, 1);
    int64_t token = (int64_t)BYTES * LOWERED_SEQ;
    // The mlp of a dense layer gathers its input, of 7168.
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, 0), 4);
    static const int64_t WIDTHS[] = {1536, 512, 64, V3_HIDDEN};
    int64_t expected = 0, found = 0;
    for (int i = 0; i < 4; i++)
        expected += WIDTHS[i] * token;
    for (int i = 0; i < l.program->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (instr->collective == COLLECTIVE_ALL_GATHER) found += instr->bytes;
    }
    assert_int_equal(found, expected);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_REDUCE_SCATTER, V3_HIDDEN * token),
                     2);
}

static void recomputing_the_up_products_keeps_the_low_rank_vectors_alone(void **state)
{
    struct setup setup = {.model = "deepseek-v3"};
    struct lowered kept = lowered_make(*state, setup, 1);
    setup.recompute = RECOMPUTE_SELECTIVE;
    setup.recompute_classes = 1u << OP_CLASS_UP;
    struct lowered recomputed = lowered_make(*state, setup, 1);
    static const char *const RAISED[] = {"attention.q_rope", "attention.k", "attention.v_b"};
    static const int64_t WIDTHS[] = {192, 192, 128};
    int64_t saved_bytes = 0;
    for (int i = 0; i < 3; i++) {
        int64_t bytes = WIDTHS[i] * 128 * BYTES * LOWERED_SEQ;
        assert_int_equal(lowered_saved_bytes(&kept, RAISED[i]), bytes);
        assert_int_equal(lowered_saved_bytes(&recomputed, RAISED[i]), 0);
        saved_bytes += bytes;
    }
    assert_true(lowered_saved_bytes(&recomputed, "attention.kv_a_norm") > 0);
    // The shared part of the keys has to be there to be turned and joined again.
    int64_t shared_bytes = lowered_saved_bytes(&recomputed, "attention.k_shared");
    assert_int_equal(shared_bytes, 64 * BYTES * LOWERED_SEQ);
    assert_int_equal(kept.program->saved_bytes - recomputed.program->saved_bytes,
                     saved_bytes - shared_bytes);
}

static const struct {
    const char *file, *text;
} BAD_CONFIGS[] = {
    {"factor", "1:74: $.rope_scaling.factor: expected a number, found a string"},
    {"few_open",
     "1:61: $.topk_group: 3 of 128 groups (n_group) have 6 experts, 8 are to be chosen"},
    {"groups", "1:42: $.n_group: 7 groups do not divide 256 experts"},
    {"kv_heads", "1:54: $.num_key_value_heads: 8 key-value heads for 128 heads; latent attention "
                 "has as many"},
    {"modules", "1:59: $.num_nextn_predict_layers: 2 multi-token prediction modules; the most is "
                "1"},
    {"open_groups", "1:45: $.topk_group: 9 of 8 groups"},
    {"rank", "1:47: $.kv_lora_rank: must be between 1 and 1000000, found 0"},
    {"rope", "1:51: $.qk_rope_head_dim: 63 dims cannot be rotated in pairs"},
    {"shared", "1:51: $.n_shared_experts: together the shared experts are wider than 1000000"},
    {"top_k",
     "1:1: $: missing \"vocab_size\", \"hidden_size\", \"intermediate_size\", "
     "\"num_hidden_layers\", \"num_attention_heads\", \"kv_lora_rank\", \"qk_nope_head_dim\", "
     "\"qk_rope_head_dim\", \"v_head_dim\", \"q_lora_rank\", \"n_routed_experts\" or "
     "\"num_local_experts\" or \"num_experts\", "
     "\"num_experts_per_tok\", \"moe_intermediate_size\", \"n_shared_experts\" or "
     "\"num_shared_experts\", "
     "\"first_k_dense_replace\"; the dimensions of a model must be given, as whole numbers"},
    {"top_k_many", "1:50: $.num_experts_per_tok: a token cannot go to 300 of 256 "
                   "experts"},
};

static void a_wrong_config_is_answered_with_its_place(void **state)
{
    for (size_t i = 0; i < sizeof BAD_CONFIGS / sizeof *BAD_CONFIGS; i++) {
        struct err err = {0};
        const char *path =
            arena_print(*state, "tests/data/config_bad_latent_%s.json", BAD_CONFIGS[i].file);
        assert_null(model_load(*state, path, NULL, NULL, &err));
        assert_string_equal(err.text, arena_print(*state, "%s:%s", path, BAD_CONFIGS[i].text));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latent_attention_computes_what_transformers_does),
        cmocka_unit_test(active_parameters_are_those_that_the_authors_state),
        cmocka_unit_test(scores_are_sharpened_as_far_as_positions_are_stretched),
        cmocka_unit_test(the_first_layers_and_those_between_have_no_experts),
        cmocka_unit_test(a_shared_part_is_whole_for_every_head_and_its_gradient_partial),
        cmocka_unit_test(attention_works_on_keys_and_values_of_two_widths),
        cmocka_unit_test(model_flops_are_those_of_the_products),
        cmocka_unit_test(tensor_parallel_ranks_gather_the_low_rank_vectors),
        cmocka_unit_test(recomputing_the_up_products_keeps_the_low_rank_vectors_alone),
        cmocka_unit_test(a_wrong_config_is_answered_with_its_place),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
