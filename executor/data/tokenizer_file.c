#include "core/json.h"
#include "core/plain.h"
#include "executor/data/tokenizer_parts.h"

#include <assert.h>
#include <string.h>

// tokenizer.json. Its tokens are written in characters that stand for bytes (GPT-2,
// bytes_to_unicode): those of Latin-1 that can be seen for themselves, for the others one after
// another from U+0100 on.

static bool is_seen(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

// -1: the character stands for no byte.
static int byte_of(unsigned code)
{
    if (code < 256) return is_seen((int)code) ? (int)code : -1;
    unsigned next = 256;
    for (int byte = 0; byte < 256; byte++) {
        if (!is_seen(byte) && next++ == code) return byte;
    }
    return -1;
}

// The bytes of a token; -1: it has characters that stand for none.
static int64_t bytes_of(const char *text, size_t length, char *bytes)
{
    int64_t count = 0;
    for (size_t at = 0, step; at < length; at += step) {
        step = plain_utf8_length(text + at);
        int byte = step ? byte_of(plain_code(text + at, step)) : -1;
        if (byte < 0) return -1;
        bytes[count++] = (char)byte;
    }
    assert(count <= (int64_t)length);
    return count;
}

bool tokenizer_is_unset(const struct json *object, const char *key, struct err *err)
{
    struct json member = json_find(object, key);
    if (!json_has(object, key)) return true;
    if (json_is_text(&member)) {
        const char *text = json_text(&member, err);
        return text && (!*text || json_fail(&member, err, "found \"%s\", wanted none", text));
    }
    if (json_is_object(&member) || json_is_array(&member) || json_is_number(&member))
        return json_fail(&member, err, "is not known here: wanted null");
    return !json_bool(&member, err) || json_fail(&member, err, "found true, wanted false");
}

static int64_t take_text(const char *text, size_t length, char *to)
{
    memcpy(to, text, length);
    return (int64_t)length;
}

// Before merges, which name tokens. The vocabulary is one more than the largest id: ids may leave
// gaps, which a model's table has rows for.
static bool read_vocab(struct tokenizer *tokenizer, const struct json *model, int merge_count,
                       struct err *err)
{
    struct json vocab = json_get(model, "vocab", err);
    int count = json_member_count(&vocab, err);
    if (err->kind) return false;
    tokenizer->bpe = bpe_new(tokenizer->arena, count, merge_count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&vocab, i);
        const char *key = json_key(&item);
        int32_t id = (int32_t)json_i64(&item, 0, (1 << 30) - 1, err);
        if (err->kind) return false;
        char *bytes = ARENA_NEW(tokenizer->arena, char, strlen(key) + 1);
        int64_t length = tokenizer->is_of_bytes ? bytes_of(key, strlen(key), bytes)
                                                : take_text(key, strlen(key), bytes);
        if (length > 0) bpe_add(tokenizer->bpe, bytes, length, id);
        if (id >= tokenizer->vocab) tokenizer->vocab = id + 1;
    }
    for (int byte = 0; byte < 256 && tokenizer->is_of_bytes; byte++) {
        char text = (char)byte;
        if (bpe_find(tokenizer->bpe, &text, 1) < 0)
            return json_fail(&vocab, err, "no token for byte %d", byte);
    }
    return true;
}

// -1: no token.
static int32_t find(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    struct arena_mark mark = arena_mark(tokenizer->arena);
    char *bytes = ARENA_NEW(tokenizer->arena, char, length + 1);
    int64_t count =
        tokenizer->is_of_bytes ? bytes_of(text, length, bytes) : take_text(text, length, bytes);
    int32_t id = count > 0 ? bpe_find(tokenizer->bpe, bytes, count) : -1;
    arena_reset(tokenizer->arena, mark);
    return id;
}

// "a b", or since 0.20 ["a", "b"].
static bool read_merge(struct tokenizer *tokenizer, const struct json *merge, struct err *err)
{
    int32_t left = -1, right = -1;
    if (json_is_array(merge)) {
        if (json_count(merge, err) != 2) return json_fail(merge, err, "wanted two tokens");
        struct json items[] = {json_item(merge, 0), json_item(merge, 1)};
        const char *texts[] = {json_data_text(&items[0], err), json_data_text(&items[1], err)};
        if (err->kind) return false;
        left = find(tokenizer, texts[0], strlen(texts[0]));
        right = find(tokenizer, texts[1], strlen(texts[1]));
    } else {
        const char *text = json_data_text(merge, err), *space = text ? strchr(text, ' ') : NULL;
        if (err->kind) return false;
        if (!space) return json_fail(merge, err, "wanted two tokens with a space between");
        left = find(tokenizer, text, (size_t)(space - text));
        right = find(tokenizer, space + 1, strlen(space + 1));
    }
    if (left < 0 || right < 0) return json_fail(merge, err, "merges what is no token");
    return bpe_merge(tokenizer->bpe, left, right) ||
           json_fail(merge, err, "makes what is no token");
}

