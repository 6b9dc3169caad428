#include "plan/layout/annotations.h"

#include "core/units.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

// One "DIM/AXIS" of a line.
struct statement {
    const char *pattern, *words;  // "ffn/tp", "ffn/tp on stage 1"
    int line, column;
    struct layout_rule rule;  // its operator is not set
    bool matches;
};

// What is said of one operator, and by which statements.
struct spoken {
    const struct block *block;
    const struct op *op;
    struct layout_rule rule;
    const struct statement *by;  // NULL: nobody, it follows
    bool is_said;
};

struct reading {
    struct arena *arena;
    const char *path;
    struct statement *statements;
    int count, capacity;
    int stage_count;  // that can be told apart
    struct err *err;
};

static bool fail(struct reading *reading, enum err_kind kind, const struct statement *at,
                 const char *what)
{
    return err_set(reading->err, kind, "%s:%d:%d: %s", reading->path, at->line, at->column, what);
}

static const char *trimmed(struct arena *arena, const char *from, const char *to)
{
    while (from < to && strchr(" \t\r\"'", *from))
        from++;
    while (to > from && strchr(" \t\r\"'", to[-1]))
        to--;
    return arena_print(arena, "%.*s", (int)(to - from), from);
}

// What is in front of "on stage N", where the words end so.
static const char *read_stage(struct reading *reading, struct statement *statement)
{
    static const char ON[] = "on stage ";
    const char *words = statement->words, *on = strstr(words, ON);
    if (!on || on == words || !strchr(" \t", on[-1])) return words;
    const char *number = on + strlen(ON);
    size_t digits = strspn(number, "0123456789");
    long stage = digits > 0 && digits < 6 ? strtol(number, NULL, 10) : -1;
    if (stage < 0 || number[digits])
        return fail(reading, ERR_INPUT, statement,
                    arena_print(reading->arena, "\"%s\" is no stage's number", number)),
               NULL;
    if (reading->stage_count == 0)
        return fail(reading, ERR_USAGE, statement,
                    "stages have no numbers of ranks (--stage-ranks N,N), which alone tell them "
                    "apart"),
               NULL;
    if (stage >= reading->stage_count)
        return fail(reading, ERR_USAGE, statement,
                    arena_print(reading->arena,
                                "there is no stage %ld: --stage-ranks has %d of "
                                "them, from 0 on",
                                stage, reading->stage_count)),
               NULL;
    statement->rule.is_of_stage = true;
    statement->rule.stage = (int)stage;
    return trimmed(reading->arena, words, on);
}

// "ffn/tp", "whole/tp", "whole", each with a stage or without.
static bool read_words(struct reading *reading, struct statement *statement)
{
    const char *layout = read_stage(reading, statement);
    if (!layout) return false;
    const char *slash = strchr(layout, '/');
    const char *dim =
        arena_print(reading->arena, "%.*s", (int)(slash ? slash - layout : 1 << 10), layout);
    statement->rule.axis = AXIS_TP;
    bool has_axis =
        slash ? axis_from_name(slash + 1, &statement->rule.axis) : strcmp(layout, "whole") == 0;
    if (slash && !has_axis)
        return fail(reading, ERR_INPUT, statement,
                    arena_print(reading->arena, "\"%s\" is no axis", slash + 1));
    if (has_axis && layout_rule_parse(dim, &statement->rule) && !statement->rule.follows)
        return true;
    return fail(reading, ERR_INPUT, statement,
                arena_print(reading->arena, "expected DIM/AXIS, as ffn/tp, or whole, found \"%s\"",
                            layout));
}

static bool read_line(struct reading *reading, int number, const char *line, const char *end)
{
    const char *comment = memchr(line, '#', (size_t)(end - line));
    if (comment) end = comment;
    const char *said = trimmed(reading->arena, line, end);
    if (!*said || strncmp(said, "--", 2) == 0) return true;
    const char *colon = end;
    while (colon > line && *colon != ':')
        colon--;
    assert(number >= 1 && colon >= line);
    struct statement start = {.line = number, .column = 1};
    if (*colon != ':' || !*trimmed(reading->arena, line, colon))
        return fail(reading, ERR_INPUT, &start,
                    arena_print(reading->arena, "expected PATTERN: DIM/AXIS, found \"%s\"",
                                trimmed(reading->arena, line, end)));
    start.pattern = trimmed(reading->arena, line, colon);
    for (const char *at = colon + 1; at <= end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if (!comma) comma = end;
        struct statement statement = start;
        while (at < comma && strchr(" \t\"'", *at))
            at++;
        statement.column = (int)(at - line) + 1;
        statement.words = trimmed(reading->arena, at, comma);
        if (!read_words(reading, &statement)) return false;
        ARENA_GROW(reading->arena, reading->statements, reading->count, reading->capacity);
        reading->statements[reading->count++] = statement;
        at = comma + 1;
    }
    return true;
}

