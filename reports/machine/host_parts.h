#pragma once
#include "core/arena.h"

// What hwloc finds in this machine: NUMA nodes with their cores and memory, caches, and the PCI
// devices that training meets (GPUs, network, NVMe) with the NUMA node that each hangs on and the
// bandwidth of its link as hwloc reads it. A table in the arena; "" where hwloc finds nothing.
char *host_parts_text(struct arena *arena);
