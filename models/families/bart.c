#include "models/families/bart.h"

#include <assert.h>
#include <math.h>

// BartForConditionalGeneration: encoder and decoder of the same width, norms behind each part, one
// table of tokens for both and the head. What is added to the logits is not trained: a buffer.
// MBartForConditionalGeneration has its norms in front of each part, and one behind the last layer.
// Those of machine translation and dialogue differ in norms and positions: struct bart_kind.

struct bart_kind {
    const char *model_type;
    bool norms_before, embedding_norm;
    int64_t position_offset;   // rows of a table of positions that are never looked up
    enum sinusoids sinusoids;  // in its place
    bool decoder_norm_first;   // the decoder norms its tokens, unscaled, before they get positions
};

static const struct json_field FIELDS[] = {
    BART_FIELDS,
    {JSON_OPT_I64(struct bart, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct bart, encoder_layerdrop, 0, 1)},
    {JSON_OPT_F64(struct bart, decoder_layerdrop, 0, 1)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size d_model max_position_embeddings encoder_layers "
                  "encoder_attention_heads encoder_ffn_dim decoder_layers decoder_attention_heads "
                  "decoder_ffn_dim",
    .optional = BART_OPTIONAL};

struct decoder bart_side(const char *model_type, const struct bart *record, bool is_encoder)
{
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->d_model,
        .layer_count = is_encoder ? record->encoder_layers : record->decoder_layers,
        .head_count =
            is_encoder ? record->encoder_attention_heads : record->decoder_attention_heads,
        .ffn = is_encoder ? record->encoder_ffn_dim : record->decoder_ffn_dim,
        .embedding_scale = record->scale_embedding ? sqrt((double)record->d_model) : 0,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-5,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .bidirectional = is_encoder,
        .tied = true,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->dropout,
        .embedding_dropout = record->dropout,
        .ffn_dropout = record->activation_dropout,
    };
}

bool bart_join(struct family_reader *reader, const struct bart *record, struct decoder *decoder,
               struct decoder *encoder)
{
    decoder->encoder = encoder;
    family_check_heads(reader, decoder, "decoder_attention_heads", "decoder_attention_heads");
    family_check_heads(reader, encoder, "encoder_attention_heads", "encoder_attention_heads");
    if (!reader->err->kind && encoder->head_count != decoder->head_count)
        family_fail(reader, "encoder_attention_heads",
                    "must be as many as decoder_attention_heads: other heads are not supported");
    if (!reader->err->kind && !record->tie_word_embeddings)
        family_fail(reader, "tie_word_embeddings",
                    encoder->sound.place_count > 0
                        ? "must be true for %s"
                        : "must be true for %s: else its class has a table that nothing reads",
                    decoder->model_type);
    if (reader->err->kind) return false;
    assert(decoder->head_count == encoder->head_count && record->tie_word_embeddings);
    decoder->activation = encoder->activation =
        family_activation(reader, "activation_function", record->activation_function);
    return true;
}

static struct decoder describe(const struct bart_kind *kind, const struct bart *record,
                               bool is_encoder)
{
    assert(record->encoder_layers > 0 && record->decoder_layers > 0);
    struct decoder side = bart_side(kind->model_type, record, is_encoder);
    side.seq_len_max = record->max_position_embeddings;
    side.position_count = kind->sinusoids ? 0 : side.seq_len_max + kind->position_offset;
    side.sinusoids = kind->sinusoids;
    if (!is_encoder && kind->decoder_norm_first) side.embedding_scale = 0;
    side.embedding_norm = kind->embedding_norm;
    side.embedding_norm_first = kind->decoder_norm_first && !is_encoder;
    if (!kind->norms_before) side.norm_place = NORM_AFTER;
    side.no_final_norm = !kind->norms_before;
    return side;
}

#define BART_DEFAULTS .activation_function = "gelu", .dropout = 0.1, .tie_word_embeddings = true

// False after an error.
static bool read_sides(struct family_reader *reader, const struct bart_kind *kind,
                       struct bart record, struct decoder *decoder, struct decoder *encoder)
{
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return false;
    *decoder = describe(kind, &record, false);
    *encoder = describe(kind, &record, true);
    return bart_join(reader, &record, decoder, encoder);
}

static const void *read_kind(struct family_reader *reader, const struct bart_kind *kind,
                             struct bart record)
{
    struct decoder decoder, *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    if (!read_sides(reader, kind, record, &decoder, encoder)) return NULL;
    return family_decoder(reader, &decoder);
}

