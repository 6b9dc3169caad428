#pragma once
#include "core/err.h"

#include <stdint.h>

// Text to token ids: bytes as they are, or BPE from a tokenizer.json of Hugging Face's
// `tokenizers`, with the same ids (that library without special tokens put around a text).
//
// Of tokenizer.json known are: model BPE; normalizers NFC, Prepend, Replace of a text, and rows of
// them; pre-tokenizers ByteLevel, alone or behind a Split by one of the patterns of
// executor/data/words.c (gpt2, llama-3, qwen2), and over characters Metaspace, Whitespace,
// WhitespaceSplit, Split at a text, or none (llama-2, mistral, gemma), with unknown characters as
// bytes, as one token or left out; added tokens. All else is refused where it stands.

struct tokenizer;

// "bytes", or the path of a tokenizer.json. NULL and ERR_INPUT where that is wrong.
MUST_CHECK struct tokenizer *tokenizer_open(struct arena *arena, const char *name, struct err *err);
int32_t tokenizer_vocab(const struct tokenizer *tokenizer);
// The id of an added token; -1: there is none of this text.
int32_t tokenizer_added(const struct tokenizer *tokenizer, const char *text);

// Calls `put` with the ids of a text, some at a time. False where the text is no UTF-8, with the
// byte at which it is not in *fault; bytes are never at fault.
struct tokenizer_sink {
    void (*put)(void *context, const int32_t *ids, int64_t count);
    void *context;
};
MUST_CHECK bool tokenizer_encode(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                                 struct tokenizer_sink sink, int64_t *fault);
