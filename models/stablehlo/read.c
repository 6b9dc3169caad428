#include "models/stablehlo.h"

#include "models/stablehlo/body.h"
#include "models/stablehlo/rules.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { CALLS_MOST = 64 };  // one in another

bool stablehlo_is(const char *bytes, size_t byte_count)
{
    static const char *const STARTS[] = {"module", "#loc", "func.func", "builtin.module", "//"};
    size_t at = 0;
    while (at < byte_count && bytes[at] && strchr(" \t\r\n", bytes[at]))
        at++;
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++) {
        size_t length = strlen(STARTS[i]);
        if (byte_count - at >= length && memcmp(bytes + at, STARTS[i], length) == 0) return true;
    }
    return false;
}

// Behind loc(...), where there is one.
static int skip_location(const struct hlo_text *text, int at)
{
    assert(at >= 0 && at < text->token_count);
    bool is_it = hlo_text_is(text, at, "loc") && hlo_text_is(text, at + 1, "(");
    return is_it ? text->tokens[at + 1].partner + 1 : at;
}

// A list of types, in brackets or not; NULL and an error.
static struct draft_value *read_types(const struct hlo_text *text, int *token, int *count)
{
    struct draft_value *types = NULL;
    int room = 0, at = *token;
    bool has_brackets = hlo_text_is(text, at, "(");
    int end = has_brackets ? text->tokens[at].partner : text->token_count;
    *count = 0;
    at += has_brackets;
    while (at < end) {
        ARENA_GROW(text->arena, types, *count, room);
        if (!hlo_text_type(text, &at, &types[*count])) return NULL;
        ++*count;
        bool has_attributes = has_brackets && hlo_text_is(text, at, "{");
        if (has_attributes) at = text->tokens[at].partner + 1;
        if (!hlo_text_is(text, at, ",")) break;
        at++;
    }
    if (has_brackets && at != end) return hlo_text_expect(text, at, ")"), NULL;
    *token = at + has_brackets;
    return types ? types : ARENA_NEW(text->arena, struct draft_value, 1);
}

// The types of the results: behind the arrow where there is one, else the last of those given, for
// each of them.
bool hlo_result_types(struct hlo_op *op, int *token)
{
    const struct hlo_text *text = &op->reader->text;
    int count = 0;
    struct draft_value *types = read_types(text, token, &count);
    bool has_arrow = types && hlo_text_is(text, *token, "->");
    if (has_arrow) {
        ++*token;
        types = read_types(text, token, &count);
    }
    if (!types) return false;
    if (count < op->result_count || (has_arrow && count != op->result_count))
        return hlo_fail(op, "%d types of its %d results", count, op->result_count);
    op->types = types + count - op->result_count;
    op->results = ARENA_NEW(op->draft->arena, const struct hlo_value *, op->result_count);
    return true;
}

// Its operands, and where its types begin. Regions hold none.
static bool read_operands(struct hlo_op *op, const struct hlo_scope *scope, int close)
{
    const struct hlo_text *text = &op->reader->text;
    int at = op->at + 1, until = at;
    for (; until < close && !hlo_text_is(text, until, ":"); until++) {
        int partner = text->tokens[until].partner;
        if (partner > until) until = partner;
    }
    if (until >= close) return hlo_fail(op, "its types are wanted");
    op->end = until;
    op->operands = ARENA_NEW(op->draft->arena, const struct hlo_value *, until - at);
    for (; at < until; at++) {
        bool is_region = hlo_text_is(text, at, "(") && hlo_text_is(text, at + 1, "{");
        if (is_region) at = text->tokens[at].partner;
        if (text->tokens[at].kind != HLO_VALUE) continue;
        const struct hlo_value *found = hlo_find(op->reader, scope, at, "read");
        if (!found) return false;
        op->operands[op->operand_count++] = found;
    }
    return true;
}

static bool run_function(struct hlo_reader *reader, int symbol, const struct hlo_op *call,
                         struct hlo_results *results);

