#pragma once
#include "executor/data/bpe.h"
#include "executor/data/tokenizer.h"
#include "executor/data/words.h"

// What a tokenizer is made of: executor/data/tokenizer*.c share it.

// A text that is a token wherever it stands, before words are cut.
struct added_token {
    const char *text;
    int64_t bytes;
    int32_t id;
    bool is_normalized;  // found after the others, between them
};

struct tokenizer {
    struct arena *arena;
    struct bpe *bpe;  // NULL: bytes
    enum words_pattern pattern;
    bool takes_whole;        // "ignore_merges"
    bool adds_prefix_space;  // to what does not begin with one
    struct added_token *added;
    int added_count;
    int32_t vocab;
    int32_t *ids;  // of a word
    int64_t room;
};

// executor/data/tokenizer_file.c
MUST_CHECK bool tokenizer_read(struct tokenizer *tokenizer, const char *path, struct err *err);
