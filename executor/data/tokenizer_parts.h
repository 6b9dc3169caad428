#pragma once
#include "core/json.h"
#include "executor/data/bpe.h"
#include "executor/data/normal.h"
#include "executor/data/tokenizer.h"
#include "executor/data/words.h"

// What a tokenizer is made of: executor/data/tokenizer*.c share it.

// A text that is a token wherever it stands, before words are cut.
struct added_token {
    const char *name;  // as the file has it
    const char *text;  // that is looked for
    int64_t bytes;
    int32_t id;
    bool is_normalized;  // found after the others, between them
};

// What BPE is given of a text.
enum cut {
    CUT_PATTERN,    // words of `pattern`
    CUT_NOTHING,    // all of it
    CUT_METASPACE,  // spaces are `literal`; words begin with it, or there is one (`is_joined`)
    CUT_SPACES,     // what stands between spaces
    CUT_WORDS,      // the same, letters apart from other characters
    CUT_BEHIND,     // words end with `literal`
    CUT_BEFORE,     // or begin with it
    CUT_OUT,        // or are what stands between
    CUT_APART,      // and `literal` is a word
};
enum prefix { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS };  // FIRST: at the beginning of a text

struct tokenizer {
    struct arena *arena;
    struct bpe *bpe;  // NULL: bytes
    enum cut cut;
    enum words_pattern pattern;
    const char *literal;
    enum prefix prefix;  // of CUT_METASPACE: `literal`, to what does not begin with it
    bool is_joined;
    bool is_of_bytes;  // tokens are bytes, written as characters that stand for them
    struct normal_step normal[NORMAL_STEPS_MAX];
    int normal_count;
    const char *begin;  // of the text that is encoded, as it is cut; NULL behind its first piece
    bool takes_whole;   // "ignore_merges"
    bool adds_prefix_space;  // to what does not begin with one
    struct added_token *added;
    int added_count;
    int32_t vocab;
    int32_t *ids;  // of a word
    int64_t room;
};

// executor/data/tokenizer_file.c
MUST_CHECK bool tokenizer_read(struct tokenizer *tokenizer, const char *path, struct err *err);
// A member that has to be absent, null, false, or "".
MUST_CHECK bool tokenizer_is_unset(const struct json *object, const char *key, struct err *err);
// executor/data/tokenizer_cuts.c: "normalizer" and "pre_tokenizer".
MUST_CHECK bool tokenizer_read_cuts(struct tokenizer *tokenizer, const struct json *root,
                                    struct err *err);
