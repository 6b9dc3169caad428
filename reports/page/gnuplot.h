#pragma once
#include "core/err.h"

// What gnuplot prints for this script (an SVG, where its terminal is svg and no output is set).
// NULL with ERR_SYSTEM where gnuplot is missing or finds fault with the script. Lives in `arena`.
MUST_CHECK char *gnuplot_run(struct arena *arena, const char *script, struct err *err);
// The same of a picture that is no text (PNG): `*bytes` of them.
MUST_CHECK char *gnuplot_image(struct arena *arena, const char *script, size_t *bytes,
                               struct err *err);

// Whether there is a gnuplot in the PATH, for who can do without one.
bool gnuplot_is_installed(void);
