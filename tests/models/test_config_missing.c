#include "tests/support/graph_text.h"
#include "tests/support/test.h"

#include "core/file.h"
#include "core/json_write.h"
#include "models/import.h"

#include <stdio.h>

// What a config leaves out is never guessed in silence: with any key deleted a shipped config is
// the same model, or an error or a note that names the key.

static const char *text_of(struct arena *arena, const struct model_config *config)
{
    const struct import_options options = {.flash = true, .dropout = true};
    return graph_text(arena, model_graph(arena, config, &options));
}

static struct model_config *read_text(struct arena *arena, const char *text, struct err *err)
{
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!json_parse(arena, "mine.json", text, strlen(text), document, err)) return NULL;
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    return model_read(arena, "mine", root, NULL, NULL, err);
}

static void write_without(struct json_writer *writer, const char *key, const struct json *object,
                          const struct json *left_out)
{
    struct err err = {0};
    int count = json_member_count(object, &err);
    json_open(writer, key, '{');
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        if (member.value == left_out->value) continue;
        if (json_is_object(&member)) {
            write_without(writer, json_key(&member), &member, left_out);
        } else {
            json_put_copy(writer, json_key(&member), &member);
        }
    }
    json_close(writer, '}');
}

// The end of an outcome that says nothing of the key, or of the one that stands in it.
static void must_name(const char *path, const char *key, const char *text)
{
    if (strcmp(key, "attention_head_dim") == 0 && strstr(text, "head_dim")) return;
    if (strcmp(key, "rope_parameters") == 0 && strstr(text, "rope_theta")) return;
    if (strcmp(key, "type") == 0) key = "rope_type";
    if (strcmp(key, "_class_name") == 0) key = "model_type";
    // What is around a text of a type of its own is another model then.
    bool is_whole = strcmp(key, "model_type") == 0;
    if (is_whole && strstr(text, "the language model alone is read, from text_config")) return;
    if (!strstr(text, key)) fail_msg("%s without %s: \"%s\"", path, key, text);
}

static void check_without(const char *path, const struct json *root, const struct json *left_out,
                          const char *whole)
{
    struct arena arena = {0};
    struct err err = {0};
    struct json_writer writer = {.arena = &arena};
    const char *key = json_key(left_out), *notes = "";
    write_without(&writer, NULL, root, left_out);
    struct model_config *config = read_text(&arena, writer.text, &err);
    assert_null(strchr(err.text, '\n'));
    if (!config) {
        assert_int_equal(err.kind, ERR_INPUT);
        must_name(path, key, err.text);
    } else if (strcmp(text_of(&arena, config), whole) != 0) {
        for (const char **note = config->notes; *note; note++)
            notes = arena_print(&arena, "%s%s\n", notes, *note);
        must_name(path, key, notes);
    }
    arena_free(&arena);
}

// Deletes each member of the object, and of the objects in it that describe a part of the model.
static int check_members(const char *path, const struct json *root, const struct json *object,
                         const char *whole)
{
    struct err err = {0};
    int count = json_member_count(object, &err), checked = 0;
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *key = json_key(&member);
        check_without(path, root, &member, whole);
        checked++;
        bool is_part = strstr(key, "_config") && !strstr(key, "vision") && !strstr(key, "quant");
        bool is_rope = strcmp(key, "rope_parameters") == 0 || strcmp(key, "rope_scaling") == 0;
        if (json_is_object(&member) && (is_part || is_rope))
            checked += check_members(path, root, &member, whole);
    }
    return checked;
}

static int check_file(const char *path)
{
    struct arena arena = {0};
    struct err err = {0};
    struct json_document document;
    assert_true(json_load(&arena, path, &document, &err));
    struct json root = json_root(&document);
    struct model_config *config = model_read(&arena, "whole", &root, NULL, NULL, &err);
    if (!config) {
        // A variant without its dimensions (tests/models/test_import.c).
        assert_non_null(strstr(err.text, "missing"));
        arena_free(&arena);
        return 0;
    }
    int checked = check_members(path, &root, &root, text_of(&arena, config));
    arena_free(&arena);
    return checked;
}

