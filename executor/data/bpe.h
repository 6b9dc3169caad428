#pragma once
#include "core/arena.h"

#include <stdint.h>

// Byte pair encoding of one word (Sennrich, Haddow and Birch 2016), on bytes: the pair of lowest
// rank is merged, of several the leftmost, until none is left that has a rank.

struct bpe;

// For so many tokens and merges.
struct bpe *bpe_new(struct arena *arena, int token_count, int merge_count);
// `text` stays the caller's. Ids are >= 0, of all tokens before the first merge.
void bpe_add(struct bpe *bpe, const char *text, int64_t bytes, int32_t id);
int32_t bpe_find(const struct bpe *bpe, const char *text, int64_t bytes);  // -1: no such token
// Ranks are in the order of the calls; a pair that comes again keeps its last. False where what
// the two make together is no token.
MUST_CHECK bool bpe_merge(struct bpe *bpe, int32_t left, int32_t right);

// Symbols are characters of UTF-8 from now on, in place of bytes. One that is no token is those of
// its bytes, "<0x41>", where they are tokens and `has_bytes`, else `unknown` (-1: left out), and of
// several in a row one where they are `fused`.
void bpe_of_characters(struct bpe *bpe, bool has_bytes, int32_t unknown, bool fused);

// Ids of a word of `bytes` > 0 bytes, each of which has to be a token where those are symbols: at
// most as many as bytes, returned how many. `takes_whole`: a word that is a token is that one,
// whatever its merges say.
int64_t bpe_encode(struct bpe *bpe, const char *word, int64_t bytes, bool takes_whole,
                   int32_t *ids);
