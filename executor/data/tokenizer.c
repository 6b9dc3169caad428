#include "executor/data/tokenizer.h"

#include "core/plain.h"
#include "executor/data/tokenizer_parts.h"

#include <assert.h>
#include <string.h>

struct tokenizer *tokenizer_open(struct arena *arena, const char *name, struct err *err)
{
    enum { BYTES = 256 };
    struct tokenizer *tokenizer = ARENA_NEW(arena, struct tokenizer, 1);
    tokenizer->arena = arena;
    tokenizer->vocab = BYTES;
    if (strcmp(name, "bytes") == 0) return tokenizer;
    return tokenizer_read(tokenizer, name, err) ? tokenizer : NULL;
}

int32_t tokenizer_vocab(const struct tokenizer *tokenizer)
{
    return tokenizer->vocab;
}

int32_t tokenizer_added(const struct tokenizer *tokenizer, const char *text)
{
    for (int i = 0; i < tokenizer->added_count; i++) {
        if (strcmp(tokenizer->added[i].name, text) == 0) return tokenizer->added[i].id;
    }
    return -1;
}

static void put_bytes(const char *text, int64_t bytes, struct tokenizer_sink sink)
{
    enum { PIECE = 4096 };  // of ids: a text may be longer than a stack
    int32_t ids[PIECE];
    for (int64_t first = 0; first < bytes; first += PIECE) {
        int64_t count = bytes - first < PIECE ? bytes - first : PIECE;
        for (int64_t i = 0; i < count; i++)
            ids[i] = (unsigned char)text[first + i];
        sink.put(sink.context, ids, count);
    }
}

static void put_word(struct tokenizer *tokenizer, const char *word, int64_t bytes,
                     struct tokenizer_sink sink)
{
    assert(bytes > 0);
    if (bytes > tokenizer->room) {
        tokenizer->room = 2 * bytes;
        tokenizer->ids = ARENA_NEW(tokenizer->arena, int32_t, tokenizer->room);
    }
    int64_t count = bpe_encode(tokenizer->bpe, word, bytes, tokenizer->takes_whole, tokenizer->ids);
    assert(count <= tokenizer->room);
    sink.put(sink.context, tokenizer->ids, count);
}

// Where the next `literal` begins, or the end.
static int64_t literal_at(const struct tokenizer *tokenizer, const char *text, int64_t from,
                          int64_t bytes)
{
    if (from >= bytes) return bytes;
    const char *literal = tokenizer->literal;
    const char *found = memmem(text + from, (size_t)(bytes - from), literal, strlen(literal));
    return found ? found - text : bytes;
}

// At every `literal`, which goes to the word before it, the one behind it, neither, or is one.
static void put_cut(struct tokenizer *tokenizer, enum cut cut, const char *text, int64_t bytes,
                    struct tokenizer_sink sink)
{
    int64_t length = (int64_t)strlen(tokenizer->literal), begun = 0;
    assert(length > 0 && "what is cut at has an end");
    for (int64_t at = 0; at < bytes;) {
        int64_t found = literal_at(tokenizer, text, at, bytes);
        int64_t behind = found < bytes ? found + length : bytes;
        int64_t end = cut == CUT_BEHIND ? behind : found;
        if (end > begun) put_word(tokenizer, text + begun, end - begun, sink);
        if (cut == CUT_APART && behind > found)
            put_word(tokenizer, text + found, behind - found, sink);
        begun = cut == CUT_BEFORE ? found : behind;
        at = behind;
    }
    bool is_left = cut == CUT_BEFORE && begun < bytes;
    if (is_left) put_word(tokenizer, text + begun, bytes - begun, sink);
}

// The mark stands for spaces, and before the text where the file says so (`prefix`).
static void put_metaspace(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                          struct tokenizer_sink sink)
{
    struct arena scratch = {0};
    const char *literal = tokenizer->literal;
    size_t length = strlen(literal);
    bool is_first = text == tokenizer->begin;
    const struct normal_step steps[] = {{NORMAL_REPLACE, " ", literal},
                                        {NORMAL_PREPEND, NULL, literal}};
    text = normal_apply(&scratch, steps, 1, text, &bytes);
    bool has_mark = bytes >= (int64_t)length && memcmp(text, literal, length) == 0;
    bool is_due =
        tokenizer->prefix == PREFIX_ALWAYS || (tokenizer->prefix == PREFIX_FIRST && is_first);
    if (is_due && !has_mark) text = normal_apply(&scratch, steps + 1, 1, text, &bytes);
    if (tokenizer->is_joined)
        put_word(tokenizer, text, bytes, sink);
    else
        put_cut(tokenizer, CUT_BEFORE, text, bytes, sink);
    arena_free(&scratch);
}

static void put_pattern(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                        struct tokenizer_sink sink)
{
    static const struct normal_step SPACE = {NORMAL_PREPEND, NULL, " "};
    struct arena scratch = {0};
    if (tokenizer->adds_prefix_space && *text != ' ')
        text = normal_apply(&scratch, &SPACE, 1, text, &bytes);
    for (int64_t at = 0, length; at < bytes; at += length) {
        length = words_next(tokenizer->pattern, text + at, bytes - at);
        put_word(tokenizer, text + at, length, sink);
    }
    arena_free(&scratch);
}

