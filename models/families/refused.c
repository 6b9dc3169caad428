#include "models/families/family.h"

#include <string.h>

// What a config may say that its family is not built with: read over, it would be another model.

enum unless {
    UNLESS_FALSE,  // refused when true, or another text where one is given
    UNLESS_TRUE,   // refused when false
    UNLESS_ZERO,   // refused when another number
    UNLESS_ONE,    // the same of one
    UNLESS_TEXT,   // refused when another text
};

// Those that are read as what they are; of others the key says that they are something else.
#define WITH_ENCODER                                                                         \
    "bart|blenderbot|blenderbot-small|m2m_100|marian|mbart|mt5|mvp|nllb-moe|pegasus|plbart|" \
    "switch_transformers|t5|umt5|whisper"

#define BERT_LIKE                                                                              \
    "albert|camembert|data2vec-text|deberta|deberta-v2|electra|ernie|esm|ibert|megatron-bert|" \
    "rembert|roberta-prelayernorm|roformer|xlm-roberta-xl"

static const struct {
    const char *model_types;  // "a|b"; "!a|b" = of every family but these; NULL = of every one
    const char *key;
    enum unless unless;
    const char *text;
    const char *why;
} REFUSED[] = {
    {"!" WITH_ENCODER, "is_encoder_decoder", UNLESS_FALSE, NULL,
     "a model of encoder and decoder is not supported"},
    {NULL, "add_cross_attention", UNLESS_FALSE, NULL, "cross attention is not supported"},
    // Of gemma4: where a picture is, which no text has. Of paligemma's text: a picture's tokens.
    {"!paligemma", "use_bidirectional_attention", UNLESS_FALSE, "vision",
     "attention both ways is not supported here"},
    {NULL, "is_causal", UNLESS_TRUE, NULL, "attention both ways is not supported here"},
    {NULL, "adapter_attn_dim", UNLESS_ZERO, NULL, "adapters are not supported"},
    {"mvp", "use_prompt", UNLESS_FALSE, NULL, "prompts that are trained are not supported"},
    {"bert", "is_decoder", UNLESS_FALSE, NULL,
     "bert as a decoder is not supported; bert is read as an encoder"},
    {"roberta", "is_decoder", UNLESS_FALSE, NULL,
     "roberta as a decoder is not supported; it is read as an encoder"},
    {"xlm-roberta", "is_decoder", UNLESS_FALSE, NULL,
     "xlm-roberta as a decoder is not supported; it is read as an encoder"},
    {BERT_LIKE, "is_decoder", UNLESS_FALSE, NULL,
     "a decoder of this kind is not supported: it is read as an encoder"},
    {"esm", "is_folding_model", UNLESS_FALSE, NULL, "what folds proteins is not supported"},
    {"ibert", "position_embedding_type", UNLESS_TEXT, "absolute",
     "positions must be \"absolute\" for ibert"},
    {"ibert", "quant_mode", UNLESS_FALSE, NULL,
     "whole numbers in place of reals are not supported"},
    {"roberta", "position_embedding_type", UNLESS_TEXT, "absolute",
     "positions must be \"absolute\" for roberta"},
    {"xlm-roberta", "position_embedding_type", UNLESS_TEXT, "absolute",
     "positions must be \"absolute\" for xlm-roberta"},
    {"cohere", "use_qk_norm", UNLESS_FALSE, NULL,
     "layer norms of heads with a weight for each are not supported"},
    {"deberta", "talking_head", UNLESS_FALSE, NULL, "heads that mix are not supported"},
    {"deberta-v2", "conv_kernel_size", UNLESS_ZERO, NULL,
     "a convolution beside the first layer is not supported"},
    {"xlm|flaubert", "asm", UNLESS_FALSE, NULL, "an adaptive softmax is not supported"},
    {"xlm|flaubert", "is_encoder", UNLESS_TRUE, NULL,
     "a decoder of this kind is not supported: it is read as an encoder"},
    {"xlm|flaubert", "sinusoidal_embeddings", UNLESS_FALSE, NULL,
     "positions that are not trained are not supported"},
    {"distilbert", "sinusoidal_pos_embds", UNLESS_FALSE, NULL,
     "positions that are not trained are not supported"},
    {"ernie4_5_moe", "moe_use_hard_gate", UNLESS_FALSE, NULL, "a hard gate is not supported"},
    {"gemma3n_text", "altup_active_idx", UNLESS_ZERO, NULL,
     "a state other than the first is not supported as the one of layers"},
    {"gemma3n_text", "altup_correct_scale", UNLESS_TRUE, NULL,
     "what layers add to the other states is always scaled"},
    {"granitemoe|minimax|minimax_m2", "router_jitter_noise", UNLESS_ZERO, NULL,
     "noise on what the router sees is not supported"},
    {"hunyuan_v1_dense|hunyuan_v1_moe", "use_cla", UNLESS_FALSE, NULL,
     "keys and values that layers share are not supported"},
    {"hunyuan_v1_moe", "moe_layer_num_skipped", UNLESS_ZERO, NULL,
     "layers without experts are not supported here"},
    {"minimax_m2", "shared_intermediate_size", UNLESS_ZERO, NULL,
     "shared experts are not supported here"},
    {"minimax_m2", "use_qk_norm", UNLESS_TRUE, NULL, "norms of queries and keys are not optional"},
    {"modernbert|modernbert-decoder", "decoder_bias", UNLESS_TRUE, NULL,
     "a head without a bias is not supported in modernbert"},
    {"internlm3", "bias", UNLESS_FALSE, NULL, "biases are not supported here"},
    {"internlm3", "qkv_bias", UNLESS_FALSE, NULL, "biases are not supported here"},
    {"marian", "share_encoder_decoder_embeddings", UNLESS_TRUE, NULL,
     "tables of tokens of encoder and decoder apart are not supported"},
    {"mpt", "no_bias", UNLESS_TRUE, NULL, "biases are not supported in mpt: its class has none"},
    {"mpt", "embedding_fraction", UNLESS_ONE, NULL, "a fraction of embeddings is not supported"},
    {"nllb-moe", "second_expert_policy", UNLESS_TEXT, "all",
     "a second expert that is drawn is not supported"},
    {"nemotron_h", "moe_latent_size", UNLESS_ZERO, NULL,
     "experts behind a projection of their own are not supported"},
    {"nemotron_h", "tie_word_embeddings", UNLESS_FALSE, NULL, "nemotron_h has no tied embeddings"},
    {"nemotron_h", "num_nextn_predict_layers", UNLESS_ZERO, NULL,
     "prediction modules are not supported here"},
    {"olmo|olmoe", "clip_qkv", UNLESS_ZERO, NULL,
     "clipped queries, keys and values are not supported"},
    {"phi|stablelm", "qk_layernorm", UNLESS_FALSE, NULL, "layer norms of heads are not supported"},
    {"ernie", "use_task_id", UNLESS_FALSE, NULL, "a table of tasks is not supported"},
    {"bert", "position_embedding_type", UNLESS_TEXT, "absolute",
     "positions must be \"absolute\" for bert"},
    {"dbrx", "tie_word_embeddings", UNLESS_FALSE, NULL, "dbrx has no tied embeddings"},
    {"gpt2", "reorder_and_upcast_attn", UNLESS_FALSE, NULL,
     "attention in fp32 beside another precision is not supported"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", UNLESS_FALSE, NULL,
     "a scale of attention by layer is not supported"},
    {"starcoder2", "mlp_type", UNLESS_TEXT, "default", "mlp_type must be \"default\""},
    {"starcoder2", "norm_type", UNLESS_TEXT, "layer_norm", "norm_type must be \"layer_norm\""},
};

