#include "plan/choice.h"

#include "core/units.h"
#include "plan/choice_form.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

struct choice_row {
    const char *name, *help;
    enum choice_kind kind;
    bool searched;
    size_t offset;  // in struct parallel
    struct choice_range range;
    int word_count;  // of a word
    const char *(*word)(int value);
    const struct choice_form *form;
};

// The names of an enum by number.
#define CHOICE_WORD(id, member, searched, type, count, help) \
    static const char *member##_word(int value)              \
    {                                                        \
        return member##_name((type)value);                   \
    }
#include "plan/choices.inc"

enum { SEARCHED_NOT, SEARCHED };

#define AT(member) offsetof(struct parallel, member)
#define NUMBER(id, kind_of, member, is_searched, low, asked, high, words) \
    [CHOICE_##id] = {.name = #member,                                     \
                     .help = (words),                                     \
                     .kind = (kind_of),                                   \
                     .searched = (is_searched),                           \
                     .offset = AT(member),                                \
                     .range = {(low), (asked), (high)}},

static const struct choice_row ROWS[CHOICE_COUNT] = {
#define CHOICE_DEGREE(id, words)                                     \
    [CHOICE_##id] = {.help = (words),                                \
                     .kind = CHOICE_KIND_DEGREE,                     \
                     .searched = true,                               \
                     .offset = AT(degree) + AXIS_##id * sizeof(int), \
                     .range = {1, 1, 1 << 30}},
#define CHOICE_NUMBER(id, ...) NUMBER(id, CHOICE_KIND_NUMBER, __VA_ARGS__)
#define CHOICE_SIZE(id, ...) NUMBER(id, CHOICE_KIND_SIZE, __VA_ARGS__)
#define CHOICE_SWITCH(id, member, is_searched, words) \
    [CHOICE_##id] = {.name = #member,                 \
                     .help = (words),                 \
                     .kind = CHOICE_KIND_SWITCH,      \
                     .searched = (is_searched),       \
                     .offset = AT(member)},
#define CHOICE_WORD(id, member, is_searched, type, count, words) \
    [CHOICE_##id] = {.name = #member,                            \
                     .help = (words),                            \
                     .kind = CHOICE_KIND_WORD,                   \
                     .searched = (is_searched),                  \
                     .offset = AT(member),                       \
                     .word_count = (count),                      \
                     .word = member##_word},
#define CHOICE_WORDS(id, member, pin, is_searched, type, its_form, words) \
    [CHOICE_##id] = {.name = #member,                                     \
                     .help = (words),                                     \
                     .kind = CHOICE_KIND_WORDS,                           \
                     .searched = (is_searched),                           \
                     .form = &(its_form)},
#include "plan/choices.inc"
};

// The axes of the degrees, whose names they have.
static const enum axis AXES[CHOICE_COUNT] = {
#define CHOICE_DEGREE(id, ...) [CHOICE_##id] = AXIS_##id,
#include "plan/choices.inc"
};

static const struct choice_row *row_of(enum choice choice)
{
    assert((unsigned)choice < CHOICE_COUNT);
    return &ROWS[choice];
}

enum choice_kind choice_kind(enum choice choice)
{
    return row_of(choice)->kind;
}

bool choice_is_number(enum choice choice)
{
    return row_of(choice)->kind <= CHOICE_KIND_SIZE;
}

bool choice_is_searched(enum choice choice)
{
    return row_of(choice)->searched;
}

struct choice_range choice_range(enum choice choice)
{
    assert(choice_is_number(choice));
    return row_of(choice)->range;
}

const char *choice_name(enum choice choice)
{
    const struct choice_row *row = row_of(choice);
    return row->kind == CHOICE_KIND_DEGREE ? axis_name(AXES[choice]) : row->name;
}

const char *choice_help(enum choice choice)
{
    return row_of(choice)->help;
}

const char *choice_option(struct arena *arena, enum choice choice)
{
    char *option = arena_print(arena, "--%s", choice_name(choice));
    for (char *at = option; *at; at++) {
        if (*at == '_') *at = '-';
    }
    return option;
}

static bool is_same_name(const char *name, const char *written)
{
    while (*written == '-')
        written++;
    for (; *name && (*name == *written || (*name == '_' && *written == '-')); name++)
        written++;
    return !*name && !*written;
}

bool choice_find(const char *name, enum choice *choice)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        if (!is_same_name(choice_name((enum choice)i), name)) continue;
        *choice = (enum choice)i;
        return true;
    }
    return false;
}

