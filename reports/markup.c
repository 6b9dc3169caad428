#include "reports/markup.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_bytes(struct markup *markup, const char *text, size_t bytes)
{
    if (markup->length + bytes + 1 > markup->capacity) {
        size_t capacity = 2 * (markup->length + bytes) + 4096;
        char *grown = ARENA_NEW(markup->arena, char, capacity);
        if (markup->length) memcpy(grown, markup->text, markup->length);
        markup->text = grown;
        markup->capacity = capacity;
    }
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

static const char *reference(char byte)
{
    switch (byte) {
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
    default:
        break;
    }
    // No page and no picture may hold the other control characters.
    bool is_control = (unsigned char)byte < ' ' && byte != '\n' && byte != '\t';
    return is_control ? "\xef\xbf\xbd" : NULL;
}

void markup_text(struct markup *markup, const char *text)
{
    const char *from = text;
    for (; *text; text++) {
        const char *other = reference(*text);
        if (!other) continue;
        put_bytes(markup, from, (size_t)(text - from));
        markup_put(markup, other);
        from = text + 1;
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
