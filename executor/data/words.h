#pragma once
#include <stdbool.h>
#include <stdint.h>

// Cutting a text into words before BPE, as the regular expressions of gpt2 and others do.

enum words_pattern { WORDS_GPT2, WORDS_LLAMA3, WORDS_QWEN2, WORDS_PATTERN_COUNT };

// Of an expression; WORDS_PATTERN_COUNT: none of those that are known.
enum words_pattern words_find(const char *expression);

// The bytes of the word that begins at `text`, of `bytes` > 0 bytes of UTF-8 (core/plain.h has
// looked). What is behind `bytes` is not looked at.
int64_t words_next(enum words_pattern pattern, const char *text, int64_t bytes);
// The bytes of the next word between spaces, which are left out, and in *skipped those before it;
// 0: there is none. `cuts`: what is of words (letters, marks, digits, "_") apart from what is not.
int64_t words_between_spaces(const char *text, int64_t bytes, bool cuts, int64_t *skipped);
