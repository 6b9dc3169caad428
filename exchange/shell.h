#pragma once
#include "core/err.h"
#include "exchange/settings.h"

// Reads a shell script as far as it says which options a program is started with: assignments,
// arrays, "${NAME:-default}", arithmetic of whole numbers, tests of numbers and texts, cases. A
// branch whose test cannot be decided is left out; a file that is sourced is read where it lies
// beside the script. What the script writes to a file by "<<END" is kept as a setting of its own,
// SHELL_DOCUMENT and the file's name. Arguments of the script itself are not given. Nothing is run.

#define SHELL_DOCUMENT "<<"

struct shell_variable {
    const char *name, *value;
    int line;
};

// An "if" or a "case" that the line stands in.
struct shell_block {
    bool is_active, is_taken;  // this branch; this one or one before
    const char *word;          // of a "case"; NULL: an "if"
};

struct shell {
    struct arena *arena;
    const char *path, *text;
    const char *at;  // in text
    int line;
    struct shell_variable *variables;
    int variable_count, variable_capacity;
    struct shell_block blocks[64];
    int depth;
    struct shell_variable documents[16];  // texts by the names of their files
    int document_count;
    int nested;  // files that are read by the one before
    struct settings *settings;
};

void shell_read(struct shell *shell);
const char *shell_value(const struct shell *shell, const char *name);  // NULL: not assigned
void shell_assign(struct shell *shell, const char *name, const char *value, bool appends);
// The text with its variables in place; what is not known stays as it is written.
const char *shell_expand(const struct shell *shell, const char *text, size_t length);
// The same of a text whose quotes are its own.
const char *shell_expand_text(const struct shell *shell, const char *text, size_t length);
// "${NAME:=default}" in a word: names that have no value get it.
void shell_assign_defaults(struct shell *shell, const char *word);
