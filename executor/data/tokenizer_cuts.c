#include "executor/data/tokenizer_parts.h"

#include <assert.h>
#include <string.h>

// What tokenizer.json does to a text before BPE: "normalizer" and "pre_tokenizer".

static bool is_type(const struct json *object, const char *wanted, struct err *err)
{
    struct json type = json_get(object, "type", err);
    const char *name = json_text(&type, err);
    return name && (strcmp(name, wanted) == 0 ||
                    json_fail(&type, err, "found \"%s\", wanted \"%s\"", name, wanted));
}

// Words that a text of its own cuts, and no expression does.
static bool read_literal(struct tokenizer *tokenizer, const struct json *split, struct err *err)
{
    static const struct {
        const char *name;
        enum cut cut;
    } BEHAVIOURS[] = {{"MergedWithPrevious", CUT_BEHIND},
                      {"MergedWithNext", CUT_BEFORE},
                      {"Removed", CUT_OUT},
                      {"Isolated", CUT_APART}};
    struct json pattern = json_get(split, "pattern", err), text = json_get(&pattern, "String", err);
    struct json behaviour = json_get(split, "behavior", err);
    tokenizer->literal = json_text(&text, err);
    const char *word = json_text(&behaviour, err);
    if (err->kind || !tokenizer_is_unset(split, "invert", err)) return false;
    if (!*tokenizer->literal) return json_fail(&text, err, "found nothing to cut at");
    for (size_t i = 0; i < sizeof BEHAVIOURS / sizeof *BEHAVIOURS; i++) {
        if (strcmp(word, BEHAVIOURS[i].name) != 0) continue;
        tokenizer->cut = BEHAVIOURS[i].cut;
        return true;
    }
    return json_fail(&behaviour, err, "found \"%s\", which is not known here", word);
}

static bool read_metaspace(struct tokenizer *tokenizer, const struct json *metaspace,
                           struct err *err)
{
    static const char *const SCHEMES[] = {"never", "first", "always"};
    struct json mark = json_get(metaspace, "replacement", err);
    struct json scheme = json_find(metaspace, "prepend_scheme");
    struct json adds = json_find(metaspace, "add_prefix_space"),
                cut = json_find(metaspace, "split");
    const char *name = json_has(metaspace, "prepend_scheme") ? json_text(&scheme, err) : "always";
    // As files had it before there were schemes.
    if (json_has(metaspace, "add_prefix_space") && !json_bool(&adds, err)) name = "never";
    tokenizer->literal = json_text(&mark, err);
    tokenizer->is_joined = json_has(metaspace, "split") && !json_bool(&cut, err);
    tokenizer->cut = CUT_METASPACE;
    if (err->kind) return false;
    if (!*tokenizer->literal) return json_fail(&mark, err, "found nothing in place of spaces");
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, SCHEMES[i]) == 0) return tokenizer->prefix = (enum prefix)i, true;
    }
    return json_fail(&scheme, err, "found \"%s\", wanted never, first or always", name);
}

// The expressions are code here (executor/data/words.c): others cannot be run.
static bool read_split(struct tokenizer *tokenizer, const struct json *split, struct err *err)
{
    struct json pattern = json_get(split, "pattern", err), regex = json_get(&pattern, "Regex", err);
    struct json behaviour = json_get(split, "behavior", err);
    const char *expression = json_text(&regex, err), *word = json_text(&behaviour, err);
    if (err->kind || !tokenizer_is_unset(split, "invert", err)) return false;
    if (strcmp(word, "Isolated") != 0)
        return json_fail(&behaviour, err, "found \"%s\", wanted \"Isolated\"", word);
    tokenizer->pattern = words_find(expression);
    return tokenizer->pattern != WORDS_PATTERN_COUNT ||
           json_fail(&regex, err,
                     "a pattern that is not known: those of gpt2, llama-3 and qwen2 "
                     "are");
}

// It cuts by the expression of gpt2 itself, or what a Split before it has cut stays.
static bool read_byte_level(struct tokenizer *tokenizer, const struct json *level, bool has_split,
                            struct err *err)
{
    if (!is_type(level, "ByteLevel", err)) return false;
    struct json regex = json_find(level, "use_regex"), space = json_find(level, "add_prefix_space");
    bool cuts = json_has(level, "use_regex") ? json_bool(&regex, err) : true;
    bool adds = json_has(level, "add_prefix_space") ? json_bool(&space, err) : true;
    if (cuts && has_split) return json_fail(&regex, err, "found true behind a Split, wanted false");
    if (!cuts && !has_split) return json_fail(&regex, err, "found false, and no Split before it");
    if (adds && has_split) return json_fail(&space, err, "found true behind a Split, wanted false");
    if (!has_split) tokenizer->pattern = WORDS_GPT2;
    tokenizer->adds_prefix_space = adds;
    return !err->kind;
}

