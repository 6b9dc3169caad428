#include "tests/support/test.h"

#include "models/import.h"

#include <stdio.h>

// tests/data/param_counts*.tsv hold what transformers counts for each config (name, parameters).

struct warnings {
    int count;
    char last[512];
};

static void keep_warning(void *context, const char *line)
{
    struct warnings *warnings = context;
    warnings->count++;
    snprintf(warnings->last, sizeof warnings->last, "%s", line);
}

// Of a config named without-KEY, or defaults, the absent dimension is refused by its name; where it
// is none, what was taken is said.
static bool is_refused_by_name(const char *name, const struct model_config *config,
                               const struct err *err)
{
    const char *key = strstr(name, "-without-");
    if (!key && !strstr(name, "-defaults") && !strstr(name, "-ffn") && !strstr(name, "-no-"))
        return false;
    if (config && key) {
        assert_non_null(config->notes[0]);
        assert_non_null(strstr(config->notes[0], key + strlen("-without-")));
    }
    if (config) return false;
    assert_int_equal(err->kind, ERR_INPUT);
    assert_non_null(strstr(err->text, "missing \""));
    if (key) assert_non_null(strstr(err->text, key + strlen("-without-")));
    return true;
}

static int check_counts(const char *table, const char *folder)
{
    FILE *file = fopen(table, "r");
    assert_non_null(file);
    char line[256], name[128];
    int checked = 0;
    long long expected = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%127s %lld", name, &expected) != 2) continue;
        struct arena arena = {0};
        struct err err = {0};
        const char *path = arena_print(&arena, "%s/%s.json", folder, name);
        struct model_config *config = model_load(&arena, path, NULL, NULL, &err);
        checked++;
        if (is_refused_by_name(name, config, &err)) {
            arena_free(&arena);
            continue;
        }
        assert_string_equal(err.text, "");
        for (int flash = 0; flash < 2; flash++) {
            struct import_options options = {
                .flash = flash, .dropout = !flash, .vocab_multiple = flash ? 1024 : 0};
            struct graph *graph = model_graph(&arena, config, &options);
            if (graph->parameter_count != expected) {
                fail_msg("%s: %lld parameters, transformers counts %lld", path,
                         (long long)graph->parameter_count, expected);
            }
        }
        arena_free(&arena);
    }
    fclose(file);
    return checked;
}

static void shipped_models_have_the_parameters_that_transformers_counts(void **state)
{
    (void)state;
    assert_true(check_counts("tests/data/param_counts.tsv", "models/zoo") >= 166);
}

static void absent_and_odd_keys_give_the_parameters_that_transformers_counts(void **state)
{
    (void)state;
    int checked =
        check_counts("tests/data/param_counts_variants.tsv", "tests/data/config_variants");
    assert_true(checked >= 1022);
}

static struct model_config *read_line(struct arena *arena, const char *text, struct err *err)
{
    struct json_document document = {0};
    if (!json_parse(arena, "mine.json", text, strlen(text), &document, err)) return NULL;
    struct json root = json_root(&document);
    return model_read(arena, "mine", &root, NULL, NULL, err);
}

// As the classes write themselves where nothing is said (tests/fixtures/make_default_counts.py).
static void default_configs_have_the_parameters_that_transformers_counts(void **state)
{
    (void)state;
    int checked = check_counts("tests/data/param_counts_defaults.tsv", "models/defaults");
    assert_int_equal(checked, 153);
}

