#include "tests/support/test.h"

#include "models/autodiff.h"
#include "plan/stages.h"
#include "tests/support/priced.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Multi-token prediction: a module in front of the head, as DeepSeek-V3 trains it.

static struct graph *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, name, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

static const struct block *block_at(const struct graph *graph, int position)
{
    if (position < 0) position += graph->sequence_count;
    return &graph->blocks[graph->sequence[position]];
}

// The sizes of DeepSeek-V3 but for its layers.
static const char V3_SIZES[] =
    "\"vocab_size\": 129280, \"hidden_size\": 7168, \"intermediate_size\": 18432, "
    "\"num_attention_heads\": 128, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, "
    "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, "
    "\"n_routed_experts\": 256, \"num_experts_per_tok\": 8, \"n_shared_experts\": 1, "
    "\"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 3";

// DeepSeek-V3 with and without its module, in few layers.
static struct graph *small_v3(struct arena *arena, int layers, int modules, bool is_tied)
{
    const char *text =
        arena_print(arena,
                    "{\"model_type\": \"deepseek_v3\", %s, \"num_hidden_layers\": %d, "
                    "\"num_nextn_predict_layers\": %d, \"tie_word_embeddings\": %s}",
                    V3_SIZES, layers, modules, is_tied ? "true" : "false");
    return tiny_graph(arena, text, &(struct import_options){.flash = true});
}

// A mixture layer, the projection of two hidden states, and three norms; embedding and head are
// shared. DeepSeek states 11.5e9 (README_WEIGHTS of the released model).
static void the_module_is_counted_apart(void **state)
{
    struct graph *graph = load(*state, "deepseek-v3");
    int64_t hidden = 7168, heads = 128;
    int64_t attention = hidden * 1536 + 1536 + 1536 * heads * 192 + hidden * 576 + 512 +
                        512 * heads * 256 + heads * 128 * hidden;
    int64_t mixture = hidden * 256 + 256 + 3 * hidden * 2048 * 257;
    int64_t module = attention + mixture + 2 * hidden + 2 * hidden * hidden + 3 * hidden;
    assert_int_equal(graph->parameter_count, 671026419200);
    assert_int_equal(graph->mtp_parameter_count, module);
    assert_true(fabs((double)module / 11.5e9 - 1) < 0.01);
    assert_int_equal(load(*state, "kimi-k2")->mtp_parameter_count, 0);
}

static void it_is_one_more_layer_in_front_of_the_head(void **state)
{
    struct graph *graph = load(*state, "deepseek-v3");
    const struct block *module = block_at(graph, -2), *head = block_at(graph, -1);
    assert_int_equal(graph->layer_count, 62);
    assert_int_equal(graph->sequence_count, 64);
    assert_true(module->mtp && module->role == BLOCK_LAYER);
    assert_false(block_at(graph, -3)->mtp);
    assert_int_equal(module->input_count, 1);
    assert_int_equal(module->output_count, 2);
    assert_int_equal(module->outputs[0], module->inputs[0]);
    assert_int_equal(head->input_count, 2);
    assert_int_equal(head->output_count, 2);
}

// The module's products, the second use of the head and one more attention, three times each.
static void what_it_computes_is_model_work(void **state)
{
    struct graph *with = small_v3(*state, 4, 1, false), *without = small_v3(*state, 4, 0, false);
    double hidden = 7168, heads = 128, seq = 4096;
    double attention = hidden * 1536 + 1536 * heads * 192 + hidden * 576 + 512 * heads * 256 +
                       heads * 128 * hidden;
    double products = attention + hidden * 256 + 3 * hidden * 2048 * 9 + 2 * hidden * hidden;
    double expected =
        6 * seq * (products + hidden * 129280) + 3 * 2 * heads * (192 + 128) * seq * seq / 2;
    double found = graph_model_flop(with, (int64_t)seq) - graph_model_flop(without, (int64_t)seq);
    assert_true(fabs(found / expected - 1) < 1e-9);
    assert_int_equal(with->parameter_count, without->parameter_count);
    assert_int_equal(with->active_parameter_count, without->active_parameter_count);
}

