#pragma once
#include "core/json_write.h"
#include "topologies/device.h"
#include "topologies/network.h"

// A cluster is a list of node groups joined by one network. A node is the set of GPUs joined by one
// intra fabric: 8 in a DGX, 72 in an NVL72 rack. Ranks number the GPUs node by node in the order of
// the groups: rank 0 is GPU 0 of node 0. Bandwidths are one direction, per GPU (intra), per NIC
// (network). topologies/NAME.json; schema beside it; docs/clusters.md tells each key, and what is
// taken where a file leaves it out (topologies/cluster_assume.h).

enum { TORUS_DIMENSIONS_MAX = 3 };

// The least that a cluster's file may say of a rate, in bytes/s; see DEVICE_RATE_LOW.
#define LINK_RATE_LOW 1e5

struct intra_fabric {
    const char *kind;  // a row of cost_models/fabrics.json: "nvswitch", "nvlink", "pcie", ...
    double bandwidth_bytes_per_s;
    double latency_s;
    bool in_network_reduction;
    // GPUs joined to their neighbours alone (topologies/torus.h); 0 dimensions: each to all others.
    int torus[TORUS_DIMENSIONS_MAX];
    int torus_count;
    bool torus_open;  // its ends are not joined: a mesh
};

struct host {
    int64_t memory_bytes;
    double memory_bandwidth_bytes_per_s;
    int cores;
    double pcie_bytes_per_s;  // per GPU, one direction
    double nvme_bytes_per_s;  // read and written in turn, as much of both
    // Of that what is read and written together where both are asked for at once: 1 (also where it
    // is 0) to 2, what each way alone gives.
    double nvme_duplex_ratio;
    int64_t nvme_bytes;
};

struct node_group {
    int count;  // nodes of this kind
    int gpus;   // per node
    const struct device *device;
    struct intra_fabric intra;
    int gpus_per_host;  // default: gpus
    struct host host;   // one host
    struct {
        int count;
        double bandwidth_bytes_per_s;
    } nics;  // per node
};

// What joins the groups of nodes where that is not the network inside them: regions, rooms.
// Absent: `kind` NULL.
struct between_groups {
    const char *kind;
    double bandwidth_bytes_per_s;  // one direction, shared by all ranks of a group of nodes
    double latency_s;
    struct network network;  // of that kind and latency
};

struct price {
    double per_gpu_hour;       // 0 = unknown
    double spot_per_gpu_hour;  // 0 = unknown
    const char *currency;      // ISO 4217
    const char *date;          // when it was asked, "2024-05-31"; NULL: not said
    const char *source;        // who says so; NULL: not said
};

// 16,384 GPUs had 419 unexpected interruptions in 54 days: one in 50,676 GPU-hours.
// The Llama 3 herd of models (2024), section 3.3.4, table 5.
static const double CLUSTER_GPU_MTBF_H = 54.0 * 24 * 16384 / 419;

// What interrupts a job, a row of topologies/failures.c each.
enum failure_cause {
    FAILURE_GPU,       // of each GPU
    FAILURE_HOST,      // of each host
    FAILURE_NIC,       // of each NIC, and
    FAILURE_NETWORK,   // of the cable and switch port behind it; of jobs on one node there is none
    FAILURE_SOFTWARE,  // of each rank
    FAILURE_PREEMPTION,  // of each host that is rented as long as nobody pays more
    FAILURE_CAUSE_COUNT
};

enum { SPARE_NODES_MAX = 1000 };

// What is known of interruptions of jobs, and how jobs here meet them. Absent in the file: unknown,
// unless it says otherwise.
struct failures {
    double gpu_mtbf_h;  // of one GPU with its share of the rest. Absent: CLUSTER_GPU_MTBF_H; 0: not
                        // known, or told cause by cause
    // Hours between failures of one GPU, host, NIC, ...; 0: never. The file gives gpu_mtbf_h or
    // causes (then those it does not give are the share of table 5), and preemption_mtbf_h beside
    // either.
    double mtbf_h[FAILURE_CAUSE_COUNT];
    double restart_s;  // until the job runs again, without loading the checkpoint; 0 = unknown
    // Beside it, until every communicator of the plan is there: each, and for each of its ranks.
    double communicator_s, communicator_rank_s;
    double repair_s;  // until a failed node is back; 0 = another is there at once
    int spare_nodes;  // that wait to replace a failed node, beside those of the cluster
    double checkpoint_bytes_per_s;       // the cluster's storage, shared by all ranks; 0 = unknown
    double host_checkpoint_bytes_per_s;  // what one host can send there; 0 = unknown
    double checkpoint_interval_s;        // 0 = the best
    bool async_checkpoints;  // the job stands only while they are copied to the hosts' memory
};

bool failures_equal(const struct failures *a, const struct failures *b);
const char *failure_cause_name(enum failure_cause cause);  // "gpu"
// Whether the node is gone until it is repaired.
bool failure_takes_node(enum failure_cause cause);

