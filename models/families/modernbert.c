#include "models/families/llama_like.h"

#include <assert.h>

// ModernBertForMaskedLM (Warner et al. 2024, arXiv 2412.13663): an encoder with rope and gated
// mlps. Of three layers two look at neighbours alone, half of local_attention on either side, and
// rotate by a base of their own. Attention of the first layer reads the embedding's norm itself.

struct modernbert {
    int64_t local_attention, global_attn_every_n_layers;
    double global_rope_theta, local_rope_theta, embedding_dropout, mlp_dropout;
    bool norm_bias, classifier_bias;
    const char *classifier_activation;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct modernbert, local_attention, 2, POSITIONS_MAX)},
    {JSON_OPT_I64(struct modernbert, global_attn_every_n_layers, 1, LAYERS_MAX)},
    {JSON_OPT_F64(struct modernbert, global_rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct modernbert, local_rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct modernbert, embedding_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct modernbert, mlp_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct modernbert, norm_bias)},
    {JSON_OPT_BOOL(struct modernbert, classifier_bias)},
    {JSON_OPT_TEXT(struct modernbert, classifier_activation)},
    {0},
};

// Transformers 5 writes the bases and the kinds of layers in objects of their own.
static void note_absent(struct family_reader *reader, const struct modernbert *own)
{
    bool has_rope = json_has(reader->object, "rope_parameters");
    bool has_types = json_has(reader->object, "layer_types");
    const struct family_keys keys = {
        .dimensions = "local_attention",
        .optional = arena_print(reader->arena,
                                "embedding_dropout mlp_dropout norm_bias classifier_bias "
                                "classifier_activation%s%s",
                                has_rope ? "" : " global_rope_theta local_rope_theta",
                                has_types ? "" : " global_attn_every_n_layers")};
    family_absent(reader, FIELDS, own, &keys);
}

static const bool *local_layers(struct family_reader *reader, const struct llama_like *record,
                                int64_t every)
{
    assert(every > 0);
    if (record->is_local) return record->is_local;
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i++)
        is_local[i] = i % every != 0;
    return is_local;
}

// A decoder's window is half, its own token among it.
static void set_attention(struct family_reader *reader, const struct llama_like *record,
                          const struct modernbert *own, struct decoder *decoder)
{
    assert(own->local_attention >= 2);
    bool has_rope = json_has(reader->object, "rope_parameters");
    decoder->qkv_bias = decoder->out_bias = record->attention_bias;
    decoder->window = own->local_attention / 2 + (decoder->bidirectional ? 1 : 0);
    decoder->has_window = local_layers(reader, record, own->global_attn_every_n_layers);
    decoder->rope_theta = has_rope ? record->rope_theta : own->global_rope_theta;
    decoder->rope_theta_local = has_rope ? record->rope_local_base_freq : own->local_rope_theta;
}

static void set_head(struct family_reader *reader, const struct modernbert *own,
                     struct decoder *decoder)
{
    decoder->masked_head = true;
    decoder->masked_head_is_unbiased = !own->classifier_bias;
    if (reader->err->kind) return;
    enum function head =
        family_activation(reader, "classifier_activation", own->classifier_activation);
    if (head != decoder->activation) {
        family_fail(reader, "classifier_activation",
                    "must be hidden_activation: another one of the head is not supported");
    }
}

static const void *read_as(struct family_reader *reader, const char *model_type, bool is_encoder)
{
    struct modernbert own = {.global_attn_every_n_layers = 3,
                             .global_rope_theta = 160000,
                             .local_rope_theta = 10000,
                             .classifier_activation = "gelu"};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 8192,
                                .hidden_activation = "gelu",
                                .tie_word_embeddings = true,
                                .lacks_rope = true,
                                .optional = "hidden_activation norm_eps attention_bias mlp_bias"};
    record.rope_theta = 160000;
    record.rope_local_base_freq = 10000;
    llama_like_read(reader, &record);
    family_read(reader, FIELDS, &own);
    note_absent(reader, &own);
    struct decoder decoder = llama_like_decoder(reader, model_type, &record);
    if (reader->err->kind) return NULL;
    decoder.activation = family_activation(reader, "hidden_activation", record.hidden_activation);
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = record.norm_eps;
    decoder.norm_is_unbiased = !own.norm_bias;
    decoder.embedding_norm = decoder.first_is_unnormed = true;
    decoder.mlp_bias = record.mlp_bias;
    decoder.embedding_dropout = own.embedding_dropout;
    decoder.hidden_dropout = 0;
    decoder.ffn_dropout = own.mlp_dropout;
    decoder.bidirectional = is_encoder;
    set_attention(reader, &record, &own, &decoder);
    set_head(reader, &own, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_modernbert(struct family_reader *reader)
{
    return read_as(reader, "modernbert", true);
}

// The same layers, each token looking at those in front of it.
static const void *read_modernbert_decoder(struct family_reader *reader)
{
    return read_as(reader, "modernbert-decoder", false);
}

const struct model_family FAMILY_MODERNBERT_DECODER = {
    "modernbert-decoder", read_modernbert_decoder, decoder_graph, "ModernBertDecoderConfig"};
const struct model_family FAMILY_MODERNBERT = {"modernbert", read_modernbert, decoder_graph,
                                               "ModernBertConfig"};