// ByteLevel, alone or behind a Split, or what cuts texts whose tokens are characters.
static bool read_words(struct tokenizer *tokenizer, const struct json *root, struct err *err)
{
    struct json before = json_find(root, "pre_tokenizer");
    tokenizer->cut = CUT_NOTHING;
    if (!json_has(root, "pre_tokenizer")) return true;
    struct json type = json_get(&before, "type", err);
    const char *name = json_text(&type, err);
    if (!name) return false;
    if (strcmp(name, "Metaspace") == 0) return read_metaspace(tokenizer, &before, err);
    if (strcmp(name, "Split") == 0) return read_literal(tokenizer, &before, err);
    if (strcmp(name, "WhitespaceSplit") == 0) return tokenizer->cut = CUT_SPACES, true;
    if (strcmp(name, "Whitespace") == 0) return tokenizer->cut = CUT_WORDS, true;
    tokenizer->cut = CUT_PATTERN;
    tokenizer->is_of_bytes = true;
    if (strcmp(name, "Sequence") != 0) return read_byte_level(tokenizer, &before, false, err);
    struct json parts = json_get(&before, "pretokenizers", err);
    int count = json_count(&parts, err);
    if (err->kind) return false;
    if (count != 2) return json_fail(&parts, err, "found %d, wanted Split and ByteLevel", count);
    struct json split = json_item(&parts, 0), level = json_item(&parts, 1);
    return is_type(&split, "Split", err) && read_split(tokenizer, &split, err) &&
           read_byte_level(tokenizer, &level, true, err);
}

// Of a text, not of an expression.
static bool read_replace(const struct json *of, struct normal_step *step, struct err *err)
{
    struct json pattern = json_get(of, "pattern", err), text = json_get(&pattern, "String", err);
    struct json content = json_get(of, "content", err);
    step->kind = NORMAL_REPLACE;
    step->pattern = json_data_text(&text, err);
    step->text = json_data_text(&content, err);
    return !err->kind && (*step->pattern || json_fail(&text, err, "found nothing to replace"));
}

static bool read_step(struct tokenizer *tokenizer, const struct json *of, struct err *err)
{
    struct json type = json_get(of, "type", err);
    const char *name = json_text(&type, err);
    if (!name) return false;
    if (tokenizer->normal_count == NORMAL_STEPS_MAX)
        return json_fail(of, err, "more than %d steps", NORMAL_STEPS_MAX);
    struct normal_step *step = &tokenizer->normal[tokenizer->normal_count++];
    if (strcmp(name, "NFC") == 0) return step->kind = NORMAL_NFC, true;
    if (strcmp(name, "Replace") == 0) return read_replace(of, step, err);
    if (strcmp(name, "Prepend") != 0)
        return json_fail(&type, err, "found \"%s\", wanted NFC, Replace or Prepend", name);
    struct json text = json_get(of, "prepend", err);
    step->kind = NORMAL_PREPEND;
    step->text = json_data_text(&text, err);
    return !err->kind;
}

// One step, or a Sequence of them.
static bool read_normalizer(struct tokenizer *tokenizer, const struct json *root, struct err *err)
{
    struct json of = json_find(root, "normalizer");
    if (!json_has(root, "normalizer")) return true;
    struct json type = json_get(&of, "type", err);
    const char *name = json_text(&type, err);
    if (!name) return false;
    if (strcmp(name, "Sequence") != 0) return read_step(tokenizer, &of, err);
    struct json steps = json_get(&of, "normalizers", err);
    int count = json_count(&steps, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json step = json_item(&steps, i);
        if (!read_step(tokenizer, &step, err)) return false;
    }
    return !err->kind;
}

bool tokenizer_read_cuts(struct tokenizer *tokenizer, const struct json *root, struct err *err)
{
    // The normalizer first: it is known when added tokens are normalized.
    bool done = read_normalizer(tokenizer, root, err) && read_words(tokenizer, root, err);
    assert(done == !err->kind && tokenizer->normal_count <= NORMAL_STEPS_MAX);
    assert(!done || tokenizer->cut < CUT_METASPACE || tokenizer->cut == CUT_SPACES ||
           tokenizer->cut == CUT_WORDS || *tokenizer->literal);
    return done;
}
