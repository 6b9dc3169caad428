#include "executor/data/normal.h"

#include "core/plain.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

// Composed characters and what they are made of (Unicode, UnicodeData.txt; the standard's section
// 3.11), what two make (the second of them first), and of marks the class that orders them.
static const struct composed {
    uint32_t code, first, second;
} COMPOSED[] = {
#include "executor/data/composed.inc"
};
static const struct pair {
    uint32_t second, first, code;
} PAIRS[] = {
#include "executor/data/pairs.inc"
};
static const struct mark_range {
    uint32_t first, last;
    int class;
} MARKS[] = {
#include "executor/data/marks.inc"
};
enum {
    COMPOSED_COUNT = sizeof COMPOSED / sizeof *COMPOSED,
    PAIR_COUNT = sizeof PAIRS / sizeof *PAIRS,
    MARK_COUNT = sizeof MARKS / sizeof *MARKS
};

// Syllables of Hangul are made by rule (section 3.12).
enum hangul {
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

// A text grows in UTF-8 to at most so many times its bytes (UAX #15, section 11).
enum { GROWS = 3 };

struct codes {
    uint32_t *items;
    int64_t count;
};

// 0: no mark, a starter.
static int class_of(uint32_t code)
{
    int low = 0, high = MARK_COUNT;
    if (code < MARKS[0].first) return 0;
    while (low < high) {
        int middle = (low + high) / 2;
        if (MARKS[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < MARK_COUNT && MARKS[low].first <= code ? MARKS[low].class : 0;
}

static const struct composed *parts_of(uint32_t code)
{
    int low = 0, high = COMPOSED_COUNT;
    while (low < high) {
        int middle = (low + high) / 2;
        if (COMPOSED[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COMPOSED_COUNT && COMPOSED[low].code == code ? &COMPOSED[low] : NULL;
}

// As far as it goes: parts may be composed themselves. Hangul is in no table.
static void decompose(struct codes *codes, uint32_t code)
{
    uint32_t syllable = code - S_BASE;
    const struct composed *parts = code < 0x80 ? NULL : parts_of(code);
    if (code >= S_BASE && syllable < S_COUNT) {
        codes->items[codes->count++] = L_BASE + syllable / (V_COUNT * T_COUNT);
        codes->items[codes->count++] = V_BASE + syllable % (V_COUNT * T_COUNT) / T_COUNT;
        if (syllable % T_COUNT) codes->items[codes->count++] = T_BASE + syllable % T_COUNT;
    } else if (parts) {
        decompose(codes, parts->first);
        if (parts->second) decompose(codes, parts->second);
    } else {
        codes->items[codes->count++] = code;
    }
}

// Marks in a row by their class, those of one class as they stood.
static void order(struct codes *codes)
{
    for (int64_t i = 1; i < codes->count; i++) {
        uint32_t code = codes->items[i];
        int class = class_of(code);
        int64_t at = i;
        for (; class > 0 && at > 0 && class_of(codes->items[at - 1]) > class; at--)
            codes->items[at] = codes->items[at - 1];
        codes->items[at] = code;
    }
}

// What two make; 0: nothing.
static uint32_t made_of(uint32_t first, uint32_t second)
{
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
        return S_BASE + ((first - L_BASE) * V_COUNT + second - V_BASE) * T_COUNT;
    bool is_open = first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0;
    if (is_open && second - T_BASE - 1 < T_COUNT - 1) return first + (second - T_BASE);
    int low = 0, high = PAIR_COUNT;
    while (low < high) {
        int middle = (low + high) / 2;
        const struct pair *pair = &PAIRS[middle];
        bool is_less = pair->second != second ? pair->second < second : pair->first < first;
        if (is_less)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_it = low < PAIR_COUNT && PAIRS[low].second == second && PAIRS[low].first == first;
    return is_it ? PAIRS[low].code : 0;
}

// Each with the last starter before it, if nothing between them is in the way.
static void compose(struct codes *codes)
{
    int64_t starter = -1, count = 0;
    int before = 0;  // class of what stands before; behind the starter itself 0
    for (int64_t i = 0; i < codes->count; i++) {
        uint32_t code = codes->items[i], made = 0;
        int class = class_of(code);
        bool is_next = starter >= 0 && count == starter + 1;
        if (starter >= 0 && (is_next || before < class))
            made = made_of(codes->items[starter], code);
        if (made) {
            codes->items[starter] = made;
            continue;
        }
        if (class == 0) starter = count;
        before = class;
        codes->items[count++] = code;
    }
    codes->count = count;
}

// UTF-8 of a code; the first byte says how many follow.
static int64_t put_code(uint32_t code, char *to)
{
    static const unsigned char HEADS[] = {0, 0, 0xc0, 0xe0, 0xf0};
    assert(code <= 0x10ffff);
    int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(HEADS[bytes == 1 ? 0 : bytes] | code);
    return bytes;
}

// The composed form of a piece, put at `to`.
static int64_t compose_piece(struct codes *codes, const char *text, int64_t bytes, char *to)
{
    codes->count = 0;
    for (int64_t at = 0, step; at < bytes; at += step) {
        step = (int64_t)plain_utf8_length(text + at);
        decompose(codes, (uint32_t)plain_code(text + at, (size_t)step));
    }
    // Marks first: composing looks at what stands between a mark and its letter.
    order(codes);
    compose(codes);
    assert(codes->count <= GROWS * bytes);
    int64_t count = 0;
    for (int64_t i = 0; i < codes->count; i++)
        count += put_code(codes->items[i], to + count);
    return count;
}

// What follows an ASCII character does not change what stands before it.
static const char *nfc(struct arena *arena, const char *text, int64_t *bytes)
{
    int64_t plain = 0, count = 0;
    while (plain < *bytes && (unsigned char)text[plain] < 0x80)
        plain++;
    if (plain == *bytes) return text;
    char *to = ARENA_NEW(arena, char, GROWS **bytes);
    struct codes codes = {ARENA_NEW(arena, uint32_t, GROWS * *bytes), 0};
    for (int64_t at = 0, end; at < *bytes; at = end) {
        end = at + 1;
        while (end < *bytes && (unsigned char)text[end] >= 0x80)
            end++;
        if (end == at + 1 && (unsigned char)text[at] < 0x80)
            to[count++] = text[at];
        else
            count += compose_piece(&codes, text + at, end - at, to + count);
    }
    assert(count <= GROWS * *bytes);
    *bytes = count;
    return to;
}

// Found twice: how often says the room, and what does not occur costs no copy.
static const char *replace(struct arena *arena, const struct normal_step *step, const char *text,
                           int64_t *bytes)
{
    size_t from = strlen(step->pattern), into = strlen(step->text);
    assert(from > 0 && "nothing occurs everywhere");
    int64_t found = 0, count = 0;
    const char *end = text + *bytes;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), step->pattern, from));)
        found++, at += from;
    if (found == 0) return text;
    int64_t room = *bytes + found * ((int64_t)into - (int64_t)from);
    char *to = ARENA_NEW(arena, char, room + 1);
    for (const char *at = text, *next; at < end; at = next + from) {
        next = memmem(at, (size_t)(end - at), step->pattern, from);
        size_t between = (size_t)((next ? next : end) - at);
        memcpy(to + count, at, between);
        count += (int64_t)between;
        if (!next) break;
        memcpy(to + count, step->text, into);
        count += (int64_t)into;
    }
    assert(count == room);
    *bytes = count;
    return to;
}

static const char *prepend(struct arena *arena, const struct normal_step *step, const char *text,
                           int64_t *bytes)
{
    size_t more = strlen(step->text);
    if (*bytes == 0) return text;
    char *to = ARENA_NEW(arena, char, *bytes + (int64_t)more);
    memcpy(to, step->text, more);
    memcpy(to + more, text, (size_t)*bytes);
    *bytes += (int64_t)more;
    return to;
}

const char *normal_apply(struct arena *arena, const struct normal_step *steps, int count,
                         const char *text, int64_t *bytes)
{
    for (int i = 0; i < count; i++) {
        switch (steps[i].kind) {
        case NORMAL_NFC:
            text = nfc(arena, text, bytes);
            break;
        case NORMAL_PREPEND:
            text = prepend(arena, &steps[i], text, bytes);
            break;
        case NORMAL_REPLACE:
            text = replace(arena, &steps[i], text, bytes);
            break;
        }
    }
    return text;
}
