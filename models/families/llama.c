#include "models/families/llama_like.h"

#include <assert.h>

static const void *read_llama(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "llama", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

// The text of Emu3, whose pictures are tokens. What attention drops of scores is dropped of results
// as well.
static const void *read_emu3(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 9216,
                                .attention_dropout = 0.1,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "emu3_text_model", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    decoder.hidden_dropout = record.attention_dropout;
    return family_decoder(reader, &decoder);
}

// Norms in front of the last products of attention and mlp. What its releases round weights to is
// not trained so: products are in the precision of the run.
static const void *read_bitnet(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    record.hidden_act = "relu2";
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 500000;
    llama_like_read(reader, &record);
    record.head_dim = 0;
    struct decoder decoder = llama_like_decoder(reader, "bitnet", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.inner_norms = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_EMU3_TEXT_MODEL = {"emu3_text_model", read_emu3, decoder_graph,
                                                    "Emu3TextConfig"};
const struct model_family FAMILY_BITNET = {"bitnet", read_bitnet, decoder_graph, "BitNetConfig"};
const struct model_family FAMILY_LLAMA = {"llama", read_llama, decoder_graph, "LlamaConfig"};

// An mlp of relu squared and without a gate.
static const void *read_arcee(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 4096,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    record.hidden_act = "relu2";
    record.rms_norm_eps = 1e-5;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "arcee", &record);
    decoder.gated = false;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

static const void *read_seed_oss(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 524288,
                                .attention_bias = true,
                                .attention_dropout = 0.1,
                                .residual_dropout = 0.1,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias "
                                            "attention_out_bias residual_dropout"};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "seed_oss", &record);
    decoder.qkv_bias = record.attention_bias;
    decoder.out_bias = record.attention_out_bias;
    decoder.mlp_bias = record.mlp_bias;
    decoder.hidden_dropout = record.residual_dropout;
    return family_decoder(reader, &decoder);
}

// InternLM 2 comes with code of its own (configuration_internlm2.py of its release); `bias` is that
// of attention.
struct internlm2 {
    bool bias;
};

static const struct json_field INTERNLM2_FIELDS[] = {
    {JSON_OPT_BOOL(struct internlm2, bias)},
    {0},
};

static const void *read_internlm2(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps"};
    struct internlm2 own = {.bias = true};
    llama_like_read(reader, &record);
    if (!reader->err->kind) family_read(reader, INTERNLM2_FIELDS, &own);
    family_absent(reader, INTERNLM2_FIELDS, &own, &(struct family_keys){.optional = "bias"});
    record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, "internlm2", &record);
    decoder.qkv_bias = decoder.out_bias = own.bias;
    return family_decoder(reader, &decoder);
}

// Llama with windows, but for the first of four layers (Code World Model).
static const void *read_cwm(struct family_reader *reader)
{
    enum { PATTERN = 4 };
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions = "head_dim",
                                .dimensions_or_null = "num_key_value_heads sliding_window",
                                .optional = "hidden_act rms_norm_eps mlp_bias"};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "cwm", &record);
    if (reader->err->kind) return NULL;
    assert(decoder.layer_count > 0);
    bool *is_local = ARENA_NEW(reader->arena, bool, decoder.layer_count);
    for (int64_t i = 0; i < decoder.layer_count; i++)
        is_local[i] = i % PATTERN != 0;
    decoder.mlp_bias = record.mlp_bias;
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_windows(reader, &record, is_local, "1 in 4 full");
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_CWM = {"cwm", read_cwm, decoder_graph, "CwmConfig"};
const struct model_family FAMILY_ARCEE = {"arcee", read_arcee, decoder_graph, "ArceeConfig"};
const struct model_family FAMILY_INTERNLM2 = {"internlm2", read_internlm2, decoder_graph,
                                              "InternLM2Config"};
const struct model_family FAMILY_SEED_OSS = {"seed_oss", read_seed_oss, decoder_graph,
                                             "SeedOssConfig"};

// Llama with other defaults.
struct kin {
    const char *model_type, *dimensions_or_null;
    double rms_norm_eps, rope_theta;
    int64_t position_count;
    bool lacks_out_bias;  // whatever attention_bias says
};