// Functions of jax.random, which are given a key of unsigned numbers: what they draw is a constant.
// Of a mask drawn with a probability this is kept, for what it is taken for (hlo_select).
static bool draws(struct hlo_op *op, const char *name)
{
    static const char *const NAMES[] = {"@_bernoulli", "@_uniform",   "@_normal",
                                        "@_threefry",  "@threefry",   "@_randint",
                                        "@_gumbel",    "@_truncated", "@_random_bits"};
    bool is_it = op->operand_count > 0 && op->operands[0]->as.element == ELEMENT_UINT32;
    size_t i = 0;
    while (i < sizeof NAMES / sizeof *NAMES && strncmp(name, NAMES[i], strlen(NAMES[i])) != 0)
        i++;
    if (!is_it || i == sizeof NAMES / sizeof *NAMES) return false;
    if (!hlo_fixed(op) || i > 0 || op->operand_count != 2 || op->result_count != 1) return true;
    struct hlo_made *made = ARENA_NEW(op->draft->arena, struct hlo_made, 1);
    *made = (struct hlo_made){
        .operator= "bernoulli", .operands = {op->operands[1]}, .result = op->results[0]};
    op->results[0]->tensor->made = made;
    return true;
}

static bool run_call(struct hlo_op *op)
{
    const struct hlo_text *text = &op->reader->text;
    const char *name = hlo_text_copy(text, op->at + 1);
    int symbol = names_find(&op->reader->functions, name);
    struct hlo_results results = {0};
    if (symbol < 0)
        return hlo_fail(op, "no function is called %s", printable(op->draft->arena, name));
    if (draws(op, name)) return true;
    if (op->reader->depth == CALLS_MOST)
        return hlo_fail(op, "%d calls in each other, or one of itself", CALLS_MOST);
    op->reader->depth++;
    if (!run_function(op->reader, symbol, op, &results)) return false;
    op->reader->depth--;
    if (results.count != op->result_count)
        return hlo_fail(op, "%d results, %d are wanted", results.count, op->result_count);
    for (int i = 0; i < results.count; i++) {
        op->results[i] = results.values[i];
        if (!hlo_is_alike(&results.values[i]->as, &op->types[i]))
            return hlo_fail(op, "result %d is not of the type that is stated", i);
    }
    return true;
}

// What one operator becomes; what constants alone make is one.
static bool run_rule(struct hlo_op *op, const struct hlo_rule *rule)
{
    assert(op->operand_count >= 0 && op->result_count >= 0);
    bool is_fixed = op->operand_count > 0;
    for (int i = 0; i < op->operand_count; i++)
        is_fixed = is_fixed && hlo_is_fixed(op->operands[i]);
    op->draft->name = op->name;
    if (is_fixed && !rule->is_own) return hlo_fixed(op);
    if (op->result_count < 1) return hlo_fail(op, "it has no result");
    return rule->make(op, rule->type) && !op->reader->text.err->kind;
}

static bool read_name(struct hlo_op *op, const struct hlo_rule **rule, bool *is_call)
{
    static const char *const DIALECTS[] = {"stablehlo.", "chlo.", "sdy."};
    const char *whole = hlo_text_copy(&op->reader->text, op->at), *name = "";
    op->name = whole;
    *is_call = strcmp(whole, "call") == 0 || strcmp(whole, "func.call") == 0;
    for (size_t i = 0; i < sizeof DIALECTS / sizeof *DIALECTS; i++) {
        size_t length = strlen(DIALECTS[i]);
        if (strncmp(whole, DIALECTS[i], length) == 0) name = whole + length;
    }
    *rule = hlo_rule_find(name);
    if (*rule) op->name = name;
    if (strcmp(name, "while") == 0) return op->name = name, true;
    return *rule || *is_call || hlo_fail(op, "an operator that we do not know");
}

