#include "models/families/llama_like.h"

// Baichuan and Baichuan 2 (modeling_baichuan.py of the releases): llama, whose q, k and v are one
// matrix there. The models of 13 B add a slope by distance to their scores in place of rope; their
// configs have model_max_length and no max_position_embeddings, those of 7 B both.

struct lengths {
    int64_t model_max_length;
};
static const struct json_field LENGTH_FIELDS[] = {
    {JSON_OPT_I64(struct lengths, model_max_length, 1, POSITIONS_MAX)},
    {0},
};

// What Baichuan 2 has for its vocabulary, and norms the rows of its head.
enum { SECOND_VOCAB = 125696 };

static const void *read_baichuan(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 4096,
                                .optional = "hidden_act rms_norm_eps"};
    struct lengths lengths = {0};
    bool has_slopes = json_has(reader->object, "model_max_length") &&
                      !json_has(reader->object, "max_position_embeddings");
    if (!has_slopes && !json_has(reader->object, "max_position_embeddings"))
        family_missing(reader, LENGTH_FIELDS, "model_max_length");
    if (has_slopes) {
        family_read(reader, LENGTH_FIELDS, &lengths);
        record.max_position_embeddings = lengths.model_max_length;
    }
    llama_like_read(reader, &record);
    record.num_key_value_heads = record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, "baichuan", &record);
    if (has_slopes) {
        decoder.alibi = 1;
        decoder.rope_theta = 0;
    }
    if (record.vocab_size == SECOND_VOCAB)
        reader->ledger->remark = "the rows of the head are not normed; the work is the same";
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_BAICHUAN = {"baichuan", read_baichuan, decoder_graph,
                                             "BaichuanConfig"};
