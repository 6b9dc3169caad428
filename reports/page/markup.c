#include "reports/page/markup.h"
#include "core/plain.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_bytes(struct markup *markup, const char *text, size_t bytes)
{
    markup->text =
        arena_text_room(markup->arena, markup->text, markup->length, bytes, &markup->capacity);
    memcpy(markup->text + markup->length, text, bytes);
    markup->length += bytes;
    markup->text[markup->length] = '\0';
}

void markup_put(struct markup *markup, const char *text)
{
    put_bytes(markup, text, strlen(text));
}

void markup_print(struct markup *markup, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    markup_put(markup, arena_vprint(markup->arena, format, args));
    va_end(args);
}

// What is written instead of a character, or NULL.
static const char *reference(const char *text, size_t length)
{
    switch (*text) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return NULL;
    default:
        break;
    }
    // No page and no picture may hold other control characters, nor bytes that are none.
    bool is_shown = length > 0 && plain_is_shown(plain_code(text, length));
    return is_shown ? NULL : "\xef\xbf\xbd";
}

void markup_text(struct markup *markup, const char *text)
{
    const char *from = text;
    while (*text) {
        size_t length = plain_utf8_length(text);
        const char *other = reference(text, length);
        if (other) {
            put_bytes(markup, from, (size_t)(text - from));
            markup_put(markup, other);
        }
        text += length > 0 ? length : 1;
        if (other) from = text;
    }
    put_bytes(markup, from, (size_t)(text - from));
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

// Whether the blank at `at` stands between a number and what it counts, or its unit and theirs:
// "71.5 M USD", "54 %", "2.5 TB/s", or between a place and its number, "stage 0". A number ends a
// word of its own: no layout, no name.
static bool keeps_together(const char *text, size_t at)
{
    enum { UNIT_MOST = 7 };
    size_t start = at;
    while (start > 0 && text[start - 1] != ' ')
        start--;
    bool is_counted = is_digit(text[at + 1]) && (strncmp(text + start, "stage ", 6) == 0 ||
                                                 strncmp(text + start, "rank ", 5) == 0);
    if (is_counted) return true;
    bool is_number = at > start;
    for (size_t i = start; i < at; i++)
        is_number = is_number && (is_digit(text[i]) || strchr(".,(+x", text[i]) || text[i] < 0);
    if (is_number && is_digit(text[at - 1])) return true;
    // A letter for thousands or millions, with a number before it.
    bool is_scale = at == start + 1 && start > 1 && strchr("kMGTP", text[start]) != NULL;
    return is_scale && is_digit(text[start - 2]) && strcspn(text + at + 1, " ") <= UNIT_MOST;
}

void markup_prose(struct markup *markup, const char *text)
{
    enum { WHOLE_MOST = 24 };
    struct arena *arena = markup->arena;
    for (size_t at = 0; text[at];) {
        size_t length = strcspn(text + at, " ");
        const char *word = arena_print(arena, "%.*s", (int)length, text + at);
        bool is_whole = strchr(word, '-') && length <= WHOLE_MOST;
        if (is_whole) markup_put(markup, "<span class=\"whole\">");
        markup_text(markup, word);
        if (is_whole) markup_put(markup, "</span>");
        at += length;
        if (text[at] != ' ') continue;
        markup_put(markup, keeps_together(text, at) ? "\xc2\xa0" : " ");
        at++;
    }
}

void markup_attribute(struct markup *markup, const char *name, const char *text)
{
    markup_print(markup, " %s=\"", name);
    markup_text(markup, text);
    markup_put(markup, "\"");
}

void markup_number(struct markup *markup, double value, int decimals)
{
    assert(isfinite(value));
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, value);
    if (strchr(text, '.')) {
        size_t length = strlen(text);
        while (text[length - 1] == '0')
            text[--length] = '\0';
        if (text[length - 1] == '.') text[length - 1] = '\0';
    }
    markup_put(markup, strcmp(text, "-0") == 0 ? "0" : text);
}
