#pragma once
#include "core/err.h"
#include "exchange/settings.h"

// What files of nested keys share: "zero_optimization.stage" stands in the group
// "zero_optimization".

// Whether a value is written as it is: a number, true, false, null or a list; else it is a text.
bool value_is_bare(const char *value);
// The groups of a key, "a.b" of "a.b.c"; "" of one without.
const char *key_group(struct arena *arena, const char *key);
const char *key_name(const char *key);  // "c"
// A text without its quotes and without blanks around it.
const char *value_unquoted(struct arena *arena, const char *text, size_t length);
// Where a value ends in its line: a comment begins, outside of quotes and brackets.
size_t value_length(const char *line);
