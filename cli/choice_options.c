#include "cli/choice_options.h"

#include <assert.h>
#include <string.h>

// "none|auto|a|b": the words with the one that leaves the choice open, where that is no value.
static void list_words(struct choice_argument *argument, enum choice choice)
{
    struct arena spare = {0};
    const char *words = choice_words(&spare, choice), *open = choice_open_word(choice);
    int alone = choice_words_alone(choice);
    if (!words && choice_written(choice)) {
        words = choice_written(choice);
    } else if (!words) {
        words = arena_print(&spare, "none|%s|WORDS", open);
    } else if (open && !strstr(words, open)) {
        const char *rest = words;
        for (int i = 0; i < alone && rest; i++)
            rest = strchr(rest + 1, '|');
        assert(rest && "other words follow those that stand alone");
        words = arena_print(&spare, "%.*s|%s%s", (int)(rest - words), words, open, rest);
    }
    int length = snprintf(argument->values, sizeof argument->values, "%s", words);
    assert(length >= 0 && (size_t)length < sizeof argument->values);
    (void)length;
    arena_free(&spare);
}

static struct option row_of(struct choice_argument *argument, enum choice choice)
{
    struct option row = {.name = argument->option, .help = choice_help(choice)};
    enum choice_kind kind = choice_kind(choice);
    if (choice_is_number(choice)) {
        struct choice_range range = choice_range(choice);
        row.kind = kind == CHOICE_KIND_SIZE ? OPTION_INT : OPTION_RANGE;
        row.into = kind == CHOICE_KIND_SIZE ? (void *)&argument->number : (void *)&argument->range;
        row.low = range.asked;
        row.high = range.high;
        return row;
    }
    list_words(argument, choice);
    row.kind = choice_words_alone(choice) > 0 ? OPTION_WORDS
               : kind == CHOICE_KIND_WORDS    ? OPTION_TEXT
                                              : OPTION_CHOICE;
    row.into = &argument->word;
    row.values = argument->values;
    return row;
}

int choice_options(struct choice_argument arguments[CHOICE_COUNT], struct option *options)
{
    struct arena spare = {0};
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        struct choice_argument *argument = &arguments[choice];
        snprintf(argument->option, sizeof argument->option, "%s", choice_option(&spare, choice));
        options[choice] = row_of(argument, choice);
    }
    arena_free(&spare);
    return CHOICE_COUNT;
}

static bool pin_word(const struct choice_argument *argument, enum choice choice, struct pins *pins,
                     struct err *err)
{
    const char *word = argument->word, *open = choice_open_word(choice);
    const char *fault = choice_fault(choice);
    bool is_open = open && strcmp(word, open) == 0;
    int64_t value = 0;
    struct err refused = {0};
    if (choice == CHOICE_OFFLOAD) pins->search_offload = is_open;
    if (is_open) return true;
    if (!choice_parse(choice, word, &value, &refused)) {
        if (!fault) return err_set(err, ERR_USAGE, "%s", refused.text);
        if (choice_words_alone(choice) > 0)
            return err_set(err, ERR_USAGE, "%s: %s", argument->option, fault);
        return err_set(err, ERR_USAGE, "%s: \"%s\" %s", argument->option, word, fault);
    }
    pins_set(pins, choice, value, value);
    // "--recompute full" alone means every layer, as every framework has it.
    if (choice == CHOICE_RECOMPUTE && !pins_get(pins, CHOICE_RECOMPUTE_LAYERS).set)
        pins_set(pins, CHOICE_RECOMPUTE_LAYERS, -1, -1);
    return true;
}

bool choice_pins(const struct choice_argument arguments[CHOICE_COUNT], struct pins *pins,
                 struct err *err)
{
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        const struct choice_argument *argument = &arguments[choice];
        if (argument->range.set) pins_set(pins, choice, argument->range.low, argument->range.high);
        if (argument->number > 0) pins_set(pins, choice, argument->number, argument->number);
        if (argument->word && !pin_word(argument, choice, pins, err)) return false;
    }
    return true;
}
