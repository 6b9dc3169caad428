#include "tests/support/graph_counts.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <math.h>

static struct graph *load(struct arena *arena, const char *path, struct import_options options)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &options);
}

static void every_dim_has_a_name(void **state)
{
    (void)state;
    for (enum dim dim = DIM_NONE; dim < DIM_COUNT; dim++) {
        assert_true(strlen(dim_name(dim)) > 0);
    }
    assert_string_equal(dim_name(DIM_KV_HEAD), "kv_head");
}

static void open_sizes_come_from_the_workload(void **state)
{
    (void)state;
    struct tensor scores = {
        .rank = 4, .extents = {{DIM_BATCH, 0}, {DIM_HEAD, 5}, {DIM_SEQ, 0}, {DIM_KV_SEQ, 0}}};
    assert_int_equal(tensor_elements(&scores, 2, 7), 2 * 5 * 7 * 7);
    assert_int_equal(tensor_find_dim(&scores, DIM_SEQ), 2);
    assert_int_equal(tensor_find_dim(&scores, DIM_HIDDEN), -1);
}

static void a_graph_is_embedding_layers_and_head(void **state)
{
    struct graph *graph =
        load(*state, "models/zoo/llama-2-70b.json", (struct import_options){.flash = true});
    assert_int_equal(graph->block_count, 3);
    assert_int_equal(graph->sequence_count, 82);
    assert_int_equal(graph->layer_count, 80);
    assert_int_equal(graph->blocks[graph->sequence[0]].role, BLOCK_EMBEDDING);
    assert_int_equal(graph->blocks[graph->sequence[40]].role, BLOCK_LAYER);
    assert_int_equal(graph->blocks[graph->sequence[81]].role, BLOCK_HEAD);
    assert_int_equal(graph->kv_head_count, 8);
    assert_int_equal(graph->head_dim, 128);
    assert_int_equal(graph->seq_len_max, 4096);
}

static void alternating_windows_are_two_kinds_of_layer(void **state)
{
    struct graph *graph =
        load(*state, "models/zoo/gemma-2-9b.json", (struct import_options){.flash = true});
    assert_int_equal(graph->block_count, 4);
    for (int i = 1; i <= 42; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        assert_string_equal(block->name, i % 2 ? "layer.local" : "layer");
    }
}

static void check_fits(const struct tensor *out, const struct tensor *in)
{
    assert_int_equal(out->rank, in->rank);
    for (int d = 0; d < out->rank; d++) {
        assert_int_equal(out->extents[d].dim, in->extents[d].dim);
        assert_int_equal(out->extents[d].size, in->extents[d].size);
    }
}

static void outputs_of_a_block_fit_the_inputs_of_the_next(void **state)
{
    for (int m = 0; TINY_MODELS[m]; m++) {
        struct graph *graph =
            tiny_graph(*state, TINY_MODELS[m], &(struct import_options){.flash = true});
        for (int i = 1; i < graph->sequence_count; i++) {
            const struct block *before = &graph->blocks[graph->sequence[i - 1]];
            const struct block *block = &graph->blocks[graph->sequence[i]];
            assert_int_equal(before->output_count, block->input_count);
            for (int o = 0; o < before->output_count; o++) {
                check_fits(&before->tensors[before->outputs[o]], &block->tensors[block->inputs[o]]);
            }
        }
    }
}

static void check_names(const struct block *block)
{
    for (int a = 0; a < block->tensor_count; a++) {
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(block->tensors[a].name, block->tensors[b].name);
        }
    }
}

static void names_are_unique_within_a_block(void **state)
{
    for (int m = 0; TINY_MODELS[m]; m++) {
        for (int flash = 0; flash < 2; flash++) {
            struct import_options options = {.flash = flash, .dropout = true};
            struct graph *graph = tiny_graph(*state, TINY_MODELS[m], &options);
            for (int b = 0; b < graph->block_count; b++)
                check_names(&graph->blocks[b]);
        }
    }
}

static void ties_count_once_and_padding_not_at_all(void **state)
{
    struct import_options padded = {.flash = true, .vocab_multiple = 128};
    struct graph *graph = tiny_graph(*state, TINY_GPT2, &padded);
    assert_int_equal(graph->vocab_padded, 128);
    // V*H + P*H + L*(12 H*H + 13 H) + 2 H with V 11, H 8, P 6, L 2.
    assert_int_equal(graph->parameter_count, 11 * 8 + 6 * 8 + 2 * (12 * 64 + 13 * 8) + 16);
    // The tied table takes part in one product, the positions in none, biases and norms neither.
    assert_int_equal(graph_matmul_parameter_count(graph), 2 * 12 * 64 + 11 * 8);
}

