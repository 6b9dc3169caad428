#pragma once
#include "cli/output.h"
#include "core/err.h"

#include <stdbool.h>

// Where a command's files go: what may be replaced, what is said of it, and `-o -`.

// False with ERR_USAGE where a file is there that meshwright did not write, as its beginning tells,
// or a folder of other files: ours has an index.html. Nothing, an empty file or folder, a pipe or a
// device may be written.
MUST_CHECK bool output_check(const char *path, struct err *err);

// The same for files that are written together, the first that is in the way named. Devices,
// stacks and clusters begin as the user's own do: ours are those that name us, or a fit, as the
// source of their numbers.
MUST_CHECK bool output_check_files(const char *const *paths, int count, struct err *err);

// False, ERR_USAGE, where a folder is asked for by "-", which is one file.
MUST_CHECK bool output_check_folder(const char *folder, struct err *err);

// `*path` is "-": what is written to it goes to standard output, and all that is printed for people
// from now on to standard error. Else, and where it is NULL, nothing happens.
MUST_CHECK bool output_take_stdout(const char **path, struct err *err);

// "Wrote plan.json" or, where a file is there now, "Replaced plan.json": asked before it is
// written. "" for standard output.
const char *output_said(struct arena *arena, const char *path);
// The same of files that are written together: "Wrote a.json and b.json; replaced c.json".
const char *output_said_files(struct arena *arena, const char *const *paths, int count);
// The same where standard output holds data: a note that goes to standard error, "" where nothing
// is replaced.
const char *output_noted(struct arena *arena, const char *path);