// What becomes of characters that are no token; of byte-level BPE there are none.
static bool read_unknown(struct tokenizer *tokenizer, const struct json *model, struct err *err)
{
    struct json token = json_find(model, "unk_token"), fuse = json_find(model, "fuse_unk");
    struct json fallback = json_find(model, "byte_fallback");
    bool has_bytes = json_has(model, "byte_fallback") && json_bool(&fallback, err);
    bool is_fused = json_has(model, "fuse_unk") && json_bool(&fuse, err);
    const char *name = json_has(model, "unk_token") ? json_data_text(&token, err) : NULL;
    if (err->kind) return false;
    if (tokenizer->is_of_bytes) return true;
    int32_t id = name ? bpe_find(tokenizer->bpe, name, (int64_t)strlen(name)) : -1;
    if (name && id < 0) return json_fail(&token, err, "is no token");
    bpe_of_characters(tokenizer->bpe, has_bytes, id, is_fused);
    return true;
}

static bool read_model(struct tokenizer *tokenizer, const struct json *model, struct err *err)
{
    static const char *const UNSET[] = {"dropout", "continuing_subword_prefix",
                                        "end_of_word_suffix"};
    struct json type = json_find(model, "type"), merges = json_get(model, "merges", err);
    int count = json_count(&merges, err);
    if (err->kind) return false;
    const char *name = json_has(model, "type") ? json_text(&type, err) : "BPE";
    if (!name) return false;
    if (strcmp(name, "BPE") != 0)
        return json_fail(&type, err, "found \"%s\", wanted \"BPE\"", name);
    for (size_t i = 0; i < sizeof UNSET / sizeof *UNSET; i++) {
        if (!tokenizer_is_unset(model, UNSET[i], err)) return false;
    }
    struct json ignore = json_find(model, "ignore_merges");
    if (json_has(model, "ignore_merges")) tokenizer->takes_whole = json_bool(&ignore, err);
    if (err->kind || !read_vocab(tokenizer, model, count, err)) return false;
    if (!read_unknown(tokenizer, model, err)) return false;
    for (int i = 0; i < count; i++) {
        struct json merge = json_item(&merges, i);
        if (!read_merge(tokenizer, &merge, err)) return false;
    }
    return true;
}

// Ids of added tokens may lie past the vocabulary, which then grows.
static bool read_added(struct tokenizer *tokenizer, const struct json *root, struct err *err)
{
    static const char *const UNSET[] = {"lstrip", "rstrip", "single_word"};
    struct json list = json_find(root, "added_tokens");
    int count = json_has(root, "added_tokens") ? json_count(&list, err) : 0;
    tokenizer->added = ARENA_NEW(tokenizer->arena, struct added_token, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i), content = json_get(&item, "content", err);
        struct json id = json_get(&item, "id", err), normalized = json_find(&item, "normalized");
        struct added_token *added = &tokenizer->added[tokenizer->added_count++];
        added->text = json_text(&content, err);
        added->id = (int32_t)json_i64(&id, 0, (1 << 30) - 1, err);
        for (size_t u = 0; u < sizeof UNSET / sizeof *UNSET && !err->kind; u++)
            (void)!tokenizer_is_unset(&item, UNSET[u], err);
        if (json_has(&item, "normalized")) added->is_normalized = json_bool(&normalized, err);
        if (err->kind) return false;
        if (!*added->text) return json_fail(&content, err, "an added token without text");
        added->name = added->text;
        added->bytes = (int64_t)strlen(added->text);
        if (added->is_normalized)
            added->text = normal_apply(tokenizer->arena, tokenizer->normal, tokenizer->normal_count,
                                       added->text, &added->bytes);
        // Nothing stands everywhere: it would be found again and again at one place.
        if (added->bytes == 0) return json_fail(&content, err, "normalizes to nothing");
        if (added->id >= tokenizer->vocab) tokenizer->vocab = added->id + 1;
    }
    return !err->kind;
}

bool tokenizer_read(struct tokenizer *tokenizer, const char *path, struct err *err)
{
    struct json_document document;
    tokenizer->vocab = 0;
    if (!json_load(tokenizer->arena, path, &document, err)) return false;
    struct json root = json_root(&document), model = json_get(&root, "model", err);
    bool done = !err->kind && tokenizer_read_cuts(tokenizer, &root, err) &&
                read_model(tokenizer, &model, err) && read_added(tokenizer, &root, err);
    assert(done == !err->kind && (!done || tokenizer->bpe));
    return done;
}
