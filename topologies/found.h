#pragma once
#include "topologies/cluster.h"

// What tools say of a machine and its network, as facts; and a cluster file made of them. What the
// input does not say is named as missing, never guessed: it is given by hand or taken, in so many
// words, from a shipped cluster that is like it.

enum found_kind {
    FOUND_LSTOPO,   // hwloc's XML, `lstopo node.xml` (version 2 and 3)
    FOUND_NCCL,     // NCCL_TOPO_DUMP_FILE, also RCCL's
    FOUND_MATRIX,   // `nvidia-smi topo -m`
    FOUND_NETWORK,  // `ibnetdiscover`
    FOUND_SLURM,    // `sinfo -o "%P %D %c %m %G"`
    FOUND_KIND_COUNT
};

enum found_fact {
    FACT_DEVICE,
    FACT_GPUS,
    FACT_INTRA,
    FACT_INTRA_BANDWIDTH,
    FACT_NODES,
    FACT_NICS,
    FACT_NIC_BANDWIDTH,
    FACT_NETWORK,
    FACT_CORES,
    FACT_MEMORY,
    FACT_PCIE,
    FACT_COUNT
};

// 0 and NULL: not said.
struct found_facts {
    int nodes;
    int gpus;                  // of a node
    const char *device;        // name of a shipped device
    const char *intra;         // a kind of fabric: "nvswitch", "nvlink", "xgmi", "pcie"
    double intra_bytes_per_s;  // of a GPU, one direction
    int nics;                  // of a node
    double nic_bytes_per_s;
    const char *network;  // a kind: "infiniband", "ethernet", "efa"
    int cores;            // of a node's host
    double memory_bytes;
    double pcie_bytes_per_s;       // of a GPU
    const char *from[FACT_COUNT];  // who says it: "lstopo XML node.xml", "--device"; NULL: nobody
    // What is no fact of a cluster file, but helps who has to say one.
    const char *model;  // what the input calls a GPU of which no shipped device is known
    int links;          // of a GPU, where their speed is not said
};
// Marks all that is there as said by hand, by the options that say it.
void found_by_hand(struct found_facts *found);

// Whether the file is one of these (`*kind` says which) and no cluster file. ERR_INPUT where it
// cannot be read.
MUST_CHECK bool found_is(struct arena *arena, const char *path, bool *is_found,
                         enum found_kind *kind, struct err *err);
// Adds what the file says to what is said already, which stays. ERR_INPUT where the file is wrong
// or says nothing, or where two files contradict each other.
MUST_CHECK bool found_read(struct arena *arena, const char *path, struct found_facts *found,
                           struct err *err);
// Adds facts that come from elsewhere; `source` says from where. ERR_INPUT as above.
MUST_CHECK bool found_add(struct arena *arena, const struct found_facts *said, const char *source,
                          struct found_facts *found, struct err *err);
// Fills what nobody says from a shipped cluster, with its name as the source.
void found_fill(struct arena *arena, struct found_facts *found, const struct cluster *like);
// The text of a cluster file. NULL and ERR_INPUT naming all that is missing, each with the option
// that gives it.
MUST_CHECK char *found_cluster_text(struct arena *arena, const struct found_facts *found,
                                    const char *name, const char *path, struct err *err);
// A line a fact: what, how much, who says so.
char *found_text(struct arena *arena, const struct found_facts *found);

// A reader of one kind: `text` ends in NUL. One a file.
struct found_source {
    const char *path;
    const char *text;
    size_t bytes;
};
bool found_lstopo(struct arena *arena, const struct found_source *source, struct found_facts *found,
                  struct err *err);
bool found_nccl(struct arena *arena, const struct found_source *source, struct found_facts *found,
                struct err *err);
bool found_matrix(struct arena *arena, const struct found_source *source, struct found_facts *found,
                  struct err *err);
bool found_network(struct arena *arena, const struct found_source *source,
                   struct found_facts *found, struct err *err);
bool found_slurm(struct arena *arena, const struct found_source *source, struct found_facts *found,
                 struct err *err);

// One direction of one link of a GPU, of which NCCL's topology says this ("sm", "90"); 0: not
// known.
double found_link_bytes_per_s(const char *key, const char *value);
// From 8e9 transfers/s of a lane on 128 of 130 bits are data (PCI Express 3.0 to 5.0), before that
// 8 of 10.
double found_pcie_bytes_per_s(double transfers, double lanes);
// The shipped device with this PCI id ("10de:2330"); NULL: none is known.
const char *found_device_of(const char *vendor_and_device);