static bool read_lines(struct reading *reading, const char *text)
{
    int number = 1;
    for (const char *line = text; *line; number++) {
        const char *end = line + strcspn(line, "\n");
        if (!read_line(reading, number, line, end)) return false;
        line = *end ? end + 1 : end;
    }
    return true;
}

static bool matches(struct reading *reading, const char *pattern, const struct block *block,
                    const char *name)
{
    if (fnmatch(pattern, name, 0) == 0) return true;
    return fnmatch(pattern, arena_print(reading->arena, "%s.%s", block->name, name), 0) == 0;
}

static bool contradicts(struct reading *reading, const struct spoken *said,
                        const struct statement *by, const struct statement *with)
{
    return fail(reading, ERR_USAGE, by,
                arena_print(reading->arena,
                            "\"%s: %s\" contradicts line %d, \"%s: %s\": %s.%s cannot be both",
                            by->pattern, by->words, with->line, with->pattern, with->words,
                            said->block->name, said->op->name));
}

static bool say(struct reading *reading, struct spoken *said, struct statement *by)
{
    const char *fault = layout_rule_fault(reading->arena, said->block, said->op, &by->rule);
    if (fault)
        return fail(reading, ERR_USAGE, by,
                    arena_print(reading->arena, "\"%s\": %s.%s %s", by->pattern, said->block->name,
                                said->op->name, fault));
    if (said->by && (said->rule.dim != by->rule.dim || said->rule.axis != by->rule.axis))
        return contradicts(reading, said, by, said->by);
    if (said->by) return true;
    said->rule = by->rule;
    said->by = by;
    said->is_said = true;
    return true;
}

// A parameter by its dims; whole ones are asked when the others are known.
static bool say_parameter(struct reading *reading, struct spoken *said, const struct tensor *tensor,
                          struct statement *by, bool asks_whole)
{
    bool is_whole = by->rule.dim == DIM_NONE;
    if (is_whole != asks_whole) return true;
    if (!is_whole && tensor_find_dim(tensor, by->rule.dim) < 0)
        return fail(reading, ERR_USAGE, by,
                    arena_print(reading->arena, "\"%s\": %s.%s has no %s", by->pattern,
                                said->block->name, tensor->name, dim_name(by->rule.dim)));
    if (!is_whole) return say(reading, said, by);
    if (layout_rule_fault(reading->arena, said->block, said->op, &by->rule))
        return say(reading, said, by);
    if (said->by && said->rule.dim && tensor_find_dim(tensor, said->rule.dim) >= 0)
        return contradicts(reading, said, by, said->by);
    if (said->by) return true;
    said->rule = (struct layout_rule){.axis = by->rule.axis, .follows = true};
    said->by = by;
    said->is_said = true;
    return true;
}

static bool match_op(struct reading *reading, struct spoken *said, struct statement *by,
                     bool asks_whole)
{
    const struct block *block = said->block;
    const struct op *op = said->op;
    bool is_named = matches(reading, by->pattern, block, op->name);
    for (int i = 0; i < op->output_count && !is_named; i++)
        is_named = matches(reading, by->pattern, block, block->tensors[op->outputs[i]].name);
    by->matches |= is_named;
    // A pattern of both means the operator.
    if (is_named) return asks_whole || say(reading, said, by);
    for (int i = 0; i < op->input_count; i++) {
        const struct tensor *tensor = &block->tensors[op->inputs[i]];
        if (tensor->role != TENSOR_PARAMETER) continue;
        if (!matches(reading, by->pattern, block, tensor->name)) continue;
        by->matches = true;
        if (!say_parameter(reading, said, tensor, by, asks_whole)) return false;
    }
    return true;
}

enum { ALL_STAGES = -1 };

static bool is_of(const struct statement *statement, int stage)
{
    return statement->rule.is_of_stage ? statement->rule.stage == stage : stage == ALL_STAGES;
}

static bool match_all(struct reading *reading, struct spoken *said, int count, int stage)
{
    for (int asks_whole = 0; asks_whole < 2; asks_whole++) {
        for (int s = 0; s < reading->count; s++) {
            struct statement *by = &reading->statements[s];
            for (int i = 0; i < count && is_of(by, stage); i++)
                if (!match_op(reading, &said[i], by, asks_whole)) return false;
        }
    }
    return true;
}