bool choice_from_name(const char *name, enum choice *choice, struct err *err)
{
    if (choice_find(name, choice)) return true;
    struct units_guess guess = {.text = name};
    for (int i = 0; i < CHOICE_COUNT; i++) {
        units_guess_offer(&guess, choice_name((enum choice)i));
    }
    return guess.best
               ? err_set(err, ERR_USAGE, "unknown choice \"%s\": did you mean \"%s\"?", name,
                         guess.best)
               : err_set(err, ERR_USAGE, "unknown choice \"%s\": expected a pin such as tp", name);
}

// Enums and numbers are an int of the record.
int64_t choice_value(const struct parallel *parallel, enum choice choice)
{
    const struct choice_row *row = row_of(choice);
    const char *at = (const char *)parallel + row->offset;
    int value;
    if (row->form) return row->form->get(parallel);
    if (row->kind == CHOICE_KIND_SWITCH) return *(const bool *)at;
    memcpy(&value, at, sizeof value);
    return value;
}

void choice_put(struct parallel *parallel, enum choice choice, int64_t value)
{
    const struct choice_row *row = row_of(choice);
    char *at = (char *)parallel + row->offset;
    int number = (int)value;
    assert((row->form || number == value) && "what has no form of its own is an int");
    if (row->form) {
        row->form->put(parallel, value);
    } else if (row->kind == CHOICE_KIND_SWITCH) {
        *(bool *)at = value != 0;
    } else {
        memcpy(at, &number, sizeof number);
    }
}

const char *choice_text(struct arena *arena, enum choice choice, int64_t value)
{
    const struct choice_row *row = row_of(choice);
    if (row->form) return row->form->text(arena, value);
    if (row->kind == CHOICE_KIND_SWITCH) return value ? "on" : "off";
    if (row->word) return row->word((int)value);
    return value < 0 ? "all" : arena_print(arena, "%lld", (long long)value);
}

static bool parse_word(const struct choice_row *row, const char *text, int64_t *value)
{
    if (row->form) return row->form->parse(text, value);
    if (row->kind == CHOICE_KIND_SWITCH) {
        *value = strcmp(text, "on") == 0;
        return *value || strcmp(text, "off") == 0;
    }
    for (int i = 0; i < row->word_count; i++) {
        if (strcmp(row->word(i), text) == 0) return *value = i, true;
    }
    return false;
}

bool choice_parse(enum choice choice, const char *text, int64_t *value, struct err *err)
{
    const struct choice_row *row = row_of(choice);
    const char *name = choice_name(choice);
    if (choice_is_number(choice)) {
        int low = row->range.low > 0 ? row->range.low : 0;
        return units_parse_i64(text, name, low, INT_MAX, value, err);
    }
    if (parse_word(row, text, value)) return true;
    return err_set(err, ERR_USAGE, "%s: \"%s\" is none of its values", name, text);
}

bool choice_parse_pair(struct arena *arena, const char *word, const char *text, enum choice *choice,
                       int64_t *value, struct err *err)
{
    const char *equals = strchr(text, '=');
    if (!equals) return err_set(err, ERR_USAGE, "%sexpected KEY=VALUE, found \"%s\"", word, text);
    const char *key = arena_print(arena, "%.*s", (int)(equals - text), text);
    struct err wrong = {0};
    if (choice_from_name(key, choice, &wrong) && choice_parse(*choice, equals + 1, value, &wrong))
        return true;
    return err_set(err, wrong.kind, "%s%s", word, wrong.text);
}

const char *choice_words(struct arena *arena, enum choice choice)
{
    const struct choice_row *row = row_of(choice);
    assert(!choice_is_number(choice));
    if (row->form) return row->form->words ? row->form->words(arena) : NULL;
    if (row->kind == CHOICE_KIND_SWITCH) return "on|off";
    const char *list = row->word(0);
    for (int i = 1; i < row->word_count; i++)
        list = arena_print(arena, "%s|%s", list, row->word(i));
    return list;
}

int choice_words_alone(enum choice choice)
{
    return row_of(choice)->form ? row_of(choice)->form->alone_count : 0;
}

const char *choice_open_word(enum choice choice)
{
    return row_of(choice)->form ? row_of(choice)->form->open_word : NULL;
}

const char *choice_written(enum choice choice)
{
    return row_of(choice)->form ? row_of(choice)->form->written : NULL;
}

