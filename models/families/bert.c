#include "models/families/bert.h"

#include <assert.h>

// BertForMaskedLM: no pooler; the head has a dense layer, a norm and a bias over the vocabulary.

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct bert, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct bert, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct bert, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct bert, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct bert, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct bert, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct bert, type_vocab_size, 0, VOCAB_MAX)},
    {JSON_OPT_TEXT(struct bert, hidden_act)},
    {JSON_OPT_F64(struct bert, layer_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct bert, hidden_dropout_prob, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct bert, attention_probs_dropout_prob, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct bert, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// What a family lacks it need not say anything of.
static void note_absent(struct family_reader *reader, const struct bert *record)
{
    const struct family_keys keys = {
        .dimensions = arena_print(reader->arena,
                                  "vocab_size hidden_size num_hidden_layers num_attention_heads "
                                  "intermediate_size%s",
                                  record->lacks_positions ? "" : " max_position_embeddings"),
        .optional = arena_print(reader->arena,
                                "hidden_act layer_norm_eps hidden_dropout_prob "
                                "attention_probs_dropout_prob tie_word_embeddings%s%s",
                                record->lacks_positions ? " max_position_embeddings" : "",
                                record->lacks_types ? "" : " type_vocab_size")};
    family_absent(reader, FIELDS, record, &keys);
}

static struct decoder describe(const char *model_type, const struct bert *record)
{
    assert(record->hidden_size > 0 && record->num_hidden_layers > 0);
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .ffn = record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .position_count = record->lacks_positions ? 0 : record->max_position_embeddings,
        .type_count = record->lacks_types ? 0 : record->type_vocab_size,
        .embedding_norm = true,
        .norm_place = NORM_AFTER,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_eps,
        .no_final_norm = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .bidirectional = true,
        .tied = record->tie_word_embeddings,
        .masked_head = true,
        .attention_dropout = record->attention_probs_dropout_prob,
        .hidden_dropout = record->hidden_dropout_prob,
        .embedding_dropout = record->hidden_dropout_prob,
    };
}

struct decoder bert_read(struct family_reader *reader, const char *model_type, struct bert *record)
{
    family_read(reader, FIELDS, record);
    note_absent(reader, record);
    if (!family_complete(reader)) return (struct decoder){0};
    assert(record->lacks_positions || record->max_position_embeddings > 0);
    struct decoder decoder = describe(model_type, record);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    decoder.activation = family_activation(reader, "hidden_act", record->hidden_act);
    return decoder;
}

static struct decoder read_as(struct family_reader *reader, const char *model_type)
{
    struct bert record = {BERT_DEFAULTS};
    return bert_read(reader, model_type, &record);
}

static const void *read_bert(struct family_reader *reader)
{
    struct decoder decoder = read_as(reader, "bert");
    return family_decoder(reader, &decoder);
}

void bert_start_behind_padding(struct family_reader *reader, struct decoder *decoder)
{
    enum { FIRST_POSITION = 2 };
    if (reader->err->kind) return;
    decoder->seq_len_max = decoder->position_count - FIRST_POSITION;
    if (decoder->seq_len_max < 1)
        family_fail(reader, "max_position_embeddings",
                    "must be above %d: the first rows are for no token", FIRST_POSITION);
}

// Heads that have a function of their own: the record has one for both.
void bert_want_gelu(struct family_reader *reader, const struct decoder *decoder)
{
    if (!reader->err->kind && decoder->activation != FUNCTION_GELU)
        family_fail(reader, "hidden_act", "must be \"gelu\" for %s, whose head has it",
                    decoder->model_type);
}

static struct decoder read_roberta_decoder(struct family_reader *reader, const char *model_type)
{
    struct decoder decoder = read_as(reader, model_type);
    bert_start_behind_padding(reader, &decoder);
    bert_want_gelu(reader, &decoder);
    return decoder;
}

static const void *read_roberta_as(struct family_reader *reader, const char *model_type)
{
    struct decoder decoder = read_roberta_decoder(reader, model_type);
    return family_decoder(reader, &decoder);
}

static const void *read_roberta(struct family_reader *reader)
{
    return read_roberta_as(reader, "roberta");
}

static const void *read_xlm_roberta(struct family_reader *reader)
{
    return read_roberta_as(reader, "xlm-roberta");
}

static const void *read_camembert(struct family_reader *reader)
{
    return read_roberta_as(reader, "camembert");
}

static const void *read_data2vec_text(struct family_reader *reader)
{
    return read_roberta_as(reader, "data2vec-text");
}

// Roberta, whose class can compute in whole numbers behind its training.
static const void *read_ibert(struct family_reader *reader)
{
    return read_roberta_as(reader, "ibert");
}

static const void *read_ernie(struct family_reader *reader)
{
    struct decoder decoder = read_as(reader, "ernie");
    return family_decoder(reader, &decoder);
}

void bert_norm_before(struct decoder *decoder)
{
    decoder->embedding_norm = decoder->no_final_norm = false;
    decoder->norm_place = NORM_BEFORE;
}

static const void *read_megatron_bert(struct family_reader *reader)
{
    struct decoder decoder = read_as(reader, "megatron-bert");
    bert_norm_before(&decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_xlm_roberta_xl(struct family_reader *reader)
{
    struct decoder decoder = read_roberta_decoder(reader, "xlm-roberta-xl");
    bert_norm_before(&decoder);
    return family_decoder(reader, &decoder);
}

// The norm of its embeddings stays.
static const void *read_roberta_prelayernorm(struct family_reader *reader)
{
    struct decoder decoder = read_roberta_decoder(reader, "roberta-prelayernorm");
    bert_norm_before(&decoder);
    decoder.embedding_norm = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_BERT = {"bert", read_bert, decoder_graph, "BertConfig"};
const struct model_family FAMILY_ROBERTA = {"roberta", read_roberta, decoder_graph,
                                            "RobertaConfig"};
const struct model_family FAMILY_XLM_ROBERTA = {"xlm-roberta", read_xlm_roberta, decoder_graph,
                                                "XLMRobertaConfig"};
const struct model_family FAMILY_CAMEMBERT = {"camembert", read_camembert, decoder_graph,
                                              "CamembertConfig"};
const struct model_family FAMILY_DATA2VEC_TEXT = {"data2vec-text", read_data2vec_text,
                                                  decoder_graph, "Data2VecTextConfig"};
const struct model_family FAMILY_IBERT = {"ibert", read_ibert, decoder_graph, "IBertConfig"};
const struct model_family FAMILY_ERNIE = {"ernie", read_ernie, decoder_graph, "ErnieConfig"};
const struct model_family FAMILY_MEGATRON_BERT = {"megatron-bert", read_megatron_bert,
                                                  decoder_graph, "MegatronBertConfig"};
const struct model_family FAMILY_XLM_ROBERTA_XL = {"xlm-roberta-xl", read_xlm_roberta_xl,
                                                   decoder_graph, "XLMRobertaXLConfig"};
const struct model_family FAMILY_ROBERTA_PRELAYERNORM = {
    "roberta-prelayernorm", read_roberta_prelayernorm, decoder_graph, "RobertaPreLayerNormConfig"};
