#pragma once
#include "core/json_write.h"
#include "memory/spill/spill.h"

// What `memory` prints: one row a method, then what is proven about the last one.
struct memory_report {
    const char *name;
    int operator_count;  // of packing problems 0
    int buffer_count;
    const struct memory_schedule *rows;  // the baseline first, the answer last
    int row_count;
    int64_t alignment, capacity;         // capacity 0 = none
    const struct spill_result *spilled;  // what is run again and copied out; NULL: was not asked
};

// The highest lower bound that any of the methods has proven: it holds for all of them.
int64_t memory_report_bound(const struct memory_report *report);
// Seconds are the only thing in it that two runs do not share; they stand last in their lines.
char *memory_table_text(struct arena *arena, const struct memory_report *report);
// Where the capacity is not met: by how much, and whether anything can meet it.
char *memory_shortfall_text(struct arena *arena, const struct memory_report *report);
// The same as an object under `key` (NULL in an array).
void memory_report_write(struct json_writer *writer, const char *key,
                         const struct memory_report *report);