static void any_key_deleted_is_named_or_changes_nothing(void **state)
{
    static const char *const FOLDERS[] = {"models/zoo", "tests/data/multimodal",
                                          "tests/data/config_v5", "tests/data/config_variants"};
    for (size_t f = 0; f < sizeof FOLDERS / sizeof *FOLDERS; f++) {
        int count = 0, checked = 0;
        const char **names = file_list_data(*state, FOLDERS[f], &count);
        assert_true(count >= 5);
        for (int i = 0; i < count; i++) {
            // Two names of one size, of which either stands in for the other.
            if (strcmp(names[i], "bloom-n-embed-wins") == 0) continue;
            checked += check_file(arena_print(*state, "%s/%s.json", FOLDERS[f], names[i]));
        }
        assert_true(checked > 5 * count);
    }
}

// As transformers 5.23 writes them: CONFIG_MAPPING[type](**old).to_json_string().
static void what_transformers_5_writes_is_the_same_model(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "tests/data/config_v5", &count);
    for (int i = 0; i < count; i++) {
        struct arena arena = {0};
        struct err err = {0};
        const char *old = arena_print(&arena, "models/zoo/%s.json", names[i]);
        if (!file_exists(old)) old = arena_print(&arena, "tests/data/multimodal/%s.json", names[i]);
        const char *new = arena_print(&arena, "tests/data/config_v5/%s.json", names[i]);
        struct model_config *before = model_load(&arena, old, NULL, NULL, &err);
        struct model_config *after = model_load(&arena, new, NULL, NULL, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(text_of(&arena, after), text_of(&arena, before));
        arena_free(&arena);
    }
    assert_true(count >= 28);
}

static void a_shipped_model_needs_no_note(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "models/zoo", &count);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct model_config *config = model_load(*state, names[i], NULL, NULL, &err);
        assert_string_equal(err.text, "");
        assert_null(config->notes[0]);
    }
}

#define LLAMA_8B                                                                            \
    "\"model_type\": \"llama\", \"vocab_size\": 128256, \"intermediate_size\": 14336, "     \
    "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, "  \
    "\"max_position_embeddings\": 8192, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-5, " \
    "\"rope_theta\": 500000, \"attention_dropout\": 0, \"tie_word_embeddings\": false, "    \
    "\"attention_bias\": false, \"mlp_bias\": false"
#define AFTER_MISSING "; the dimensions of a model must be given, as whole numbers"

#define UNET_LEVELS(SIZE, TYPES)                                              \
    "{\"_class_name\": \"UNet2DConditionModel\", \"sample_size\": " SIZE ", " \
    "\"cross_attention_dim\": 8, \"block_out_channels\": [32, 64], "          \
    "\"up_block_types\": [\"UpBlock2D\", \"CrossAttnUpBlock2D\"], "           \
    "\"down_block_types\": [\"CrossAttnDownBlock2D\", \"" TYPES "\"]"
#define UNET UNET_LEVELS("8", "DownBlock2D")
#define FLUX                                                                     \
    "{\"_class_name\": \"FluxTransformer2DModel\", \"num_attention_heads\": 2, " \
    "\"attention_head_dim\": 16"