static const void *read_bart(struct family_reader *reader)
{
    const struct bart_kind kind = {"bart", false, true, 2, SINUSOIDS_NONE, false};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

static const void *read_mbart(struct family_reader *reader)
{
    const struct bart_kind kind = {"mbart", true, true, 2, SINUSOIDS_NONE, false};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

// Bart's shapes, pretrained on other tasks.
static const void *read_mvp(struct family_reader *reader)
{
    const struct bart_kind kind = {"mvp", false, true, 2, SINUSOIDS_NONE, false};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

static const void *read_plbart(struct family_reader *reader)
{
    const struct bart_kind kind = {"plbart", false, true, 2, SINUSOIDS_NONE, false};
    struct bart record = {BART_DEFAULTS, .attention_dropout = 0.1, .scale_embedding = true};
    return read_kind(reader, &kind, record);
}

static const void *read_blenderbot(struct family_reader *reader)
{
    const struct bart_kind kind = {"blenderbot", true, false, 0, SINUSOIDS_NONE, false};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

static const void *read_blenderbot_small(struct family_reader *reader)
{
    const struct bart_kind kind = {
        .model_type = "blenderbot-small", .embedding_norm = true, .decoder_norm_first = true};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

static const void *read_marian(struct family_reader *reader)
{
    const struct bart_kind kind = {"marian", false, false, 0, SINUSOIDS_OF_PLACE, false};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

static const void *read_pegasus(struct family_reader *reader)
{
    const struct bart_kind kind = {"pegasus", true, false, 0, SINUSOIDS_OF_PLACE, false};
    return read_kind(reader, &kind, (struct bart){BART_DEFAULTS});
}

// NLLB as well.
static const void *read_m2m_100(struct family_reader *reader)
{
    const struct bart_kind kind = {"m2m_100", true, false, 0, SINUSOIDS_SHIFTED, false};
    struct bart record = {BART_DEFAULTS, .attention_dropout = 0.1, .scale_embedding = true};
    record.activation_function = "relu";
    reader->ledger->remark = "no layer is dropped, whatever is said of it";
    return read_kind(reader, &kind, record);
}

struct nllb_moe {
    int64_t num_experts, encoder_sparse_step, decoder_sparse_step;
    bool router_bias;
};
static const struct json_field NLLB_MOE_FIELDS[] = {
    {JSON_OPT_I64(struct nllb_moe, num_experts, 2, EXPERTS_MAX)},
    {JSON_OPT_I64(struct nllb_moe, encoder_sparse_step, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct nllb_moe, decoder_sparse_step, 0, LAYERS_MAX)},
    {JSON_OPT_BOOL(struct nllb_moe, router_bias)},
    {0},
};

// Of `step` layers the last has experts, of the width of the mlps of its side; by step 0 none has.
static void set_experts(struct family_reader *reader, const struct nllb_moe *own, int64_t step,
                        struct decoder *side)
{
    assert(step >= 0 && side->layer_count > 0);
    bool *is_dense = ARENA_NEW(reader->arena, bool, side->layer_count);
    for (int64_t i = 0; i < side->layer_count; i++)
        is_dense[i] = step == 0 || (i + 1) % step != 0;
    side->experts = (struct experts){.count = own->num_experts,
                                     .top_k = 2,
                                     .ffn = side->ffn,
                                     .route = FUNCTION_ROUTE_SOFTMAX_TOP_K,
                                     .route_bias = own->router_bias,
                                     .expert_bias = true,
                                     .is_dense = is_dense};
    family_check_experts(reader, side, "num_experts", "num_experts");
}

// NLLB's mixture: a token's experts are two, weighed by their scores alone.
static const void *read_nllb_moe(struct family_reader *reader)
{
    const struct bart_kind kind = {"nllb-moe", true, false, 0, SINUSOIDS_SHIFTED, false};
    const struct family_keys keys = {.dimensions =
                                         "num_experts encoder_sparse_step decoder_sparse_step",
                                     .optional = "router_bias"};
    struct bart record = {BART_DEFAULTS, .attention_dropout = 0.1, .scale_embedding = true};
    struct nllb_moe own = {.encoder_sparse_step = -1, .decoder_sparse_step = -1};
    struct decoder decoder, *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    record.activation_function = "relu";
    family_read(reader, NLLB_MOE_FIELDS, &own);
    family_absent(reader, NLLB_MOE_FIELDS, &own, &keys);
    if (!read_sides(reader, &kind, record, &decoder, encoder)) return NULL;
    set_experts(reader, &own, own.encoder_sparse_step, encoder);
    set_experts(reader, &own, own.decoder_sparse_step, &decoder);
    reader->ledger->remark = "no layer is dropped, and no result of experts; "
                             "--capacity-factor says what experts have room for";
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_NLLB_MOE = {"nllb-moe", read_nllb_moe, decoder_graph,
                                             "NllbMoeConfig"};
const struct model_family FAMILY_MVP = {"mvp", read_mvp, decoder_graph, "MvpConfig"};
const struct model_family FAMILY_MBART = {"mbart", read_mbart, decoder_graph, "MBartConfig"};
const struct model_family FAMILY_BART = {"bart", read_bart, decoder_graph, "BartConfig"};
const struct model_family FAMILY_PLBART = {"plbart", read_plbart, decoder_graph, "PLBartConfig"};
const struct model_family FAMILY_BLENDERBOT = {"blenderbot", read_blenderbot, decoder_graph,
                                               "BlenderbotConfig"};
const struct model_family FAMILY_BLENDERBOT_SMALL = {"blenderbot-small", read_blenderbot_small,
                                                     decoder_graph, "BlenderbotSmallConfig"};
const struct model_family FAMILY_MARIAN = {"marian", read_marian, decoder_graph, "MarianConfig"};
const struct model_family FAMILY_PEGASUS = {"pegasus", read_pegasus, decoder_graph,
                                            "PegasusConfig"};
const struct model_family FAMILY_M2M_100 = {"m2m_100", read_m2m_100, decoder_graph, "M2M100Config"};