// With nothing but its type a config is its class's default, which is said, dimension by dimension.
// Flags and names beside it are its own; beside a number, or a key that the class does not know,
// the dimensions have to be given.
static void a_type_alone_is_the_default_of_its_class(void **state)
{
    static const char *const OTHER[] = {"{\"model_type\": \"llama\", \"hidden_size\": 64}",
                                        "{\"model_type\": \"llama\", \"hiden_act\": \"silu\"}",
                                        "{\"model_type\": \"llama\", \"hidden_size\": \"64\"}",
                                        "{\"model_type\": \"llama\", \"rope_parameters\": {}}"};
    struct err err = {0};
    struct model_config *alone = read_line(*state, "{\"model_type\": \"llama\"}", &err);
    assert_string_equal(err.text, "");
    assert_int_equal(model_graph(*state, alone, &(struct import_options){0})->parameter_count,
                     6738415616);
    assert_non_null(strstr(alone->notes[0], "models/defaults/llama.json"));
    assert_non_null(strstr(alone->notes[0], " 5.24.0 "));
    assert_non_null(strstr(alone->notes[0], "intermediate_size 11008, "));
    struct model_config *tied = read_line(
        *state, "{\"model_type\": \"llama\", \"tie_word_embeddings\": true, \"bos_token_id\": 1}",
        &err);
    assert_string_equal(err.text, "");
    assert_int_equal(model_graph(*state, tied, &(struct import_options){0})->parameter_count,
                     6738415616 - 32000 * 4096);
    for (size_t i = 0; i < sizeof OTHER / sizeof *OTHER; i++) {
        err = (struct err){0};
        assert_null(read_line(*state, OTHER[i], &err));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

// Every type that has a file of defaults, from its name alone, counted by transformers.
static void types_alone_have_the_parameters_that_transformers_counts(void **state)
{
    FILE *file = fopen("tests/data/param_counts_defaults.tsv", "r");
    assert_non_null(file);
    char type[128];
    long long expected = 0;
    (void)state;
    while (fscanf(file, "%127s %lld %*[^\n]", type, &expected) == 2) {
        struct arena arena = {0};
        struct err err = {0};
        struct model_config *config =
            read_line(&arena, arena_print(&arena, "{\"model_type\": \"%s\"}", type), &err);
        assert_string_equal(err.text, "");
        const struct import_options options = {.flash = true};
        int64_t count = model_graph(&arena, config, &options)->parameter_count;
        if (count != expected) fail_msg("%s: %lld", type, (long long)count);
        assert_non_null(strstr(config->notes[0], type));
        arena_free(&arena);
    }
    fclose(file);
}

// Mamba2 by default, as transformers wrote it: Infinity, which is no JSON, and as a word in a text.
static void what_python_has_no_bound_for_is_read(void **state)
{
    struct err err = {0};
    struct model_config *config =
        model_load(*state, "tests/data/config_unbounded.json", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(model_graph(*state, config, &(struct import_options){0})->parameter_count,
                     7285403648);
}

static const struct {
    const char *file, *text;
} BAD_CONFIGS[] = {
    {"activation", "1:39: $.hidden_act: unknown activation \"mish\"; known: gelu, gelu_fast, "
                   "gelu_new, gelu_pytorch_tanh, silu, swish, relu, relu2, quick_gelu"},
    {"bart_heads", "1:105: $.encoder_attention_heads: must be as many as decoder_attention_heads: "
                   "other heads are not supported"},
    {"bart_untied", "3:56: $.tie_word_embeddings: must be true for bart: else its class has a "
                    "table that nothing reads"},
    {"bool", "1:43: $.attention_bias: expected true or false, found a string"},
    {"dbrx_activation",
     "1:62: $.ffn_config.ffn_act_fn.name: unknown activation \"mish\"; known: gelu, gelu_fast, "
     "gelu_new, gelu_pytorch_tanh, silu, swish, relu, relu2, quick_gelu"},
    {"dbrx_ffn", "1:38: $.ffn_config: expected an object, found an array"},
    {"dbrx_heads", "1:39: $.attn_config: 3 key-value heads do not divide 16 heads"},
    {"dbrx_top_k", "1:38: $.ffn_config: a token cannot go to 5 of 4 experts"},
    {"dropout", "1:38: $.attn_pdrop: must be between 0 and 0.99, found 1"},
    {"duplicate", "4:3: $.hidden_size: duplicate key"},
    {"experts_count", "1:44: $.num_experts: must be between 0 and 4096, found 5000"},
    {"experts_dense", "1:48: $.mlp_only_layers: expected an array, found an object"},
    {"experts_huge", "1:48: $.num_local_experts: 4096 experts of this size have more than 1e18 "
                     "parameters"},
    {"experts_layer", "1:52: $.mlp_only_layers[1]: must be between 0 and 10000, found -2"},
    {"experts_none", "1:48: $.num_local_experts: must be between 1 and 4096, found 0"},
    {"experts_step", "1:52: $.decoder_sparse_step: must be between 1 and 10000, found 0"},
    {"experts_top_k", "4:26: $.num_experts_per_tok: a token cannot go to 9 of 8 experts"},
    {"experts_type", "1:48: $.num_local_experts: expected a number, found a string"},
    {"fraction", "1:41: $.hidden_size: expected a whole number, found 64.5"},
    {"gemma4_layers", "1:22: $.per_layer_config: expected an object, found an array"},
    {"glm_shared", "1:48: $.n_shared_experts: together the shared experts are wider than 1000000"},
    {"heads", "4:13: $.n_head: 12 heads do not divide a hidden size of 770"},
    {"heads_llama", "4:26: $.num_attention_heads: 16 heads do not divide a hidden size of 100"},
    {"hidden", "1:40: $.hidden_size: must be between 1 and 1000000, found 0"},
    {"kv_heads", "4:26: $.num_key_value_heads: 5 key-value heads do not divide 32 heads"},
    {"layer_count", "1:65: $.layer_types: 1 entries for 3 layers"},
    {"layer_parts", "1:327: $.layer_types[1]: unknown layer type \"mamba\"; known: "
                    "full_attention, linear_attention"},
    {"layer_types", "1:84: $.layer_types[1]: unknown layer type \"round\"; known: "
                    "full_attention, sliding_attention"},
    {"missing_type", "1:1: $: missing \"model_type\""},
    {"model_type",
     "3:17: $.model_type: unknown \"foo\"; known (a * is one of several): "
     "FluxTransformer2DModel, PixArtTransformer2DModel, STDiT*, UNet2DConditionModel, afmoe, "
     "albert, apertus, arcee, aria_text, axk1, baichuan, bamba, bart, bert, biogpt, bitnet, "
     "blenderbot*, bloom, camembert, clip, codegen, cohere*, ctrl, cwm, data2vec-text, dbrx, "
     "deberta*, deepseek*, deit, dinov*, distilbert, dots1, electra, emu3_text_model, ernie*, "
     "esm, eurobert, evoformer, exaone*, falcon*, flaubert, flex_olmo, gemma*, glm*, gpt*, "
     "gptj, granite*, granitemoe*, granitemoehybrid, granitemoeshared, grok*, gte, helium, "
     "hunyuan*, hy*, hyperclovax, ibert, internlm*, iquestcoder, jais2, jamba, "
     "jina_embeddings_v3, kimi*, lfm*, llama*, m2m_100, mamba*, marian, mbart, mellum, "
     "megatron-bert, mimo_v2_flash, minicpm3, minimax*, ministral*, mistral*, mixtral, "
     "modernbert*, mpnet, mpt, mt5, mvp, nanochat, nemotron*, nllb-moe, nomic_bert, olmo*, "
     "olmoe, openai-gpt, operators, opt, paddleocr_vl_text, paligemma, pegasus, persimmon, "
     "phi*, phimoe, plbart, qwen*, rembert, roberta*, roformer, sarvam*, seed_oss, siglip, "
     "smollm3, solar_open, squeezebert, stablelm, starcoder2, switch_transformers, t5, "
     "two_towers, umt5, vaultgemma, vit*, whisper, xglm, xlm*, youtu"},
    {"afmoe_bias", "1:337: $.attention_bias: biases beside a gate without one are not supported"},
    {"cohere2_moe_dense", "1:1: $: prefix_dense_intermediate_size: must be given for dense layers"},
    {"cohere2_moe_shared", "1:312: $.shared_expert_combination_strategy: must be \"average\" or "
                           "\"sum\""},
    {"dinov2_drop", "1:147: $.drop_path_rate: dropping whole branches is not supported"},
    {"esm_positions", "1:192: $.position_embedding_type: must be \"rotary\" or \"absolute\""},
    {"phimoe_top_k",
     "1:211: $.num_experts_per_tok: must be 2 for phimoe: its class chooses so many"},
    {"infinite", "1:153: $.rms_norm_eps: must be between 0 and 1, found -1e+300"},
    {"roformer_values", "1:156: $.rotary_value: values that rotate are not supported"},
    {"squeezebert_groups", "1:208: $.v_groups: 5 groups do not divide hidden_size"},
    {"squeezebert_epsilon",
     "1:214: $.layer_norm_eps: must be 1e-12 for squeezebert, whose layers have it"},
    {"rembert_tied", "1:249: $.tie_word_embeddings: must be false: the tables differ in width"},
    {"ibert_quant", "1:182: $.quant_mode: whole numbers in place of reals are not supported"},
    {"mistral4_groups", "1:407: $.n_group: groups of experts are not supported in mistral4"},
    {"axk1_rank", "1:388: $.q_lora_rank: must be given: axk1 has no queries without a low rank"},
    {"mimo_heads", "1:143: $.num_key_value_heads: 4 heads do not share twice as many, as in layers "
                   "with a window"},
    {"gemma3n_ffn", "2:23: $.intermediate_size: mlps of one width, a whole number, are supported"},
    {"gemma3n_layers", "2:96: $.activation_sparsity_pattern: 1 entries for 2 layers"},
    {"gemma3n_scale", "2:88: $.altup_correct_scale: what layers add to the other states is always "
                      "scaled"},
    {"gemma3n_shared", "2:89: $.num_kv_shared_layers: by layer_types no layer in front makes keys "
                       "for the last 2"},
    {"gemma3n_sparsity", "2:96: $.activation_sparsity_pattern: layers of two sparsities are not "
                         "supported"},
    {"gemma3n_state", "2:85: $.altup_active_idx: a state other than the first is not supported as "
                      "the one of layers"},
    {"gemma4_heads", "1:32: $.num_global_key_value_heads: 4 heads do not share 3"},
    {"gemma4_mixture",
     "1:1: $: missing \"num_experts\", \"top_k_experts\", \"moe_intermediate_size\"; "
     "the dimensions of a model must be given, as whole numbers"},
    {"gemma4_own", "1:28: $.per_layer_config.0: layers without a window have heads of one size, "
                   "others those of the model"},
    {"gemma4_rope", "1:50: $.global_head_dim: no pair of 4 dims turns"},
    {"gemma4_shared", "1:26: $.num_kv_shared_layers: by layer_types no layer in front makes keys "
                      "for the last 2"},
    {"gemma4_table", "1:32: $.vocab_size_per_layer_input: tables of layers with another "
                     "vocabulary are not supported"},
    {"ctrl_epsilon", "1:135: $.layer_norm_epsilon: must be 1e-6, as layers have it"},
    {"xlm_sines", "1:141: $.sinusoidal_embeddings: positions that are not trained are not "
                  "supported"},
    {"nllb_drawn", "1:414: $.second_expert_policy: a second expert that is drawn is not supported"},
    {"aria_act", "1:247: $.hidden_act: must be \"silu\", which chosen experts always have"},
    {"nul", "1:24: a NUL byte"},
    {"root", "1:1: $: expected an object, found an array"},
    {"scan_expand", "1:99: $.num_heads: 3 heads of 4 are not expand times hidden_size, 16"},
    {"scan_none", "2:12: $.expand: 1e-06 times hidden_size is no channel"},
    {"hybrid_none", "1:427: $.mamba_n_heads: 4 heads do not make up a scan of 0"},
    {"stdit_ratio", "1:217: $.mlp_ratio: 0.001 times hidden_size is no width of an mlp"},
    {"scan_groups", "2:46: $.n_groups: 3 groups do not divide 4 heads (num_heads)"},
    {"scan_offset", "3:23: $.attn_layer_offset: 8; expected less than the period, 8"},
    {"picture_both", "4:123: $.text_config.use_bidirectional_attention: attention both ways is not "
                     "supported here"},
    {"picture_none", "1:1: $: missing \"text_config\""},
    {"picture_text", "4:106: $.text_config.model_type: a text of \"llama\" is not supported here; "
                     "known: gemma3_text"},
    {"picture_tokens", "1:49: $.mm_tokens_per_image: 9 tokens are no square whose side divides "
                       "that of 16 patches"},
    {"picture_width", "1:47: $.projection_dim: pictures of 12 numbers in a text of 16"},
    {"scan_rank", "2:79: $.time_step_rank: \"wide\"; expected a number, or \"auto\""},
    {"scan_limit", "2:68: $.time_step_limit: an upper limit of steps is not supported"},
    {"hybrid_letter", "1:93: $.hybrid_override_pattern: unknown letter 'X'; known: M, *, - and E"},
    {"hybrid_type", "1:97: $.layers_block_type[1]: unknown layer type \"rnn\"; known: "
                    "linear_attention, full_attention, mlp, moe"},
    {"syntax", "2:17: not valid JSON from here on"},
    {"t5_buckets", "2:52: $.relative_attention_num_buckets: must be a multiple of 4"},
    {"t5_distance", "2:53: $.relative_attention_max_distance: must be above half of "
                    "relative_attention_num_buckets, 16"},
    {"type", "3:24: $.num_hidden_layers: expected a number, found a string"},
    {"type_number", "1:16: $.model_type: expected a string, found a number"},
    {"vit_labels", "1:88: $.id2label: a head needs a class"},
    {"vit_patch", "1:54: $.patch_size: a patch of 16 is larger than a picture of 8"},
    {"vocab", "1:38: $.vocab_size: must be between 1 and 100000000, found -1"},
    {"zero_layers", "1:44: $.num_hidden_layers: must be between 1 and 10000, found 0"},
};

static void a_wrong_config_is_answered_with_its_place(void **state)
{
    for (size_t i = 0; i < sizeof BAD_CONFIGS / sizeof *BAD_CONFIGS; i++) {
        struct err err = {0};
        char path[128], expected[2048];
        snprintf(path, sizeof path, "tests/data/config_bad_%s.json", BAD_CONFIGS[i].file);
        snprintf(expected, sizeof expected, "%s:%s", path, BAD_CONFIGS[i].text);
        assert_null(model_load(*state, path, NULL, NULL, &err));
        assert_string_equal(err.text, expected);
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

static void an_unknown_key_is_ignored_and_a_near_miss_told(void **state)
{
    struct err err = {0};
    struct warnings warnings = {0};
    struct model_config *config =
        model_load(*state, "tests/data/config_near_miss.json", keep_warning, &warnings, &err);
    assert_non_null(config);
    assert_int_equal(warnings.count, 1);
    assert_string_equal(warnings.last, "tests/data/config_near_miss.json: \"rms_norm_ep\" is not "
                                       "known, did you mean \"rms_norm_eps\"?");
    assert_string_equal(config->name, "config_near_miss");
    assert_int_equal(json_member_count(&config->config, &err), 8);
    assert_string_equal(config->model_type, "llama");
    struct import_options options = {0};
    assert_int_equal(model_graph(*state, config, &options)->hidden, 4096);
}

static void an_error_set_before_is_kept(void **state)
{
    struct err err = {0};
    err_set(&err, ERR_USAGE, "the first error");
    assert_null(model_load(*state, "tests/data/config_near_miss.json", NULL, NULL, &err));
    assert_string_equal(err.text, "the first error");
}

static void a_config_inside_another_file_is_read_in_place(void **state)
{
    static const char TEXT[] =
        "{\"model\": {\"config\": {\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 768, "
        "\"n_head\": 12, \"n_positions\": 1024, \"vocab_size\": 50257}}}";
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(*state, "plan.json", TEXT, strlen(TEXT), &document, &err));
    struct json root = json_root(&document), model = json_get(&root, "model", &err);
    struct json object = json_get(&model, "config", &err);
    struct model_config *config = model_read(*state, "mine", &object, NULL, NULL, &err);
    assert_non_null(config);
    struct import_options options = {.vocab_multiple = 256};
    struct graph *graph = model_graph(*state, config, &options);
    assert_string_equal(graph->name, "mine");
    struct json layers = json_get(&config->config, "n_layer", &err);
    assert_false(json_fail(&layers, &err, "kept"));
    assert_string_equal(err.text, "plan.json:1:56: $.model.config.n_layer: kept");
    assert_int_equal(graph->layer_count, 3);
    assert_int_equal(graph->vocab, 50257);
    assert_int_equal(graph->vocab_padded, 50432);
}

static void options_decide_on_dropout_and_on_the_attention_kernel(void **state)
{
    struct err err = {0};
    struct model_config *config =
        model_load(*state, "tests/data/config_variants/gpt2-base.json", NULL, NULL, &err);
    assert_non_null(config);
    for (int i = 0; i < 4; i++) {
        struct import_options options = {.flash = i & 1, .dropout = i & 2};
        struct graph *graph = model_graph(*state, config, &options);
        int count[OP_KIND_COUNT] = {0};
        for (int o = 0; o < graph->blocks[1].op_count; o++) {
            count[graph->blocks[1].ops[o].kind]++;
        }
        assert_int_equal(count[OP_ATTENTION], options.flash);
        assert_int_equal(count[OP_SOFTMAX], !options.flash);
        // After attention and mlp, and on the probabilities of the chain.
        assert_int_equal(count[OP_DROPOUT], options.dropout ? 3 - options.flash : 0);
        assert_true(graph->dropout_ratio == (options.dropout ? 0.1 : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_models_have_the_parameters_that_transformers_counts),
        cmocka_unit_test(default_configs_have_the_parameters_that_transformers_counts),
        cmocka_unit_test(a_type_alone_is_the_default_of_its_class),
        cmocka_unit_test(types_alone_have_the_parameters_that_transformers_counts),
        cmocka_unit_test(what_python_has_no_bound_for_is_read),
        cmocka_unit_test(absent_and_odd_keys_give_the_parameters_that_transformers_counts),
        cmocka_unit_test(a_wrong_config_is_answered_with_its_place),
        cmocka_unit_test(an_unknown_key_is_ignored_and_a_near_miss_told),
        cmocka_unit_test(an_error_set_before_is_kept),
        cmocka_unit_test(a_config_inside_another_file_is_read_in_place),
        cmocka_unit_test(options_decide_on_dropout_and_on_the_attention_kernel),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