// Operators without a matrix, which lose nothing by doing as their neighbours do.
static bool is_follower(const struct op *op)
{
    return op_is_loss(op->kind) || op->kind == OP_ADD || op->kind == OP_ELEMENTWISE ||
           op->kind == OP_NORM || op->kind == OP_DROPOUT || op->kind == OP_EXPAND ||
           op->kind == OP_CONCAT || op->kind == OP_PART;
}

// Takes the rule of its neighbours for what is between them, if it can.
static void follow(struct reading *reading, struct spoken *said, const struct layout_rule *rule)
{
    const struct block *block = said->block;
    if (layout_rule_fault(reading->arena, block, said->op, rule)) return;
    bool is_free = rule->dim == DIM_NONE ||
                   op_rule(said->op->kind)->split(block, said->op, rule->dim) == SPLIT_FREE;
    if (!is_free) return;
    said->rule = *rule;
    said->is_said = true;
}

// Whether `other` has a rule for this tensor that is also that of those before, if any.
static bool agrees(const struct spoken *other, const struct tensor *between,
                   const struct layout_rule **rule)
{
    const struct layout_rule *found = &other->rule;
    bool has = found->dim == DIM_NONE || tensor_find_dim(between, found->dim) >= 0;
    bool is_same = !*rule || ((*rule)->dim == found->dim && (*rule)->follows == found->follows);
    if (!other->is_said || !has || !is_same) return false;
    *rule = found;
    return true;
}

// All who make what it reads; the block in front has a layout of its own.
static const struct layout_rule *rule_of_makers(const struct spoken *said, const struct op *op)
{
    const struct block *block = said[0].block;
    const struct layout_rule *rule = NULL;
    for (int i = 0; i < op->input_count; i++) {
        const struct tensor *tensor = &block->tensors[op->inputs[i]];
        if (tensor->role != TENSOR_ACTIVATION) continue;
        if (tensor->producer < 0 || !agrees(&said[tensor->producer], tensor, &rule)) return NULL;
    }
    return rule;
}

// All who read what it makes; so has the block behind.
static const struct layout_rule *rule_of_readers(const struct spoken *said, int count,
                                                 const struct op *op)
{
    const struct block *block = said[0].block;
    const struct layout_rule *rule = NULL;
    for (int i = 0; i < block->output_count; i++)
        if (block->outputs[i] == op->outputs[0]) return NULL;
    for (int o = 0; o < count; o++) {
        for (int i = 0; i < said[o].op->input_count; i++) {
            if (said[o].op->inputs[i] != op->outputs[0]) continue;
            if (!agrees(&said[o], &block->tensors[op->outputs[0]], &rule)) return NULL;
        }
    }
    return rule;
}

// The operators of one block.
static void fill_block(struct reading *reading, struct spoken *said, int count)
{
    assert(count > 0 && said[0].block == said[count - 1].block && "the operators of one block");
    for (int o = 0; o < count; o++) {
        bool is_open = is_follower(said[o].op) && !said[o].is_said;
        const struct layout_rule *rule = is_open ? rule_of_makers(said, said[o].op) : NULL;
        if (rule) follow(reading, &said[o], rule);
    }
    for (int o = count - 1; o >= 0; o--) {
        bool is_open = is_follower(said[o].op) && !said[o].is_said;
        const struct layout_rule *rule = is_open ? rule_of_readers(said, count, said[o].op) : NULL;
        if (rule) follow(reading, &said[o], rule);
    }
}

static void fill(struct reading *reading, struct spoken *said, int count)
{
    for (int i = 0; i < count; i += said[i].block->op_count)
        fill_block(reading, &said[i], said[i].block->op_count);
}

static bool check_matched(struct reading *reading, const struct spoken *said, int count)
{
    for (int s = 0; s < reading->count; s++) {
        const struct statement *at = &reading->statements[s];
        if (at->matches) continue;
        size_t skip = strspn(at->pattern, "*.");
        struct units_guess guess = {.text = at->pattern + skip};
        for (int i = 0; i < count; i++) {
            units_guess_offer(&guess, said[i].op->name);
            units_guess_offer(&guess, layout_rule_name(reading->arena, said[i].block, said[i].op));
            for (int k = 0; k < said[i].op->input_count; k++)
                units_guess_offer(&guess, said[i].block->tensors[said[i].op->inputs[k]].name);
        }
        return fail(reading, ERR_USAGE, at,
                    arena_print(reading->arena, "\"%s\" names no operator and no tensor%s%s%s",
                                at->pattern, guess.best ? ", did you mean \"" : "",
                                guess.best ? guess.best : "", guess.best ? "\"?" : ""));
    }
    return true;
}