// %0, %1:2 = in front of an operator; where none is, it has no result.
static int read_result_names(struct hlo_reader *reader, int at, const char ***names, int *count)
{
    const struct hlo_text *text = &reader->text;
    struct arena *arena = text->arena;
    int room = 0;
    *names = NULL;
    *count = 0;
    while (text->tokens[at].kind == HLO_VALUE) {
        const char *name = hlo_text_copy(text, at++);
        double several = 0;
        bool is_many = hlo_text_is(text, at, ":") &&
                       hlo_text_number(text, at + 1, ELEMENT_INT64, &several) && several >= 1 &&
                       several <= HLO_RESULTS_MOST;
        for (int i = 0; i < (is_many ? (int)several : 1); i++) {
            ARENA_GROW(arena, *names, *count, room);
            (*names)[(*count)++] = is_many ? arena_print(arena, "%s#%d", name, i) : name;
        }
        at += is_many ? 2 : 0;
        at += hlo_text_is(text, at, ",");
    }
    return at;
}

// reducer(%a: ...) (%b: ...) { ... } behind the types of an operator.
static void skip_region(struct hlo_op *op, int *token)
{
    const struct hlo_text *text = &op->reader->text;
    if (!hlo_text_is(text, *token, "reducer")) return;
    ++*token;
    while (hlo_text_is(text, *token, "("))
        *token = text->tokens[*token].partner + 1;
    if (!hlo_text_is(text, *token, "{")) return;
    op->region = *token;
    *token = text->tokens[*token].partner + 1;
}

// Its operands and types, and what it becomes.
static bool run_plain(struct hlo_op *op, const struct hlo_scope *scope, const struct hlo_rule *rule,
                      int *token, int close)
{
    if (!read_operands(op, scope, close)) return false;
    *token = op->end + 1;
    if (!hlo_result_types(op, token)) return false;
    skip_region(op, token);
    return rule ? run_rule(op, rule) : run_call(op);
}

// From the token of its results to behind it.
static bool run_operator(struct hlo_reader *reader, struct hlo_scope *scope, int *token, int close)
{
    const struct hlo_text *text = &reader->text;
    const struct hlo_rule *rule = NULL;
    const char **names = NULL;
    bool is_call = false;
    struct hlo_op op = {.reader = reader, .draft = &reader->draft};
    op.at = read_result_names(reader, *token, &names, &op.result_count);
    if (op.result_count && !hlo_text_expect(text, op.at, "=")) return false;
    op.at += op.result_count > 0;
    if (!hlo_count(reader, op.at)) return false;
    if (op.at >= close) return hlo_text_fail(text, op.at, "an operator is wanted");
    if (!read_name(&op, &rule, &is_call)) return false;
    int at = 0;
    bool is_loop = !rule && !is_call;
    bool is_run = is_loop ? hlo_run_loop(&op, scope, &at) : run_plain(&op, scope, rule, &at, close);
    if (!is_run) return false;
    for (int i = 0; i < op.result_count; i++) {
        if (!op.results[i]) return hlo_fail(&op, "result %d is not read", i);
        hlo_put(reader, scope, names[i], op.results[i]);
    }
    *token = skip_location(text, at);
    return true;
}

static bool run_return(struct hlo_reader *reader, const struct hlo_scope *scope, int at, int close,
                       struct hlo_results *results)
{
    const struct hlo_text *text = &reader->text;
    results->values = ARENA_NEW(text->arena, const struct hlo_value *, close - at);
    for (at++; at < close && text->tokens[at].kind == HLO_VALUE; at++) {
        const struct hlo_value *found = hlo_find(reader, scope, at, "returned");
        if (!found) return false;
        results->values[results->count++] = found;
        at += hlo_text_is(text, at + 1, ",");
    }
    return true;
}

