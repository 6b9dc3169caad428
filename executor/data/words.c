#include "executor/data/words.h"

#include "core/plain.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

// Alternatives are tried in their order, each as greedy as its expression; what none matches does
// not occur.

static const char *const EXPRESSIONS[WORDS_PATTERN_COUNT] = {
    [WORDS_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|"
                   "\\s+",
    [WORDS_LLAMA3] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [WORDS_QWEN2] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

enum words_pattern words_find(const char *expression)
{
    int pattern = 0;
    while (pattern < WORDS_PATTERN_COUNT && strcmp(EXPRESSIONS[pattern], expression) != 0)
        pattern++;
    return (enum words_pattern)pattern;
}

struct code_range {
    uint32_t first, last;
};
// Letters (L*) and numbers (N*) past ASCII, of the Unicode that `tokenizers` is built with.
static const struct code_range LETTERS[] = {
#include "executor/data/letters.inc"
};
static const struct code_range NUMBERS[] = {
#include "executor/data/numbers.inc"
};
// \w past ASCII, as it is there.
static const struct code_range WORD_CHARACTERS[] = {
#include "executor/data/word_characters.inc"
};
static const struct code_range SPACES[] = {{0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                           {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                           {0x205f, 0x205f}, {0x3000, 0x3000}};

// Ranges are in order and apart.
static bool is_among(const struct code_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}
#define IS_AMONG(ranges, code) is_among((ranges), sizeof(ranges) / sizeof *(ranges), (code))

enum kind { KIND_LETTER = 1, KIND_NUMBER = 2, KIND_SPACE = 4, KIND_OTHER = 8 };

static enum kind kind_of(uint32_t code)
{
    if (code < 0x80) {
        if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return KIND_LETTER;
        if (code >= '0' && code <= '9') return KIND_NUMBER;
        return code == ' ' || (code >= '\t' && code <= '\r') ? KIND_SPACE : KIND_OTHER;
    }
    if (IS_AMONG(LETTERS, code)) return KIND_LETTER;
    if (IS_AMONG(NUMBERS, code)) return KIND_NUMBER;
    return IS_AMONG(SPACES, code) ? KIND_SPACE : KIND_OTHER;
}

struct text {
    const char *at;
    int64_t bytes;
};

// What the character at this byte is, and how long; 0 at the end.
static enum kind kind_at(const struct text *text, int64_t from, int64_t *length)
{
    *length = 0;
    if (from >= text->bytes) return (enum kind)0;
    const char *at = text->at + from;
    *length = (unsigned char)*at < 0x80 ? 1 : (int64_t)plain_utf8_length(at);
    return kind_of(plain_code(at, (size_t)*length));
}

// Where characters of these kinds end that begin at a byte, at most so many.
static int64_t run_end(const struct text *text, int64_t from, unsigned kinds, int64_t most)
{
    int64_t length;
    for (; most > 0 && (kind_at(text, from, &length) & kinds); most--)
        from += length;
    return from;
}

// Behind the end stands no byte that anything begins with.
static char byte_at(const struct text *text, int64_t at)
{
    return at < text->bytes ? text->at[at] : '\0';
}

static bool is_line_end(char byte)
{
    return byte == '\n' || byte == '\r';
}

// 's 't 're 've 'm 'll 'd; 0: none. With `folds` in either case, and of s the long one too, which
// is folded to it.
static int64_t contraction(const struct text *text, bool folds)
{
    static const char *const ENDS[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (byte_at(text, 0) != '\'') return 0;
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        int64_t length = (int64_t)strlen(ENDS[i]), same = 0;
        while (same < length) {
            char byte = byte_at(text, 1 + same);
            if (folds && byte >= 'A' && byte <= 'Z') byte = (char)(byte | 0x20);
            if (byte != ENDS[i][same]) break;
            same++;
        }
        if (same == length) return 1 + length;
    }
    bool is_long_s = folds && text->bytes >= 3 && memcmp(text->at + 1, "\xc5\xbf", 2) == 0;
    return is_long_s ? 3 : 0;
}

// \s+(?!\S)|\s+: all of the spaces at the end of the text, else all but the last, else the one.
static int64_t spaces(const struct text *text)
{
    int64_t end = 0, last = 0, length;
    while (kind_at(text, end, &length) == KIND_SPACE) {
        last = end;
        end += length;
    }
    return end == text->bytes || last == 0 ? end : last;
}

// A space goes to the word behind it; spaces before it stay their own.
static int64_t gpt2_word(const struct text *text)
{
    static const unsigned KINDS[] = {KIND_LETTER, KIND_NUMBER, KIND_OTHER};
    int64_t found = contraction(text, false), start = byte_at(text, 0) == ' ';
    if (found) return found;
    for (int i = 0; i < 3; i++) {
        int64_t end = run_end(text, start, KINDS[i], INT64_MAX);
        if (end > start) return end;
    }
    return spaces(text);
}

// \s*[\r\n]+: as far as the last end of a line among the spaces; 0: there is none.
static int64_t lines(const struct text *text)
{
    int64_t end = run_end(text, 0, KIND_SPACE, INT64_MAX);
    while (end > 0 && !is_line_end(text->at[end - 1]))
        end--;
    return end;
}

// Any one character that is no letter, digit or end of a line may lead letters.
static int64_t llama_word(const struct text *text, int64_t digits)
{
    int64_t found = contraction(text, true), length;
    if (found) return found;
    enum kind first = kind_at(text, 0, &length);
    bool leads = (first & (KIND_SPACE | KIND_OTHER)) && !is_line_end(text->at[0]);
    int64_t start = leads ? length : 0, end = run_end(text, start, KIND_LETTER, INT64_MAX);
    if (end > start) return end;
    if (first == KIND_NUMBER) return run_end(text, 0, KIND_NUMBER, digits);
    start = byte_at(text, 0) == ' ';
    end = run_end(text, start, KIND_OTHER, INT64_MAX);
    if (end > start) {
        while (is_line_end(byte_at(text, end)))
            end++;
        return end;
    }
    end = lines(text);
    return end ? end : spaces(text);
}

int64_t words_next(enum words_pattern pattern, const char *text, int64_t bytes)
{
    struct text of = {text, bytes};
    assert(bytes > 0 && pattern < WORDS_PATTERN_COUNT);
    int64_t length =
        pattern == WORDS_GPT2 ? gpt2_word(&of) : llama_word(&of, pattern == WORDS_LLAMA3 ? 3 : 1);
    assert(length > 0 && length <= bytes && "every text begins with a word");
    return length;
}

static bool is_of_words(const struct text *text, int64_t from, enum kind kind, int64_t length)
{
    const char *at = text->at + from;
    if (length == 1) return kind == KIND_LETTER || kind == KIND_NUMBER || *at == '_';
    return IS_AMONG(WORD_CHARACTERS, plain_code(at, (size_t)length));
}

int64_t words_between_spaces(const char *text, int64_t bytes, bool cuts, int64_t *skipped)
{
    struct text of = {text, bytes};
    int64_t length, start = run_end(&of, 0, KIND_SPACE, INT64_MAX), end = start;
    enum kind kind = kind_at(&of, start, &length);
    bool is_word = length > 0 && is_of_words(&of, start, kind, length);
    *skipped = start;
    while (length > 0 && kind != KIND_SPACE &&
           (!cuts || is_of_words(&of, end, kind, length) == is_word)) {
        end += length;
        kind = kind_at(&of, end, &length);
    }
    assert(start <= end && end <= bytes);
    return end - start;
}
