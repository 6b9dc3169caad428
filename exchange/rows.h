#pragma once
#include "exchange/facts.h"
#include "exchange/settings.h"

// The table of a target: rows from facts of a plan to the options of a program. Export takes for
// every fact the first row that can say its value; import takes the first row whose options are
// all there: the same rows in both directions, so that what was exported is imported as it was.

// Where a value is written otherwise. Both take the facts known so far (import: those of the rows
// above) and return NULL where there is no such value.
struct exchange_form {
    const char *(*to)(struct arena *arena, const struct facts *facts, const char *value);
    const char *(*from)(struct arena *arena, const struct facts *facts, const char *text);
};

// options: "KEY", "KEY=VALUE", several joined by ';'. "{}" stands for the value of the fact, or for
// what its `value` captures; "a|b" is written as a and read as either. "": the program does so by
// itself. The first option is the row's own; where it is there and no row takes it, the fact is not
// said.
//
// A fact that begins with '+' is an option more: written where the fact is not neutral ("+":
// always), and read over.
struct exchange_row {
    const char *fact;
    const char *value;  // "full", "full:{}"; NULL: any
    const char *options;
    const char *why;
    const struct exchange_form *form;
};

// Values that the program takes by itself, "fact=value" by fact: a row each that has no options.
#define BY_ITSELF(facts)             \
    {                                \
        "=", NULL, facts, NULL, NULL \
    }

// What keeps a program from a plan.
struct refusal {
    const char *fact, *value;
};

struct refusals {
    struct refusal items[8];
    int count;
};

// Adds the options of the facts. What no row can say is refused, but for a neutral value of what
// the table has no row of. Facts of a model are left out unless `has_model`.
void rows_export(const struct exchange_row *table, const struct facts *facts, bool has_model,
                 struct settings *settings, struct refusals *refusals);
// Adds the facts of the options, marks these as used or odd.
void rows_import(const struct exchange_row *table, const struct settings *settings,
                 struct facts *facts);
