#pragma once
#include "core/arena.h"

#include <stdbool.h>
#include <stdio.h>

// What people read, on the terminal that they read it on. Tables (core/table.h) are laid out for
// its width; all other lines go through console_print, which breaks what is longer at blanks.
// Files and what --json and --csv print never do.

// The columns that COLUMNS says, else those of the stream's terminal. 0 where there is neither: a
// pipe gets each line as long as it is.
int console_width(FILE *stream);
// Whether colours may be used: only on a terminal, and never where NO_COLOR or TERM=dumb say no.
bool console_is_coloured(FILE *stream);
// Both of standard output, where answers go.
int console_answer_width(void);
bool console_answer_is_coloured(void);

// The columns that the first `bytes` bytes of a text take: UTF-8 characters count one, sequences
// of colour none.
size_t console_columns(const char *text, size_t bytes);
// How many of the first `bytes` bytes of a text fit `columns`, broken at the last blank, else
// behind the last comma, else behind another mark, else anywhere; all of it where it fits. At least
// one character. Blanks that the break leaves at the start of the rest are the caller's to skip.
size_t console_fitting(const char *text, size_t bytes, size_t columns);

// Prints for people: no line is longer than the stream is wide. A further line stands two columns
// deeper than the first of its sentence; a shell command ("Next: meshwright ...") is broken with
// backslashes, so that it can be copied. Where the stream is coloured, words that say how a line
// is meant ("warning:", "Best:") stand out. console_print allocates nothing.
void console_print(FILE *stream, const char *text);
void console_printf(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
