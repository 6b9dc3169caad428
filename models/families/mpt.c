#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// Alibi, gelu, and no biases at all, not in the norms either.

struct mpt {
    struct decoder decoder;
    int64_t expansion_ratio;
    bool alibi, qk_ln, prefix_lm;
    double alibi_bias_max, clip_qkv;
    const char *attn_type;
};

// transformers maps its generic names onto the family's own.
static const struct json_field FIELDS[] = {
    {DECODER_I64("d_model", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("n_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("max_seq_len", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct mpt, expansion_ratio, 4, 4)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("attn_config")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field ATTENTION_FIELDS[] = {
    {JSON_OPT_BOOL(struct mpt, alibi)},
    {JSON_OPT_BOOL(struct mpt, qk_ln)},
    {JSON_OPT_BOOL(struct mpt, prefix_lm)},
    {JSON_OPT_TEXT(struct mpt, attn_type)},
    {JSON_OPT_F64(struct mpt, alibi_bias_max, 1, 1e6)},
    {JSON_OPT_F64(struct mpt, clip_qkv, 0, 1e6)},
    {DECODER_F64("attn_pdrop", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("softmax_scale", score_factor, 1e-6, 1e6)},
    {0},
};

static const struct family_keys KEYS = {.dimensions = "d_model n_heads n_layers vocab_size",
                                        .optional =
                                            "max_seq_len layer_norm_epsilon tie_word_embeddings"};

// The class adds alibi whatever the key says, and what else the key could say it does not read.
static void check_attention(struct family_reader *reader, const struct mpt *record)
{
    static const double SLOPES = 8;  // of what alibi's kernel computes
    if (reader->err->kind) return;
    if (!record->alibi || record->alibi_bias_max != SLOPES) {
        family_fail(reader, "attn_config", "alibi must be true and alibi_bias_max 8 for mpt");
    } else if (record->qk_ln || record->clip_qkv > 0 || record->prefix_lm) {
        family_fail(
            reader, "attn_config",
            "qk_ln, clip_qkv and prefix_lm are not supported: the class does not heed them");
    } else if (strcmp(record->attn_type, "multihead_attention") != 0) {
        family_fail(reader, "attn_config", "attn_type must be \"multihead_attention\" for mpt");
    }
}

static void read_attention(struct family_reader *reader, struct mpt *record)
{
    static const struct family_keys ATTENTION_KEYS = {.optional = "attn_pdrop",
                                                      .optional_or_null = "softmax_scale"};
    if (reader->err->kind) return;
    struct json attention = *reader->object;
    bool is_there = json_has(reader->object, "attn_config");
    if (is_there) attention = json_get(reader->object, "attn_config", reader->err);
    struct family_reader inner = *reader;
    inner.object = &attention;
    inner.prefix = "attn_config.";
    if (is_there) family_read(&inner, ATTENTION_FIELDS, record);
    family_absent(&inner, ATTENTION_FIELDS, record, &ATTENTION_KEYS);
}

static const void *read_mpt(struct family_reader *reader)
{
    struct mpt record = {.decoder.model_type = "mpt",
                         .decoder.norm = FUNCTION_LAYER_NORM,
                         .decoder.norm_is_unbiased = true,
                         .decoder.activation = FUNCTION_GELU,
                         .decoder.alibi = 1,
                         .decoder.seq_len_max = 2048,
                         .decoder.norm_epsilon = 1e-5,
                         .decoder.tied = true,
                         .alibi = true,
                         .alibi_bias_max = 8,
                         .attn_type = "multihead_attention"};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    read_attention(reader, &record);
    check_attention(reader, &record);
    if (!family_complete(reader)) return NULL;
    enum { EXPANSION = 4 };  // the class has no other
    struct decoder decoder = record.decoder;
    assert(decoder.hidden > 0);
    decoder.ffn = EXPANSION * decoder.hidden;
    decoder.hidden_dropout = decoder.attention_dropout;  // the class reads no other
    const char *head_key = family_key(reader, "n_heads", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MPT = {"mpt", read_mpt, decoder_graph, "MptConfig"};
