#include "exchange/shell.h"

#include "reports/page/markup.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// The last assignment counts: lines above a use come first.
const char *shell_value(const struct shell *shell, const char *name)
{
    for (int i = shell->variable_count; i-- > 0;) {
        if (strcmp(shell->variables[i].name, name) == 0) return shell->variables[i].value;
    }
    return NULL;
}

void shell_assign(struct shell *shell, const char *name, const char *value, bool appends)
{
    assert(*name && value);
    const char *before = appends ? shell_value(shell, name) : NULL;
    if (before) value = arena_print(shell->arena, "%s %s", before, value);
    ARENA_GROW(shell->arena, shell->variables, shell->variable_count, shell->variable_capacity);
    shell->variables[shell->variable_count++] = (struct shell_variable){name, value, shell->line};
}

static size_t name_length(const char *text)
{
    size_t length = 0;
    if (!isalpha((unsigned char)*text) && *text != '_') return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

// A sum of products of whole numbers, from left to right with the usual precedence.
struct sum {
    const char *at;
    bool is_known;
};

static double sum_of(struct sum *sum);

static double factor_of(struct sum *sum)
{
    while (*sum->at == ' ')
        sum->at++;
    if (*sum->at == '(') {
        sum->at++;
        double value = sum_of(sum);
        if (*sum->at == ')') sum->at++;
        return value;
    }
    char *end;
    double value = strtod(sum->at, &end);
    if (end == sum->at) sum->is_known = false;
    sum->at = end;
    return value;
}

static double product_of(struct sum *sum)
{
    double value = factor_of(sum);
    for (;;) {
        while (*sum->at == ' ')
            sum->at++;
        char sign = *sum->at;
        if (sign != '*' && sign != '/' && sign != '%') return value;
        sum->at++;
        double other = factor_of(sum);
        if (sign != '*' && other == 0) sum->is_known = false;
        if (!sum->is_known) return 0;
        int64_t a = (int64_t)value, b = (int64_t)other;
        int64_t whole = sign == '*' ? a * b : sign == '/' ? a / b : a % b;
        value = (double)whole;
    }
}

static double sum_of(struct sum *sum)
{
    double value = product_of(sum);
    while (sum->is_known && (*sum->at == '+' || *sum->at == '-')) {
        char sign = *sum->at++;
        double other = product_of(sum);
        value = sign == '+' ? value + other : value - other;
    }
    return value;
}

// Where the bracket that stands at `text` closes; the end where it does not.
static size_t bracket_length(const char *text, char open, char close)
{
    assert(*text == open);
    int depth = 0;
    size_t i = 0;
    for (; text[i]; i++) {
        depth += text[i] == open;
        depth -= text[i] == close;
        if (depth == 0) return i + 1;
    }
    return i;
}

// "(( 8 * 4 ))" behind a dollar. NULL: not known.
static const char *arithmetic(const struct shell *shell, const char *text, size_t length)
{
    const char *inner = shell_expand(shell, text, length);
    // Names need no dollar there.
    const char *plain = "";
    for (const char *at = inner; *at;) {
        size_t name = name_length(at);
        const char *key = name ? arena_print(shell->arena, "%.*s", (int)name, at) : NULL;
        const char *value = key ? shell_value(shell, key) : NULL;
        plain = value ? arena_print(shell->arena, "%s%s", plain, value)
                      : arena_print(shell->arena, "%s%.*s", plain, (int)(name ? name : 1), at);
        at += name ? name : 1;
    }
    struct sum sum = {plain, true};
    double value = sum_of(&sum);
    while (*sum.at == ' ')
        sum.at++;
    if (!sum.is_known || *sum.at) return NULL;
    return arena_print(shell->arena, "%lld", (long long)value);
}

// "{NAME}", "{NAME:-default}", "{NAME:=default}", "{NAME[@]}" behind a dollar. NULL: not known.
static const char *braces(const struct shell *shell, const char *text, size_t length)
{
    // Arguments of the script, "{3:-default}", are not given.
    size_t name = name_length(text), digits = strspn(text, "0123456789");
    if (name == 0) name = digits < length ? digits : length;
    const char *key = arena_print(shell->arena, "%.*s", (int)name, text);
    const char *value = shell_value(shell, key), *rest = text + name, *end = text + length;
    if (rest < end && *rest == '[') return value ? value : "";
    if (rest + 1 < end && *rest == ':' && (rest[1] == '-' || rest[1] == '='))
        return value && *value ? value : shell_expand(shell, rest + 2, (size_t)(end - rest - 2));
    if (rest < end && *rest == '-')
        return value ? value : shell_expand(shell, rest + 1, (size_t)(end - rest - 1));
    return rest == end ? value : NULL;
}

// What stands behind a dollar; its length goes to *length. NULL: not known.
static const char *dollar(const struct shell *shell, const char *text, size_t *length)
{
    if (strncmp(text, "((", 2) == 0) {
        *length = bracket_length(text, '(', ')');
        return *length > 4 ? arithmetic(shell, text + 2, *length - 4) : NULL;
    }
    if (*text == '(') {
        *length = bracket_length(text, '(', ')');
        return NULL;
    }
    if (*text == '{') {
        *length = bracket_length(text, '{', '}');
        return *length > 2 ? braces(shell, text + 1, *length - 2) : NULL;
    }
    *length = name_length(text);
    if (*length) return shell_value(shell, arena_print(shell->arena, "%.*s", (int)*length, text));
    *length = *text != '\0';
    return NULL;
}

static const char *expand(const struct shell *shell, const char *text, size_t length,
                          const char *quotes)
{
    struct markup result = {.arena = shell->arena};
    const char *end = text + length;
    markup_put(&result, "");
    for (const char *at = text; at < end;) {
        size_t plain = 0;
        while (at + plain < end && at[plain] != '$' && !strchr(quotes, at[plain]))
            plain++;
        if (plain) markup_print(&result, "%.*s", (int)plain, at);
        at += plain;
        if (at >= end) break;
        if (*at != '$') {
            at++;
            continue;
        }
        size_t used = 0;
        const char *value = dollar(shell, at + 1, &used);
        if (at + 1 + used > end) used = (size_t)(end - at - 1);
        if (value) {
            markup_put(&result, value);
        } else {
            markup_print(&result, "%.*s", (int)used + 1, at);
        }
        at += 1 + used;
    }
    assert(result.text);
    return result.text ? result.text : "";
}

const char *shell_expand(const struct shell *shell, const char *text, size_t length)
{
    return expand(shell, text, length, "\"'");
}

const char *shell_expand_text(const struct shell *shell, const char *text, size_t length)
{
    return expand(shell, text, length, "");
}

void shell_assign_defaults(struct shell *shell, const char *word)
{
    for (const char *at = word; (at = strstr(at, "${")); at += 2) {
        size_t length = bracket_length(at + 1, '{', '}'), name = name_length(at + 2);
        const char *sign = at + 2 + name;
        if (name == 0 || strncmp(sign, ":=", 2) != 0 || length < name + 4) continue;
        const char *key = arena_print(shell->arena, "%.*s", (int)name, at + 2);
        const char *value = braces(shell, at + 2, length - 2);
        if (value) shell_assign(shell, key, value, false);
    }
}
