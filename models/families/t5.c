#include "models/families/family.h"

#include <math.h>
#include <string.h>

// T5ForConditionalGeneration: rms norms before each part, no biases, no positions but the numbers
// that scores get by distance, and no factor on scores. The first releases tie the head to the
// table of tokens and scale what it reads; t5 1.1 does not, and has a gate in its mlps.

struct t5 {
    int64_t vocab_size, d_model, d_kv, d_ff, num_layers, num_decoder_layers, num_heads;
    int64_t relative_attention_num_buckets, relative_attention_max_distance, n_positions;
    const char *feed_forward_proj;
    double dropout_rate, layer_norm_epsilon;
    bool tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct t5, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct t5, d_model, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct t5, d_kv, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct t5, d_ff, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct t5, num_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct t5, num_decoder_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct t5, num_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct t5, relative_attention_num_buckets, 4, 4096)},
    {JSON_OPT_I64(struct t5, relative_attention_max_distance, 2, POSITIONS_MAX)},
    {JSON_OPT_I64(struct t5, n_positions, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct t5, feed_forward_proj)},
    {JSON_OPT_F64(struct t5, dropout_rate, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct t5, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_BOOL(struct t5, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size d_model d_kv d_ff num_layers num_heads",
    .optional = "relative_attention_num_buckets relative_attention_max_distance feed_forward_proj "
                "dropout_rate layer_norm_epsilon tie_word_embeddings n_positions"};

// "relu", "gated-gelu": the function, and whether a gate is in front of it. The class means the
// approximation by tanh where it says gated-gelu.
static void read_mlp(struct family_reader *reader, const struct t5 *record, struct decoder *decoder)
{
    static const char GATED[] = "gated-";
    const char *name = record->feed_forward_proj;
    decoder->gated = strncmp(name, GATED, strlen(GATED)) == 0;
    if (decoder->gated) name += strlen(GATED);
    if (decoder->gated && strcmp(name, "gelu") == 0) name = "gelu_new";
    decoder->activation = family_activation(reader, "feed_forward_proj", name);
}

// Buckets of the encoder are for both directions: half of them each, half of those for single
// distances, the rest for ranges up to the last.
static bool check_buckets(struct family_reader *reader, const struct t5 *record)
{
    int64_t buckets = record->relative_attention_num_buckets;
    if (buckets % 4 != 0)
        return family_fail(reader, "relative_attention_num_buckets", "must be a multiple of 4");
    if (record->relative_attention_max_distance > buckets / 2) return true;
    return family_fail(reader, "relative_attention_max_distance",
                       "must be above half of relative_attention_num_buckets, %lld",
                       (long long)(buckets / 2));
}

static struct decoder describe(const struct t5 *record)
{
    return (struct decoder){
        .model_type = "t5",
        .vocab = record->vocab_size,
        .hidden = record->d_model,
        .layer_count = record->num_decoder_layers ? record->num_decoder_layers : record->num_layers,
        .head_count = record->num_heads,
        .head_dim = record->d_kv,
        .ffn = record->d_ff,
        .seq_len_max = record->n_positions,
        .relative = {.bucket_count = record->relative_attention_num_buckets,
                     .distance = record->relative_attention_max_distance},
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->layer_norm_epsilon,
        .score_factor = 1,
        .tied = record->tie_word_embeddings,
        .logit_scale = record->tie_word_embeddings ? 1 / sqrt((double)record->d_model) : 0,
        .attention_dropout = record->dropout_rate,
        .hidden_dropout = record->dropout_rate,
        .embedding_dropout = record->dropout_rate,
        .ffn_dropout = record->dropout_rate,
        .final_dropout = record->dropout_rate,
    };
}

static const void *read_t5(struct family_reader *reader)
{
    struct t5 record = {.relative_attention_num_buckets = 32,
                        .relative_attention_max_distance = 128,
                        .feed_forward_proj = "relu",
                        .dropout_rate = 0.1,
                        .layer_norm_epsilon = 1e-6,
                        .n_positions = 512,
                        .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader) || !check_buckets(reader, &record)) return NULL;
    if (record.num_decoder_layers == 0)
        family_taken(reader, "num_decoder_layers", "%lld (num_layers)",
                     (long long)record.num_layers);
    struct decoder decoder = describe(&record);
    family_check_heads(reader, &decoder, "num_heads", "num_heads");
    read_mlp(reader, &record, &decoder);
    if (reader->err->kind) return NULL;
    struct decoder *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    *encoder = decoder;
    encoder->layer_count = record.num_layers;
    encoder->bidirectional = true;
    decoder.encoder = encoder;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_T5 = {"t5", read_t5, decoder_graph, "T5Config"};
