#include "tests/support/test.h"

#include "models/import.h"
#include "models/op.h"

#include <stdio.h>

// The language models inside multimodal configs, as their releases published them; what the models'
// cards say of their sizes, which is of the whole: Scout 109 B (17 B active), Maverick 400 B (17 B
// active), Qwen2.5-VL 8.3 B with 0.7 B of it outside, Mistral Small 24 B with 0.4 B outside. The
// exact counts are sums over the modules of transformers' classes, done by hand.

static const struct {
    const char *name, *model_type, *left_out;
    int64_t parameters, active;
} MODELS[] = {
    {"llama-4-scout", "llama4_text", "vision_config", 107769861120, 17172894720},
    {"llama-4-maverick", "llama4_text", "vision_config", 400711848960, 17184691200},
    {"qwen2.5-vl-3b", "qwen2_5_vl_text", "vision_config", 3085938688, 3085938688},
    {"qwen2.5-vl-7b", "qwen2_5_vl", "vision_config", 7615616512, 7615616512},
    {"mistral-small-3.1-24b", "mistral", "vision_config", 23572403200, 23572403200},
};

static struct model_config *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    const char *path = arena_print(arena, "tests/data/multimodal/%s.json", name);
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return config;
}

static struct graph *graph_of(struct arena *arena, const struct model_config *config)
{
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

static void text_config_is_read_and_the_rest_is_named(void **state)
{
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct model_config *config = load(*state, MODELS[i].name);
        struct graph *graph = graph_of(*state, config);
        assert_string_equal(config->model_type, MODELS[i].model_type);
        assert_string_equal(config->name, MODELS[i].name);
        assert_non_null(strstr(config->notes[0], "the language model alone is read"));
        assert_non_null(strstr(config->notes[0], MODELS[i].left_out));
        assert_int_equal(graph->parameter_count, MODELS[i].parameters);
        assert_int_equal(graph->active_parameter_count, MODELS[i].active);
    }
}

// A plan embeds the part alone; what stood around it and counts is in it.
static void what_a_plan_embeds_is_the_same_model(void **state)
{
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct err err = {0};
        struct model_config *config = load(*state, MODELS[i].name);
        struct model_config *again =
            model_read(*state, config->name, &config->config, NULL, NULL, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(graph_of(*state, again)->parameter_count, MODELS[i].parameters);
    }
}

static const struct op *find_op(const struct block *block, const char *name)
{
    for (int o = 0; o < block->op_count; o++) {
        if (strcmp(block->ops[o].name, name) == 0) return &block->ops[o];
    }
    return NULL;
}

// Of four layers three attend in chunks of 8,192, rotate and norm their heads without a weight; the
// last does none of it. Maverick norms nothing, and every other layer has no experts.
static void llama4_interleaves_its_layers(void **state)
{
    struct graph *scout = graph_of(*state, load(*state, "llama-4-scout"));
    for (int layer = 0; layer < 48; layer++) {
        const struct block *block = &scout->blocks[scout->sequence[1 + layer]];
        bool is_full = layer % 4 == 3;
        const struct op *core = find_op(block, "attention.core");
        assert_int_equal(core->window, is_full ? 0 : 8192);
        assert_int_equal(core->chunked, !is_full);
        assert_true(!find_op(block, "attention.q_rope") == is_full);
        assert_true(!find_op(block, "attention.q_norm") == is_full);
        if (!is_full) assert_int_equal(find_op(block, "attention.q_norm")->input_count, 1);
        assert_non_null(find_op(block, "router.choice"));
    }
    struct graph *maverick = graph_of(*state, load(*state, "llama-4-maverick"));
    for (int layer = 0; layer < 48; layer++) {
        const struct block *block = &maverick->blocks[maverick->sequence[1 + layer]];
        assert_null(find_op(block, "attention.q_norm"));
        assert_true(!find_op(block, "router.choice") == (layer % 2 == 0));
    }
}