static bool is_refused(const struct json *value, enum unless unless, const char *text,
                       struct err *err)
{
    switch (unless) {
    case UNLESS_FALSE:
        if (text && json_is_text(value)) break;
        return json_bool(value, err);
    case UNLESS_TRUE:
        return !json_bool(value, err) && !err->kind;
    case UNLESS_ZERO:
        return json_f64(value, -1e300, 1e300, err) != 0;
    case UNLESS_ONE:
        return json_f64(value, -1e300, 1e300, err) != 1;
    case UNLESS_TEXT:
        break;
    }
    const char *found = json_text(value, err);
    return found && strcmp(found, text) != 0;
}

// Keys that tell of parts which the model that was read does not have: its class ignores them, and
// whoever wrote them meant something.
static const struct {
    const char *key;
    double above;  // what is no more than this is nothing, as is false
    const char *part;
} TELLING[] = {
    {"attention_bias", 0, "biases in attention"},
    {"decoder_layerdrop", 0, "layers that are dropped"},
    {"encoder_layerdrop", 0, "layers that are dropped"},
    {"kv_lora_rank", 0, "latent attention"},
    {"layerdrop", 0, "layers that are dropped"},
    {"mlp_bias", 0, "biases in its mlps"},
    {"n_routed_experts", 1, "experts"},
    {"num_experts", 1, "experts"},
    {"num_local_experts", 1, "experts"},
    {"num_mtp_layers", 0, "prediction modules"},
    {"num_nextn_predict_layers", 0, "prediction modules"},
    {"qk_layernorm", 0, "norms of heads"},
    {"use_qk_norm", 0, "norms of heads"},
};

static bool has_part(const struct decoder *decoder, const char *part)
{
    if (strcmp(part, "experts") == 0) return decoder->experts.count > 0;
    if (strcmp(part, "latent attention") == 0) return decoder->latent.kv_rank > 0;
    if (strcmp(part, "biases in attention") == 0) return decoder->qkv_bias;
    if (strcmp(part, "biases in its mlps") == 0) return decoder->mlp_bias;
    if (strcmp(part, "norms of heads") == 0) return decoder->head_norms;
    return strcmp(part, "prediction modules") == 0 && decoder->mtp_count > 0;
}

static bool is_on(const struct json *value, double above)
{
    struct err fault = {0};
    if (json_is_number(value)) return json_f64(value, -1e300, 1e300, &fault) > above;
    return json_bool(value, &fault);
}

void family_tell(struct family_reader *reader, const struct decoder *decoder)
{
    if (!reader->warn) return;
    for (size_t i = 0; i < sizeof TELLING / sizeof *TELLING; i++) {
        struct err fault = {0};
        const char *key = TELLING[i].key;
        if (!json_has(reader->object, key) || has_part(decoder, TELLING[i].part)) continue;
        struct json value = json_get(reader->object, key, &fault);
        if (!is_on(&value, TELLING[i].above)) continue;
        reader->warn(reader->context,
                     arena_print(reader->arena, "%s: \"%s\" is not heeded: this %s has no %s",
                                 reader->object->document->path, key, decoder->model_type,
                                 TELLING[i].part));
    }
}

void family_refuse(struct family_reader *reader, const char *model_type)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED && !reader->err->kind; i++) {
        const char *key = REFUSED[i].key, *of = REFUSED[i].model_types;
        bool is_of = !of || (*of == '!' ? !family_is_among(of + 1, model_type)
                                        : family_is_among(of, model_type));
        if (!is_of || !json_has(reader->object, key)) continue;
        struct json value = json_get(reader->object, key, reader->err);
        if (is_refused(&value, REFUSED[i].unless, REFUSED[i].text, reader->err)) {
            json_fail(&value, reader->err, "%s", REFUSED[i].why);
        }
    }
}
