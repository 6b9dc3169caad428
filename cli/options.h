#pragma once
#include "core/units.h"

#include <stdint.h>
#include <stdio.h>

// The one parser of command lines, and the one printer of --help: a command is a table of rows.
//
// const struct option options[] = {
//     {"MODEL", OPTION_TEXT, &model, "path or name of a shipped model"},
//     {"Pins", OPTION_GROUP, NULL, "what is pinned is kept, what is not is searched"},
//     {"--tp", OPTION_RANGE, &tp, "tensor parallel size"},
//     {"--schedule", OPTION_CHOICE, &schedule, "pipeline schedule", "gpipe|1f1b|zb-h1"},
//     {"--forbid", OPTION_TEXTS, &forbid, "exclude a value, may be repeated", "KEY=VALUE"},
//     {0},
// };
//
// A name in capitals is a positional argument, in the order of the table: "PLAN" must be there,
// "[PLAN]" may be, "CLUSTER..." (OPTION_TEXTS) is one or more and comes last. Anything else is an
// option, written `--tp 8` or `--tp=8`; it may be absent, and its member then keeps its value, so
// set the defaults before (a file that is written by default is checked as one given is). An option
// given twice is an error unless it is OPTION_TEXTS.

enum option_kind {
    OPTION_TEXT,    // const char *
    OPTION_TEXTS,   // struct text_list
    OPTION_INT,     // int
    OPTION_I64,     // int64_t
    OPTION_F64,     // double
    OPTION_OUTPUT,  // const char *: a file to write; one that is not ours is refused
    OPTION_FLAG,    // bool, or NULL: asked for by name; takes no value
    OPTION_CHOICE,  // const char *: one of the words of `values`; "|auto": or no word, which is ""
    OPTION_WORDS,   // const char *: words of `values` joined by commas
    OPTION_RANGE,   // struct int_range: `4` or `2..8`
    OPTION_GROUP,   // a heading of --help
};

struct option {
    const char *name;
    enum option_kind kind;
    void *into;
    const char *help;
    const char *values;  // CHOICE, WORDS: "a|b|c"; else what --help calls the value, or NULL
    double low, high;    // of a number, inclusive; both 0: from 1 (F64: from 0) to the largest
};

// For tables with an OPTION_OUTPUT: what else stands in its way.
#define OPTION_FORCE_ROW                                                                        \
    {                                                                                           \
        "--force", OPTION_FLAG, NULL, "replace files that meshwright did not write", NULL, 0, 0 \
    }

enum { TEXT_LIST_MAX = 64 };

// Texts of argv, in the order given.
struct text_list {
    const char *items[TEXT_LIST_MAX];
    int count;
};

// Reads argv[1] .. argv[argc - 1]. False with ERR_USAGE. Texts stay in argv.
MUST_CHECK bool options_parse(const struct option *options, int argc, char **argv, struct err *err);

// Whether option `name` is among arguments that options_parse has read.
bool options_given(const struct option *options, int argc, char **argv, const char *name);

// Prints the help where --help is among the arguments of a command, argv[0], and says whether;
// asked before options_parse. It has other forms, which `man` and `completion` ask for:
//   --help=man    sections of a manual page, as roff
//   --help=bash   a case of the completion's function
//   --help=zsh    a function of the completion
//   --help=flags  a case of bash of the options that take no value
bool options_help(int argc, char **argv, const struct option *options);
// Whether it is asked for as text for people.
bool options_help_is_text(int argc, char **argv);
// The text itself.
void options_print(FILE *stream, const char *command, const struct option *options);

// The other forms, one a file: cli/options_man.c, cli/options_completion.c.
void options_print_man(FILE *stream, const char *command, const struct option *options);
void options_print_bash(FILE *stream, const char *command, const struct option *options);
void options_print_zsh(FILE *stream, const char *command, const struct option *options);
void options_print_flags(FILE *stream, const char *command, const struct option *options);
// What help calls the value of an option; NULL: it takes none.
const char *option_value_name(const struct option *option);

// The exit status that goes with an error that is set.
int exit_status(const struct err *err);