bool hlo_run_body(struct hlo_reader *reader, struct hlo_scope *scope, int open,
                  struct hlo_results *results)
{
    assert(hlo_text_is(&reader->text, open, "{"));
    const struct hlo_text *text = &reader->text;
    int at = open + 1, close = text->tokens[open].partner;
    while (at < close) {
        bool ends = hlo_text_is(text, at, "return") || hlo_text_is(text, at, "func.return") ||
                    hlo_text_is(text, at, "stablehlo.return");
        if (ends) return run_return(reader, scope, at, close, results);
        if (!run_operator(reader, scope, &at, close)) return false;
    }
    return hlo_text_fail(text, close, "the function returns nothing");
}

// The text of loc("...") at a token, itself or by its name; NULL: it is none.
static const char *location_of(const struct hlo_reader *reader, int at)
{
    const struct hlo_text *text = &reader->text;
    if (!hlo_text_is(text, at, "loc") || !hlo_text_is(text, at + 1, "(")) return NULL;
    int named = at + 2;
    if (text->tokens[named].kind == HLO_HASH)
        named = names_find(&reader->locations, hlo_text_copy(text, named));
    bool is_it =
        named >= 0 && text->tokens[named].kind == HLO_STRING && hlo_text_is(text, named + 1, ")");
    return is_it ? hlo_text_copy(text, named) : NULL;
}

static bool has_part(const char *name, const char *part)
{
    static const char PARTS[] = "[]'\".";
    size_t length = strlen(part);
    for (const char *at = name; *at; at += strspn(at, PARTS)) {
        size_t own = strcspn(at, PARTS);
        if (own == length && memcmp(at, part, length) == 0) return true;
        at += own;
    }
    return false;
}

// Whether the name of an argument begins as those of weights do.
static bool names_weight(const char *name)
{
    static const char *const FIRST[] = {"params",    "parameters", "weights",
                                        "variables", "model",      "state"};
    size_t length = strcspn(name, "[.");
    for (size_t i = 0; i < sizeof FIRST / sizeof *FIRST; i++)
        if (strlen(FIRST[i]) == length && memcmp(FIRST[i], name, length) == 0) return true;
    return false;
}

// An argument of the whole program is a weight or data.
static bool take_argument(struct hlo_reader *reader, int at, const char *name,
                          struct draft_value *as, struct hlo_value **value)
{
    struct onnx_draft *draft = &reader->draft;
    bool is_float = element_is_float(as->element);
    if (!name && is_float)
        return hlo_text_fail(&reader->text, at,
                             "whether this argument is a weight is not said: print the text with "
                             "the names of arguments, in jax lowered.as_text(debug_info=True); "
                             "weights are those of params, parameters, weights, variables, model "
                             "or state");
    bool is_weight = name && names_weight(name);
    as->name = printable(draft->arena, name ? name : hlo_text_copy(&reader->text, at) + 1);
    as->is_fixed = is_weight && (!is_float || has_part(name, "batch_stats"));
    if (as->is_fixed) {
        draft_unknown(draft, as);
    } else if (!is_weight) {
        draft_input(draft, as);
    }
    *value = is_weight && !as->is_fixed ? hlo_value_weight(draft, as) : hlo_value_new(draft, as);
    (*value)->tensor->is_given = true;
    return true;
}

// The arguments of a function: those of a call, or of the whole program.
static bool read_arguments(struct hlo_reader *reader, int open, const struct hlo_op *call,
                           struct hlo_scope *scope)
{
    const struct hlo_text *text = &reader->text;
    int at = open + 1, close = text->tokens[open].partner, count = 0;
    while (at < close) {
        int named = at;
        struct draft_value as;
        if (text->tokens[at].kind != HLO_VALUE)
            return hlo_text_fail(text, at, "an argument is wanted");
        if (!hlo_text_expect(text, at + 1, ":")) return false;
        at += 2;
        if (!hlo_text_type(text, &at, &as)) return false;
        if (hlo_text_is(text, at, "{")) at = text->tokens[at].partner + 1;
        const char *name = location_of(reader, at);
        at = skip_location(text, at);
        struct hlo_value *own = NULL;
        if (!call && !take_argument(reader, named, name, &as, &own)) return false;
        bool fits =
            !call || (count < call->operand_count && hlo_is_alike(&call->operands[count]->as, &as));
        if (!fits) return hlo_fail(call, "its operands are not those of the function");
        hlo_put(reader, scope, hlo_text_copy(text, named), call ? call->operands[count] : own);
        count++;
        if (at < close && !hlo_text_expect(text, at++, ",")) return false;
    }
    return true;
}

