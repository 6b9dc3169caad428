#include "executor/data/bpe.h"

#include "core/hash.h"
#include "core/plain.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Tables are open-addressed and at most half full.
struct token {
    const char *text;  // NULL: free
    int64_t bytes;
    int32_t id;
};
struct merge {
    uint64_t pair;     // left << 32 | right
    int32_t rank, id;  // rank 0: free; else from 1 on
};

// A part of the word: a token, or merged into the one before it.
struct symbol {
    int32_t id, before, next;  // next and before: -1 at the ends
    bool is_gone;
};
// A pair that may be merged, in a heap by (rank, place); stale where its merge has another token.
struct pair {
    int32_t rank, left, id;
};

// Words come again and again: what was found of short ones is kept, one of those that fall on the
// same place.
enum { KEPT_COUNT = 1 << 16, KEPT_BYTES = 24 };
struct kept_word {
    unsigned char bytes, count;  // bytes 0: none
    char word[KEPT_BYTES];
    int32_t ids[KEPT_BYTES];
};

struct bpe {
    struct arena *arena;
    struct token *tokens;
    struct merge *merges;
    uint64_t token_mask, merge_mask;
    int32_t bytes[256];  // the token of each, -1: none
    int32_t rank;
    struct kept_word *kept;
    struct symbol *symbols;
    struct pair *heap;
    int64_t room;  // of symbols; of pairs three times as many
    int64_t heap_count;
    const char **texts;  // [id] of tokens, for what merges make
    int64_t *lengths;
    int32_t id_room;
    bool is_of_characters, is_fused;
    int32_t unknown;
    int32_t named_bytes[256];  // "<0x00>" and so on; -1: none
};

// A power of two at least twice the count: probing always comes to a free place.
static uint64_t mask_for(int count)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)count)
        size *= 2;
    return size - 1;
}

struct bpe *bpe_new(struct arena *arena, int token_count, int merge_count)
{
    struct bpe *bpe = ARENA_NEW(arena, struct bpe, 1);
    bpe->arena = arena;
    bpe->token_mask = mask_for(token_count);
    bpe->merge_mask = mask_for(merge_count);
    bpe->tokens = ARENA_NEW(arena, struct token, bpe->token_mask + 1);
    bpe->merges = ARENA_NEW(arena, struct merge, bpe->merge_mask + 1);
    bpe->kept = ARENA_NEW(arena, struct kept_word, KEPT_COUNT);
    for (int i = 0; i < 256; i++)
        bpe->bytes[i] = -1;
    return bpe;
}

// Where the token stands, or would.
static struct token *token_at(const struct bpe *bpe, const char *text, int64_t bytes)
{
    uint64_t at = hash_mix(hash_bytes(HASH_START, text, (size_t)bytes)) & bpe->token_mask;
    for (;; at = (at + 1) & bpe->token_mask) {
        struct token *token = &bpe->tokens[at];
        bool is_it =
            token->bytes == bytes && token->text && memcmp(token->text, text, (size_t)bytes) == 0;
        if (is_it || !token->text) return token;
    }
}

static struct merge *merge_at(const struct bpe *bpe, uint64_t pair)
{
    uint64_t at = hash_mix(pair) & bpe->merge_mask;
    while (bpe->merges[at].rank && bpe->merges[at].pair != pair)
        at = (at + 1) & bpe->merge_mask;
    return &bpe->merges[at];
}

void bpe_add(struct bpe *bpe, const char *text, int64_t bytes, int32_t id)
{
    assert(bytes > 0 && id >= 0);
    *token_at(bpe, text, bytes) = (struct token){text, bytes, id};
    if (bytes == 1) bpe->bytes[(unsigned char)*text] = id;
    // Ids may come in any order and leave gaps: room grows by the largest, and doubles.
    if (id >= bpe->id_room) {
        int32_t room = id + 1 > 2 * bpe->id_room ? id + 1 : 2 * bpe->id_room;
        const char **texts = ARENA_NEW(bpe->arena, const char *, room);
        int64_t *lengths = ARENA_NEW(bpe->arena, int64_t, room);
        if (bpe->id_room) {
            memcpy(texts, bpe->texts, (size_t)bpe->id_room * sizeof *texts);
            memcpy(lengths, bpe->lengths, (size_t)bpe->id_room * sizeof *lengths);
        }
        bpe->texts = texts, bpe->lengths = lengths, bpe->id_room = room;
    }
    bpe->texts[id] = text;
    bpe->lengths[id] = bytes;
}

