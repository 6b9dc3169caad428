#pragma once
#include "simulator/ablation.h"

// What `--ablation` prints: the step without each pass, the waterfall from none to all, and what
// fusion saves. Rows that no longer fit the device say so.
char *ablation_text(struct arena *arena, const struct ablation *ablation);

// "ablation": one object a row, {without: true, pass, passes, step_s, gained_s, reserved_bytes} for
// the passes taken away alone, then the waterfall with without: false; "fusion": kernels and bytes.
void ablation_write(struct json_writer *writer, const struct ablation *ablation);