#define LAYERS ", \"num_layers\": 1, \"num_single_layers\": 1"
static const struct {
    const char *config, *error;
} REFUSED[] = {
    {"{\"model_type\": \"llama\", \"rms_norm_eps\": 1e-5}",
     "$: missing \"vocab_size\", \"hidden_size\", \"intermediate_size\", \"num_hidden_layers\", "
     "\"num_attention_heads\"" AFTER_MISSING},
    {"{\"hiden_size\": 4096, " LLAMA_8B "}",
     "$: missing \"hidden_size\" (found \"hiden_size\", did you mean it?)" AFTER_MISSING},
    {"{\"hidden_size\": null, " LLAMA_8B "}", "$: missing \"hidden_size\"" AFTER_MISSING},
    {"{\"model_type\": \"dbrx\", \"d_model\": 64, \"n_heads\": 4, \"n_layers\": 2, "
     "\"ffn_config\": {\"ffn_hidden_sise\": 64, \"moe_top_k\": 1}}",
     "$: missing \"vocab_size\", \"attn_config.kv_n_heads\", \"ffn_config.ffn_hidden_size\" (found "
     "\"ffn_hidden_sise\", did you mean it?), \"ffn_config.moe_num_experts\"" AFTER_MISSING},
    {"{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"mistral\", "
     "\"vocab_size\": 64, \"hidden_size\": 64, \"intermediate_size\": 64, "
     "\"num_hidden_layers\": 1, \"num_attention_heads\": 4}}",
     "$.text_config: missing \"num_key_value_heads\", \"sliding_window\"" AFTER_MISSING},
    {"{\"hidden_size\": 4096, \"is_encoder_decoder\": true, " LLAMA_8B "}",
     "$.is_encoder_decoder: a model of encoder and decoder is not supported"},
    {"{\"hidden_size\": 4096, \"is_causal\": false, " LLAMA_8B "}",
     "$.is_causal: attention both ways is not supported here"},
    {"{\"model_type\": \"gpt2\", \"add_cross_attention\": true}",
     "$.add_cross_attention: cross attention is not supported"},
    {"{\"model_type\": \"gpt2\", \"reorder_and_upcast_attn\": true}",
     "$.reorder_and_upcast_attn: attention in fp32 beside another precision is not supported"},
    {"{\"model_type\": \"bert\", \"is_decoder\": true}",
     "$.is_decoder: bert as a decoder is not supported; bert is read as an encoder"},
    {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
     "$.position_embedding_type: positions must be \"absolute\" for bert"},
    {"{\"model_type\": \"mllama\", \"text_config\": {\"model_type\": \"mllama_text_model\"}}",
     "$.text_config.model_type: unknown \"mllama_text_model\"; known (a * is one of several): "
     "FluxTransformer2DModel, "},
    {"{\"model_type\": \"lama\"}",
     "$.model_type: unknown \"lama\", did you mean \"llama\"?; known "},
    {UNET_LEVELS("7", "DownBlock2D") "}", "$.sample_size: a side of 7 is not halved 1 times"},
    {UNET_LEVELS("8", "AttnDownBlock2D") "}",
     "$.down_block_types[1]: it must be CrossAttnDownBlock2D or DownBlock2D"},
    {UNET ", \"transformer_layers_per_block\": [1, 2, 3]}",
     "$.transformer_layers_per_block: one for each of 2 levels is wanted"},
    {UNET ", \"attention_head_dim\": 5}",
     "$.attention_head_dim: 5 heads (which this key counts) do not divide 32 channels"},
    {UNET ", \"norm_num_groups\": 24}", "$.norm_num_groups: 24 groups do not divide 32 channels"},
    {UNET ", \"layers_per_block\": 7}",
     "$.layers_per_block: 16 states are kept for the way up; 14 can be"},
    {UNET ", \"class_embed_type\": \"timestep\"}",
     "$.class_embed_type: not supported; it must be absent"},
    {UNET ", \"only_cross_attention\": true}",
     "$.only_cross_attention: not supported; it must be false"},
    {UNET ", \"conv_in_kernel\": 1}", "$.conv_in_kernel: not supported; it must be 3"},
    {UNET ", \"addition_embed_type\": \"text\"}",
     "$.addition_embed_type: it must be absent or \"text_time\""},
    {UNET ", \"addition_embed_type\": \"text_time\"}",
     "$: projection_class_embeddings_input_dim: the width of what is added must be given"},
    {FLUX ", \"num_layers\": 1}", "$: missing \"num_single_layers\"" AFTER_MISSING},
    {FLUX LAYERS ", \"axes_dims_rope\": [4, 8]}", "$.axes_dims_rope: three axes are wanted"},
    {FLUX LAYERS ", \"axes_dims_rope\": [4, 4, 4]}",
     "$.axes_dims_rope: 4, 4 and 4 are not together 16, as wide as a head"},
    {FLUX LAYERS ", \"axes_dims_rope\": [2, 6, 8]}",
     "$.axes_dims_rope: rows and columns that are not rotated alike, or no pairs"},
    {FLUX LAYERS "}", "$: axes_dims_rope: 16, 56 and 56 are not together 16, as wide as a head"},
    {FLUX LAYERS ", \"patch_size\": 2}",
     "$.patch_size: patches are cut outside the model; only 1 is read"},
    {FLUX LAYERS ", \"sample_size\": 9}",
     "$.sample_size: patches of 2 x 2 do not divide a side of 9"},
    {"{\"model_type\": \"llama4_text\", \"vocab_size\": 64, \"hidden_size\": 64, "
     "\"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": 4, \"head_dim\": 16, \"num_local_experts\": 4, "
     "\"num_experts_per_tok\": 1, \"attention_chunk_size\": 8, \"interleave_moe_layer_step\": 2}",
     "$: missing \"intermediate_size_mlp\"" AFTER_MISSING},
};

