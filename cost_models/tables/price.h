#pragma once
#include "cost_models/collective.h"
#include "cost_models/tables/table_stack.h"
#include "plan/tables/placement.h"
#include "plan/tables/tasks.h"

// Seconds and bytes of a step of a recommendation model, of its slowest and fullest rank.
//
//   look-up   every looked-up row is read (4 bytes a number), every sum is written as it is sent
//   rows      each id's gradient is read; ids are sorted; different rows and what the optimizer
//             keeps of them are read and written
//   fetch     different rows that are not on the device come over its PCIe, which the host's memory
//             feeds for all its devices, or its drives in blocks of NVME_BLOCK_BYTES; as much goes
//             back. Which rows are missing: with a static cache those past the hottest ones, with
//             LRU as many as Che's formula says (core/zipf.h)
//   towers    the GEMMs (cost_models/compute.h) and walks over memory beside them
//   exchanges collective_price of the rank that sends or receives most
//
// All walks over memory reach the device's memory_ratio of its bandwidth. A task begins when its
// stream is free and what it waits for has ended (plan/tables/tasks.inc); where the stack overlaps
// nothing also behind the task before it.

enum { NVME_BLOCK_BYTES = 4096 };

struct table_request {
    const struct cluster *cluster;
    const struct fabrics *fabrics;
    const struct table_stack *stack;
    const struct table_placement *placement;
    struct table_workload workload;
    const struct table_law *laws;  // of table_laws_make; NULL: made where they are asked for
};

// How often the rows of each table are asked for in a step, for who prices many pieces.
struct table_law;
const struct table_law *table_laws_make(struct arena *arena, const struct table_request *request);

struct table_span {
    double start_s, s;
    double bytes;  // exchanges: what the rank of most receives, as it is sent; else moved
    double flop;
};

struct table_memory {
    int64_t tier_bytes[TIER_COUNT];  // of tables, their state and their copies
    int64_t dense_bytes;             // parameters, gradients and state of towers
    int64_t activation_bytes;        // of a rank's samples, and what is exchanged
    int64_t reserve_bytes;
    int64_t device_bytes;  // all that is on the device
};

struct table_prediction {
    double step_s, samples_per_s;
    struct table_span spans[TABLE_TASK_COUNT];
    struct table_memory memory;            // of the rank with the fullest device
    int64_t host_bytes, host_limit_bytes;  // of the fullest host
    int64_t nvme_bytes, nvme_limit_bytes;
    int64_t device_limit_bytes;
    double hit_ratio;           // look-ups that find their row on the device
    double imbalance;           // rows read by the busiest rank over the mean
    double lookups;             // of the busiest rank
    double unique_rows;         // different rows of a step, all ranks together
    double flop_per_s_per_gpu;  // of the towers
    bool fits;
};

struct table_prediction table_price(const struct table_request *asked);

// A piece alone, for who places it: seconds that it adds to the rank that holds it, and to each
// rank of that rank's node. `parts`: pieces of its table.
struct piece_seconds {
    double own_s, node_s;
};
struct piece_seconds table_piece_s(const struct table_request *request,
                                   const struct table_piece *piece, int parts);
// What a table that is whole on every rank adds to all of them.
double table_everywhere_s(const struct table_request *request, int table);
// What a device needs beside tables.
int64_t table_beside_bytes(const struct table_request *request);