struct cluster {
    const char *name;
    struct node_group *nodes;
    int node_group_count;
    struct network network;
    struct between_groups between;
    struct price price;
    struct failures failures;
    int node_count;                 // sum of count
    struct provenance *provenance;  // of keys like "nodes[0].intra.latency_s"; those that were
    int provenance_count;           // taken because the file does not give them are `assumed`
    const char *note;               // what its file does not say and what was taken; NULL: nothing
    int rank_count;  // GPUs in use: the sum of count * gpus, or fewer in the last node after
                     // cluster_take_gpus; written as an optional key of that name when fewer
    int idle_gpus;   // that are rented beside them and stand still (planner/idle.h); 0: none, and
                     // not written. They cost money and do no work
};

enum {
    CLUSTER_NODES_MAX = 1000000,  // of one group
    CLUSTER_GPUS_MAX = 1 << 30,   // a rank plus a stride still fits an int
};

// CLUSTER of the command line: a path, a shipped name, or NAME-xN (= shipped NAME with N nodes).
// NULL and a set `err` (exit 3) if the file is wrong, ERR_INPUT with the nearest name if there is
// none.
MUST_CHECK struct cluster *cluster_load(struct arena *arena, const char *name, struct err *err);
// The same from an object inside another file (a plan is self-contained).
MUST_CHECK struct cluster *cluster_read(struct arena *arena, const struct json *object,
                                        struct err *err);
// A copy whose groups of nodes may be changed.
struct cluster *cluster_copy_nodes(struct arena *arena, const struct cluster *cluster);
// Writes the object that cluster_read reads, devices in place, so that it needs no other file.
void cluster_write(struct json_writer *writer, const char *key, const struct cluster *cluster);

// What it knows of the network or of what joins the GPUs of its nodes was taken.
bool cluster_assumes_links(const struct cluster *cluster);
// Nodes without NICs stand alone.
bool cluster_can_reach(const struct node_group *group);

// `--nodes N`: N nodes; only for a cluster of one node group (ERR_USAGE otherwise).
MUST_CHECK bool cluster_set_nodes(struct cluster *cluster, int64_t nodes, struct err *err);
// `--gpus N`: only the first N ranks are used; nodes without any of them leave the cluster, the
// last one keeps its GPUs and NICs. ERR_USAGE when there are fewer.
MUST_CHECK bool cluster_take_gpus(struct cluster *cluster, int64_t gpus, struct err *err);

// `--device-memory N`: so much has each device, whatever its file says.
void cluster_set_memory(struct arena *arena, struct cluster *cluster, int64_t device_bytes);

// GPUs that are paid for.
int cluster_rented_count(const struct cluster *cluster);

// A copy with every device of this one's name replaced by it (shared, not copied).
struct cluster *cluster_with_device(struct arena *arena, const struct cluster *cluster,
                                    const struct device *device);

// A copy in which every device of the name that the table was measured on uses the table. NULL and
// ERR_USAGE when there is none. Lives in `arena`.
MUST_CHECK struct cluster *cluster_with_kernels(struct arena *arena, const struct cluster *cluster,
                                                const struct kernel_table *table, struct err *err);

// Interruptions of a job on all ranks by this cause, a second. A lump sum (gpu_mtbf_h) is divided
// as in table 5. topologies/failures.c
double cluster_failures_per_s(const struct cluster *cluster, enum failure_cause cause);
int cluster_host_count(const struct cluster *cluster);  // that hold ranks in use
const struct json_shape *failures_shape(void);          // for json_check
// The object "failures"; absent keys are filled as said at struct failures.
void failures_read(const struct json *object, struct failures *failures, struct err *err);
void failures_write(struct json_writer *writer, const struct failures *failures);

// The node of a rank (0 .. node_count - 1), its group, and the host-wide facts follow from that.
int cluster_node_of(const struct cluster *cluster, int rank);
const struct node_group *cluster_group_of(const struct cluster *cluster, int rank);
// One device, node size, fabric and NICs everywhere: every node is like every other.
// The device that sets the pace of a synchronous step, and the bytes of the smallest one: what
// every rank's share must fit into.
const struct device *cluster_slowest_device(const struct cluster *cluster,
                                            enum precision precision);
int64_t cluster_device_bytes(const struct cluster *cluster);
// ERR_USAGE when a device has no matrix units for the precision, naming those it has.
MUST_CHECK bool cluster_check_precision(const struct cluster *cluster, enum precision precision,
                                        struct err *err);
bool cluster_is_uniform(const struct cluster *cluster);
// Whether their nodes are alike in all but how many there are.
bool node_group_equals(const struct node_group *a, const struct node_group *b);
// Whether the first computes slower, in this precision before all.
bool device_is_slower(const struct device *a, const struct device *b, enum precision precision);
// The first node group whose device is like that of this one.
int cluster_device_kind(const struct cluster *cluster, int node_group);
bool cluster_has_one_device(const struct cluster *cluster);
