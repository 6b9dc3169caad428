#pragma once
#include "core/json_write.h"
#include "topologies/device.h"

// Where constants come from, for every data file: an array "provenance" of {key, kind, source}
// beside the constants it speaks of. A key names a member, dotted ("efficiency.gemm_ratio"), and
// speaks for everything below it.

struct provenance_list {
    struct provenance *entries;
    int count;
};

// Reads `object`'s "provenance". An entry without a constant and a number without an entry are
// errors at their place; `what` ("stack") is for the message. Lives as long as `arena`.
MUST_CHECK struct provenance_list provenance_read(struct arena *arena, const struct json *object,
                                                  const char *what, struct err *err);
void provenance_write(struct json_writer *writer, const struct provenance *entries, int count);
// The entry of this constant or of the nearest object around it; NULL if there is none.
const struct provenance *provenance_find(const struct provenance_list *list, const char *key);
