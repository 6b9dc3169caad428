#pragma once
#include "models/stablehlo/op.h"

// The body of a function or of a loop while it is run, operator by operator.

// Its names so far; those of a loop are put anew each time round.
struct hlo_scope {
    struct names names;
    const struct hlo_value **values;
    int count, room;
};

// What it returns.
struct hlo_results {
    const struct hlo_value **values;
    int count;
};

void hlo_put(const struct hlo_reader *reader, struct hlo_scope *scope, const char *name,
             const struct hlo_value *value);
// What stands at a token; NULL and an error, that it is `done` and not made: there is none.
const struct hlo_value *hlo_find(const struct hlo_reader *reader, const struct hlo_scope *scope,
                                 int token, const char *done);
// Whether values are of the same element type and sizes.
bool hlo_is_alike(const struct draft_value *a, const struct draft_value *b);

// Counts one operator; false and an error: there are too many.
bool hlo_count(struct hlo_reader *reader, int token);
// The types of an operator's results from *token on, which goes behind them.
bool hlo_result_types(struct hlo_op *op, int *token);
// From the bracket that opens it to what it returns.
bool hlo_run_body(struct hlo_reader *reader, struct hlo_scope *scope, int open,
                  struct hlo_results *results);

// while(%a = %x, ...), as jax.lax.scan is printed: its body is run once for each time round, so
// that how often has to follow from constants. Sets the results; *token goes behind it.
bool hlo_run_loop(struct hlo_op *op, struct hlo_scope *scope, int *token);