const char *choice_fault(enum choice choice)
{
    return row_of(choice)->form ? row_of(choice)->form->fault : NULL;
}

bool choice_may_be_absent(enum choice choice)
{
    return choice == CHOICE_TP_KIND || choice == CHOICE_TP_RELAY || choice == CHOICE_SP_H ||
           choice == CHOICE_SP_W || choice == CHOICE_LORA || choice == CHOICE_ZERO_GRADIENTS ||
           choice == CHOICE_ZERO_PARAMETERS || choice == CHOICE_LOSS_CHUNKS;
}

bool choice_axis_may_be_absent(enum axis axis)
{
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        bool is_its = ROWS[choice].kind == CHOICE_KIND_DEGREE && AXES[choice] == axis;
        if (is_its) return choice_may_be_absent(choice);
    }
    return false;
}

void choice_fields(struct json_field fields[CHOICE_COUNT])
{
    int count = 0;
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        fields[count++] = (struct json_field){.key = axis_name(axis),
                                              .type = JSON_TYPE_ANY,
                                              .optional = choice_axis_may_be_absent(axis)};
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        const struct choice_row *row = &ROWS[choice];
        enum json_type type = row->kind == CHOICE_KIND_SWITCH ? JSON_TYPE_BOOL
                              : choice_is_number(choice)      ? JSON_TYPE_INT
                                                              : JSON_TYPE_ANY;
        if (row->kind == CHOICE_KIND_DEGREE) continue;
        fields[count++] = (struct json_field){.key = row->name,
                                              .type = type,
                                              .offset = row->offset,
                                              .optional = choice_may_be_absent(choice),
                                              .low = row->range.low,
                                              .high = row->range.high};
    }
    assert(count == CHOICE_COUNT);
}

void choices_write(struct json_writer *writer, const struct parallel *parallel)
{
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        bool is_told = parallel->degree[axis] > 1 || !choice_axis_may_be_absent(axis);
        if (is_told) json_put_i64(writer, axis_name(axis), parallel->degree[axis]);
    }
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        const struct choice_row *row = &ROWS[choice];
        int64_t value = choice_value(parallel, choice);
        if (row->kind == CHOICE_KIND_DEGREE) continue;
        bool is_rare =
            choice == CHOICE_LORA || choice == CHOICE_TP_RELAY || choice == CHOICE_LOSS_CHUNKS;
        if (is_rare && value == 0) continue;  // as plans have it that are older
        if (row->kind == CHOICE_KIND_SWITCH) {
            json_put_bool(writer, row->name, value);
        } else if (choice_is_number(choice)) {
            json_put_i64(writer, row->name, value);
        } else {
            json_put_text(writer, row->name, choice_text(writer->arena, choice, value));
        }
    }
}

// "none, selective, full"
static const char *with_commas(struct arena *arena, const char *list)
{
    const char *text = "";
    for (const char *word = list; *word;) {
        size_t length = strcspn(word, "|");
        text = arena_print(arena, "%s%s%.*s", text, *text ? ", " : "", (int)length, word);
        word += length + (word[length] == '|');
    }
    return text;
}

static void read_word(struct arena *arena, const struct json *object, enum choice choice,
                      struct parallel *parallel, struct err *err)
{
    const struct choice_row *row = &ROWS[choice];
    struct json at = json_get(object, row->name, err);
    const char *word = json_text(&at, err);
    int64_t value = 0;
    if (err->kind) return;
    if (parse_word(row, word, &value)) {
        choice_put(parallel, choice, value);
    } else if (row->form) {
        json_fail(&at, err, "\"%s\" is %s", word, row->form->wanted);
    } else {
        json_fail(&at, err, "\"%s\" is no %s (%s)", word, row->name,
                  with_commas(arena, choice_words(arena, choice)));
    }
}

void choices_read(struct arena *arena, const struct json *object, struct parallel *parallel,
                  struct err *err)
{
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        parallel->degree[axis] = 1;
        if (choice_axis_may_be_absent(axis) && !json_has(object, axis_name(axis))) continue;
        struct json degree = json_get(object, axis_name(axis), err);
        parallel->degree[axis] = (int)json_i64(&degree, 1, 1 << 30, err);
    }
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        bool is_word =
            ROWS[choice].kind == CHOICE_KIND_WORD || ROWS[choice].kind == CHOICE_KIND_WORDS;
        if (choice_may_be_absent(choice) && !json_has(object, choice_name(choice))) continue;
        if (is_word) read_word(arena, object, choice, parallel, err);
    }
}
