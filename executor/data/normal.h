#pragma once
#include "core/arena.h"

#include <stdint.h>

// What a tokenizer.json does to a text before it is cut: its "normalizer", step by step.

enum normal_kind {
    NORMAL_NFC,      // Unicode's composed form, of the Unicode that `tokenizers` is built with
    NORMAL_PREPEND,  // `text` before what is not empty
    NORMAL_REPLACE,  // every `pattern` by `text`
};
struct normal_step {
    enum normal_kind kind;
    const char *pattern, *text;
};
enum { NORMAL_STEPS_MAX = 8 };

// The text behind all steps, in the arena or as it was; *bytes: how long it was, and is.
const char *normal_apply(struct arena *arena, const struct normal_step *steps, int count,
                         const char *text, int64_t *bytes);
