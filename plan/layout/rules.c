#include "plan/layout/rules.h"

#include <assert.h>
#include <string.h>

static const char *const WHOLE = "whole", *const FOLLOWS = "otherwise";

const char *layout_rule_word(const struct layout_rule *rule)
{
    assert((unsigned)rule->dim < DIM_COUNT);
    if (rule->follows) return FOLLOWS;
    return rule->dim == DIM_NONE ? WHOLE : dim_name(rule->dim);
}

bool layout_rule_parse(const char *word, struct layout_rule *rule)
{
    rule->follows = strcmp(word, FOLLOWS) == 0;
    rule->dim = DIM_NONE;
    if (rule->follows || strcmp(word, WHOLE) == 0) return true;
    for (int d = DIM_NONE + 1; d < DIM_COUNT && !rule->dim; d++)
        if (strcmp(word, dim_name((enum dim)d)) == 0) rule->dim = (enum dim)d;
    return rule->dim != DIM_NONE;
}

const char *layout_rule_name(struct arena *arena, const struct block *block, const struct op *op)
{
    return arena_print(arena, "%s.%s", block->name, op->name);
}

static bool is_of(const struct layout_rule *rule, const struct block *block, const struct op *op)
{
    size_t length = strlen(block->name);
    return strncmp(rule->operator, block->name, length) == 0 &&
           rule->operator[length] == '.' && strcmp(rule->operator+ length + 1, op->name) == 0;
}

static const struct layout_rule *find(const struct parallel *parallel, enum axis axis,
                                      const struct block *block, const struct op *op)
{
    assert(parallel->layout_count == 0 || parallel->layouts);
    const struct layout_rule *found = NULL;
    for (int i = 0; i < parallel->layout_count; i++) {
        const struct layout_rule *rule = &parallel->layouts[i];
        if (rule->is_of_stage && rule->stage + 1 != parallel->layout_stage) continue;
        if (found && !rule->is_of_stage) continue;
        if (rule->axis == axis && is_of(rule, block, op)) found = rule;
    }
    return found;
}

bool layout_rules_are_staged(const struct parallel *parallel)
{
    for (int i = 0; i < parallel->layout_count; i++)
        if (parallel->layouts[i].is_of_stage) return true;
    return false;
}

const struct layout_rule *layout_rule_of(const struct parallel *parallel, enum axis axis,
                                         const struct block *block, const struct op *op)
{
    if (parallel->layout_count == 0) return NULL;
    if (op->phase == PHASE_FORWARD) return find(parallel, axis, block, op);
    int sum_of = block->tensors[op->outputs[0]].gradient_of;
    int maker = sum_of >= 0 ? block->tensors[sum_of].producer : -1;
    if (maker < 0) return NULL;
    const struct layout_rule *rule = find(parallel, axis, block, &block->ops[maker]);
    bool has = rule && (rule->dim == DIM_NONE || op_has_dim(block, op, rule->dim));
    return has ? rule : NULL;
}

// The dims of an operator that tp may split, for messages: "batch, seq, ffn".
static const char *legal_dims(struct arena *arena, const struct block *block, const struct op *op)
{
    const char *text = "";
    for (int d = DIM_NONE + 1; d < DIM_COUNT; d++) {
        bool is_legal = op_has_dim(block, op, (enum dim)d) &&
                        op_rule(op->kind)->split(block, op, (enum dim)d) != SPLIT_NO;
        if (is_legal)
            text = arena_print(arena, "%s%s%s", text, *text ? ", " : "", dim_name((enum dim)d));
    }
    return *text ? text : "nothing";
}

// Operators whose layouts follow those of their experts.
static bool is_routed(const struct block *block, const struct op *op)
{
    return op->kind == OP_ROUTE || op->kind == OP_DISPATCH || op->kind == OP_COMBINE ||
           op_has_dim(block, op, DIM_EXPERT) || op_has_dim(block, op, DIM_GATE);
}

const char *layout_rule_fault(struct arena *arena, const struct block *block, const struct op *op,
                              const struct layout_rule *rule)
{
    if (rule->axis != AXIS_TP)
        return arena_print(arena, "cannot be laid out over %s: tp is the one axis that can be",
                           axis_name(rule->axis));
    if (is_routed(block, op)) return "is laid out as its experts are, by ep and etp";
    if (rule->dim == DIM_NONE) return NULL;
    bool is_legal = op_has_dim(block, op, rule->dim) &&
                    op_rule(op->kind)->split(block, op, rule->dim) != SPLIT_NO;
    if (is_legal) return NULL;
    return arena_print(arena, "cannot be split over %s; what of it can: %s", dim_name(rule->dim),
                       legal_dims(arena, block, op));
}

void layout_rules_write(struct json_writer *writer, const char *key,
                        const struct parallel *parallel)
{
    json_open(writer, key, '[');
    for (int i = 0; i < parallel->layout_count; i++) {
        const struct layout_rule *rule = &parallel->layouts[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "operator", rule->operator);
        json_put_text(writer, "axis", axis_name(rule->axis));
        json_put_text(writer, "dim", layout_rule_word(rule));
        if (rule->is_of_stage) json_put_i64(writer, "stage", rule->stage);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static const struct json_field RULE_FIELDS[] = {
    {JSON_TEXT(struct layout_rule, operator)},
    {JSON_ANY("axis")},
    {JSON_ANY("dim")},
    {JSON_OPT_ANY("stage")},
    {0},
};

static bool read_rule(struct arena *arena, const struct json *item, struct layout_rule *rule,
                      struct err *err)
{
    json_read(item, RULE_FIELDS, rule, err);
    struct json axis = json_get(item, "axis", err), dim = json_get(item, "dim", err);
    const char *axis_word = json_text(&axis, err), *dim_word = json_text(&dim, err);
    if (err->kind) return false;
    rule->operator= arena_copy(arena, rule->operator);
    rule->is_of_stage = json_has(item, "stage");
    if (rule->is_of_stage) {
        struct json stage = json_get(item, "stage", err);
        rule->stage = (int)json_i64(&stage, 0, STAGE_MAX - 1, err);
        if (err->kind) return false;
    }
    if (!axis_from_name(axis_word, &rule->axis))
        return json_fail(&axis, err, "\"%s\" is no axis", axis_word);
    if (layout_rule_parse(dim_word, rule)) return true;
    return json_fail(&dim, err, "\"%s\" is no dim, nor %s or %s", dim_word, WHOLE, FOLLOWS);
}

bool layout_rules_read(struct arena *arena, const struct json *list, struct parallel *parallel,
                       struct err *err)
{
    int count = json_count(list, err);
    if (err->kind) return false;
    struct layout_rule *rules = ARENA_NEW(arena, struct layout_rule, count);
    for (int i = 0; i < count; i++) {
        struct json item = json_item(list, i);
        if (!read_rule(arena, &item, &rules[i], err)) return false;
        for (int k = 0; k < i; k++) {
            bool is_again = rules[k].axis == rules[i].axis &&
                            rules[k].is_of_stage == rules[i].is_of_stage &&
                            rules[k].stage == rules[i].stage &&
                            strcmp(rules[k].operator, rules[i].operator) == 0;
            if (is_again)
                return json_fail(&item, err, "%s is laid out over %s twice", rules[i].operator,
                                 axis_name(rules[i].axis));
        }
    }
    parallel->layouts = rules;
    parallel->layout_count = count;
    return true;
}