// The bracket that opens the body of a function; -1 and an error.
static int find_body(const struct hlo_text *text, int symbol)
{
    int at = text->tokens[symbol + 1].partner + 1, count = 0;
    if (hlo_text_is(text, at, "->")) {
        at++;
        if (!read_types(text, &at, &count)) return -1;
    }
    if (hlo_text_is(text, at, "attributes") && hlo_text_is(text, at + 1, "{"))
        at = text->tokens[at + 1].partner + 1;
    return hlo_text_expect(text, at, "{") ? at : -1;
}

static bool run_function(struct hlo_reader *reader, int symbol, const struct hlo_op *call,
                         struct hlo_results *results)
{
    struct hlo_scope scope = {0};
    if (!hlo_text_expect(&reader->text, symbol + 1, "(")) return false;
    int body = find_body(&reader->text, symbol);
    return body >= 0 && read_arguments(reader, symbol + 1, call, &scope) &&
           hlo_run_body(reader, &scope, body, results);
}

// Functions by name, and #loc1 = loc("...").
static bool find_names(struct hlo_reader *reader)
{
    const struct hlo_text *text = &reader->text;
    for (int i = 0; i + 4 < text->token_count; i++) {
        bool is_location = text->tokens[i].kind == HLO_HASH && hlo_text_is(text, i + 1, "=");
        if (is_location) names_put(text->arena, &reader->locations, hlo_text_copy(text, i), i + 4);
        if (!hlo_text_is(text, i, "func.func")) continue;
        int symbol = i + 1 + (text->tokens[i + 1].kind == HLO_WORD);
        if (text->tokens[symbol].kind != HLO_SYMBOL)
            return hlo_text_fail(text, symbol, "the name of a function is wanted");
        const char *name = hlo_text_copy(text, symbol);
        if (names_find(&reader->functions, name) >= 0)
            return hlo_text_fail(text, symbol, "a function that is there twice");
        names_put(text->arena, &reader->functions, name, symbol);
    }
    return true;
}

static bool convert(struct hlo_reader *reader)
{
    struct hlo_results results = {0};
    if (!hlo_text_read(&reader->text) || !find_names(reader)) return false;
    int main = names_find(&reader->functions, "@main");
    if (main < 0) return hlo_text_fail(&reader->text, 0, "there is no function @main");
    if (!run_function(reader, main, NULL, &results)) return false;
    reader->draft.name = "return";
    // States that are handed back as they came, as nnx does, are no answers.
    int kept = 0;
    for (int i = 0; i < results.count; i++)
        kept += !results.values[i]->tensor->is_given;
    for (int i = 0; i < results.count; i++) {
        struct draft_value as = results.values[i]->as;
        if (kept && results.values[i]->tensor->is_given) continue;
        as.name = hlo_whole(&reader->draft, results.values[i]);
        draft_output(&reader->draft, &as);
    }
    return true;
}

struct onnx_graph *stablehlo_read(struct arena *arena, const char *path, const char *bytes,
                                  size_t byte_count, const struct onnx_options *options,
                                  struct err *err)
{
    struct arena reading = {0};
    struct hlo_reader reader = {
        .draft = {.arena = &reading, .name = "program"},
        .text =
            {.arena = &reading, .path = path, .bytes = bytes, .byte_count = byte_count, .err = err},
    };
    struct onnx_graph *graph = NULL;
    if (convert(&reader)) graph = draft_read(arena, path, &reader.draft, "stablehlo", options, err);
    arena_free(&reading);
    return graph;
}
