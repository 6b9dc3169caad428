#include "exchange/values.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool value_is_bare(const char *value)
{
    char *end = NULL;
    strtod(value, &end);
    if (*value && !*end && strcspn(value, "nNiI") == strlen(value)) return true;
    return *value == '[' || strcmp(value, "true") == 0 || strcmp(value, "false") == 0 ||
           strcmp(value, "null") == 0;
}

const char *key_name(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

const char *key_group(struct arena *arena, const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? arena_print(arena, "%.*s", (int)(dot - key), key) : "";
}

// A comma behind a value is of the list that it stood in.
const char *value_unquoted(struct arena *arena, const char *text, size_t length)
{
    while (length > 0 && strchr(" \t", *text)) {
        text++;
        length--;
    }
    while (length > 0 && strchr(" \t\r\n,", text[length - 1]))
        length--;
    bool is_quoted = length > 1 && strchr("\"'", *text) && text[length - 1] == *text;
    if (is_quoted) return arena_print(arena, "%.*s", (int)length - 2, text + 1);
    return arena_print(arena, "%.*s", (int)length, text);
}

size_t value_length(const char *line)
{
    char quote = '\0';
    size_t i = 0;
    for (; line[i] && line[i] != '\n'; i++) {
        if (quote) {
            quote = line[i] == quote ? '\0' : quote;
        } else if (line[i] == '"' || line[i] == '\'') {
            quote = line[i];
        } else if (line[i] == '#') {
            break;
        }
    }
    assert(!line[i] || line[i] == '\n' || line[i] == '#');
    return i;
}
