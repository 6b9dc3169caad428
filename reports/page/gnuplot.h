#pragma once
#include "core/err.h"

// The picture that gnuplot prints for this script (SVG or PNG, where it sets that terminal and no
// output), `*bytes` of it and a NUL. NULL with ERR_SYSTEM where gnuplot is missing, finds fault
// with the script or prints no whole picture. Lives in `arena`.
MUST_CHECK char *gnuplot_image(struct arena *arena, const char *script, size_t *bytes,
                               struct err *err);
// The same for a script that writes files of its own and prints that it is done.
MUST_CHECK bool gnuplot_run(struct arena *arena, const char *script, struct err *err);
// Whether an SVG or a PNG ends as such a picture does: gnuplot looks at none of its writes, and
// where there was no room for them says nothing.
bool gnuplot_is_whole(const char *picture, size_t bytes);

// Whether there is a gnuplot in the PATH, for who can do without one.
bool gnuplot_is_installed(void);
