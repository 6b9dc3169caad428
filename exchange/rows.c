#include "exchange/rows.h"
#include "core/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// BY_ITSELF, which no fact is called like.
static bool is_short(const struct exchange_row *row)
{
    return row->fact[0] == '=';
}

// With a row for each value of BY_ITSELF.
static const struct exchange_row *in_full(struct arena *arena, const struct exchange_row *rows)
{
    assert(rows);
    size_t most = 1;
    for (const struct exchange_row *row = rows; row->fact; row++)
        most += is_short(row) ? strlen(row->options) : 1;
    struct exchange_row *full = ARENA_NEW(arena, struct exchange_row, most), *into = full;
    for (const struct exchange_row *row = rows; row->fact; row++) {
        if (!is_short(row)) *into++ = *row;
        for (const char *at = is_short(row) ? row->options : ""; *at; at += strspn(at, " ")) {
            size_t fact = strcspn(at, "="), value = strcspn(at + fact + 1, " ");
            *into++ = (struct exchange_row){
                .fact = arena_print(arena, "%.*s", (int)fact, at),
                .value = arena_print(arena, "%.*s", (int)value, at + fact + 1),
                .options = "",
            };
            at += fact + 1 + value;
        }
    }
    assert(into < full + most && "the last row stays empty: it ends the table");
    return full;
}

// An option more, beside those of the fact behind the sign.
static bool is_extra(const struct exchange_row *row)
{
    return row->fact[0] == '+';
}

// "full:{}" with "12" in it.
static const char *fill(struct arena *arena, const char *pattern, const char *value)
{
    assert(pattern && value);
    const char *hole = strstr(pattern, "{}");
    if (!hole) return pattern;
    return arena_print(arena, "%.*s%s%s", (int)(hole - pattern), pattern, value, hole + 2);
}

// Whether the text is as the pattern says; what stands in its hole goes to `captured`.
static bool match(struct arena *arena, const char *pattern, const char *text, const char **captured)
{
    const char *hole = strstr(pattern, "{}");
    if (!hole) {
        *captured = text;
        return strcmp(pattern, text) == 0;
    }
    size_t head = (size_t)(hole - pattern), tail = strlen(hole + 2), length = strlen(text);
    if (length <= head + tail || strncmp(pattern, text, head) != 0 ||
        strcmp(text + length - tail, hole + 2) != 0)
        return false;
    *captured = arena_print(arena, "%.*s", (int)(length - head - tail), text + head);
    return true;
}

// One option of a row: "KEY" or "KEY=VALUE". Returns what follows it; NULL: there is no more.
static const char *next_option(struct arena *arena, const char *options, const char **key,
                               const char **value)
{
    size_t length = strcspn(options, ";");
    if (length == 0) return NULL;
    const char *one = arena_print(arena, "%.*s", (int)length, options);
    const char *equals = strchr(one, '=');
    *key = equals ? arena_print(arena, "%.*s", (int)(equals - one), one) : one;
    *value = equals ? equals + 1 : "";
    return options + length + (options[length] == ';');
}

// "a|b" is written as a.
static const char *first_word(struct arena *arena, const char *value)
{
    return arena_print(arena, "%.*s", (int)strcspn(value, "|"), value);
}

static void add_options(const struct exchange_row *row, const char *value,
                        struct settings *settings)
{
    assert(row->options && value);
    struct arena *arena = settings->arena;
    const char *key, *pattern, *why = row->why;
    for (const char *at = row->options; (at = next_option(arena, at, &key, &pattern));) {
        const char *first = strstr(pattern, "{}") ? pattern : first_word(arena, pattern);
        settings_add(settings, key, fill(arena, first, value), why);
        why = NULL;
    }
}

// Whether the row can say this value; its options are added.
static bool says(const struct exchange_row *row, const struct facts *facts, const char *value,
                 struct settings *settings)
{
    const char *text = value;
    if (row->value && !match(settings->arena, row->value, value, &text)) return false;
    if (row->form) text = row->form->to(settings->arena, facts, text);
    if (!text) return false;
    add_options(row, text, settings);
    return true;
}

static void say_fact(const struct exchange_row *rows, const struct facts *facts,
                     const struct fact *fact, struct settings *settings, struct refusals *refusals)
{
    assert(refusals->count >= 0);
    bool is_asked = false;
    for (const struct exchange_row *row = rows; row->fact; row++) {
        if (strcmp(row->fact, fact->name) != 0) continue;
        if (says(row, facts, fact->value, settings)) return;
        is_asked = true;
    }
    enum { MOST = sizeof refusals->items / sizeof *refusals->items };
    if (!is_asked && facts_is_neutral(facts, fact->name)) return;
    if (refusals->count == MOST) return;
    refusals->items[refusals->count++] = (struct refusal){fact->name, fact->value};
}

static bool is_model(const char *name)
{
    return strncmp(name, "model.", 6) == 0;
}

// In the order of the table, so that what belongs together stands together.
void rows_export(const struct exchange_row *table, const struct facts *facts, bool has_model,
                 struct settings *settings, struct refusals *refusals)
{
    assert(table && facts->count >= 0);
    const struct exchange_row *rows = in_full(settings->arena, table);
    bool *is_said = ARENA_NEW(settings->arena, bool, facts->count);
    for (const struct exchange_row *row = rows; row->fact; row++) {
        const char *other = row->fact + 1;
        if (is_extra(row) &&
            (!*other || (facts_get(facts, other) && !facts_is(facts, other, "off") &&
                         !facts_is_neutral(facts, other)))) {
            const char *value = *other ? facts_get(facts, other) : "";
            const char *text = row->form ? row->form->to(settings->arena, facts, value) : value;
            if (text) add_options(row, text, settings);
        }
        for (int i = 0; i < facts->count; i++) {
            if (is_said[i] || strcmp(facts->items[i].name, row->fact) != 0) continue;
            say_fact(rows, facts, &facts->items[i], settings, refusals);
            is_said[i] = true;
        }
    }
    for (int i = 0; i < facts->count; i++) {
        bool is_asked = has_model || !is_model(facts->items[i].name);
        if (!is_said[i] && is_asked) say_fact(rows, facts, &facts->items[i], settings, refusals);
    }
}

