#include "cli/options.h"

#include <string.h>

// What is shipped under the name of an argument: the command that lists it. NULL: files.
static const char *list_of(const char *name)
{
    static const char *const LISTS[][2] = {
        {"MODEL", "models"}, {"CLUSTER", "clusters"}, {"--stack", "stacks"},
        {"NAME", "schema"},  {"COMMAND", "commands"},
    };
    size_t length = strcspn(name, ".]");
    if (*name == '[') name++, length = strcspn(name, ".]");
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        if (strlen(LISTS[i][0]) == length && strncmp(LISTS[i][0], name, length) == 0)
            return LISTS[i][1];
    }
    return NULL;
}

static bool has_words(const struct option *option)
{
    return option->kind == OPTION_CHOICE || option->kind == OPTION_WORDS;
}

static void put_words(FILE *stream, const char *values)
{
    for (; *values; values++)
        fputc(*values == '|' ? ' ' : *values, stream);
}

// What may follow an option, as a case of bash: its words, names that are shipped, else files.
static void put_bash_value(FILE *stream, const char *command, const struct option *option)
{
    const char *list = list_of(option->name);
    if (option->kind == OPTION_FLAG || (!has_words(option) && !list)) return;
    fprintf(stream, "    %s,%s) words='", command, option->name);
    if (has_words(option)) put_words(stream, option->values);
    fprintf(stream, "'%s%s%s;;\n", list ? "$(_meshwright_names " : "", list ? list : "",
            list ? ")" : "");
}

void options_print_bash(FILE *stream, const char *command, const struct option *options)
{
    int position = 0;
    fprintf(stream, "    %s,--) words='--help", command);
    for (const struct option *option = options; option->name; option++) {
        if (option->kind != OPTION_GROUP && option->name[0] == '-')
            fprintf(stream, " %s", option->name);
    }
    fputs("';;\n", stream);
    for (const struct option *option = options; option->name; option++) {
        if (option->kind == OPTION_GROUP) continue;
        if (option->name[0] == '-') {
            put_bash_value(stream, command, option);
            continue;
        }
        position++;
        const char *list = list_of(option->name);
        if (list) {
            // One that may be given again is the last.
            bool comes_again = option->kind == OPTION_TEXTS;
            fprintf(stream,
                    comes_again ? "    %s,[%d-9]*) words=$(_meshwright_names %s);;\n"
                                : "    %s,%d) words=$(_meshwright_names %s);;\n",
                    command, position, list);
        } else if (has_words(option)) {
            fprintf(stream, "    %s,%d) words='", command, position);
            put_words(stream, option->values);
            fputs("';;\n", stream);
        }
    }
}

// Within single quotes; brackets and colons part what _arguments reads.
static void put_zsh_text(FILE *stream, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stream);
            continue;
        }
        if (strchr("[]:\\", *text)) fputc('\\', stream);
        fputc(*text, stream);
    }
}

// ":what it is called:what it may be"
static void put_zsh_value(FILE *stream, const struct option *option, const char *name)
{
    const char *list = list_of(option->name);
    fputc(':', stream);
    put_zsh_text(stream, name);
    if (has_words(option)) {
        fputs(":(", stream);
        put_words(stream, option->values);
        fputc(')', stream);
    } else if (list) {
        fprintf(stream, ":{ _meshwright_of %s }", list);
    } else {
        fputs(":_files", stream);
    }
}

void options_print_zsh(FILE *stream, const char *command, const struct option *options)
{
    fprintf(stream, "_meshwright_%s() {\n    _arguments '--help[explain the options]'", command);
    for (const struct option *option = options; option->name; option++) {
        if (option->kind == OPTION_GROUP) continue;
        fputs(" \\\n        '", stream);
        if (option->name[0] != '-') {
            if (option->kind == OPTION_TEXTS) fputc('*', stream);
            put_zsh_value(stream, option, option->name);
        } else {
            if (option->kind == OPTION_TEXTS) fputc('*', stream);
            fprintf(stream, "%s[", option->name);
            put_zsh_text(stream, option->help);
            fputc(']', stream);
            if (option->kind != OPTION_FLAG)
                put_zsh_value(stream, option, has_words(option) ? " " : option_value_name(option));
        }
        fputc('\'', stream);
    }
    fputs("\n}\n", stream);
}

void options_print_flags(FILE *stream, const char *command, const struct option *options)
{
    fprintf(stream, "    %s,--help", command);
    for (const struct option *option = options; option->name; option++) {
        if (option->kind == OPTION_FLAG) fprintf(stream, "|%s,%s", command, option->name);
    }
    fputs(") return 1;;\n", stream);
}
