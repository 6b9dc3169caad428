#pragma once
#include "core/arena.h"

#include <stddef.h>

// Text that grows in an arena, for pages, pictures and scripts. What comes from a file goes through
// markup_text, which writes the characters that HTML and SVG mean something by as references;
// markup_put and markup_print write as it is.

struct markup {
    struct arena *arena;
    char *text;  // NUL-terminated; NULL while nothing was put
    size_t length, capacity;
};

void markup_put(struct markup *markup, const char *text);
void markup_print(struct markup *markup, const char *format, ...) PRINTF_LIKE(2, 3);
void markup_text(struct markup *markup, const char *text);
// " NAME=\"TEXT\"", escaped.
// The same of words that people read in lines: a number keeps its unit beside it, and a word of two
// parts ("GPU-hours") is not broken.
void markup_prose(struct markup *markup, const char *text);
void markup_attribute(struct markup *markup, const char *name, const char *text);
// With so many decimals at most and no zeros at the end: "12.5", "3".
void markup_number(struct markup *markup, double value, int decimals);
