#include "models/stablehlo/text.h"

#include "core/plain.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MOST = 1 << 26 };

bool hlo_text_fail(const struct hlo_text *text, int token, const char *format, ...)
{
    assert(token >= 0 && token <= text->token_count);
    va_list args;
    va_start(args, format);
    const char *said = arena_vprint(text->arena, format, args);
    va_end(args);
    const char *end = text->bytes + text->byte_count;
    const char *place = text->token_count ? text->tokens[token].start : end;
    int line = 1, column = 1;
    for (const char *at = text->bytes; at < place; at++) {
        column = *at == '\n' ? 1 : column + 1;
        line += *at == '\n';
    }
    return err_set(text->err, ERR_INPUT, "%s:%d:%d: %s", text->path, line, column, said);
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

// The sign of an exponent, which is a part of its number: 1.0e-05.
static bool is_exponent_sign(const char *start, const char *at)
{
    bool is_decimal = isdigit((unsigned char)*start) || *start == '-';
    bool is_hex = start[0] == '0' && at > start + 1 && start[1] == 'x';
    return (*at == '-' || *at == '+') && is_decimal && !is_hex && at > start &&
           (at[-1] == 'e' || at[-1] == 'E');
}

static const char *word_end(const char *start, const char *at, const char *end)
{
    while (at < end && (is_letter(*at) || is_exponent_sign(start, at)))
        at++;
    return at;
}

static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"' && *at != '\n'; at++)
        at += *at == '\\' && at + 1 < end;
    return at < end && *at == '"' ? at + 1 : NULL;
}

// The kind of what starts here, and where it ends; NULL: a string without end.
static const char *token_end(const char *at, const char *end, enum hlo_kind *kind)
{
    bool is_negative = *at == '-' && at + 1 < end && isdigit((unsigned char)at[1]);
    *kind = HLO_WORD;
    if (is_letter(*at) || is_negative) return word_end(at, at + 1, end);
    *kind = *at == '%'   ? HLO_VALUE
            : *at == '@' ? HLO_SYMBOL
            : *at == '#' ? HLO_HASH
            : *at == '"' ? HLO_STRING
                         : HLO_MARK;
    if (*kind == HLO_STRING || (*kind == HLO_SYMBOL && at + 1 < end && at[1] == '"'))
        return string_end(*at == '"' ? at : at + 1, end);
    if (*kind == HLO_MARK) return at + (at + 1 < end && at[0] == '-' && at[1] == '>' ? 2 : 1);
    const char *after = at + 1;
    while (after < end && (is_letter(*after) || (*after == '#' && *kind == HLO_VALUE)))
        after++;
    return after;
}

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end) {
        bool is_comment = at + 1 < end && at[0] == '/' && at[1] == '/';
        if (!is_comment && !strchr(" \t\r\n", *at)) break;
        if (!*at) break;
        for (; is_comment && at < end && *at != '\n'; at++)
            ;
        at += !is_comment;
    }
    return at;
}

static bool match_brackets(struct hlo_text *text)
{
    static const char OPENING[] = "([{<", CLOSING[] = ")]}>";
    int *open = ARENA_NEW(text->arena, int, text->token_count), depth = 0;
    for (int i = 0; i < text->token_count; i++) {
        struct hlo_token *token = &text->tokens[i];
        if (token->kind != HLO_MARK || token->length != 1) continue;
        const char *closes = strchr(CLOSING, *token->start);
        if (strchr(OPENING, *token->start)) open[depth++] = i;
        if (!closes) continue;
        bool fits = depth > 0 && *text->tokens[open[depth - 1]].start == OPENING[closes - CLOSING];
        if (!fits) return hlo_text_fail(text, i, "%c closes nothing", *token->start);
        token->partner = open[--depth];
        text->tokens[token->partner].partner = i;
    }
    if (depth == 0) return true;
    return hlo_text_fail(text, open[depth - 1], "%c is not closed",
                         *text->tokens[open[depth - 1]].start);
}

bool hlo_text_read(struct hlo_text *text)
{
    const char *at = text->bytes, *end = at + text->byte_count;
    while (text->token_count < TOKENS_MOST) {
        at = skip_blank(at, end);
        enum hlo_kind kind = HLO_END;
        const char *after = at;
        if (at < end) after = token_end(at, end, &kind);
        ARENA_GROW(text->arena, text->tokens, text->token_count, text->token_room);
        text->tokens[text->token_count++] = (struct hlo_token){
            .kind = kind, .start = at, .length = after ? (size_t)(after - at) : 1};
        if (!after) return hlo_text_fail(text, text->token_count - 1, "a text without end");
        if (kind == HLO_END) return match_brackets(text);
        bool is_odd = kind == HLO_MARK && (unsigned char)(*at - 33) > 93;
        if (is_odd) return hlo_text_fail(text, text->token_count - 1, "a character of no text");
        at = after;
    }
    return hlo_text_fail(text, 0, "more than %d words", TOKENS_MOST);
}

