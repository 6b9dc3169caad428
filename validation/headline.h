#pragma once
#include "validation/accuracy.h"

// The figures by which accuracy is watched: tests/validation/headline.json holds the committed
// ones, and a change that makes one of them worse is seen. All are ratios, and smaller is better.
// Beside the figures over all rows stands the mean error of every family: a mean may stay while
// two families part.

enum { HEADLINE_MAX = 24 };

struct headline {
    struct {
        const char *key;    // in the file
        const char *words;  // for people
        double value;
    } figures[HEADLINE_MAX];
    int count;
    const struct accuracy_line *families;  // those of the accuracy
    int family_count;
};

struct headline headline_of(const struct accuracy *accuracy);
// The text of the file.
char *headline_text(struct arena *arena, const struct headline *headline);

struct headline_change {
    const char *words;
    double was, is;
};

// Reads the committed figures and lists those that are worse now by more than `margin` (a ratio:
// 0.003 is 0.3 points), or by three times that of a family, which has few rows. A figure that is in
// the file only, or is new, is an error: the file is then written anew. At most HEADLINE_MAX
// changes; their number, or -1 and `err`.
MUST_CHECK int headline_worse(struct arena *arena, const char *path,
                              const struct headline *headline, double margin,
                              struct headline_change changes[HEADLINE_MAX], struct err *err);
