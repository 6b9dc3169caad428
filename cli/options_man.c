#include "cli/options.h"

#include <string.h>

// A text as roff takes it: backslashes, hyphens and a dot or quote at the start of a line are not
// what they seem.
static void put_text(FILE *stream, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", stream);
    for (; *text; text++) {
        if (*text == '\\') {
            fputs("\\e", stream);
        } else if (*text == '-') {
            fputs("\\-", stream);
        } else {
            fputc(*text, stream);
        }
    }
}

static void put_row(FILE *stream, const struct option *option)
{
    const char *value = option->name[0] == '-' ? option_value_name(option) : NULL;
    fputs(".TP\n.B ", stream);
    put_text(stream, option->name);
    if (value) {
        fputs(" \\fI", stream);
        put_text(stream, value);
        fputs("\\fR", stream);
    }
    fputc('\n', stream);
    put_text(stream, option->help);
    fputc('\n', stream);
}

static void put_synopsis(FILE *stream, const char *command, const struct option *options)
{
    bool has_options = false;
    fprintf(stream, ".SH SYNOPSIS\n.B meshwright %s\n", command);
    for (const struct option *option = options; option->name; option++) {
        bool is_option = option->kind != OPTION_GROUP && option->name[0] == '-';
        has_options = has_options || is_option;
        if (option->kind == OPTION_GROUP || is_option) continue;
        fputs(".I ", stream);
        put_text(stream, option->name);
        fputc('\n', stream);
    }
    if (has_options) fputs("[\\fIOPTION\\fR]...\n", stream);
}

void options_print_man(FILE *stream, const char *command, const struct option *options)
{
    put_synopsis(stream, command, options);
    fputs(".SH OPTIONS\n", stream);
    for (const struct option *option = options; option->name; option++) {
        if (option->kind != OPTION_GROUP) {
            put_row(stream, option);
            continue;
        }
        fputs(".SS ", stream);
        put_text(stream, option->name);
        fputc('\n', stream);
        if (!option->help || !*option->help) continue;
        put_text(stream, option->help);
        fputc('\n', stream);
    }
}
