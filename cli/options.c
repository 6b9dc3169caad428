#include "cli/options.h"
#include "cli/output.h"
#include "core/units.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <string.h>

static const char FORCE[] = "--force", JSON[] = "--json";

enum { OPTION_COUNT_MAX = 128, WORD_BYTES_MAX = 64 };

// What was given so far, by row of the table.
struct parse {
    const struct option *options;
    bool given[OPTION_COUNT_MAX];
    const struct option *lone;  // stands right before, without the value that it may have; or NULL
    struct err *err;
};

static bool is_positional(const struct option *option)
{
    return option->kind != OPTION_GROUP && option->name[0] != '-';
}

// A value as it came: `what` is how errors call it.
static bool read_int(const struct option *option, const char *text, int64_t most, int64_t *number,
                     struct err *err)
{
    bool has_bounds = option->low != 0 || option->high != 0;
    int64_t low = has_bounds ? (int64_t)option->low : 1;
    int64_t high = has_bounds && option->high < (double)most ? (int64_t)option->high : most;
    return units_parse_i64(text, option->name, low, high, number, err);
}

static bool read_range(const struct option *option, const char *text, struct err *err)
{
    struct int_range range = {.set = true};
    char low[WORD_BYTES_MAX];
    const char *dots = strstr(text, "..");
    snprintf(low, sizeof low, "%.*s", dots ? (int)(dots - text) : (int)strlen(text), text);
    if (!read_int(option, low, INT_MAX, &range.low, err)) return false;
    range.high = range.low;
    if (dots && !read_int(option, dots + 2, INT_MAX, &range.high, err)) return false;
    if (range.low > range.high) {
        return err_set(err, ERR_USAGE, "%s: the range %s is empty", option->name, text);
    }
    *(struct int_range *)option->into = range;
    return true;
}

static bool read_f64(const struct option *option, const char *text, struct err *err)
{
    bool has_bounds = option->low != 0 || option->high != 0;
    double low = has_bounds ? option->low : 0, high = has_bounds ? option->high : DBL_MAX;
    double number = 0;
    if (!units_parse_f64(text, option->name, &number, err)) return false;
    if (number < low || number > high) {
        char low_text[UNITS_NUMBER_BYTES], high_text[UNITS_NUMBER_BYTES];
        return err_set(err, ERR_USAGE, "%s: must be between %s and %s, found %s", option->name,
                       units_number(low_text, low), units_number(high_text, high), text);
    }
    *(double *)option->into = number;
    return true;
}

// The allowed word that equals the `length` bytes at `text`; the list is "a|b|c".
static bool is_allowed(const char *values, const char *text, size_t length)
{
    assert(values);
    for (const char *at = values; *at;) {
        size_t word = strcspn(at, "|");
        if (word == length && strncmp(at, text, length) == 0) return true;
        at += word + (at[word] == '|');
    }
    return false;
}

// Whether its value may be left out.
static bool is_optional(const struct option *option)
{
    return option->kind == OPTION_CHOICE && option->values[0] == '|';
}

static bool fail_optional(const struct option *option, const char *text, struct err *err)
{
    return err_set(err, ERR_USAGE, "%s: takes %s or no value, found \"%s\"", option->name,
                   option->values + 1, text);
}

static bool read_words(const struct option *option, const char *text, struct err *err)
{
    bool many = option->kind == OPTION_WORDS;
    for (const char *at = text;; at++) {
        size_t length = many ? strcspn(at, ",") : strlen(at);
        if (!is_allowed(option->values, at, length)) {
            if (is_optional(option)) return fail_optional(option, at, err);
            return err_set(err, ERR_USAGE, "%s: \"%.*s\" is not one of %s", option->name,
                           (int)length, at, option->values);
        }
        at += length;
        if (!*at) break;
    }
    *(const char **)option->into = text;
    return true;
}

static bool add_text(const struct option *option, const char *text, struct err *err)
{
    struct text_list *list = option->into;
    if (list->count == TEXT_LIST_MAX) {
        return err_set(err, ERR_USAGE, "%s: at most %d are allowed", option->name, TEXT_LIST_MAX);
    }
    list->items[list->count++] = text;
    return true;
}

static bool read_value(const struct option *option, const char *text, struct err *err)
{
    int64_t number = 0;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_OUTPUT:
        if (!*text) return err_set(err, ERR_USAGE, "%s: must not be empty", option->name);
        *(const char **)option->into = text;
        return true;
    case OPTION_TEXTS:
        return add_text(option, text, err);
    case OPTION_INT:
        if (!read_int(option, text, INT_MAX, &number, err)) return false;
        *(int *)option->into = (int)number;
        return true;
    case OPTION_I64:
        return read_int(option, text, INT64_C(1) << 53, option->into, err);
    case OPTION_F64:
        return read_f64(option, text, err);
    case OPTION_CHOICE:
    case OPTION_WORDS:
        return read_words(option, text, err);
    case OPTION_RANGE:
        return read_range(option, text, err);
    case OPTION_FLAG:
    case OPTION_GROUP:
        break;
    }
    assert(0 && "a row without a value was given one");
    return false;
}

static int row_of(const struct parse *parse, const char *name, size_t length)
{
    for (int row = 0; parse->options[row].name; row++) {
        const struct option *option = &parse->options[row];
        if (option->kind == OPTION_GROUP || is_positional(option)) continue;
        if (strlen(option->name) == length && strncmp(option->name, name, length) == 0) return row;
    }
    return -1;
}

