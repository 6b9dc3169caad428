#pragma once
#include "core/json_write.h"

// Where constants come from, for every data file: an array "provenance" of {key, kind, source}
// beside the constants it speaks of. A key names a member, dotted ("efficiency.gemm_ratio"), and
// speaks for everything below it.

// Where a constant comes from, best first. `fitted` was moved from its prior by measured runs
// (`meshwright fit`). `estimated` marks what nobody measured: predictions that rest on it are
// labelled so. `assumed` is what a file did not give and the reader took (topologies/assume.h).
enum provenance_kind {
    PROVENANCE_MEASURED,
    PROVENANCE_PUBLISHED,
    PROVENANCE_FITTED,
    PROVENANCE_DATASHEET,
    PROVENANCE_ESTIMATED,
    PROVENANCE_ASSUMED,
    PROVENANCE_KIND_COUNT
};

struct provenance {
    const char *key;  // the member it speaks of, dotted: "efficiency.gemm_ratio"
    enum provenance_kind kind;
    const char *source;  // document, table, date
    // Fitted ones: the value before any run was looked at, and how far that was trusted to be off
    // (standard deviation of its log). Members "prior" and "spread" of the entry, only there.
    double prior, spread;
};

const char *provenance_kind_name(enum provenance_kind kind);

struct provenance_list {
    struct provenance *entries;
    int count;
};

// Reads `object`'s "provenance". An entry without a constant and a number without an entry are
// errors at their place; `what` ("stack") is for the message. Lives as long as `arena`.
MUST_CHECK struct provenance_list provenance_read(struct arena *arena, const struct json *object,
                                                  const char *what, struct err *err);
// What provenance arrays hold, for json_check.
const struct json_shape *provenance_shape(void);
// The same for a file that may leave members of its shape out: entries of those are passed over.
MUST_CHECK struct provenance_list provenance_read_of(struct arena *arena, const struct json *object,
                                                     const char *what,
                                                     const struct json_shape *shape,
                                                     struct err *err);
// The same for an object whose constants need no entry; keys may count in arrays, "nodes[0].gpus".
// Without an array: none. The shape is of the last words of keys.
MUST_CHECK struct provenance_list provenance_read_some(struct arena *arena,
                                                       const struct json *object, const char *what,
                                                       const struct json_shape *shape,
                                                       struct err *err);
// The members of one entry, into an object that is open, and all entries.
void provenance_put(struct json_writer *writer, const struct provenance *entry);
void provenance_write(struct json_writer *writer, const struct provenance *entries, int count);
// The entry of this constant or of the nearest object around it; NULL if there is none.
const struct provenance *provenance_find(const struct provenance_list *list, const char *key);
