#pragma once
#include "core/arena.h"

// The options that a program takes, as data with its version: exchange/options/*.tsv, a line an
// option (name, destination, kind, type, number of values, choices, default).

struct option_fact {
    const char *name, *type, *nargs, *choices;  // type "flag": takes no value
};

// Whether the table is there, and the option in it. Names live in `arena`.
bool option_table_find(struct arena *arena, const char *table, const char *name,
                       struct option_fact *fact);
