#pragma once
#include "core/err.h"
#include "exchange/settings.h"

// Reads a shell script as far as it says which options a program is started with: assignments,
// arrays, "${NAME:-default}", arithmetic of whole numbers, tests of numbers and texts. A branch
// whose test cannot be decided is left out; a file that is sourced is read where it lies beside the
// script. Nothing is run.

struct shell_variable {
    const char *name, *value;
    int line;
};

struct shell {
    struct arena *arena;
    const char *path, *text;
    const char *at;  // in text
    int line;
    struct shell_variable *variables;
    int variable_count, variable_capacity;
    bool active[64];  // of the branches that stand around this line
    int depth;
    int nested;  // files that are read by the one before
    struct settings *settings;
};

void shell_read(struct shell *shell);
const char *shell_value(const struct shell *shell, const char *name);  // NULL: not assigned
void shell_assign(struct shell *shell, const char *name, const char *value, bool appends);
// The text with its variables in place; what is not known stays as it is written.
const char *shell_expand(const struct shell *shell, const char *text, size_t length);
// Words of a command line as settings: "--key", "--key=value", "--key value ...".
void shell_options(struct shell *shell, const char *words, int line);
