#include "core/plain.h"

#include <stdio.h>
#include <string.h>

size_t plain_utf8_length(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    size_t length = byte[0] < 0x80 ? 1 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    if (byte[0] >= 0x80 && byte[0] < 0xc2) return 0;
    if (byte[0] > 0xf4) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xc0) != 0x80) return 0;
    }
    if (byte[0] == 0xe0 && byte[1] < 0xa0) return 0;
    if (byte[0] == 0xed && byte[1] > 0x9f) return 0;
    if (byte[0] == 0xf0 && byte[1] < 0x90) return 0;
    if (byte[0] == 0xf4 && byte[1] > 0x8f) return 0;
    return length;
}

unsigned plain_code(const char *text, size_t length)
{
    const unsigned char *byte = (const unsigned char *)text;
    if (length == 1) return byte[0];
    unsigned code = byte[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (byte[i] & 0x3f);
    }
    return code;
}

bool plain_is_shown(unsigned code)
{
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
    bool turns = code == 0x061c || code == 0x200e || code == 0x200f ||
                 (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    bool separates = code == 0x2028 || code == 0x2029;
    return !turns && !separates && code != 0xfeff;
}

const char *plain_fault(const char *text)
{
    while (*text) {
        if (*text >= ' ' && *text < 0x7f) {
            text++;
            continue;
        }
        size_t length = plain_utf8_length(text);
        if (length == 0 || !plain_is_shown(plain_code(text, length))) return text;
        text += length;
    }
    return NULL;
}

void plain_make(char *text)
{
    for (char *at = text; (at = (char *)plain_fault(at)) != NULL;) {
        size_t length = plain_utf8_length(at);
        memset(at, '?', length > 0 ? length : 1);
    }
}

const char *plain_copy(struct arena *arena, const char *text)
{
    char *copy = arena_copy(arena, text);
    plain_make(copy);
    return copy;
}

static bool is_safe_in_shell(const char *text)
{
    static const char SAFE[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "%+,-./:@_^=";
    return *text && text[strspn(text, SAFE)] == '\0';
}

// In quotes, `by_number` such as take numbers for bytes.
static const char *quoted(struct arena *arena, const char *text, bool by_number)
{
    char *out = ARENA_NEW(arena, char, 4 * strlen(text) + 4), *at = out;
    at = stpcpy(at, by_number ? "$'" : "'");
    for (; *text; text++) {
        bool is_hidden = (unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f;
        if (by_number && is_hidden) {
            at += sprintf(at, "\\%03o", (unsigned)(unsigned char)*text);
        } else if (by_number && (*text == '\'' || *text == '\\')) {
            at += sprintf(at, "\\%c", *text);
        } else if (*text == '\'') {
            at = stpcpy(at, "'\\''");
        } else {
            *at++ = *text;
        }
    }
    stpcpy(at, "'");
    return out;
}

const char *plain_shell(struct arena *arena, const char *text)
{
    if (is_safe_in_shell(text)) return arena_copy(arena, text);
    return quoted(arena, text, plain_fault(text) != NULL);
}

// A sign, digits with a point, and an exponent.
static bool is_number(const char *text)
{
    static const char DIGITS[] = "0123456789";
    text += *text == '+' || *text == '-';
    size_t digits = strspn(text, "0123456789.");
    text += digits;
    if (digits == 0 || !*text) return digits > 0;
    if (*text != 'e' && *text != 'E') return false;
    text++;
    text += *text == '+' || *text == '-';
    return *text && text[strspn(text, DIGITS)] == '\0';
}

bool plain_is_formula(const char *text)
{
    return *text && strchr("=+-@", *text) && !is_number(text);
}

const char *plain_csv(struct arena *arena, const char *text)
{
    text = plain_copy(arena, text);
    if (plain_is_formula(text)) text = arena_print(arena, "'%s", text);
    if (!strpbrk(text, ",;\"")) return text;
    char *out = ARENA_NEW(arena, char, 2 * strlen(text) + 3), *at = stpcpy(out, "\"");
    for (; *text; text++) {
        if (*text == '"') *at++ = '"';
        *at++ = *text;
    }
    stpcpy(at, "\"");
    return out;
}
