#pragma once
#include "validation/anchor.h"

// Under the table of `plan --anchor`: what the measured runs said, and which constants they moved.
char *anchor_text(struct arena *arena, const struct anchor *anchor);

// What `validate --anchor` prints: of every family the error before and after its smallest runs
// corrected the constants.
char *anchor_sweep_text(struct arena *arena, const struct anchor_sweep *sweep);