static void what_is_missing_or_not_built_is_one_line(void **state)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        struct err err = {0};
        assert_null(read_text(*state, REFUSED[i].config, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        const char *found = strstr(err.text, "$");
        assert_non_null(found);
        const char *wanted = REFUSED[i].error;
        if (strncmp(found, wanted, strlen(wanted)) != 0) assert_string_equal(found, wanted);
    }
}

static void what_was_taken_is_one_note(void **state)
{
    struct err err = {0};
    struct model_config *config = read_text(*state, "{\"hidden_size\": 4096, " LLAMA_8B "}", &err);
    assert_string_equal(err.text, "");
    assert_string_equal(config->notes[0],
                        "mine.json: not given, taken from LlamaConfig: head_dim 128 (hidden_size / "
                        "num_attention_heads)");
    assert_null(config->notes[1]);
    config = read_text(*state,
                       "{\"model_type\": \"gpt2\", \"vocab_size\": 8, \"n_embd\": 8, \"n_layer\": "
                       "1, \"n_head\": 2, \"n_positions\": 8, \"n_inner\": null, \"embd_pdrop\": "
                       "0, \"attn_pdrop\": 0, \"resid_pdrop\": 0, \"tie_word_embeddings\": true}",
                       &err);
    assert_string_equal(err.text, "");
    assert_string_equal(
        config->notes[0],
        "mine.json: not given, taken from GPT2Config: activation_function gelu_new, "
        "layer_norm_epsilon 1e-05, scale_attn_weights true, n_inner 32 (4 * "
        "n_embd)");
}

static void keep_line(void *context, const char *line)
{
    snprintf(context, 512, "%s", line);
}

static void a_part_that_the_model_has_not_is_warned_about(void **state)
{
    static const char *const LINES[][2] = {
        {"{\"hidden_size\": 4096, \"num_local_experts\": 8, " LLAMA_8B "}",
         "mine.json: \"num_local_experts\" is not heeded: this llama has no experts"},
        {"{\"hidden_size\": 4096, \"layerdrop\": 0.1, " LLAMA_8B "}",
         "mine.json: \"layerdrop\" is not heeded: this llama has no layers that are dropped"},
    };
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++) {
        struct err err = {0};
        struct json_document document;
        const char *text = LINES[i][0];
        char line[512] = "";
        assert_true(json_parse(*state, "mine.json", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        assert_non_null(model_read(*state, "mine", &root, keep_line, line, &err));
        assert_string_equal(line, LINES[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_key_deleted_is_named_or_changes_nothing),
        cmocka_unit_test(what_transformers_5_writes_is_the_same_model),
        cmocka_unit_test(a_shipped_model_needs_no_note),
        cmocka_unit_test(what_is_missing_or_not_built_is_one_line),
        cmocka_unit_test(what_was_taken_is_one_note),
        cmocka_unit_test(a_part_that_the_model_has_not_is_warned_about),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
