#pragma once
#include "topologies/device.h"

// Seconds of single kernels as somebody measured them, per shape: what a formula cannot know about
// one library on one device. Optional; a shape that is there is priced by its row, every other by
// the formula (cost_models/compute.h). topologies/kernels/NAME.json; schema beside it.

enum kernel_kind { KERNEL_GEMM, KERNEL_GROUPED_GEMM, KERNEL_ATTENTION, KERNEL_KIND_COUNT };

// Which of the products of a layer: y = x w; the gradient of x; the gradient of w. They differ in
// which side of an operand is contiguous, and so in speed. The gradient of w has a row for each
// input of the layer and a column for each output. Attention has no third.
enum kernel_phase {
    KERNEL_FORWARD,
    KERNEL_BACKWARD,
    KERNEL_WEIGHT,
    KERNEL_PHASE_COUNT,
};

struct kernel {
    enum kernel_kind kind;
    enum kernel_phase phase;
    enum precision precision;
    int64_t batch;         // groups of a grouped GEMM; sequences of attention
    int64_t m, n, k;       // of one of them; m rows of the result, n columns, sums over k
    bool accumulate_fp32;  // reads and writes an fp32 result
    int64_t heads, kv_heads, head_dim, value_dim, seq;  // attention of seq queries to seq keys
    bool causal;
    double s;  // without the gap before it
};

// The algorithm of a library that was measured to be the fastest for a call. Both texts are the
// executor's own words, and mean something to it with the very libraries of `software` alone.
struct kernel_choice {
    const char *shape, *algorithm;
    double s;
};

struct kernel_table {
    const char *name;
    const char *device;    // name of the device that it was measured on
    const char *date;      // of the measurement or of its publication, as the source has it
    const char *software;  // driver, libraries
    struct kernel *rows;
    int row_count;
    struct kernel_choice *choices;  // optional; no two of one shape
    int choice_count;
    struct provenance *provenance;
    int provenance_count;
    double flop_per_s_most;  // of any row: no kernel that is priced from here is faster
    int *slots;              // 1 + row by hash of its shape, 0 = free
    int slot_count;          // a power of two
};

// `value` is the name of a shipped table, a path, or the object itself. NULL and a set `err` if it
// is wrong; two rows of one shape are wrong. Lives as long as `arena`.
MUST_CHECK struct kernel_table *kernels_read(struct arena *arena, const struct json *value,
                                             struct err *err);
MUST_CHECK struct kernel_table *kernels_load(struct arena *arena, const char *name,
                                             struct err *err);
// Lets the rows of a table be found, for one that was not read. -1, or the second of two rows of
// one shape, with which the table is wrong. Again after their seconds change, for flop_per_s_most.
int kernels_index(struct arena *arena, struct kernel_table *table);
// Writes the object that `kernels_read` reads.
void kernels_write(struct json_writer *writer, const char *key, const struct kernel_table *table);
bool kernel_same_shape(const struct kernel *a, const struct kernel *b);
// The row of this shape, whatever `wanted->s` is; NULL if there is none.
const struct kernel *kernels_find(const struct kernel_table *table, const struct kernel *wanted);
// The table with the rows that `used[row]` names only, without its choices.
struct kernel_table *kernels_select(struct arena *arena, const struct kernel_table *table,
                                    const bool *used);
