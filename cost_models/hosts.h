#pragma once
#include "cost_models/memory.h"

// The hosts of a plan that moves state to them: what the fullest needs, of its memory and of its
// drives, with the ranks that it has. Which stages they belong to follows from the order of the
// axes.

struct host_need {
    int64_t host_bytes, nvme_bytes;              // of the host that lacks most, or has least left
    int64_t host_limit_bytes, nvme_limit_bytes;  // what it has
};

// `stages`: the memory of every stage of the program.
struct host_need hosts_need(const struct program *program, const struct memory_parts *stages);
// Bytes that the host lacks of either, 0 = it has room.
int64_t hosts_shortfall(const struct host_need *need);
// What it lacks most of, in words: "host memory", "NVMe".
const char *hosts_lack(const struct host_need *need);
