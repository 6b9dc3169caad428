#pragma once
#include "core/arena.h"

// One error of a call chain. The first error wins: setting a set error changes nothing, so a run
// of reads can be checked once at its end. The kind is the exit status of the process. The text is
// one line: place, what was found, what was wanted; no full stop. Nothing below cli/ prints it.

enum err_kind { ERR_NONE = 0, ERR_USAGE = 2, ERR_INPUT = 3, ERR_SYSTEM = 4 };

struct err {
    enum err_kind kind;
    char text[2048];
};

// Always returns false, so that `return err_set(...)` is one line.
bool err_set(struct err *err, enum err_kind kind, const char *format, ...) PRINTF_LIKE(3, 4);
// Adds to the text of a set error what a higher layer knows: "; start from: ...". As much as fits.
void err_add(struct err *err, const char *format, ...) PRINTF_LIKE(2, 3);
