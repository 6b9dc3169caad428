#include "cli/options.h"

#include <assert.h>
#include <string.h>

enum { HELP_COLUMN = 28, HELP_WIDTH = 90 };

static const char *value_name(const struct option *option)
{
    if (option->values) return option->values;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_TEXTS:
        return "TEXT";
    case OPTION_INT:
    case OPTION_I64:
    case OPTION_F64:
        return "N";
    case OPTION_RANGE:
        return "N|LOW..HIGH";
    default:
        return NULL;
    }
}

// Breaks `text` at blanks so that no line passes the width; every further line starts at `indent`.
static void print_wrapped(FILE *stream, const char *text, int column, int indent)
{
    const char *gap = "";
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column + length + 1 > HELP_WIDTH && *gap) {
            fprintf(stream, "\n%*s", indent, "");
            column = indent;
            gap = "";
        }
        column += fprintf(stream, "%s%.*s", gap, length, text);
        gap = " ";
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

static void print_row(FILE *stream, const struct option *option)
{
    bool is_option = option->name[0] == '-';
    const char *value = is_option ? value_name(option) : NULL;
    int width = fprintf(stream, "  %s", option->name);
    if (value) width += fprintf(stream, " %s", value);
    // A long list of words takes a line of its own.
    if (width + 2 > HELP_COLUMN) {
        fputc('\n', stream);
        width = 0;
    }
    fprintf(stream, "%*s", HELP_COLUMN - width, "");
    print_wrapped(stream, option->help, HELP_COLUMN, HELP_COLUMN);
}

static void print_heading(FILE *stream, const struct option *option)
{
    int column = fprintf(stream, "\n%s", option->name) - 1;
    if (!option->help) {
        fputs(":\n", stream);
        return;
    }
    column += fprintf(stream, ": ");
    print_wrapped(stream, option->help, column, 4);
}

void options_print(FILE *stream, const char *command, const struct option *options)
{
    fprintf(stream, "Usage: meshwright %s", command);
    bool has_options = false;
    for (const struct option *option = options; option->name; option++) {
        if (option->kind == OPTION_GROUP) continue;
        if (option->name[0] == '-') {
            has_options = true;
        } else {
            fprintf(stream, " %s", option->name);
        }
    }
    fputs(has_options ? " [OPTION]...\n\n" : "\n\n", stream);
    for (const struct option *option = options; option->name; option++) {
        assert(option->kind == OPTION_GROUP || option->help);
        if (option->kind == OPTION_GROUP) {
            print_heading(stream, option);
        } else {
            print_row(stream, option);
        }
    }
}