static void put_between(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                        struct tokenizer_sink sink)
{
    bool cuts = tokenizer->cut == CUT_WORDS;
    for (int64_t at = 0, skipped = 0, length; at < bytes; at += length) {
        length = words_between_spaces(text + at, bytes - at, cuts, &skipped);
        at += skipped;
        if (length > 0) put_word(tokenizer, text + at, length, sink);
    }
}

static void put_words(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                      struct tokenizer_sink sink)
{
    if (bytes == 0) return;
    switch (tokenizer->cut) {
    case CUT_PATTERN:
        put_pattern(tokenizer, text, bytes, sink);
        break;
    case CUT_NOTHING:
        put_word(tokenizer, text, bytes, sink);
        break;
    case CUT_METASPACE:
        put_metaspace(tokenizer, text, bytes, sink);
        break;
    case CUT_SPACES:
    case CUT_WORDS:
        put_between(tokenizer, text, bytes, sink);
        break;
    case CUT_BEHIND:
    case CUT_BEFORE:
    case CUT_OUT:
    case CUT_APART:
        put_cut(tokenizer, tokenizer->cut, text, bytes, sink);
        break;
    }
}

// The longest added token of this turn that stands at `text`; NULL: none.
static const struct added_token *added_at(const struct tokenizer *tokenizer, const char *text,
                                          int64_t bytes, bool is_normalized)
{
    const struct added_token *best = NULL;
    for (int i = 0; i < tokenizer->added_count; i++) {
        const struct added_token *added = &tokenizer->added[i];
        bool may_be = added->is_normalized == is_normalized && added->bytes <= bytes &&
                      *added->text == *text && (!best || added->bytes > best->bytes);
        if (may_be && memcmp(added->text, text, (size_t)added->bytes) == 0) best = added;
    }
    return best;
}

static void put_turn(struct tokenizer *tokenizer, const char *text, int64_t bytes, int turn,
                     struct tokenizer_sink sink);

// Added tokens of the first turn are looked for in the text as it is, those of the second in the
// normalized one: what lies between the first is normalized piece by piece.
static void put_between_turns(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                              int turn, struct tokenizer_sink sink)
{
    struct arena scratch = {0};
    bool is_begin = text == tokenizer->begin;
    if (turn == 1 && bytes > 0 && tokenizer->normal_count > 0) {
        text = normal_apply(&scratch, tokenizer->normal, tokenizer->normal_count, text, &bytes);
        tokenizer->begin = is_begin ? text : NULL;
    }
    put_turn(tokenizer, text, bytes, turn, sink);
    if (turn == 1) tokenizer->begin = NULL;
    arena_free(&scratch);
}

// Between added tokens of the first turn those of the second are looked for, in a text as it is
// normalized, between them words.
static void put_turn(struct tokenizer *tokenizer, const char *text, int64_t bytes, int turn,
                     struct tokenizer_sink sink)
{
    bool starts[256] = {false};
    int64_t begun = 0;
    if (turn == 2) {
        put_words(tokenizer, text, bytes, sink);
        return;
    }
    // Most bytes begin no added token: one look each.
    for (int i = 0; i < tokenizer->added_count; i++)
        starts[(unsigned char)*tokenizer->added[i].text] = true;
    for (int64_t at = 0; at < bytes;) {
        const struct added_token *added =
            starts[(unsigned char)text[at]] ? added_at(tokenizer, text + at, bytes - at, turn == 1)
                                            : NULL;
        if (!added) {
            at++;
            continue;
        }
        put_between_turns(tokenizer, text + begun, at - begun, turn + 1, sink);
        assert(added->bytes > 0 && at + added->bytes <= bytes);
        sink.put(sink.context, &added->id, 1);
        at += added->bytes;
        begun = at;
    }
    put_between_turns(tokenizer, text + begun, bytes - begun, turn + 1, sink);
}

// The first byte that is no UTF-8; -1: all is. A character that is cut off by the end is none.
static int64_t fault_of(const char *text, int64_t bytes)
{
    enum { LONGEST = 4 };
    for (int64_t at = 0; at < bytes;) {
        char tail[LONGEST + 1] = {0};
        int64_t left = bytes - at;
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        memcpy(tail, text + at, (size_t)(left < LONGEST ? left : LONGEST));
        int64_t length = (int64_t)plain_utf8_length(tail);
        if (length == 0) return at;
        at += length;
    }
    return -1;
}

bool tokenizer_encode(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                      struct tokenizer_sink sink, int64_t *fault)
{
    if (!tokenizer->bpe) {
        put_bytes(text, bytes, sink);
        return true;
    }
    *fault = fault_of(text, bytes);
    tokenizer->begin = text;
    if (*fault < 0) put_turn(tokenizer, text, bytes, 0, sink);
    return *fault < 0;
}