// Whether `text` is one of the words "a|b".
static bool is_among(const char *words, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = words; *at; at += *at == '|') {
        size_t word = strcspn(at, "|");
        if (word == length && strncmp(at, text, length) == 0) return true;
        at += word;
    }
    return !*words && !*text;
}

// Whether all options of the row are there; what fills the holes goes to `captured`, which must be
// one text.
static bool is_there(const struct exchange_row *row, const struct settings *settings,
                     const char **captured)
{
    struct arena *arena = settings->arena;
    const char *key, *pattern, *found = NULL;
    *captured = "";
    for (const char *at = row->options; (at = next_option(arena, at, &key, &pattern));) {
        const struct setting *setting = settings_find(settings, key);
        if (!setting) return false;
        if (!strstr(pattern, "{}")) {
            if (!is_among(pattern, setting->value)) return false;
            continue;
        }
        const char *text;
        if (!match(arena, pattern, setting->value, &text)) return false;
        if (found && strcmp(found, text) != 0) return false;
        *captured = found = text;
    }
    return true;
}

static void mark(const struct exchange_row *row, const struct settings *settings, bool only_first,
                 bool is_odd)
{
    const char *key, *pattern;
    for (const char *at = row->options; (at = next_option(settings->arena, at, &key, &pattern));) {
        struct setting *setting = settings_find(settings, key);
        if (setting && is_odd) setting->is_odd = true;
        if (setting && !is_odd) setting->is_used = true;
        if (only_first) return;
    }
}

// Whether a plan can hold the value, as far as it is a number there: "$TP" and "N" are none, and
// what nobody knows is no value of anything.
static bool holds(const char *fact, const char *value)
{
    static const char *const NUMBERS[] = {"world", "global_batch", "seq_len"};
    struct err unread = {0};
    enum choice choice;
    int64_t number;
    char *end = NULL;
    if (strchr(value, '$')) return false;
    if (choice_find(fact, &choice) && choice_is_number(choice))
        return choice_parse(choice, value, &number, &unread);
    return NAME_INDEX(NUMBERS, fact) < 0 || (strtoll(value, &end, 10) > 0 && !*end);
}

// The value of the fact as this row has it; NULL: the row does not say it.
static const char *value_of(const struct exchange_row *row, const struct settings *settings,
                            const struct facts *facts)
{
    const char *text, *value;
    if (!is_there(row, settings, &text)) return NULL;
    if (row->form) {
        value = row->form->from(settings->arena, facts, text);
        if (!value) return NULL;
        return row->value ? fill(settings->arena, row->value, value) : value;
    }
    if (row->value) return fill(settings->arena, row->value, text);
    return *text ? text : NULL;
}

// Whether an option of the fact is there that no row above has taken.
static bool has_own(const struct exchange_row *row, const struct settings *settings)
{
    const char *key, *pattern;
    return next_option(settings->arena, row->options, &key, &pattern) &&
           settings_find(settings, key) && !settings_find(settings, key)->is_used;
}

static void import_fact(const struct exchange_row *first, const struct settings *settings,
                        struct facts *facts)
{
    assert(!is_extra(first) && !facts_get(facts, first->fact));
    const struct exchange_row *odd = NULL;
    for (const struct exchange_row *row = first; row->fact; row++) {
        if (strcmp(row->fact, first->fact) != 0) continue;
        // What a program does by itself stands last: not where it was told something.
        if (odd && !*row->options) continue;
        const char *value = value_of(row, settings, facts);
        if (value && holds(first->fact, value)) {
            facts_put(facts, first->fact, value);
            mark(row, settings, false, false);
            return;
        }
        if (has_own(row, settings)) odd = row;
    }
    // A model whose option nobody can read is not the model without it.
    if (odd && is_model(first->fact)) facts_put(facts, "model.open", first->fact);
    for (const struct exchange_row *row = first; odd && row->fact; row++) {
        if (strcmp(row->fact, first->fact) == 0) mark(row, settings, true, true);
    }
}

// Whether what an option more is filled with is what follows from the facts above it.
static bool follows(const struct exchange_row *row, const struct settings *settings,
                    const struct facts *facts, const char *captured)
{
    const char *other = row->fact + 1, *value = *other ? facts_get(facts, other) : "";
    if (!strstr(row->options, "{}")) return true;
    if (value && row->form) value = row->form->to(settings->arena, facts, value);
    return value && strcmp(value, captured) == 0;
}

// Rows of a fact are asked once, all together: what none can say stays open.
static bool is_first(const struct exchange_row *rows, const struct exchange_row *row)
{
    for (const struct exchange_row *above = rows; above < row; above++) {
        if (strcmp(above->fact, row->fact) == 0) return false;
    }
    return true;
}

void rows_import(const struct exchange_row *table, const struct settings *settings,
                 struct facts *facts)
{
    const struct exchange_row *rows = in_full(settings->arena, table);
    const char *captured;
    for (const struct exchange_row *row = rows; row->fact; row++) {
        if (is_extra(row)) {
            bool is_read = is_there(row, settings, &captured);
            if (is_read && follows(row, settings, facts, captured))
                mark(row, settings, false, false);
        } else if (!facts_get(facts, row->fact) && is_first(rows, row)) {
            import_fact(row, settings, facts);
        }
    }
}
