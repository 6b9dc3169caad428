#include "models/stablehlo/op.h"

#include "models/stablehlo/body.h"

#include <inttypes.h>
#include <string.h>

static const int64_t OPERATORS_MOST = INT64_C(1) << 18;

bool hlo_fail(const struct hlo_op *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *said = arena_vprint(op->draft->arena, format, args);
    va_end(args);
    return hlo_text_fail(&op->reader->text, op->at, "%.100s: %s",
                         printable(op->draft->arena, op->name), said);
}

int hlo_attribute(const struct hlo_op *op, const char *key)
{
    const struct hlo_text *text = &op->reader->text;
    for (int i = op->at + 1; i + 1 < op->end; i++)
        if (hlo_text_is(text, i, key) && hlo_text_is(text, i + 1, "=")) return i + 2;
    return -1;
}

bool hlo_says(const struct hlo_op *op, const char *word)
{
    for (int i = op->at + 1; i < op->end; i++)
        if (hlo_text_is(&op->reader->text, i, word)) return true;
    return false;
}

bool hlo_region_says(const struct hlo_op *op, const char *word)
{
    const struct hlo_text *text = &op->reader->text;
    for (int i = op->region; i < text->tokens[op->region].partner; i++)
        if (hlo_text_is(text, i, word)) return true;
    return false;
}

int hlo_list(const struct hlo_op *op, int token, int64_t *ints)
{
    const struct hlo_text *text = &op->reader->text;
    bool is_named = hlo_text_is(text, token + 1, "<");  // array<i64: ...>, dense<...>
    int at = is_named ? token + 1 : token, count = 0;
    int last = text->tokens[at].kind == HLO_MARK ? text->tokens[at].partner : at;
    for (; at <= last; at++) {
        double number = 0;
        if (!hlo_text_number(text, at, ELEMENT_INT64, &number)) continue;
        if (count == 2 * RANK_MOST) return count + 1;
        ints[count++] = (int64_t)number;
    }
    return count;
}

bool hlo_ints(const struct hlo_op *op, const char *key, int wanted, int64_t fallback, int64_t *ints)
{
    int64_t list[2 * RANK_MOST + 1] = {0};
    int token = hlo_attribute(op, key);
    int count = token < 0 ? 0 : hlo_list(op, token, list);
    bool is_splat = token >= 0 && count == 1 && hlo_text_is(&op->reader->text, token, "dense");
    if (token >= 0 && count != wanted && !is_splat)
        return hlo_fail(op, "%s has %d numbers, %d are wanted", key, count, wanted);
    for (int i = 0; i < wanted; i++)
        ints[i] = token < 0 ? fallback : list[is_splat ? 0 : i];
    return true;
}

bool hlo_axes(const struct hlo_op *op, const int64_t *axes, int count, int rank)
{
    bool is_there[RANK_MOST] = {0};
    for (int i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= rank || is_there[axes[i]])
            return hlo_fail(op, "dimension %lld is none of %d, or is there twice",
                            (long long)axes[i], rank);
        is_there[axes[i]] = true;
    }
    return true;
}

const struct hlo_value *hlo_operand(const struct hlo_op *op, int i)
{
    if (i < op->operand_count) return op->operands[i];
    hlo_fail(op, "it has %d operands", op->operand_count);
    return NULL;
}

bool hlo_answer(struct hlo_op *op, const struct hlo_value *value)
{
    const struct draft_value *stated = &op->types[0];
    bool fits = value->as.rank == stated->rank && value->as.element == stated->element;
    for (int i = 0; i < stated->rank && fits; i++)
        fits = value->as.dims[i] == stated->dims[i];
    if (!fits) return hlo_fail(op, "its result is not of the type that is stated");
    op->results[0] = value;
    return true;
}

const char *hlo_result(struct hlo_op *op)
{
    struct draft_value as = op->types[0];
    as.name = draft_between(op->draft);
    op->results[0] = hlo_value_new(op->draft, &as);
    return as.name;
}

const char *hlo_ordered(struct hlo_op *op, const int *order)
{
    int map[RANK_MOST], rank = op->types[0].rank;
    int64_t *dims = ARENA_NEW(op->draft->arena, int64_t, rank);
    for (int i = 0; i < rank; i++) {
        dims[i] = op->types[0].dims[order[i]];
        map[order[i]] = i;
    }
    struct draft_value as = op->types[0];
    as.dims = dims;
    as.name = draft_between(op->draft);
    hlo_view(op, hlo_value_new(op->draft, &as), map);
    return as.name;
}

bool hlo_view(struct hlo_op *op, const struct hlo_value *of, const int *map)
{
    op->results[0] = hlo_value_of(op->draft, of->tensor, &op->types[0], map);
    return true;
}

bool hlo_fixed(struct hlo_op *op)
{
    for (int i = 0; i < op->result_count; i++) {
        struct draft_value as = op->types[i];
        as.is_fixed = true;
        op->results[i] = hlo_value_new(op->draft, &as);
    }
    return true;
}

void hlo_put(const struct hlo_reader *reader, struct hlo_scope *scope, const char *name,
             const struct hlo_value *value)
{
    struct arena *arena = reader->draft.arena;
    ARENA_GROW(arena, scope->values, scope->count, scope->room);
    names_put(arena, &scope->names, name, scope->count);
    scope->values[scope->count++] = value;
}

const struct hlo_value *hlo_find(const struct hlo_reader *reader, const struct hlo_scope *scope,
                                 int token, const char *done)
{
    const char *name = hlo_text_copy(&reader->text, token);
    int found = names_find(&scope->names, name);
    if (found >= 0) return scope->values[found];
    hlo_text_fail(&reader->text, token, "%s is %s, but not made",
                  printable(reader->draft.arena, name), done);
    return NULL;
}

bool hlo_is_alike(const struct draft_value *a, const struct draft_value *b)
{
    bool is_it = a->element == b->element && a->rank == b->rank;
    for (int i = 0; i < a->rank && is_it; i++)
        is_it = a->dims[i] == b->dims[i];
    return is_it;
}

bool hlo_count(struct hlo_reader *reader, int token)
{
    if (++reader->operator_count <= OPERATORS_MOST) return true;
    return hlo_text_fail(&reader->text, token, "more than %" PRId64 " operators", OPERATORS_MOST);
}
