#pragma once
#include "validation/accuracy.h"

// The gnuplot script of predicted over measured steps: one point a row of the tiers that
// `accuracy` is about, one kind of point a kind of model, the diagonal, and lines 10 % off it. The
// picture is an SVG without a ground of its own, in greys and colours that are read on white and on
// black.
char *accuracy_plot_script(struct arena *arena, const struct accuracy *accuracy);
