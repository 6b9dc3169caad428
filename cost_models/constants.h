#pragma once
#include "cost_models/collective.h"
#include "cost_models/stack.h"
#include "topologies/device.h"

// Every number of a device, a stack and the fabrics that prices depend on, in one list, so that
// whoever varies them (fitting, sensitivity) needs no list of its own. What a plan could not change
// without being another machine (memory_bytes, multiprocessor_count) and what is counted in
// bytes of memory only (reserve_bytes) is in it too, marked.

enum constant_owner { CONSTANT_DEVICE, CONSTANT_STACK, CONSTANT_FABRIC };

struct constant {
    enum constant_owner owner;
    const char *owner_name;               // of the device, the stack, or the fabric's kind
    const char *key;                      // dotted, as in the file: "efficiency.gemm_ratio.bf16"
    double *value;                        // in the structs that the list was made of
    double low, high;                     // what the file's reader accepts
    const struct provenance *provenance;  // of the key or of the nearest object around it; NULL:
                                          // the file gives none
};

struct constant_list {
    struct constant *items;  // device, stack, fabrics; in the order of the files
    int count;
};

// The structs are the caller's own copies (stack_copy, fabrics_copy, device_copy), because values
// may be set through the list. Integers of the files (bucket_bytes, ...) are not listed. Any of the
// three may be NULL. Lives in `arena`.
struct constant_list constants_list(struct arena *arena, struct device *device, struct stack *stack,
                                    struct fabrics *fabrics);
// NULL if there is none.
struct constant *constants_find(const struct constant_list *list, enum constant_owner owner,
                                const char *key);

// Copies whose numbers may be changed without changing the original's.
struct device *device_copy(struct arena *arena, const struct device *device);
struct stack *stack_copy(struct arena *arena, const struct stack *stack);
struct fabrics *fabrics_copy(struct arena *arena, const struct fabrics *fabrics);
// The cluster with every device of this name replaced by `device` (shared, not copied).
struct cluster *cluster_with_device(struct arena *arena, const struct cluster *cluster,
                                    const struct device *device);
