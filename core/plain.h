#pragma once
#include "core/arena.h"

// Texts that others wrote - names in files, keys, paths - on their way to a terminal, a table, a
// shell or a spreadsheet. Nothing of them may steer what shows them.
//
// Plain is UTF-8 without what is not shown as itself: control characters (C0, DEL, C1, among them
// ESC, line breaks and tabs), line and paragraph separators, and the marks that turn the direction
// of writing. A text of a JSON file is refused where it is not plain (core/json.h); a path and
// what a library reports can be anything and are made plain where they are shown.

// The longest text that is taken from a file. The longest of those shipped, a description, has 643
// bytes.
enum { TEXT_BYTES_MAX = 1000 };

// The length of the UTF-8 character at `text`: 0 if it is broken, overlong, a surrogate or past
// U+10FFFF.
size_t plain_utf8_length(const char *text);
// The number of the character of `length` bytes at `text`.
unsigned plain_code(const char *text, size_t length);
// Whether the character is shown as itself.
bool plain_is_shown(unsigned code);
// The first character that is not plain; NULL: there is none.
const char *plain_fault(const char *text);
// Writes a '?' over every byte of what is not plain.
void plain_make(char *text);
// A copy that is plain.
const char *plain_copy(struct arena *arena, const char *text);

// The text as one word of a POSIX shell: as it is where that is safe, else in single quotes. What
// is not plain is written by number, in $'...' (POSIX.1-2024, bash, zsh, ksh). A word that could be
// taken for an option is not the shell's business and stays.
const char *plain_shell(struct arena *arena, const char *text);

// Whether a spreadsheet would take the cell for a formula: it starts with = + - or @, and is no
// number.
bool plain_is_formula(const char *text);
// The text as a cell of CSV: in quotes where RFC 4180 wants them, plain, and behind an apostrophe
// where it would be a formula (OWASP, "CSV Injection").
const char *plain_csv(struct arena *arena, const char *text);
