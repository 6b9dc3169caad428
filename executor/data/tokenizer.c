#include "executor/data/tokenizer.h"

#include "core/plain.h"
#include "executor/data/tokenizer_parts.h"

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
        if (strcmp(tokenizer->added[i].text, text) == 0) return tokenizer->added[i].id;
    }
    return -1;
}

static void put_bytes(const char *text, int64_t bytes, struct tokenizer_sink sink)
{
    enum { PIECE = 4096 };
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
    if (bytes > tokenizer->room) {
        tokenizer->room = 2 * bytes;
        tokenizer->ids = ARENA_NEW(tokenizer->arena, int32_t, tokenizer->room);
    }
    int64_t count = bpe_encode(tokenizer->bpe, word, bytes, tokenizer->takes_whole, tokenizer->ids);
    sink.put(sink.context, tokenizer->ids, count);
}

static void put_words(struct tokenizer *tokenizer, const char *text, int64_t bytes,
                      struct tokenizer_sink sink)
{
    if (tokenizer->adds_prefix_space && bytes > 0 && *text != ' ') {
        char *spaced = ARENA_NEW(tokenizer->arena, char, bytes + 1);
        spaced[0] = ' ';
        memcpy(spaced + 1, text, (size_t)bytes);
        text = spaced;
        bytes++;
    }
    for (int64_t at = 0, length; at < bytes; at += length) {
        length = words_next(tokenizer->pattern, text + at, bytes - at);
        put_word(tokenizer, text + at, length, sink);
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

// Between added tokens of the first turn those of the second are looked for, between them words.
static void put_turn(struct tokenizer *tokenizer, const char *text, int64_t bytes, int turn,
                     struct tokenizer_sink sink)
{
    bool starts[256] = {false};
    int64_t begun = 0;
    if (turn == 2) {
        put_words(tokenizer, text, bytes, sink);
        return;
    }
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
        put_turn(tokenizer, text + begun, at - begun, turn + 1, sink);
        sink.put(sink.context, &added->id, 1);
        at += added->bytes;
        begun = at;
    }
    put_turn(tokenizer, text + begun, bytes - begun, turn + 1, sink);
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
    if (*fault < 0) put_turn(tokenizer, text, bytes, 0, sink);
    return *fault < 0;
}
