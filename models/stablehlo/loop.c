#include "models/stablehlo/body.h"

#include <assert.h>

// The names of what goes round, and what it is at the start.
static bool read_carried(struct hlo_op *op, const struct hlo_scope *scope, const char **names,
                         const struct hlo_value **carried)
{
    const struct hlo_text *text = &op->reader->text;
    int at = op->at + 2, close = text->tokens[op->at + 1].partner, count = 0;
    for (; at < close; count++) {
        if (count == op->result_count) return hlo_fail(op, "more values than results");
        names[count] = hlo_text_copy(text, at);
        if (text->tokens[at].kind != HLO_VALUE) return hlo_fail(op, "a name is wanted");
        if (!hlo_text_expect(text, at + 1, "=")) return false;
        carried[count] = hlo_find(op->reader, scope, at + 2, "read");
        if (!carried[count]) return false;
        if (!hlo_is_alike(&carried[count]->as, &op->types[count]))
            return hlo_fail(op, "value %d is not of the type that is stated", count);
        at += 3;
        if (at < close && !hlo_text_expect(text, at++, ",")) return false;
    }
    return count == op->result_count || hlo_fail(op, "as many values as results are wanted");
}

// The bracket behind a word.
static bool find_region(const struct hlo_op *op, int *token, const char *word)
{
    const struct hlo_text *text = &op->reader->text;
    if (!hlo_text_expect(text, *token, word)) return false;
    ++*token;
    return hlo_text_expect(text, *token, "{");
}

// Whether it goes round once more; false with an error where that is computed.
static bool goes_on(struct hlo_op *op, struct hlo_scope *scope, int condition, bool *again)
{
    struct hlo_results asked = {0};
    if (!hlo_run_body(op->reader, scope, condition, &asked)) return false;
    bool is_known = asked.count == 1 && asked.values[0]->tensor->has_number;
    *again = is_known && asked.values[0]->tensor->number != 0;
    return is_known || hlo_fail(op, "how often it goes round is computed from data");
}

static bool go_round(struct hlo_op *op, struct hlo_scope *scope, int body)
{
    struct hlo_results made = {0};
    if (!hlo_run_body(op->reader, scope, body, &made)) return false;
    if (made.count != op->result_count)
        return hlo_fail(op, "its body returns %d values, %d are wanted", made.count,
                        op->result_count);
    assert(made.values);
    for (int i = 0; i < made.count; i++) {
        op->results[i] = made.values[i];
        if (!hlo_is_alike(&made.values[i]->as, &op->types[i]))
            return hlo_fail(op, "value %d is not of the type that is stated", i);
    }
    return true;
}

bool hlo_run_loop(struct hlo_op *op, struct hlo_scope *scope, int *token)
{
    const struct hlo_text *text = &op->reader->text;
    struct arena *arena = op->draft->arena;
    const char **names = ARENA_NEW(arena, const char *, op->result_count);
    if (op->result_count < 1) return hlo_fail(op, "it has no result");
    if (!hlo_text_expect(text, op->at + 1, "(")) return false;
    int at = text->tokens[op->at + 1].partner + 1;
    if (!hlo_text_expect(text, at++, ":") || !hlo_result_types(op, &at)) return false;
    if (!read_carried(op, scope, names, op->results)) return false;
    if (hlo_text_is(text, at, "attributes") && hlo_text_is(text, at + 1, "{"))
        at = text->tokens[at + 1].partner + 1;
    if (!find_region(op, &at, "cond")) return false;
    int condition = at;
    at = text->tokens[at].partner + 1;
    if (!find_region(op, &at, "do")) return false;
    for (bool again = true; again;) {
        for (int i = 0; i < op->result_count; i++)
            hlo_put(op->reader, scope, names[i], op->results[i]);
        if (!hlo_count(op->reader, op->at) || !goes_on(op, scope, condition, &again)) return false;
        if (again && !go_round(op, scope, at)) return false;
    }
    *token = text->tokens[at].partner + 1;
    return true;
}