// Tokens see half of a chunk in the mean, however long the sequence is.
static void chunks_bound_the_work_of_attention(void **state)
{
    (void)state;
    double c = 8192;
    struct op op = {.causal = true, .window = 8192, .chunked = true};
    struct op causal = {.causal = true};
    assert_true(op_attended_pairs(&op, 4096, 4096) == op_attended_pairs(&causal, 4096, 4096));
    assert_true(op_attended_pairs(&op, 8192, 8192) == c * c / 2);
    assert_true(op_attended_pairs(&op, 32768, 32768) == 4 * c * c / 2);
    assert_true(op_attended_pairs(&op, 12288, 12288) == c * c / 2 + c * c / 8);
}

// Five of six layers of gemma 3's text have a window; all see the picture at its front both ways.
// In front of them is the tower, where nothing is causal, and the block between.
static void gemma3_reads_a_picture_and_alternates_its_windows(void **state)
{
    enum { VISION = 27, TEXT = 62 };
    struct err err = {0};
    struct model_config *config = model_load(*state, "gemma-3-27b", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    struct graph *graph = graph_of(*state, config);
    assert_int_equal(graph->layer_count, VISION + 1 + TEXT);
    assert_int_equal(graph->prefix, 256);
    for (int layer = 0; layer < VISION; layer++) {
        const struct block *block = &graph->blocks[graph->sequence[1 + layer]];
        assert_false(find_op(block, "attention.core")->causal);
        assert_int_equal(find_op(block, "attention.core")->prefix, 0);
        assert_int_equal(block->tensors[block->inputs[0]].extents[1].size, 4096);
    }
    for (int layer = 0; layer < TEXT; layer++) {
        const struct block *block = &graph->blocks[graph->sequence[2 + VISION + layer]];
        const struct op *core = find_op(block, "attention.core");
        assert_int_equal(core->window, layer % 6 == 5 ? 0 : 1024);
        assert_true(core->causal && core->prefix == 256);
    }
}

static const struct {
    const char *given, *shipped;
} IDS[] = {
    {"meta-llama/Llama-2-70b-hf", "llama-2-70b"},
    {"META-LLAMA/llama-2-70B-HF", "llama-2-70b"},
    {"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
    {"Qwen2.5-7B", "qwen2.5-7b"},
    {"Llama-2-70b-hf", "llama-2-70b"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
};

static void an_id_of_the_hub_is_the_shipped_model(void **state)
{
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++) {
        struct err err = {0};
        struct model_config *config = model_load(*state, IDS[i].given, NULL, NULL, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(config->name, IDS[i].shipped);
        const char *note = arena_print(*state, "%s is shipped as %s", IDS[i].given, IDS[i].shipped);
        assert_string_equal(config->notes[0], note);
    }
}

static void another_id_is_told_where_its_config_is(void **state)
{
    struct err err = {0};
    assert_null(model_load(*state, "some-org/Some-Model-7B", NULL, NULL, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(
        err.text, "some-org/Some-Model-7B: there is no such file, and the model of that name "
                  "on the Hugging Face hub is not shipped: download config.json from its page "
                  "(https://huggingface.co/some-org/Some-Model-7B) and give its path");
    err = (struct err){0};
    assert_null(model_load(*state, "no/such/config.json", NULL, NULL, &err));
    assert_null(strstr(err.text, "hub"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_config_is_read_and_the_rest_is_named),
        cmocka_unit_test(what_a_plan_embeds_is_the_same_model),
        cmocka_unit_test(llama4_interleaves_its_layers),
        cmocka_unit_test(chunks_bound_the_work_of_attention),
        cmocka_unit_test(gemma3_reads_a_picture_and_alternates_its_windows),
        cmocka_unit_test(an_id_of_the_hub_is_the_shipped_model),
        cmocka_unit_test(another_id_is_told_where_its_config_is),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