bool hlo_text_is(const struct hlo_text *text, int token, const char *wanted)
{
    assert(token >= 0 && token < text->token_count);
    const struct hlo_token *of = &text->tokens[token];
    return of->length == strlen(wanted) && memcmp(of->start, wanted, of->length) == 0;
}

const char *hlo_text_copy(const struct hlo_text *text, int token)
{
    assert(token >= 0 && token < text->token_count);
    const struct hlo_token *of = &text->tokens[token];
    bool is_string = of->kind == HLO_STRING;
    size_t length = of->length < TEXT_BYTES_MAX ? of->length : TEXT_BYTES_MAX;
    if (!is_string) return arena_print(text->arena, "%.*s", (int)length, of->start);
    return arena_print(text->arena, "%.*s", (int)length - 2, of->start + 1);
}

bool hlo_text_expect(const struct hlo_text *text, int token, const char *wanted)
{
    if (hlo_text_is(text, token, wanted)) return true;
    return hlo_text_fail(text, token, "%s is wanted, not '%s'", wanted,
                         printable(text->arena, hlo_text_copy(text, token)));
}

// The number whose bits these are.
static double bits_of(uint64_t bits, enum onnx_element element)
{
    union {
        uint64_t bits;
        double number;
    } wide = {bits};
    union {
        uint32_t bits;
        float number;
    } narrow = {(uint32_t)bits};
    if (element == ELEMENT_DOUBLE) return wide.number;
    if (element == ELEMENT_FLOAT) return (double)narrow.number;
    return half_number((uint16_t)bits, element);
}

bool hlo_text_number(const struct hlo_text *text, int token, enum onnx_element element,
                     double *number)
{
    const char *word = hlo_text_copy(text, token);
    char *end = NULL;
    *number = 1;
    if (text->tokens[token].kind != HLO_WORD) return false;
    if (strcmp(word, "true") == 0) return true;
    *number = 0;
    if (strcmp(word, "false") == 0) return true;
    bool is_hex = strncmp(word, "0x", 2) == 0;
    if (is_hex && element_is_float(element)) {
        *number = bits_of(strtoull(word, &end, 16), element);
    } else if (isdigit((unsigned char)*word) || *word == '-') {
        *number = strtod(word, &end);
    }
    // Whole numbers are those that a double holds.
    bool is_held = element_is_float(element) || fabs(*number) <= 0x1p53;
    return end && end != word && !*end && is_held;
}

static enum onnx_element element_of(const char *name)
{
    static const struct {
        const char *name;
        enum onnx_element element;
    } ELEMENTS[] = {
        {"f32", ELEMENT_FLOAT},     {"f64", ELEMENT_DOUBLE},  {"f16", ELEMENT_FLOAT16},
        {"bf16", ELEMENT_BFLOAT16}, {"i1", ELEMENT_BOOL},     {"i8", ELEMENT_INT8},
        {"i16", ELEMENT_INT16},     {"i32", ELEMENT_INT32},   {"i64", ELEMENT_INT64},
        {"ui8", ELEMENT_UINT8},     {"ui16", ELEMENT_UINT16}, {"ui32", ELEMENT_UINT32},
        {"ui64", ELEMENT_UINT64},
    };
    for (size_t i = 0; i < sizeof ELEMENTS / sizeof *ELEMENTS; i++)
        if (strcmp(ELEMENTS[i].name, name) == 0) return ELEMENTS[i].element;
    return (enum onnx_element)0;
}

bool hlo_text_type(const struct hlo_text *text, int *token, struct draft_value *type)
{
    enum { DIGITS_MOST = 15 };
    int at = *token;
    if (!hlo_text_is(text, at, "tensor") || !hlo_text_is(text, at + 1, "<"))
        return hlo_text_fail(text, at, "a tensor is wanted, not '%s'",
                             printable(text->arena, hlo_text_copy(text, at)));
    const char *shape = hlo_text_copy(text, at + 2);
    int64_t *dims = ARENA_NEW(text->arena, int64_t, RANK_MOST);
    *type = (struct draft_value){.dims = dims};
    if (hlo_text_is(text, at + 2, "?") || strchr(shape, '?') || hlo_text_is(text, at + 3, "?"))
        return hlo_text_fail(text, at, "a dimension has no value: export with sizes as numbers");
    while (isdigit((unsigned char)*shape)) {
        char *end = NULL;
        int64_t size = strtoll(shape, &end, 10);
        if (*end != 'x' || end - shape > DIGITS_MOST)
            return hlo_text_fail(text, at, "a tensor whose sizes are no numbers");
        if (type->rank == RANK_MOST)
            return hlo_text_fail(text, at, "more than %d dimensions", RANK_MOST);
        dims[type->rank++] = size;
        shape = end + 1;
    }
    type->element = element_of(shape);
    if (!type->element)
        return hlo_text_fail(text, at, "an element type (%s) that we do not know",
                             printable(text->arena, shape));
    if (!element_fits(type->element, type->rank, dims))
        return hlo_text_fail(text, at, "a tensor of more than 2^50 bytes");
    *token = text->tokens[at + 1].partner + 1;
    return true;
}
