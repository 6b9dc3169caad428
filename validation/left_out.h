#pragma once
#include "core/json.h"

// What was predicted for each row with constants fitted without its family, and the band made
// without it: tests/validation/left_out.json, written by `meshwright fit`, scored by `meshwright
// validate --left-out`.

struct left_out_row {
    const char *id, *family;
    double step_s;
    double device_out_s;             // with constants fitted without its device; 0: not known
    double step_s_low, step_s_high;  // 0: no band
};

struct left_out {
    const char *source;  // of the fit: when, to which rows
    struct left_out_row *rows;
    int count;
};

// False and ERR_INPUT with the place of what is wrong; an id twice is wrong. Rows come sorted by id
// and live in `arena`.
MUST_CHECK bool left_out_read(struct arena *arena, const char *path, struct left_out *left_out,
                              struct err *err);
// The text of such a file.
char *left_out_text(struct arena *arena, const struct left_out *left_out);
// In what was read; NULL if the row was not among them.
const struct left_out_row *left_out_find(const struct left_out *left_out, const char *id);
