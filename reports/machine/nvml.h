#pragma once
#include "topologies/found.h"

// What NVIDIA's management library (NVML) says of this machine's GPUs. It comes with the driver and
// is opened at run time (libnvidia-ml.so.1); nothing else needs it. Names and numbers are those of
// nvml.h, whose versioned functions keep their meaning.

enum { NVML_GPUS_MAX = 64 };

struct nvml_gpu {
    const char *name;     // plain
    const char *address;  // "00000000:1B:00.0"
    const char *id;       // "10de:2330"
    int sm;               // compute capability, 90 is 9.0; 0: not said
    double memory_bytes;
    int pcie_generation, pcie_lanes;  // that GPU and slot can do; 0: not said
    int link_count;                   // NVLinks that are up
    int switch_links;                 // of them to switches
    int links_to[NVML_GPUS_MAX];      // of them to each other GPU, by its number
};

struct nvml_machine {
    const char *driver;  // its version; "": not said
    struct nvml_gpu *gpus;
    int count;
};

// ERR_SYSTEM where there is no such library, it does not start (no driver, no device), or it counts
// no GPU. Lives in `arena`.
MUST_CHECK bool nvml_find(struct arena *arena, struct nvml_machine *machine, struct err *err);
// A line a GPU.
char *nvml_text(struct arena *arena, const struct nvml_machine *machine);
// As facts of a node, for a cluster file. ERR_INPUT where the GPUs are not all of one kind.
MUST_CHECK bool nvml_facts(struct arena *arena, const struct nvml_machine *machine,
                           struct found_facts *found, struct err *err);
