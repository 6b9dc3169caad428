#pragma once
#include "models/families/family.h"

// What encoders of bert's kind have in common: models/families/bert.c reads it, and its relatives
// change what differs.

struct bert {
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t max_position_embeddings, type_vocab_size;
    const char *hidden_act;
    double layer_norm_eps, hidden_dropout_prob, attention_probs_dropout_prob;
    bool tie_word_embeddings;
    // Of the family: keys besides that may be left out, and whether there is no table of positions,
    // or none of kinds of tokens.
    bool lacks_positions, lacks_types;
};

#define BERT_DEFAULTS                                                    \
    .type_vocab_size = 2, .hidden_act = "gelu", .layer_norm_eps = 1e-12, \
    .hidden_dropout_prob = 0.1, .attention_probs_dropout_prob = 0.1, .tie_word_embeddings = true

// The decoder, of no use after an error; `record` holds the defaults.
struct decoder bert_read(struct family_reader *reader, const char *model_type, struct bert *record);
// Roberta numbers its tokens from 2 on, behind the padding's number: that many rows of its table
// are for no token. Its head has gelu whatever the layers have.
void bert_start_behind_padding(struct family_reader *reader, struct decoder *decoder);
// Norms in front of what they were behind: nothing norms the embedding, and one norm is last.
void bert_norm_before(struct decoder *decoder);
void bert_want_gelu(struct family_reader *reader, const struct decoder *decoder);
