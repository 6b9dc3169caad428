#include "exchange/option_table.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name, *text;
} TABLES[] = {
    {
        "accelerate-1.15.0",
#include "exchange/options/accelerate-1.15.0.tsv.inc"
    },
    {
        "colossalai-0.5.0",
#include "exchange/options/colossalai-0.5.0.tsv.inc"
    },
    {
        "deepspeed-0.19.8",
#include "exchange/options/deepspeed-0.19.8.tsv.inc"
    },
    {
        "megatron-0.16.1",
#include "exchange/options/megatron-0.16.1.tsv.inc"
    },
    {
        "megatron-bridge-0.3.1",
#include "exchange/options/megatron-bridge-0.3.1.tsv.inc"
    },
    {
        "megatron-deepspeed-207b2d5",
#include "exchange/options/megatron-deepspeed-207b2d5.tsv.inc"
    },
    {
        "mindspore-2.10.0",
#include "exchange/options/mindspore-2.10.0.tsv.inc"
    },
    {
        "nemo-2.7.3",
#include "exchange/options/nemo-2.7.3.tsv.inc"
    },
    {
        "torchtitan-0.2.2",
#include "exchange/options/torchtitan-0.2.2.tsv.inc"
    },
};

static const char *column(struct arena *arena, const char *line, int number)
{
    assert(number >= 0);
    for (; number > 0; number--)
        line += strcspn(line, "\t\n") + 1;
    return arena_print(arena, "%.*s", (int)strcspn(line, "\t\n"), line);
}

// Whether it is one of the names that the line begins with, which are parted by blanks.
static bool is_named(const char *line, const char *name)
{
    for (size_t length; (length = strcspn(line, " \t\n")) > 0; line += length + 1) {
        if (strlen(name) == length && strncmp(line, name, length) == 0) return true;
        if (line[length] != ' ') return false;
    }
    return false;
}

bool option_table_find(struct arena *arena, const char *table, const char *name,
                       struct option_fact *fact)
{
    const char *text = NULL;
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++)
        text = strcmp(TABLES[i].name, table) == 0 ? TABLES[i].text : text;
    assert(text && "a target names a table that is there");
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        if (!is_named(line, name)) continue;
        *fact = (struct option_fact){column(arena, line, 0), column(arena, line, 3),
                                     column(arena, line, 4), column(arena, line, 5)};
        return true;
    }
    return false;
}
