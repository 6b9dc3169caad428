#pragma once
#include "plan/parallel.h"
#include "validation/facts.h"

// Published runs: what was trained, on what, how, and what was measured. One JSON object a line
// (tests/validation/published.jsonl; the format is described in tests/validation/README.md). Keys
// that nothing here reads (source, notes, formulas) are kept by the file, not by us.

// How predictions are grouped when errors are reported and bands are made: narrow is fp8 or fp4.
enum row_kind { ROW_KIND_DENSE, ROW_KIND_DENSE_LOW_PRECISION, ROW_KIND_MIXTURE, ROW_KIND_COUNT };
const char *row_kind_name(enum row_kind kind);  // "dense", "dense-low-precision", "mixture"

struct row {
    const char *id, *family, *source;
    char tier;  // 'A', 'B', 'C'
    const char *device, *stack;
    const char *stack_then;  // shipped when the row arrived, nearest to its own; NULL: its own
    const char *rules_of;    // stack whose refusals of plans hold beside `stack`; NULL: its own
    bool has_narrow_base;    // adapters beside weights of 4 or 8 bits: nothing here models that
    const char *refused;     // what the software refuses of a run that failed; NULL: nothing
    bool gave_nothing;       // "failed": out of memory or crashed, and nothing was measured
    const char *model_name;
    bool network_stated;  // false: 25e9 bytes/s a NIC, one NIC a GPU are assumed
    bool allocated;       // peak_bytes is what the allocator handed out, not what it reserved
    double step_s;        // measured, 0 = not published; derived from tokens/s where only that is
    double peak_bytes;    // measured, 0 = not published
    double flop_per_s_per_gpu;  // published, as the source counts flops; 0 = not published
    struct row_facts facts;
    enum precision precision;  // of the GEMMs, from what the row calls its recipe
    enum row_kind kind;
    struct json_document *document;  // the whole line
    int line;
};

struct rows {
    struct row *items;
    int count;
};

// ERR_INPUT with path:line:column and the JSON path of what is wrong. An empty file is an error;
// so is an id that occurs twice.
MUST_CHECK bool rows_read(struct arena *arena, const char *path, struct rows *rows,
                          struct err *err);
// The same of a text; `path` is for errors.
MUST_CHECK bool rows_parse(struct arena *arena, const char *path, const char *text, size_t bytes,
                           struct rows *rows, struct err *err);

// ERR_USAGE where the words of `--tiers` are not letters of A, B and C.
MUST_CHECK bool rows_check_tiers(const char *tiers, struct err *err);

// Rows of these tiers (letters), families (how the name begins), device and stack (NULL: all), on
// at least so many GPUs.
struct row_filter {
    const char *tiers, *family, *device, *stack;
    int gpus_least;
};
// Drops all other rows, in place; the order stays.
void rows_keep(struct rows *rows, const struct row_filter *filter);
// Each row as it was asked when it arrived: on its stack_then, where it has one. Constants are that
// one's; what its software refuses is of its code and stays.
void rows_as_they_came(struct rows *rows);
