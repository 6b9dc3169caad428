#pragma once
#include "validation/measure_next.h"

// A Python script (PyTorch alone) of the micro-benchmarks that were chosen, with the shapes of the
// plan that is first. Products and attentions become a table that `--kernels` takes; of the others
// it prints the constant and what it is here. What only the software that trains can show is a
// comment that says how.
char *measure_script_text(struct arena *arena, const struct search_request *request,
                          const struct search_result *result, const struct measure_next *next,
                          struct err *err);
