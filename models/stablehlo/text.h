#pragma once
#include "core/err.h"
#include "models/onnx/draft.h"

// The text of MLIR as tokens. Brackets are matched once, so that what follows may jump over them.

enum hlo_kind {
    HLO_END,
    HLO_WORD,    // stablehlo.add, 2x16xf32, -1.0e+00
    HLO_VALUE,   // %0, %0#1, %0:2 is three
    HLO_SYMBOL,  // @main
    HLO_HASH,    // #loc1
    HLO_STRING,  // with its quotes
    HLO_MARK,    // one character, or ->
};

struct hlo_token {
    enum hlo_kind kind;
    const char *start;
    size_t length;
    int partner;  // of a bracket: the other one
};

struct hlo_text {
    struct arena *arena;
    const char *path, *bytes;
    size_t byte_count;
    struct hlo_token *tokens;  // the last one is HLO_END
    int token_count, token_room;
    struct err *err;
};

// False and an error where a character has no place or a bracket no partner.
MUST_CHECK bool hlo_text_read(struct hlo_text *text);

// "PATH:LINE:COLUMN: " before it. Always false.
bool hlo_text_fail(const struct hlo_text *text, int token, const char *format, ...)
    PRINTF_LIKE(3, 4);
bool hlo_text_is(const struct hlo_text *text, int token, const char *wanted);
// A copy of the token; of a string what is between its quotes.
const char *hlo_text_copy(const struct hlo_text *text, int token);
bool hlo_text_expect(const struct hlo_text *text, int token, const char *wanted);
// A number, 0x... as the bits of a float of that type where `element` is one. False: it is none.
bool hlo_text_number(const struct hlo_text *text, int token, enum onnx_element element,
                     double *number);

// tensor<2x16xf32> at *token, which goes behind it. False and an error: it is another type, or a
// dimension has no value.
MUST_CHECK bool hlo_text_type(const struct hlo_text *text, int *token, struct draft_value *type);
