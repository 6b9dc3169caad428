#pragma once
#include "executor/backend.h"
#include "plan/held.h"

// The copy of `part`, which lies in both, from one dense array to another: `from` holds the box
// `source`, `to` the box `target`.
struct box_copy held_copy(const struct held *part, const struct held *source, const void *from,
                          const struct held *target, void *to, enum element element,
                          int64_t element_bytes);