void bpe_of_characters(struct bpe *bpe, bool has_bytes, int32_t unknown, bool fused)
{
    bpe->is_of_characters = true;
    bpe->is_fused = fused;
    bpe->unknown = unknown;
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        int length = snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        bpe->named_bytes[byte] = has_bytes ? bpe_find(bpe, name, length) : -1;
    }
}

int32_t bpe_find(const struct bpe *bpe, const char *text, int64_t bytes)
{
    const struct token *token = token_at(bpe, text, bytes);
    return token->text ? token->id : -1;
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

bool bpe_merge(struct bpe *bpe, int32_t left, int32_t right)
{
    assert(left >= 0 && left < bpe->id_room && right >= 0 && right < bpe->id_room);
    int64_t first = bpe->lengths[left], bytes = first + bpe->lengths[right];
    char *text = ARENA_NEW(bpe->arena, char, bytes);
    memcpy(text, bpe->texts[left], (size_t)first);
    memcpy(text + first, bpe->texts[right], (size_t)bpe->lengths[right]);
    int32_t id = bpe_find(bpe, text, bytes);
    *merge_at(bpe, pair_of(left, right)) = (struct merge){pair_of(left, right), ++bpe->rank, id};
    return id >= 0;
}

static bool is_before(const struct pair *a, const struct pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void push(struct bpe *bpe, int32_t left)
{
    const struct symbol *symbol = &bpe->symbols[left];
    if (left < 0 || symbol->next < 0) return;
    const struct merge *merge = merge_at(bpe, pair_of(symbol->id, bpe->symbols[symbol->next].id));
    if (!merge->rank) return;
    struct pair pair = {merge->rank, left, merge->id};
    assert(bpe->heap_count < 3 * bpe->room);
    int64_t at = bpe->heap_count++;
    for (; at > 0 && is_before(&pair, &bpe->heap[(at - 1) / 2]); at = (at - 1) / 2)
        bpe->heap[at] = bpe->heap[(at - 1) / 2];
    bpe->heap[at] = pair;
}

static struct pair pop(struct bpe *bpe)
{
    struct pair first = bpe->heap[0], last = bpe->heap[--bpe->heap_count];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < bpe->heap_count; at = child) {
        bool is_right =
            child + 1 < bpe->heap_count && is_before(&bpe->heap[child + 1], &bpe->heap[child]);
        child += is_right;
        if (!is_before(&bpe->heap[child], &last)) break;
        bpe->heap[at] = bpe->heap[child];
    }
    bpe->heap[at] = last;
    return first;
}

static void make_room(struct bpe *bpe, int64_t bytes)
{
    if (bytes <= bpe->room) return;
    // Words of a whole text do not come again larger.
    bpe->room = bytes < (1 << 20) ? 2 * bytes : bytes;
    bpe->symbols = ARENA_NEW(bpe->arena, struct symbol, bpe->room);
    // A pair a symbol, and two for each merge, of which there are fewer than symbols.
    bpe->heap = ARENA_NEW(bpe->arena, struct pair, 3 * bpe->room);
}

static void merge_all(struct bpe *bpe)
{
    while (bpe->heap_count > 0) {
        struct pair pair = pop(bpe);
        struct symbol *left = &bpe->symbols[pair.left];
        if (left->is_gone || left->next < 0) continue;
        struct symbol *right = &bpe->symbols[left->next];
        const struct merge *merge = merge_at(bpe, pair_of(left->id, right->id));
        // Another merge may have taken either part since: the pair of today is what counts.
        bool is_stale = !merge->rank || merge->id != pair.id;
        if (is_stale) continue;
        left->id = pair.id;
        left->next = right->next;
        right->is_gone = true;
        if (right->next >= 0) bpe->symbols[right->next].before = pair.left;
        if (left->before >= 0) push(bpe, left->before);
        push(bpe, pair.left);
    }
}

static void add_symbol(struct bpe *bpe, int64_t *count, int32_t id)
{
    int32_t at = (int32_t)(*count)++;
    assert(at < bpe->room && "symbols are at most as many as bytes");
    bpe->symbols[at] = (struct symbol){.id = id, .before = at - 1, .next = -1};
    if (at > 0) bpe->symbols[at - 1].next = at;
}

static bool add_named_bytes(struct bpe *bpe, int64_t *count, const char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (bpe->named_bytes[(unsigned char)text[i]] < 0) return false;
    for (int64_t i = 0; i < bytes; i++)
        add_symbol(bpe, count, bpe->named_bytes[(unsigned char)text[i]]);
    return true;
}

// What is unknown is added when it is known to be over, which is not behind named bytes: there
// `tokenizers` puts it behind them.
static int64_t add_characters(struct bpe *bpe, const char *word, int64_t bytes)
{
    int64_t count = 0;
    bool has_unknown = false;
    for (int64_t at = 0, step; at < bytes; at += step) {
        step = (int64_t)plain_utf8_length(word + at);
        int32_t id = bpe_find(bpe, word + at, step);
        if (id < 0 && add_named_bytes(bpe, &count, word + at, step)) continue;
        if (has_unknown && (id >= 0 || !bpe->is_fused)) add_symbol(bpe, &count, bpe->unknown);
        if (id >= 0) add_symbol(bpe, &count, id);
        has_unknown = id < 0 && bpe->unknown >= 0;
    }
    if (has_unknown) add_symbol(bpe, &count, bpe->unknown);
    return count;
}

static int64_t encode(struct bpe *bpe, const char *word, int64_t bytes, int32_t *ids)
{
    int64_t symbols = 0, count = 0;
    make_room(bpe, bytes);
    bpe->heap_count = 0;
    if (bpe->is_of_characters) symbols = add_characters(bpe, word, bytes);
    for (int64_t i = 0; i < bytes && !bpe->is_of_characters; i++) {
        int32_t id = bpe->bytes[(unsigned char)word[i]];
        assert(id >= 0 && "every byte is a token");
        add_symbol(bpe, &symbols, id);
    }
    if (symbols == 0) return 0;
    for (int64_t i = 0; i + 1 < symbols; i++)
        push(bpe, (int32_t)i);
    merge_all(bpe);
    for (int32_t at = 0; at >= 0; at = bpe->symbols[at].next)
        ids[count++] = bpe->symbols[at].id;
    return count;
}

int64_t bpe_encode(struct bpe *bpe, const char *word, int64_t bytes, bool takes_whole, int32_t *ids)
{
    assert(bytes > 0 && bytes < INT32_MAX);
    struct kept_word *kept = NULL;
    if (bytes <= KEPT_BYTES) {
        uint64_t hash = hash_mix(hash_bytes(HASH_START, word, (size_t)bytes));
        kept = &bpe->kept[hash % KEPT_COUNT];
        if (kept->bytes == bytes && memcmp(kept->word, word, (size_t)bytes) == 0) {
            memcpy(ids, kept->ids, kept->count * sizeof *ids);
            return kept->count;
        }
    }
    int32_t whole = takes_whole ? bpe_find(bpe, word, bytes) : -1;
    int64_t count = 1;
    if (whole >= 0)
        ids[0] = whole;
    else
        count = encode(bpe, word, bytes, ids);
    assert(count >= 0 && count <= bytes);
    if (kept) {
        *kept = (struct kept_word){.bytes = (unsigned char)bytes, .count = (unsigned char)count};
        memcpy(kept->word, word, (size_t)bytes);
        memcpy(kept->ids, ids, (size_t)count * sizeof *ids);
    }
    return count;
}
