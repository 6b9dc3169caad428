#include "topologies/taken.h"
#include "core/units.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void taken_add(struct taken_list *list, const char *key, const char *value, const char *source)
{
    assert(list->arena && key && value && source && "what is taken has a source");
    struct taken_fact *grown = ARENA_NEW(list->arena, struct taken_fact, list->count + 1);
    if (list->count > 0) memcpy(grown, list->items, (size_t)list->count * sizeof *grown);
    grown[list->count++] = (struct taken_fact){key, value, source};
    list->items = grown;
}

void taken_add_number(struct taken_list *list, const char *key, double value, const char *source)
{
    static const double BILLION = 1e9;
    char text[UNITS_NUMBER_BYTES];
    // "2000e9", as the files are written, instead of so many zeros.
    int64_t billions = (int64_t)(value / BILLION);
    if (billions > 0 && (double)billions * BILLION == value)
        snprintf(text, sizeof text, "%llde9", (long long)billions);
    else
        units_number(text, value);
    taken_add(list, key, arena_copy(list->arena, text), source);
}

static bool is_first_of_source(const struct taken_list *list, int index)
{
    for (int i = 0; i < index; i++) {
        if (strcmp(list->items[i].source, list->items[index].source) == 0) return false;
    }
    return true;
}

const char *taken_text(const struct taken_list *list)
{
    const char *text = "";
    for (int i = 0; i < list->count; i++) {
        const struct taken_fact *first = &list->items[i];
        if (!is_first_of_source(list, i)) continue;
        const char *before = *text ? "; " : "";
        for (int k = i; k < list->count; k++) {
            const struct taken_fact *taken = &list->items[k];
            if (strcmp(taken->source, first->source) != 0) continue;
            text = arena_print(list->arena, "%s%s%s%s%s", text, before, taken->key,
                               *taken->value ? " " : "", taken->value);
            before = ", ";
        }
        text = arena_print(list->arena, "%s (%s)", text, first->source);
    }
    return text;
}

void provenance_assume(struct arena *arena, struct provenance_list *list, const char *key,
                       const char *source)
{
    assert(key && source);
    struct provenance *grown = ARENA_NEW(arena, struct provenance, list->count + 1);
    if (list->count > 0) memcpy(grown, list->entries, (size_t)list->count * sizeof *grown);
    grown[list->count++] =
        (struct provenance){.key = key, .kind = PROVENANCE_ASSUMED, .source = source};
    list->entries = grown;
}
