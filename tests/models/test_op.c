#include "tests/support/graph_counts.h"
#include "tests/support/test.h"

#include "models/autodiff.h"
#include "models/op.h"
#include "tests/support/tiny_models.h"

static const struct op *find_op(const struct block *block, const char *name)
{
    for (int o = 0; o < block->op_count; o++) {
        if (strcmp(block->ops[o].name, name) == 0) return &block->ops[o];
    }
    fail_msg("no op is called %s", name);
    return NULL;
}

static enum split split(const struct block *block, const char *name, enum dim dim)
{
    const struct op *op = find_op(block, name);
    return op_rule(op->kind)->split(block, op, dim);
}

static const struct block *layer_of(struct arena *arena, const char *text,
                                    struct import_options options)
{
    return &tiny_graph(arena, text, &options)->blocks[1];
}

// What a micro-batch keeps of one layer, in bytes at two an element of the run's precision.
static int64_t saved_bytes(struct arena *arena, const struct block *block, int64_t batch,
                           int64_t seq)
{
    static const int BYTES[] = {
        [ELEMENT_COMPUTE] = 2, [ELEMENT_FP32] = 4, [ELEMENT_INT64] = 8, [ELEMENT_BYTE] = 1};
    bool *saved = ARENA_NEW(arena, bool, block->tensor_count);
    block_saved_tensors(block, saved);
    int64_t bytes = 0;
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        if (saved[t]) bytes += BYTES[tensor->element] * tensor_elements(tensor, batch, seq);
    }
    return bytes;
}

static const char BIG_LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 1000, \"hidden_size\": 512, "
    "\"intermediate_size\": 1408, \"num_hidden_layers\": 1, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 2}";

static void a_llama_layer_keeps_what_the_memory_model_says(void **state)
{
    int64_t h = 512, f = 1408, a = 8, kv = 2, d = 64, b = 3, s = 32, t = b * s;
    const struct block *block = layer_of(*state, BIG_LLAMA, (struct import_options){.flash = true});
    int64_t expected =
        8 * h * t + 2 * t * (a + 2 * kv) * d + 2 * t * a * d + 4 * t * a + 2 * t * f * 3;
    assert_int_equal(saved_bytes(*state, block, b, s), expected);
}

// Without the fused kernel the keys are repeated to all heads and kept so, there is no log-sum-exp,
// and the square of the sequence appears: softmax 2, context input 2 and mask 1 where there is
// dropout; the first two are one tensor where there is none.
static void unfused_attention_keeps_the_squares(void **state)
{
    int64_t h = 512, f = 1408, a = 8, d = 64, b = 3, s = 32, t = b * s;
    int64_t linear = 8 * h * t + 2 * t * 3 * a * d + 2 * t * a * d + 2 * t * f * 3;
    const struct block *plain = layer_of(*state, BIG_LLAMA, (struct import_options){0});
    assert_int_equal(saved_bytes(*state, plain, b, s), linear + 2 * b * a * s * s);

    char *text = arena_print(*state, "%.*s, \"attention_dropout\": 0.1}",
                             (int)strlen(BIG_LLAMA) - 1, BIG_LLAMA);
    const struct block *dropped = layer_of(*state, text, (struct import_options){.dropout = true});
    assert_int_equal(saved_bytes(*state, dropped, b, s), linear + 5 * b * a * s * s);
}

// Korthikanti et al. 2022, eq. 1: sbh (34 + 5 a s / h) for a GPT layer with dropout.
static void a_gpt_layer_keeps_what_korthikanti_counts(void **state)
{
    static const char GPT[] = "{\"model_type\": \"gpt2\", \"n_embd\": 512, \"n_head\": 8, "
                              "\"n_layer\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}";
    int64_t h = 512, a = 8, b = 3, s = 32;
    const struct block *block = layer_of(*state, GPT, (struct import_options){.dropout = true});
    assert_int_equal(saved_bytes(*state, block, b, s), s * b * (34 * h + 5 * a * s));
}

static void splits_of_a_contraction_follow_from_its_einsum(void **state)
{
    const struct block *block =
        layer_of(*state, TINY_LLAMA, (struct import_options){.flash = true});
    assert_int_equal(split(block, "mlp.up", DIM_BATCH), SPLIT_FREE);
    assert_int_equal(split(block, "mlp.up", DIM_FFN), SPLIT_FREE);
    assert_int_equal(split(block, "mlp.up", DIM_HIDDEN), SPLIT_PARTIAL);
    assert_int_equal(split(block, "mlp.down", DIM_FFN), SPLIT_PARTIAL);
    assert_int_equal(split(block, "mlp.down", DIM_VOCAB), SPLIT_NO);
    assert_int_equal(split(block, "attention.k", DIM_KV_HEAD), SPLIT_FREE);
    assert_int_equal(split(block, "attention.out", DIM_HEAD), SPLIT_PARTIAL);
}