static struct decoder read_kin(struct family_reader *reader, const struct kin *kin)
{
    assert(kin->position_count > 0 && kin->rms_norm_eps > 0);
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = kin->position_count,
                                .dimensions_or_null = kin->dimensions_or_null,
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    record.rms_norm_eps = kin->rms_norm_eps;
    if (kin->rope_theta > 0) record.rope_theta = kin->rope_theta;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, kin->model_type, &record);
    decoder.qkv_bias = record.attention_bias;
    decoder.out_bias = record.attention_bias && !kin->lacks_out_bias;
    decoder.mlp_bias = record.mlp_bias;
    return decoder;
}

#define OWN_HEADS "num_key_value_heads head_dim"

static const void *read_helium(struct family_reader *reader)
{
    const struct kin kin = {"helium", OWN_HEADS, 1e-8, 1e5, 4096, true};
    struct decoder decoder = read_kin(reader, &kin);
    return family_decoder(reader, &decoder);
}

static const void *read_internlm3(struct family_reader *reader)
{
    const struct kin kin = {"internlm3", OWN_HEADS, 1e-5, 0, 32768, false};
    struct decoder decoder = read_kin(reader, &kin);
    return family_decoder(reader, &decoder);
}

// The first EXAONE, under the names of transformers.
static const void *read_exaone(struct family_reader *reader)
{
    const struct kin kin = {"exaone", "num_key_value_heads", 1e-5, 0, 4096, false};
    struct decoder decoder = read_kin(reader, &kin);
    return family_decoder(reader, &decoder);
}

static const void *read_iquestcoder(struct family_reader *reader)
{
    const struct kin kin = {"iquestcoder", OWN_HEADS, 1e-5, 0, 131072, false};
    struct decoder decoder = read_kin(reader, &kin);
    return family_decoder(reader, &decoder);
}

// EuroBERT: llama that looks both ways; its head is a matrix, with a bias where the mlps have one.
static const void *read_eurobert(struct family_reader *reader)
{
    const struct kin kin = {"eurobert", "num_key_value_heads", 1e-5, 0, 8192, false};
    struct decoder decoder = read_kin(reader, &kin);
    decoder.bidirectional = true;
    decoder.head_bias = decoder.mlp_bias;
    return family_decoder(reader, &decoder);
}

// Jais 2: layer norms, biases and mlps of relu squared without a gate.
static const void *read_jais2(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 8192,
                                .attention_bias = true,
                                .mlp_bias = true,
                                .dimensions_or_null = OWN_HEADS,
                                .optional = "hidden_act layer_norm_eps attention_bias mlp_bias"};
    record.hidden_act = "relu2";
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "jais2", &record);
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = record.layer_norm_eps;
    decoder.gated = false;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

// nanochat: no norm has a weight, one is behind the embedding, those of heads behind rope; relu
// squared without a gate, and capped logits.
static const void *read_nanochat(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 2048,
                                .final_logit_softcapping = 15,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias",
                                .optional_or_null = "final_logit_softcapping"};
    record.hidden_act = "relu2";
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "nanochat", &record);
    decoder.gated = false;
    decoder.norm_is_plain = decoder.embedding_norm = true;
    decoder.head_norms = decoder.head_norms_rotated = true;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.logit_softcap = record.final_logit_softcapping;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_HELIUM = {"helium", read_helium, decoder_graph, "HeliumConfig"};
const struct model_family FAMILY_EXAONE = {"exaone", read_exaone, decoder_graph, "ExaoneConfig"};
const struct model_family FAMILY_IQUESTCODER = {"iquestcoder", read_iquestcoder, decoder_graph,
                                                "IQuestCoderConfig"};
const struct model_family FAMILY_EUROBERT = {"eurobert", read_eurobert, decoder_graph,
                                             "EuroBertConfig"};
const struct model_family FAMILY_JAIS2 = {"jais2", read_jais2, decoder_graph, "Jais2Config"};
const struct model_family FAMILY_NANOCHAT = {"nanochat", read_nanochat, decoder_graph,
                                             "NanoChatConfig"};
const struct model_family FAMILY_INTERNLM3 = {"internlm3", read_internlm3, decoder_graph,
                                              "InternLM3Config"};