// An operator that both graphs have is said once.
static void collect(struct reading *reading, const struct spoken *said, int count, int stage,
                    struct annotations *annotations)
{
    assert(stage >= ALL_STAGES && annotations->count >= 0);
    int before = annotations->count;
    struct layout_rule *rules = ARENA_NEW(reading->arena, struct layout_rule, before + count);
    if (before > 0) memcpy(rules, annotations->rules, (size_t)before * sizeof *rules);
    for (int i = 0; i < count; i++) {
        struct layout_rule rule = said[i].rule;
        if (!said[i].is_said) continue;
        rule.operator= layout_rule_name(reading->arena, said[i].block, said[i].op);
        rule.is_of_stage = stage != ALL_STAGES;
        rule.stage = rule.is_of_stage ? stage : 0;
        int k = before;
        while (k < annotations->count && strcmp(rules[k].operator, rule.operator) != 0)
            k++;
        if (k == annotations->count) rules[annotations->count++] = rule;
    }
    annotations->rules = rules;
}

// What is said of a stage goes before what is said of all, in what is filled in as well; only what
// comes out another way is told of it. `words` are those of the file for all stages, `all` with
// what is filled in.
static bool add_stage(struct reading *reading, const struct spoken *words, const struct spoken *all,
                      int count, int stage, struct annotations *annotations)
{
    struct spoken *said = ARENA_NEW(reading->arena, struct spoken, count);
    for (int i = 0; i < count; i++)
        said[i] = (struct spoken){.block = words[i].block, .op = words[i].op};
    if (!match_all(reading, said, count, stage)) return false;
    for (int i = 0; i < count; i++)
        if (!said[i].is_said) said[i] = words[i];
    fill(reading, said, count);
    for (int i = 0; i < count; i++) {
        const struct layout_rule *own = &said[i].rule, *theirs = &all[i].rule;
        bool is_theirs = all[i].is_said && own->dim == theirs->dim && own->axis == theirs->axis &&
                         own->follows == theirs->follows;
        said[i].is_said &= !is_theirs;
    }
    collect(reading, said, count, stage, annotations);
    return true;
}

static struct spoken *operators_of(struct arena *arena, const struct graph *const *graphs,
                                   int graph_count, int *count)
{
    int at = 0;
    *count = 0;
    for (int g = 0; g < graph_count; g++)
        for (int b = 0; b < graphs[g]->block_count; b++)
            *count += graphs[g]->blocks[b].op_count;
    struct spoken *said = ARENA_NEW(arena, struct spoken, *count);
    for (int g = 0; g < graph_count; g++)
        for (int b = 0; b < graphs[g]->block_count; b++)
            for (int o = 0; o < graphs[g]->blocks[b].op_count; o++)
                said[at++] = (struct spoken){.block = &graphs[g]->blocks[b],
                                             .op = &graphs[g]->blocks[b].ops[o]};
    assert(at == *count);
    return said;
}

bool annotations_read(struct arena *arena, const char *path, const char *text,
                      const struct graph *const *graphs, int graph_count, int stage_count,
                      struct annotations *annotations, struct err *err)
{
    struct reading reading = {.arena = arena, .path = path, .stage_count = stage_count, .err = err};
    int count;
    *annotations = (struct annotations){0};
    if (!read_lines(&reading, text)) return false;
    struct spoken *words = operators_of(arena, graphs, graph_count, &count);
    if (!match_all(&reading, words, count, ALL_STAGES)) return false;
    struct spoken *all = ARENA_COPY(arena, struct spoken, words, count);
    fill(&reading, all, count);
    collect(&reading, all, count, ALL_STAGES, annotations);
    for (int stage = 0; stage < stage_count; stage++)
        if (!add_stage(&reading, words, all, count, stage, annotations)) return false;
    return check_matched(&reading, words, count);
}

struct annotations annotations_fill(struct arena *arena, const struct graph *graph,
                                    const struct annotations *given)
{
    struct reading reading = {.arena = arena};
    struct parallel holder = {.layouts = given->rules, .layout_count = given->count};
    struct annotations filled = {0};
    int count;
    struct spoken *said = operators_of(arena, &graph, 1, &count);
    for (int i = 0; i < count; i++) {
        const struct layout_rule *rule =
            layout_rule_of(&holder, AXIS_TP, said[i].block, said[i].op);
        if (!rule) continue;
        said[i].rule = *rule;
        said[i].is_said = true;
    }
    fill(&reading, said, count);
    collect(&reading, said, count, ALL_STAGES, &filled);
    return filled;
}