static void each_kind_states_what_it_needs_whole(void **state)
{
    const struct block *block =
        layer_of(*state, TINY_LLAMA, (struct import_options){.flash = true});
    assert_int_equal(split(block, "attention.norm", DIM_SEQ), SPLIT_FREE);
    assert_int_equal(split(block, "attention.norm", DIM_HIDDEN), SPLIT_REDUCED);
    assert_int_equal(split(block, "attention.q_rope", DIM_HEAD), SPLIT_FREE);
    assert_int_equal(split(block, "attention.q_rope", DIM_HEAD_DIM), SPLIT_NO);
    assert_int_equal(split(block, "attention.core", DIM_HEAD), SPLIT_FREE);
    assert_int_equal(split(block, "attention.core", DIM_BATCH), SPLIT_FREE);
    assert_int_equal(split(block, "attention.core", DIM_SEQ), SPLIT_NO);
    assert_int_equal(split(block, "attention.core", DIM_HEAD_DIM), SPLIT_NO);
    assert_int_equal(split(block, "mlp.residual", DIM_HIDDEN), SPLIT_FREE);
    assert_int_equal(split(block, "mlp.activation", DIM_FFN), SPLIT_FREE);

    const struct block *chain = layer_of(*state, TINY_LLAMA, (struct import_options){0});
    assert_int_equal(split(chain, "attention.k_heads", DIM_HEAD), SPLIT_FREE);
    assert_int_equal(split(chain, "attention.k_heads", DIM_KV_HEAD), SPLIT_NO);
    assert_int_equal(split(chain, "attention.k_heads", DIM_SEQ), SPLIT_NO);
    assert_int_equal(split(chain, "attention.scores", DIM_SEQ), SPLIT_FREE);
    assert_int_equal(split(chain, "attention.softmax", DIM_SEQ), SPLIT_FREE);
    assert_int_equal(split(chain, "attention.softmax", DIM_KV_SEQ), SPLIT_NO);
    assert_int_equal(split(chain, "attention.context", DIM_KV_SEQ), SPLIT_PARTIAL);
}

static void a_vocabulary_split_makes_lookups_partial_and_the_loss_reduce(void **state)
{
    struct graph *graph = tiny_graph(*state, TINY_LLAMA, &(struct import_options){.flash = true});
    const struct block *embedding = &graph->blocks[0], *head = &graph->blocks[2];
    assert_int_equal(split(embedding, "embedding.token", DIM_VOCAB), SPLIT_PARTIAL);
    assert_int_equal(split(embedding, "embedding.token", DIM_HIDDEN), SPLIT_FREE);
    assert_int_equal(split(embedding, "embedding.token", DIM_SEQ), SPLIT_FREE);
    assert_int_equal(split(head, "head.lm", DIM_VOCAB), SPLIT_FREE);
    assert_int_equal(split(head, "loss", DIM_VOCAB), SPLIT_REDUCED);
    assert_int_equal(split(head, "loss", DIM_BATCH), SPLIT_FREE);
    assert_int_equal(op_inner_reductions(&(struct op){.kind = OP_LOSS}), 3);

    struct block_gradients gradients;
    struct block *block = autodiff_block(*state, embedding, &gradients);
    assert_int_equal(split(block, "d_embedding.token", DIM_VOCAB), SPLIT_FREE);
    assert_int_equal(split(block, "d_embedding.token", DIM_BATCH), SPLIT_PARTIAL);
    block = autodiff_block(*state, head, &gradients);
    assert_int_equal(split(block, "d_loss", DIM_VOCAB), SPLIT_FREE);
}

static void work_is_that_of_the_local_extents(void **state)
{
    const struct block *block =
        layer_of(*state, TINY_LLAMA, (struct import_options){.flash = true});
    int64_t size[DIM_COUNT] = {
        [DIM_BATCH] = 2, [DIM_SEQ] = 16,    [DIM_KV_SEQ] = 16,  [DIM_HIDDEN] = 8,
        [DIM_HEAD] = 4,  [DIM_KV_HEAD] = 2, [DIM_HEAD_DIM] = 4, [DIM_FFN] = 6};
    const struct op *up = find_op(block, "mlp.up"), *core = find_op(block, "attention.core");
    struct gemm gemm = op_gemm(block, up, size);
    assert_int_equal(gemm.batch, 1);
    assert_int_equal(gemm.m, 32);
    assert_int_equal(gemm.n, 6);
    assert_int_equal(gemm.k, 8);
    assert_true(op_rule(OP_CONTRACT)->flop(block, up, size) == 2.0 * 32 * 6 * 8);
    // Two products of 2 * b * a * s * s * d, causal halved; five in backward.
    assert_true(op_rule(OP_ATTENTION)->flop(block, core, size) == 2.0 * 2 * 4 * 16 * 16 * 4);

    struct block_gradients gradients;
    struct block *both = autodiff_block(*state, block, &gradients);
    const struct op *backward = find_op(both, "d_attention.core");
    assert_true(op_rule(backward->kind)->flop(both, backward, size) == 5.0 * 2 * 4 * 16 * 16 * 4);

    const struct block *chain = layer_of(*state, TINY_LLAMA, (struct import_options){0});
    gemm = op_gemm(chain, find_op(chain, "attention.scores"), size);
    assert_int_equal(gemm.batch, 8);
    assert_int_equal(gemm.m, 16);
    assert_int_equal(gemm.n, 16);
    assert_int_equal(gemm.k, 4);
}

