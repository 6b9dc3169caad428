#pragma once
#include "cost_models/collective.h"
#include "cost_models/stack.h"
#include "topologies/device.h"

// Every number of a device, a stack and the fabrics that prices may depend on, in one list, so that
// whoever varies them (fitting, sensitivity) needs no list of its own. It is made from the tables
// that the files are read by, so that a new number of a file is in it. Whole numbers of the files
// (memory_bytes, multiprocessor_count, bucket_bytes, ...) are not: they are counts, not rates.

enum constant_owner { CONSTANT_DEVICE, CONSTANT_STACK, CONSTANT_FABRIC };

struct constant {
    enum constant_owner owner;
    const char *owner_name;  // of the device, the stack, the row of the fabrics (fabric_name)
    const char *key;         // dotted, as in the file: "efficiency.gemm_ratio.bf16"; of a group's
                             // efficiency with its ranks: "group_efficiency.8"
    double *value;           // in the structs that the list was made of
    double low, high;        // what the file's reader accepts
    const struct provenance *provenance;  // of the key or of the nearest object around it
};

struct constant_list {
    struct constant *items;  // device, stack, fabrics; in the order of the files
    int count;
};

// The structs are the caller's own copies (device_copy, stack_copy, fabrics_copy), because values
// may be set through the list. What a device does not have (a precision, a power that is unknown)
// is left out. Any of the three may be NULL. Lives in `arena`.
struct constant_list constants_list(struct arena *arena, struct device *device, struct stack *stack,
                                    struct fabrics *fabrics);
// `owner_name` NULL: the first with this key. NULL if there is none.
struct constant *constants_find(const struct constant_list *list, enum constant_owner owner,
                                const char *owner_name, const char *key);
const char *constant_owner_name(enum constant_owner owner);  // "device", "stack", "fabric"