// Narayanan et al. 2021, eq. 3, without recompute (72 for 96) and with causal attention halved.
static void model_flops_are_those_of_narayanan(void **state)
{
    for (int flash = 0; flash < 2; flash++) {
        struct import_options options = {.flash = flash, .dropout = true, .vocab_multiple = 1024};
        struct graph *graph = load(*state, "models/zoo/megatron-175b.json", options);
        double h = 12288, l = 96, s = 2048, v = 51200;
        double expected = 72 * s * l * h * h * (1 + s / (12 * h) + v / (12 * l * h));
        double found = graph_model_flop(graph, 2048);
        assert_int_equal(graph->hidden, 12288);
        assert_true(fabs(found / expected - 1) < 1e-9);
    }
}

static void a_window_and_a_missing_mask_change_the_attention_flops(void **state)
{
    struct import_options options = {.flash = true};
    // 4 heads of 4: 3 * 4 * 16 flop a pair, two layers.
    double per_pair = 2 * 3 * 4 * 16;
    struct graph *llama = tiny_graph(*state, TINY_LLAMA, &options);
    double matmul = 6 * (double)graph_matmul_parameter_count(llama) * 10;
    assert_true(graph_model_flop(llama, 10) == matmul + per_pair * 50);
    static const char WINDOW[] =
        "{\"model_type\": \"mistral\", \"vocab_size\": 11, \"hidden_size\": 8, "
        "\"intermediate_size\": 6, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 4, \"sliding_window\": 4}";
    struct graph *mistral = tiny_graph(*state, WINDOW, &options);
    assert_true(graph_model_flop(mistral, 10) == matmul + per_pair * (4 * 10 - 8));
    assert_true(graph_model_flop(mistral, 2) == matmul / 5 + per_pair * 2);
    struct graph *bert = load(*state, "models/zoo/bert-base.json", options);
    double bert_matmul = 6 * (double)graph_matmul_parameter_count(bert) * 512;
    assert_true(graph_model_flop(bert, 512) == bert_matmul + 12.0 * 12 * 768 * 512 * 512);
}

static double model_flop(struct arena *arena, const char *name, int64_t seq)
{
    struct err err = {0};
    const char *path = arena_print(arena, "tests/data/config_variants/%s.json", name);
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    const struct import_options options = {.flash = true};
    return graph_model_flop(model_graph(arena, config, &options), seq);
}

// A picture of 9 patches of 48 numbers has 10 places, 16 wide: each meets 48 x 16 weights in front
// and, in two layers, 4 x 16 x 16 and 2 x 16 x 24; the head scores 2 classes once. Four heads of 4
// look from all places to all.
static void places_of_a_picture_are_counted_each(void **state)
{
    double weights = 10 * (768 + 2 * (1024 + 768)) + 32, pairs = 100;
    assert_true(model_flop(*state, "vit-base", 1) ==
                6 * weights + 2 * 3 * 2.0 * 4 * (4 + 4) * pairs);
}

// 7 places of sound: three products with 16 x 16 weights, three with as many, two layers as above.
// Three layers of 6 tokens: theirs, and the keys and values of the places; the head has 53 tokens.
// Places look at all places, tokens at half of the tokens and at all places.
static void places_of_sound_and_tokens_of_text_are_counted_apart(void **state)
{
    double places = 7 * (3 * 256 + 3 * 256 + 2 * (1024 + 768) + 3 * 512);
    double tokens = 6 * (3 * (1024 + 512 + 640) + 53 * 16);
    double pairs = 2 * 49 + 3 * 18 + 3 * 42;
    assert_true(model_flop(*state, "whisper-base", 6) ==
                6 * (places + tokens) + 3 * 2.0 * 4 * (4 + 4) * pairs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_of_a_picture_are_counted_each),
        cmocka_unit_test(places_of_sound_and_tokens_of_text_are_counted_apart),
        cmocka_unit_test(every_dim_has_a_name),
        cmocka_unit_test(open_sizes_come_from_the_workload),
        cmocka_unit_test(a_graph_is_embedding_layers_and_head),
        cmocka_unit_test(alternating_windows_are_two_kinds_of_layer),
        cmocka_unit_test(outputs_of_a_block_fit_the_inputs_of_the_next),
        cmocka_unit_test(names_are_unique_within_a_block),
        cmocka_unit_test(ties_count_once_and_padding_not_at_all),
        cmocka_unit_test(model_flops_are_those_of_narayanan),
        cmocka_unit_test(a_window_and_a_missing_mask_change_the_attention_flops),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
