#include "core/console.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Narrower ones are no terminals that tables can be read on: words would be broken letter by
// letter.
enum { WIDTH_LEAST = 20, WIDTH_MOST = 10000, DEEPER = 2 };

static const char ESCAPE = '\033', RESET[] = "\033[0m";

int console_width(FILE *stream)
{
    const char *said = getenv("COLUMNS");
    long width = said ? strtol(said, NULL, 10) : 0;
    struct winsize size;
    if (width <= 0 && isatty(fileno(stream)) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0) {
        width = size.ws_col;
    }
    if (width <= 0 || width > WIDTH_MOST) return 0;
    return width < WIDTH_LEAST ? WIDTH_LEAST : (int)width;
}

bool console_is_coloured(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color && *no_color) return false;
    if (term && strcmp(term, "dumb") == 0) return false;
    return isatty(fileno(stream));
}

int console_answer_width(void)
{
    return console_width(stdout);
}

bool console_answer_is_coloured(void)
{
    return console_is_coloured(stdout);
}

// The bytes of the character or of the sequence of colour at `at`; `columns`: what they take.
static size_t step_over(const char *at, const char *end, size_t *columns)
{
    size_t length = 1;
    *columns = *at != ESCAPE;
    if (*at == ESCAPE) {
        while (at + length < end && at[length - 1] != 'm')
            length++;
        return length;
    }
    while (at + length < end && ((unsigned char)at[length] & 0xc0) == 0x80)
        length++;
    return length;
}

size_t console_columns(const char *text, size_t bytes)
{
    size_t columns = 0, more = 0;
    for (const char *at = text, *end = text + bytes; at < end; columns += more)
        at += step_over(at, end, &more);
    return columns;
}

// Whether the blank stands between a number and its unit, which stay together: "1.98 PFLOP/s", "65
// %".
static bool is_in_quantity(const char *text, const char *blank)
{
    const char *start = blank;
    while (start > text && strchr("0123456789.,", start[-1]))
        start--;
    bool is_number =
        start < blank && blank[-1] != ',' && (start == text || strchr(" (~+-", start[-1]));
    return is_number && (blank[1] == '%' || isalpha((unsigned char)blank[1]));
}

size_t console_fitting(const char *text, size_t bytes, size_t columns)
{
    assert(text && columns > 0);
    const char *end = text + bytes, *at = text;
    size_t taken = 0, more = 0, blank = 0, comma = 0, mark = 0, last = 0;
    assert(bytes > 0 && columns > 0);
    bool has_begun = false;  // blanks that a text begins with are no place to break it
    while (at < end) {
        if (*at == ' ' && has_begun && !is_in_quantity(text, at)) blank = (size_t)(at - text);
        has_begun = has_begun || *at != ' ';
        at += step_over(at, end, &more);
        taken += more;
        if (taken > columns) break;
        last = (size_t)(at - text);
        if (at[-1] == ',') comma = last;
        bool is_product = at[-1] == 'x' && last > 1 && isdigit((unsigned char)at[-2]);
        if (is_product || strchr("-_./=:|", at[-1])) mark = last;
    }
    if (taken <= columns) return bytes;
    return blank > 0 ? blank : comma > 0 ? comma : mark > 0 ? mark : last;
}

static bool starts_with(const char *text, size_t bytes, const char *words)
{
    size_t length = strlen(words);
    return bytes >= length && memcmp(text, words, length) == 0;
}

static const char NEXT[] = "Next: ";

static bool is_command(const char *line, size_t bytes, size_t indent)
{
    if (starts_with(line + indent, bytes - indent, NEXT)) return true;
    return indent == strlen(NEXT) && starts_with(line + indent, bytes - indent, "meshwright ");
}

// Up to the last blank before an option that leaves at most `columns`, else up to the last one of
// all, else to the first; all where there is none. Words and what stands in quotes are never
// broken.
static size_t command_fitting(const char *text, size_t bytes, size_t columns)
{
    size_t option = 0, blank = 0;
    bool is_quoted = false;
    for (size_t i = 1; i + 1 < bytes; i++) {
        if (text[i] == '\'') is_quoted = !is_quoted;
        if (is_quoted || text[i] != ' ') continue;
        if (blank > 0 && console_columns(text, i) > columns) break;
        blank = i;
        if (text[i + 1] == '-') option = i;
    }
    if (option > 0) return option;
    return blank > 0 ? blank : bytes;
}

static size_t blanks(const char *text, size_t bytes)
{
    size_t count = 0;
    while (count < bytes && text[count] == ' ')
        count++;
    return count;
}

// How a line begins, and the colour of those words.
static const struct accent {
    const char *words, *colour;
} ACCENTS[] = {
    {"warning:", "\033[33m"},  {"note:", "\033[36m"},      {"Best:", "\033[1;32m"},
    {"Fastest:", "\033[32m"},  {"Cheapest", "\033[1;32m"}, {"Next:", "\033[36m"},
    {"meshwright", "\033[1m"},
};

static size_t put_accent(FILE *stream, const char *line, size_t bytes)
{
    for (size_t i = 0; i < sizeof ACCENTS / sizeof *ACCENTS; i++) {
        const struct accent *accent = &ACCENTS[i];
        if (!starts_with(line, bytes, accent->words)) continue;
        fprintf(stream, "%s%s%s", accent->colour, accent->words, RESET);
        return strlen(accent->words);
    }
    return 0;
}

// One line without its end. Nothing is allocated: the files that go with it are written already.
static void put_line(FILE *stream, const char *line, size_t bytes, size_t width)
{
    size_t indent = blanks(line, bytes), further = indent + DEEPER;
    bool is_shell = is_command(line, bytes, indent);
    if (is_shell) further = strlen(NEXT);
    if (further > width / 2) further = 0;
    size_t left = width, lead = indent < width ? indent : 0;
    size_t done = console_is_coloured(stream) ? put_accent(stream, line, bytes) : 0;
    while (console_columns(line, bytes) > left) {
        size_t fits = is_shell ? command_fitting(line + lead, bytes - lead, left - lead - 2)
                               : console_fitting(line + lead, bytes - lead, left - lead);
        fwrite(line + done, 1, lead + fits - done, stream);
        done = 0;
        line += lead + fits;
        bytes -= lead + fits;
        size_t skipped = blanks(line, bytes);
        line += skipped;
        bytes -= skipped;
        if (bytes == 0) return;
        fprintf(stream, "%s\n%*s", is_shell ? " \\" : "", (int)further, "");
        left = width - further;
        lead = 0;
    }
    fwrite(line + done, 1, bytes - done, stream);
}

void console_print(FILE *stream, const char *text)
{
    assert(stream && text);
    int width = console_width(stream);
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        put_line(stream, text, bytes, width > 0 ? (size_t)width : SIZE_MAX);
        text += bytes;
        if (*text) fputc(*text++, stream);
    }
}
void console_printf(FILE *stream, const char *format, ...)
{
    struct arena arena = {0};
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    assert(length >= 0);
    char *text = ARENA_NEW(&arena, char, length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    console_print(stream, text);
    arena_free(&arena);
}