static void selective_recompute_finds_the_attention_core(void **state)
{
    const struct block *chain =
        layer_of(*state, TINY_GPT2, (struct import_options){.dropout = true});
    static const char *const CORE[] = {"attention.k_heads",         "attention.v_heads",
                                       "attention.scores",          "attention.softmax",
                                       "attention.softmax_dropout", "attention.context"};
    int count = 0;
    for (int o = 0; o < chain->op_count; o++) {
        count += chain->ops[o].class == OP_CLASS_ATTENTION;
    }
    assert_int_equal(count, sizeof CORE / sizeof *CORE);
    for (size_t i = 0; i < sizeof CORE / sizeof *CORE; i++) {
        assert_int_equal(find_op(chain, CORE[i])->class, OP_CLASS_ATTENTION);
        assert_true(find_op(chain, CORE[i])->causal);
    }
}

static void every_op_of_every_family_has_a_whole_rule(void **state)
{
    for (int m = 0; TINY_MODELS[m]; m++) {
        for (int flash = 0; flash < 2; flash++) {
            struct import_options options = {.flash = flash, .dropout = true};
            struct graph *graph = tiny_graph(*state, TINY_MODELS[m], &options);
            struct block_gradients gradients;
            for (int b = 0; b < graph->block_count; b++) {
                struct block *block = autodiff_block(*state, &graph->blocks[b], &gradients);
                int64_t size[DIM_COUNT];
                for (int i = 0; i < DIM_COUNT; i++) {
                    size[i] = 4;
                }
                for (int o = 0; o < block->op_count; o++) {
                    const struct op *op = &block->ops[o];
                    const struct op_rule *rule = op_rule(op->kind);
                    assert_true(rule->flop(block, op, size) >= 0);
                    bool has_experts = op_has_dim(block, op, DIM_EXPERT);
                    assert_int_equal(rule->split(block, op, DIM_EXPERT) != SPLIT_NO, has_experts);
                    assert_true(op->scalar != 0);
                    if (op_has_dim(block, op, DIM_BATCH)) {
                        assert_int_not_equal(rule->split(block, op, DIM_BATCH), SPLIT_NO);
                    }
                }
            }
        }
    }
}

// Of 8 queries half the pairs with 8 tokens in sight, or with a window of 4, and half those with 4
// entries, or of 2 that are chosen; two products of 3 numbers for each of 2 heads, and five in
// backward.
static void tokens_and_entries_are_counted(void **state)
{
    (void)state;
    const int64_t size[DIM_COUNT] = {[DIM_BATCH] = 1, [DIM_SEQ] = 8,      [DIM_ENTRY] = 4,
                                     [DIM_HEAD] = 2,  [DIM_HEAD_DIM] = 3, [DIM_RANK] = 6};
    struct op op = {.kind = OP_POOLED, .causal = true, .window = 8, .rate = 2};
    assert_true(op_rule(OP_POOLED)->flop(NULL, &op, size) == (32 + 16) * 2 * 2 * 3 * 2);
    op.window = 4, op.top_k = 2;
    assert_true(op_rule(OP_POOLED)->flop(NULL, &op, size) == (24 + 12) * 2 * 2 * 3 * 2);
    op.kind = OP_POOLED_BACKWARD;
    assert_true(op_rule(OP_POOLED)->flop(NULL, &op, size) == (24 + 12) * 5 * 2 * 3 * 2);
    const struct op choice = {.kind = OP_CHOOSE, .causal = true, .rate = 2, .top_k = 1};
    const int64_t asked[DIM_COUNT] = {[DIM_BATCH] = 1,      [DIM_SEQ] = 8,      [DIM_ENTRY] = 4,
                                      [DIM_INDEX_HEAD] = 2, [DIM_HEAD_DIM] = 3, [DIM_KV_SEQ] = 0};
    assert_true(op_rule(OP_CHOOSE)->flop(NULL, &choice, asked) == 16 * 2 * 9);
    const struct extent entries = {DIM_ENTRY, -4};
    assert_int_equal(extent_size(&entries, 3, 11), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_and_entries_are_counted),
        cmocka_unit_test(a_llama_layer_keeps_what_the_memory_model_says),
        cmocka_unit_test(unfused_attention_keeps_the_squares),
        cmocka_unit_test(a_gpt_layer_keeps_what_korthikanti_counts),
        cmocka_unit_test(splits_of_a_contraction_follow_from_its_einsum),
        cmocka_unit_test(each_kind_states_what_it_needs_whole),
        cmocka_unit_test(a_vocabulary_split_makes_lookups_partial_and_the_loss_reduce),
        cmocka_unit_test(work_is_that_of_the_local_extents),
        cmocka_unit_test(selective_recompute_finds_the_attention_core),
        cmocka_unit_test(every_op_of_every_family_has_a_whole_rule),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
