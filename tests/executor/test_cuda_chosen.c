#include "tests/support/test.h"

#include "models/op.h"
#include "plan/unfused.h"
#include "tests/support/cuda_pair.h"
#include "tests/support/tiny_models.h"

#include <stdlib.h>

// The choice of keys and attention to those that were chosen: the CUDA back end, its kernels on the
// host, against the CPU's.

#define WIDE_CHOSEN                                                                               \
    "{\"model_type\": \"deepseek_v32\", \"vocab_size\": 11, \"hidden_size\": 8, "                 \
    "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "            \
    "\"num_key_value_heads\": null, \"q_lora_rank\": 6, \"kv_lora_rank\": 6, \"n_group\": null, " \
    "\"qk_nope_head_dim\": 6, \"qk_rope_head_dim\": 2, \"v_head_dim\": 16, "                      \
    "\"first_k_dense_replace\": 1, \"n_routed_experts\": 2, \"num_experts_per_tok\": 1, "         \
    "\"moe_intermediate_size\": 4, \"index_n_heads\": 2, \"index_head_dim\": 4, "                 \
    "\"index_topk\": 3}"

// More keys than an emulated block has threads, of a query at a time or of several; of many equal
// scores the first are chosen, and exactly those: sums of these numbers are exact.
static void choices_among_many_keys_are_those_of_the_cpu(void **state)
{
    static const struct {
        int64_t seq;
        const char *model;
    } CHOICES[] = {{150, CHOSEN("20")}, {110, CHOSEN("100")}, {24, CHOSEN("30")}};
    struct draw draw = draw_start("choices", 12);
    for (int t = 0; t < PAIR_TRIED_COUNT; t++) {
        struct backend_pair pair = pair_open(*state, &PAIR_TRIED[t]);
        pair.cuda.tolerance = 1e-6;  // of what it is added to
        for (size_t m = 0; m < sizeof CHOICES / sizeof *CHOICES; m++) {
            struct graph *graph = tiny_graph(*state, CHOICES[m].model, &(struct import_options){0});
            pair.cpu.seq = pair.cuda.seq = CHOICES[m].seq;
            for (int b = 0; b < graph->block_count; b++) {
                struct block_gradients gradients;
                const struct block *block = autodiff_block(*state, &graph->blocks[b], &gradients);
                struct interpreter in = interpreter_new(*state, block, PAIR_BATCH, CHOICES[m].seq);
                in.head_count = graph->head_count;
                pair_values(&draw, &in);
                for (int o = 0; o < block->op_count; o++)
                    if (block->ops[o].kind == OP_CHOOSE) pair_check(&draw, &pair, &in, o);
            }
        }
        pair_close(&pair);
    }
}

// Heads as wide as fused kernels want them: of 24 tokens a part is eight queries, whose gradients
// of keys are summed, of 8 two sequences and of 5 three, also where heads share keys.
static void check_attention(struct draw *draw, struct backend_pair *pair, struct graph *graph,
                            int64_t seq)
{
    pair->cpu.seq = pair->cuda.seq = seq;
    for (int b = 0; b < graph->block_count; b++) {
        struct block_gradients gradients;
        const struct block *block = autodiff_block(pair->cpu.arena, &graph->blocks[b], &gradients);
        struct interpreter in = interpreter_new(pair->cpu.arena, block, PAIR_BATCH, seq);
        in.head_count = graph->head_count;
        pair_values(draw, &in);
        for (int o = 0; o < block->op_count; o++) {
            enum op_kind kind = block->ops[o].kind;
            bool attends = kind == OP_ATTENTION || kind == OP_ATTENTION_BACKWARD;
            if (attends) pair_check(draw, pair, &in, o);
        }
    }
}

static void fused_attention_to_chosen_keys_is_that_of_the_cpu(void **state)
{
    static const int64_t SEQS[] = {24, 8, 5};
    struct draw draw = draw_start("fused", 13);
    setenv("MESHWRIGHT_EMULATED_SDPA", "runs", 1);
    for (int t = 1; t < PAIR_TRIED_COUNT; t++) {
        struct backend_pair pair = pair_open(*state, &PAIR_TRIED[t]);
        struct attention_path paths[ATTENTION_PATH_MAX];
        struct graph *graph = tiny_graph(*state, WIDE_CHOSEN, &(struct import_options){0});
        for (size_t s = 0; s < sizeof SEQS / sizeof *SEQS; s++)
            check_attention(&draw, &pair, graph, SEQS[s]);
        int count = pair.cuda.backend->attention_paths(pair.cuda.device, paths);
        assert_true(count >= 6);
        for (int i = 0; i < count; i++) {
            bool is_odd = paths[i].queries * paths[i].heads % FUSED_CHOICE_UNIT != 0;
            if (is_odd)
                assert_string_equal(paths[i].reason, unfused_text(UNFUSED_ODD_CHOICE));
            else if (strcmp(paths[i].reason, "its rows begin at no multiple of 16 bytes") != 0)
                assert_string_equal(paths[i].path, "cudnn");
        }
        pair_close(&pair);
    }
    unsetenv("MESHWRIGHT_EMULATED_SDPA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_among_many_keys_are_those_of_the_cpu),
        cmocka_unit_test(fused_attention_to_chosen_keys_is_that_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
