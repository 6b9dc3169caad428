#pragma once
#include "core/arena.h"
#include "core/err.h"

// Which kind of file a JSON file is, before it is read as that kind: the one of `words` (closed by
// NULL) that the member `key` of its object is. NULL where it is none of them, no such file, or no
// JSON: whoever reads it as another kind says so. Where the machine fails (ERR_SYSTEM), NULL and a
// set `err`. Only files with one of the words anywhere in them are parsed, and no pipes, which
// could not be read again.
const char *json_peek(const char *path, const char *key, const char *const *words, struct err *err);
