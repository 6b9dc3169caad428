#include "cli/options.h"
#include "core/console.h"

#include <assert.h>
#include <string.h>

// What is no terminal gets the help as one of 80 columns would; on a wide one lines are no longer
// than can be read.
enum {
    HELP_COLUMN = 28,
    NARROW_COLUMN = 6,
    NARROW = 60,
    WIDTH_DEFAULT = 80,
    WIDTH_MOST = 100,
    USAGE_BYTES = 256
};

struct page {
    FILE *stream;
    int width;
    int column;  // where explanations begin
};

static struct page page_of(FILE *stream)
{
    int width = console_width(stream);
    if (width == 0) width = WIDTH_DEFAULT;
    if (width > WIDTH_MOST) width = WIDTH_MOST;
    return (struct page){stream, width, width < NARROW ? NARROW_COLUMN : HELP_COLUMN};
}

const char *option_value_name(const struct option *option)
{
    if (option->values) return option->values;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_TEXTS:
        return "TEXT";
    case OPTION_OUTPUT:
        return "FILE";
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

// Breaks `text`, which begins at `column`, so that no line passes the width; every further line
// starts at `indent`.
static void put_wrapped(const struct page *page, const char *text, int column, int indent)
{
    while (*text) {
        size_t bytes = console_fitting(text, strlen(text), (size_t)(page->width - column));
        fwrite(text, 1, bytes, page->stream);
        text += bytes;
        text += strspn(text, " ");
        if (*text) fprintf(page->stream, "\n%*s", indent, "");
        column = indent;
    }
    fputc('\n', page->stream);
}

static void put_row(const struct page *page, const struct option *option)
{
    bool is_option = option->name[0] == '-';
    const char *value = is_option ? option_value_name(option) : NULL;
    int width = fprintf(page->stream, "  %s%s", option->name, value ? " " : "");
    // A long list of words takes lines of its own.
    int whole = width + (value ? (int)strlen(value) : 0);
    if (whole + 2 > page->column) {
        put_wrapped(page, value ? value : "", width, NARROW_COLUMN);
        fprintf(page->stream, "%*s", page->column, "");
    } else {
        fprintf(page->stream, "%s%*s", value ? value : "", page->column - whole, "");
    }
    put_wrapped(page, option->help, page->column, page->column);
}

static void put_heading(const struct page *page, const struct option *option)
{
    int column = fprintf(page->stream, "\n%s:", option->name) - 1;
    if (option->help) column += fprintf(page->stream, " ");
    put_wrapped(page, option->help ? option->help : "", column, 4);
}

void options_print(FILE *stream, const char *command, const struct option *options)
{
    const struct page page = page_of(stream);
    char usage[USAGE_BYTES];
    int length = snprintf(usage, sizeof usage, "Usage: meshwright %s", command);
    bool has_options = false;
    for (const struct option *option = options; option->name; option++) {
        if (option->kind == OPTION_GROUP) continue;
        if (option->name[0] == '-') {
            has_options = true;
        } else {
            length += snprintf(usage + length, sizeof usage - (size_t)length, " %s", option->name);
        }
        assert(length < USAGE_BYTES - 16);
    }
    if (has_options) snprintf(usage + length, sizeof usage - (size_t)length, " [OPTION]...");
    put_wrapped(&page, usage, 0, NARROW_COLUMN);
    fputc('\n', stream);
    for (const struct option *option = options; option->name; option++) {
        assert(option->kind == OPTION_GROUP || option->help);
        if (option->kind == OPTION_GROUP) {
            put_heading(&page, option);
        } else {
            put_row(&page, option);
        }
    }
}

static const struct {
    const char *flag;
    void (*print)(FILE *stream, const char *command, const struct option *options);
} FORMS[] = {
    {"--help", options_print},
    {"--help=man", options_print_man},
    {"--help=bash", options_print_bash},
    {"--help=zsh", options_print_zsh},
    {"--help=flags", options_print_flags},
};
enum { FORM_COUNT = sizeof FORMS / sizeof *FORMS };

// The form that is asked for; FORM_COUNT: none is.
static int form_of(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        for (int form = 0; form < FORM_COUNT; form++) {
            if (strcmp(argv[i], FORMS[form].flag) == 0) return form;
        }
    }
    return FORM_COUNT;
}

bool options_help_is_text(int argc, char **argv)
{
    return form_of(argc, argv) == 0;
}

bool options_help(int argc, char **argv, const struct option *options)
{
    int form = form_of(argc, argv);
    if (form == FORM_COUNT) return false;
    FORMS[form].print(stdout, argv[0], options);
    return true;
}
