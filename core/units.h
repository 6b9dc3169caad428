#pragma once
#include "core/err.h"

#include <stdint.h>

// Quantities for people: three significant digits and the unit that fits.
//   18.13 s, 4.21 ms, 71.2 GiB, 3.12 PFLOP/s, 12.3 GB/s, 1.2 M, 43.1 %
// Each returns a text in the arena.
char *units_seconds(struct arena *arena, double seconds);
// How long a run takes, where tenths of a day are told apart: 98.80 s, 11.6 min, 30.9 h, 153.9
// days, 2.1 years, "for ever".
char *units_duration(struct arena *arena, double seconds);
char *units_bytes(struct arena *arena, double bytes);              // KiB, MiB, GiB, TiB
char *units_flop_per_s(struct arena *arena, double flop_per_s);    // GFLOP/s ... EFLOP/s
char *units_bytes_per_s(struct arena *arena, double bytes_per_s);  // decimal
char *units_count(struct arena *arena, double count);              // 1,842  16,384  1.01 T
// With its noun, which one of takes no s: "1 token", "1.2 M tokens".
char *units_counted(struct arena *arena, double count, const char *noun);
char *units_ratio(struct arena *arena, double ratio);  // percent with one decimal
// The same in a column of a table: "43.1%", and "+43.1%" of what is more or less.
char *units_percent(struct arena *arena, double ratio);
char *units_signed_percent(struct arena *arena, double ratio);

// Numbers as people type them: 4096, 1e12, 2T, 512k, 1.5M (decimal multiples), 16KiB. False with
// ERR_USAGE that names `what` when the text is not a number or not whole where it must be.
MUST_CHECK bool units_parse_f64(const char *text, const char *what, double *value, struct err *err);
MUST_CHECK bool units_parse_i64(const char *text, const char *what, int64_t low, int64_t high,
                                int64_t *value, struct err *err);

// A duration as people type it, a number and its unit: 90s, 30m, 12h, 30d, 2w, 1.5y (of 365.25
// days). More than 0; false with ERR_USAGE.
MUST_CHECK bool units_parse_duration(const char *text, const char *what, double *seconds,
                                     struct err *err);

// The shortest decimal that reads back to the same finite double, whole numbers below 2^53 in full;
// the same bytes in every locale. Written to `text`, which is returned.
enum { UNITS_NUMBER_BYTES = 32 };
const char *units_number(char text[UNITS_NUMBER_BYTES], double value);

// Whole numbers, both ends included. Not `set`: the user left the choice open.
struct int_range {
    int64_t low, high;
    bool set;
};

// Edit distance for "did you mean"; small texts only.
int units_edit_distance(const char *a, const char *b);

// The nearest of the names offered, for "did you mean": `best` stays NULL when none is near enough
// to be a slip of the finger. Start with {.text = what was written}.
struct units_guess {
    const char *text;
    const char *best;
    int distance;
};
void units_guess_offer(struct units_guess *guess, const char *name);
