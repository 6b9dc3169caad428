#include "models/families/family.h"

#include <assert.h>

// DistilBertForMaskedLM: bert without token types, under keys of its own.

struct distilbert {
    struct decoder decoder;
    const char *activation;
};

// transformers maps its generic names onto the family's own.
static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("dim", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("n_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("hidden_dim", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct distilbert, activation)},
    {DECODER_F64("dropout", embedding_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size dim n_layers n_heads hidden_dim max_position_embeddings",
    .optional = "activation dropout attention_dropout tie_word_embeddings"};

static const void *read_distilbert(struct family_reader *reader)
{
    struct distilbert record = {.decoder.model_type = "distilbert",
                                .decoder.embedding_norm = true,
                                .decoder.norm_place = NORM_AFTER,
                                .decoder.norm = FUNCTION_LAYER_NORM,
                                .decoder.norm_epsilon = 1e-12,
                                .decoder.no_final_norm = true,
                                .decoder.qkv_bias = true,
                                .decoder.out_bias = true,
                                .decoder.mlp_bias = true,
                                .decoder.bidirectional = true,
                                .decoder.masked_head = true,
                                .decoder.attention_adds_all = true,
                                .activation = "gelu",
                                .decoder.embedding_dropout = 0.1,
                                .decoder.attention_dropout = 0.1,
                                .decoder.tied = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    assert(decoder.seq_len_max > 0);
    decoder.position_count = decoder.seq_len_max;
    decoder.hidden_dropout = decoder.embedding_dropout;
    const char *head_key = family_key(reader, "n_heads", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    decoder.activation = family_activation(reader, "activation", record.activation);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_DISTILBERT = {"distilbert", read_distilbert, decoder_graph,
                                               "DistilBertConfig"};
