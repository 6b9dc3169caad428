#pragma once
#include <stddef.h>

// The grammar of JSON (RFC 8259), below the parser: cJSON takes any control byte for a blank, "01"
// and "1." for numbers, broken UTF-8, an escaped NUL and "\u00zz" for text, and is vague about
// where a fault is. The scan refuses what it would let through, and the same steps find a value's
// place again when an error is reported.

// Why the text (NUL-terminated at `bytes`) is no JSON document, and the offset of the fault; NULL
// when it is one and nothing is nested deeper than `depth_max`.
const char *json_scan(const char *text, size_t bytes, int depth_max, size_t *offset);

// The offset after blanks, and after the value that starts at `offset`, in a text that parsed.
size_t json_skip_blanks(const char *text, size_t offset);
size_t json_skip_value(const char *text, size_t offset);

// The length of the byte order mark that cJSON skips: 3 or 0.
size_t json_skip_mark(const char *text);