static bool fail_unknown(const struct parse *parse, const char *name, size_t length)
{
    char text[WORD_BYTES_MAX];
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    struct units_guess guess = {.text = text};
    for (const struct option *option = parse->options; option->name; option++) {
        if (option->name[0] == '-') units_guess_offer(&guess, option->name);
    }
    units_guess_offer(&guess, "--help");
    if (!guess.best) return err_set(parse->err, ERR_USAGE, "unknown option %s", text);
    return err_set(parse->err, ERR_USAGE, "unknown option %s, did you mean %s?", text, guess.best);
}

// Reads the option at argv[at]; `*used` is how many arguments it took.
static bool read_option(struct parse *parse, int argc, char **argv, int at, int *used)
{
    const char *argument = argv[at];
    size_t length = strcspn(argument, "=");
    int row = row_of(parse, argument, length);
    if (row < 0) return fail_unknown(parse, argument, length);

    const struct option *option = &parse->options[row];
    if (parse->given[row] && option->kind != OPTION_TEXTS) {
        return err_set(parse->err, ERR_USAGE, "%s is given twice", option->name);
    }
    parse->given[row] = true;
    *used = 1;
    if (option->kind == OPTION_FLAG) {
        if (argument[length])
            return err_set(parse->err, ERR_USAGE, "%s takes no value", option->name);
        if (option->into) *(bool *)option->into = true;
        return true;
    }
    if (argument[length]) return read_value(option, argument + length + 1, parse->err);
    if (is_optional(option)) {
        bool takes =
            at + 1 < argc && is_allowed(option->values, argv[at + 1], strlen(argv[at + 1]));
        *used = takes && argv[at + 1][0] ? 2 : 1;
        if (*used == 1) parse->lone = option;
        return read_value(option, *used == 2 ? argv[at + 1] : "", parse->err);
    }
    // A value that begins with two hyphens is an option whose own value was forgotten; one hyphen
    // may be a negative number.
    *used = 2;
    if (at + 1 == argc || strncmp(argv[at + 1], "--", 2) == 0) {
        return err_set(parse->err, ERR_USAGE, "%s needs a value", option->name);
    }
    return read_value(option, argv[at + 1], parse->err);
}

static bool read_positional(struct parse *parse, const char *text)
{
    for (int row = 0; parse->options[row].name; row++) {
        const struct option *option = &parse->options[row];
        if (!is_positional(option)) continue;
        // Positional arguments fill their rows in order; one that repeats takes all that follow.
        if (parse->given[row] && option->kind != OPTION_TEXTS) continue;
        parse->given[row] = true;
        return read_value(option, text, parse->err);
    }
    if (parse->lone) return fail_optional(parse->lone, text, parse->err);
    return err_set(parse->err, ERR_USAGE, "unexpected argument \"%s\"", text);
}

static bool check_complete(const struct parse *parse)
{
    for (int row = 0; parse->options[row].name; row++) {
        const struct option *option = &parse->options[row];
        if (!is_positional(option) || option->name[0] == '[' || parse->given[row]) continue;
        return err_set(parse->err, ERR_USAGE, "missing %s", option->name);
    }
    return true;
}

// Before any work is done: an answer that could not be kept would be lost.
static bool check_outputs(const struct parse *parse)
{
    int force = row_of(parse, FORCE, strlen(FORCE));
    if (force >= 0 && parse->given[force]) return true;
    int json = row_of(parse, JSON, strlen(JSON)), used = json >= 0 && parse->given[json];
    for (const struct option *option = parse->options; option->name; option++) {
        const char *path = option->kind == OPTION_OUTPUT ? *(const char **)option->into : NULL;
        bool is_stdout = path && strcmp(path, "-") == 0;
        if (is_stdout && used++ > 0) {
            return err_set(parse->err, ERR_USAGE,
                           "%s -: something else goes to standard output already", option->name);
        }
        if (path && !output_check(path, parse->err)) return false;
    }
    return true;
}

bool options_parse(const struct option *options, int argc, char **argv, struct err *err)
{
    struct parse parse = {.options = options, .err = err};
    int row_count = 0;
    while (options[row_count].name)
        row_count++;
    assert(row_count <= OPTION_COUNT_MAX);

    bool only_positional = false;
    int used = 1;
    for (int i = 1; i < argc; i += used) {
        used = 1;
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1] != '\0') {
            parse.lone = NULL;
            if (!read_option(&parse, argc, argv, i, &used)) return false;
        } else if (!read_positional(&parse, argv[i])) {
            return false;
        } else {
            parse.lone = NULL;
        }
    }
    return check_complete(&parse) && check_outputs(&parse);
}

bool options_given(const struct option *options, int argc, char **argv, const char *name)
{
    const struct parse parse = {.options = options};
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0') continue;
        size_t length = strcspn(argv[i], "=");
        // options_parse has accepted these arguments: an option that is not known did not get here.
        int row = row_of(&parse, argv[i], length);
        assert(row >= 0);
        if (strcmp(options[row].name, name) == 0) return true;
        bool has_value = options[row].kind != OPTION_FLAG && !argv[i][length];
        if (is_optional(&options[row]))
            has_value = has_value && i + 1 < argc && argv[i + 1][0] &&
                        is_allowed(options[row].values, argv[i + 1], strlen(argv[i + 1]));
        if (has_value) i++;
    }
    return false;
}

int exit_status(const struct err *err)
{
    assert(err->kind);
    return (int)err->kind;
}
