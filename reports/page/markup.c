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
