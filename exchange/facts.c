#include "exchange/facts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct fact_row {
    const char *name, *neutral, *needs, *words;
} ROWS[] = {
#define FACT(name, neutral, needs, words) {name, neutral, needs, words},
#include "exchange/facts.inc"
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

static const struct fact_row *row_of(const char *name)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (strcmp(ROWS[i].name, name) == 0) return &ROWS[i];
    }
    return NULL;
}

static struct fact *find(const struct facts *facts, const char *name)
{
    for (int i = 0; i < facts->count; i++) {
        if (strcmp(facts->items[i].name, name) == 0) return &facts->items[i];
    }
    return NULL;
}

void facts_put(struct facts *facts, const char *name, const char *value)
{
    assert(*name && value);
    struct fact *fact = find(facts, name);
    if (!fact) {
        ARENA_GROW(facts->arena, facts->items, facts->count, facts->capacity);
        fact = &facts->items[facts->count++];
        fact->name = name;
    }
    fact->value = value;
}

const char *facts_get(const struct facts *facts, const char *name)
{
    const struct fact *fact = find(facts, name);
    return fact ? fact->value : NULL;
}

int64_t facts_number(const struct facts *facts, const char *name, int64_t absent)
{
    const char *value = facts_get(facts, name);
    return value ? strtoll(value, NULL, 10) : absent;
}

bool facts_is(const struct facts *facts, const char *name, const char *value)
{
    const char *found = facts_get(facts, name);
    return found && strcmp(found, value) == 0;
}

const char *fact_words(const char *name)
{
    const struct fact_row *row = row_of(name);
    return row ? row->words : name;
}

const char *fact_needs(const char *name)
{
    const struct fact_row *row = row_of(name);
    return row ? row->needs : NULL;
}

bool facts_is_neutral(const struct facts *facts, const char *name)
{
    const struct fact_row *row = row_of(name);
    const char *value = facts_get(facts, name);
    return !value || (row && strcmp(value, row->neutral) == 0);
}

// Whether it means something beside the others.
static bool facts_matters(const struct facts *facts, const char *name)
{
    const struct fact_row *row = row_of(name);
    if (!row || !row->needs) return true;
    // Where a model is not told, or only a part of it, what is asked of one may be there.
    bool is_models = strncmp(row->needs, "model.", 6) == 0 && !facts_get(facts, row->needs) &&
                     !facts_get(facts, "model.has_experts");
    if (is_models) return !facts_is_neutral(facts, name);
    return !facts_is_neutral(facts, row->needs) && facts_matters(facts, row->needs);
}

// All are judged before any is taken away: what one needs may stand behind it.
void facts_clean(struct facts *facts)
{
    int kept = 0;
    bool *matters = ARENA_NEW(facts->arena, bool, facts->count);
    for (int i = 0; i < facts->count; i++)
        matters[i] = facts_matters(facts, facts->items[i].name);
    for (int i = 0; i < facts->count; i++) {
        if (matters[i]) facts->items[kept++] = facts->items[i];
    }
    assert(kept <= facts->count);
    facts->count = kept;
}