static void the_head_scores_both_with_one_matrix(void **state)
{
    struct graph *graph = small_v3(*state, 4, 1, false);
    const struct block *head = block_at(graph, -1);
    int matrices[2] = {-1, -1}, losses = 0, products = 0;
    for (int o = 0; o < head->op_count; o++) {
        losses += head->ops[o].kind == OP_LOSS;
        if (head->ops[o].kind != OP_CONTRACT) continue;
        assert_true(products < 2);
        matrices[products++] = head->ops[o].inputs[1];
    }
    assert_int_equal(losses, 2);
    assert_int_equal(products, 2);
    assert_int_equal(matrices[0], matrices[1]);
    struct block_gradients gradients;
    const struct block *block = autodiff_block(*state, head, &gradients);
    int sum = block->tensors[gradients.of_parameter[matrices[0]]].producer;
    assert_int_equal(block->ops[sum].kind, OP_ADD);
    assert_int_equal(block->ops[sum].input_count, 2);
    assert_int_equal(block->ops[sum].phase, PHASE_WEIGHT);
}

static struct priced price(struct arena *arena, struct graph *graph, int pp)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-h100-x16", "megatron-core");
    of.graph = graph;
    of.parallel.degree[AXIS_PP] = pp;
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.sp = true;
    priced_finish(&of);
    return of;
}

// The table is on the first stage and, for the module, on the last, whether or not the head is the
// same matrix: one reduction of one gradient.
static void the_table_is_tied_to_the_last_stage_once(void **state)
{
    static const int64_t TABLE = (int64_t)129280 * 7168 / 8;
    static const struct {
        int modules;
        bool is_tied;
        int64_t elements;
    } CASES[] = {{0, false, 0}, {0, true, TABLE}, {1, false, TABLE}, {1, true, TABLE}};
    for (int i = 0; i < 4; i++) {
        struct graph *graph = small_v3(*state, 6, CASES[i].modules, CASES[i].is_tied);
        struct priced of = price(*state, graph, 2);
        assert_int_equal(of.program->tie_count, CASES[i].elements > 0);
        if (of.program->tie_count)
            assert_int_equal(of.program->ties[0].elements, CASES[i].elements);
        assert_int_equal(price(*state, graph, 1).program->tie_count, 0);
    }
}

static void no_stage_ends_between_the_module_and_the_head(void **state)
{
    struct chunk_span spans[64];
    for (int layers = 4; layers < 20; layers++) {
        struct graph *graph = small_v3(*state, layers, 1, false);
        for (int pp = 1; pp <= layers + 2; pp++) {
            for (int vpp = 1; pp * vpp <= layers + 2; vpp++) {
                struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = vpp};
                struct err err = {0};
                parallel.degree[AXIS_PP] = pp;
                parallel.schedule = vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
                assert_true(stages_split(graph, &parallel, spans, &err));
                struct chunk_span last = spans[pp * vpp - 1];
                assert_int_equal(last.first + last.count, graph->sequence_count);
                assert_true(last.count >= 2);
                for (int i = 0; i < pp * vpp; i++)
                    assert_true(spans[i].count >= 1);
            }
        }
    }
    struct graph *graph = small_v3(*state, 4, 1, false);
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1};
    struct err err = {0};
    parallel.degree[AXIS_PP] = 7;
    assert_false(stages_split(graph, &parallel, NULL, &err));
    assert_string_equal(err.text, "--pp 7: 6 layers, embedding and head included, cannot fill 7 "
                                  "stages; the most is 6");
}

// Nothing is sent between module and head; the last stage holds the scores of both losses.
static void the_last_stage_holds_two_sets_of_scores(void **state)
{
    struct priced with = price(*state, small_v3(*state, 6, 1, false), 2);
    struct priced without = price(*state, small_v3(*state, 6, 0, false), 2);
    for (int i = 0; i < with.program->block_count; i++) {
        const struct block_program *block = with.program->blocks[i];
        bool is_sent = block->block->role != BLOCK_HEAD && !block->block->mtp;
        assert_int_equal(block->output_bytes > 0, is_sent);
    }
    struct memory_parts two = memory_of_stage(with.program, with.stack, 1);
    struct memory_parts one = memory_of_stage(without.program, without.stack, 1);
    assert_int_equal(two.logits_bytes, 2 * one.logits_bytes);
    assert_true(one.logits_bytes > 0);
    assert_true(with.price->hop_s == without.price->hop_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_module_is_counted_apart),
        cmocka_unit_test(it_is_one_more_layer_in_front_of_the_head),
        cmocka_unit_test(what_it_computes_is_model_work),
        cmocka_unit_test(the_head_scores_both_with_one_matrix),
        cmocka_unit_test(the_table_is_tied_to_the_last_stage_once),
        cmocka_unit_test(no_stage_ends_between_the_module_and_the_head),
        cmocka_unit_test(the_last_stage_holds_two_sets_of_scores),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
