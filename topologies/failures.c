#include "topologies/cluster.h"

#include <assert.h>

// The causes of table 5 in The Llama 3 herd of models (2024), arXiv 2407.21783, section 3.3.4: 419
// interruptions in 54 days on 16,384 GPUs, 2,048 hosts with a NIC for each GPU.
static const struct {
    const char *name;
    int count;
    int per_host;  // how many of what fails a host of that cluster had
    bool takes_node;
} CAUSES[FAILURE_CAUSE_COUNT] = {
    // Faulty GPU 148, HBM3 72, SRAM 19, system processor 17, silent data corruption 6, thermal 6.
    [FAILURE_GPU] = {"gpu", 268, 8, true},
    // Unplanned maintenance 32, SSD 3, power supply 3, chassis, I/O board, CPU and memory 2 each.
    [FAILURE_HOST] = {"host", 46, 1, true},
    [FAILURE_NIC] = {"nic", 7, 8, true},
    // Switch or cable: the node is not what is repaired.
    [FAILURE_NETWORK] = {"network", 35, 8, false},
    // Software bug 54, NCCL watchdog timeout 7, dependency 2.
    [FAILURE_SOFTWARE] = {"software", 63, 8, false},
    [FAILURE_PREEMPTION] = {"preemption", 0, 1, true},
};
enum { TABLE_COUNT = 419, TABLE_HOSTS = 2048 };
static const double TABLE_HOURS = 54.0 * 24;
static const double SECONDS_PER_HOUR = 3600;

const char *failure_cause_name(enum failure_cause cause)
{
    assert((unsigned)cause < FAILURE_CAUSE_COUNT);
    assert(cause >= 0 && cause < FAILURE_CAUSE_COUNT);
    return CAUSES[cause].name;
}

bool failure_takes_node(enum failure_cause cause)
{
    assert((unsigned)cause < FAILURE_CAUSE_COUNT);
    return CAUSES[cause].takes_node;
}

static double table_mtbf_h(enum failure_cause cause)
{
    double items = (double)TABLE_HOSTS * CAUSES[cause].per_host;
    return CAUSES[cause].count > 0 ? TABLE_HOURS * items / CAUSES[cause].count : 0;
}

// gpu_mtbf_h is taken by the sum of all causes, so that the key of a GPU alone says device.
#define CAUSE_FIELD(name, cause)                                                               \
    {                                                                                          \
        name "_mtbf_h", JSON_TYPE_F64, offsetof(struct failures, mtbf_h[cause]), 0, 1e12, true \
    }

static const struct json_field FAILURE_FIELDS[] = {
    {JSON_OPT_F64(struct failures, gpu_mtbf_h, 0, 1e12)},
    CAUSE_FIELD("device", FAILURE_GPU),
    CAUSE_FIELD("host", FAILURE_HOST),
    CAUSE_FIELD("nic", FAILURE_NIC),
    CAUSE_FIELD("network", FAILURE_NETWORK),
    CAUSE_FIELD("software", FAILURE_SOFTWARE),
    CAUSE_FIELD("preemption", FAILURE_PREEMPTION),
    {JSON_OPT_F64(struct failures, restart_s, 0, 1e9)},
    {JSON_OPT_F64(struct failures, communicator_s, 0, 1e6)},
    {JSON_OPT_F64(struct failures, communicator_rank_s, 0, 1e3)},
    {JSON_OPT_F64(struct failures, repair_s, 0, 1e9)},
    {JSON_OPT_INT(struct failures, spare_nodes, 0, SPARE_NODES_MAX)},
    {JSON_OPT_F64(struct failures, checkpoint_bytes_per_s, 0, 1e18)},
    {JSON_OPT_F64(struct failures, host_checkpoint_bytes_per_s, 0, 1e18)},
    {JSON_OPT_F64(struct failures, checkpoint_interval_s, 0, 1e9)},
    {JSON_OPT_BOOL(struct failures, async_checkpoints)},
    {0},
};

const struct json_shape *failures_shape(void)
{
    static const struct json_shape SHAPE = {FAILURE_FIELDS, NULL};
    return &SHAPE;
}

// The causes a file may give instead of gpu_mtbf_h are the first of FAILURE_FIELDS behind it.
static const char *key_of(enum failure_cause cause)
{
    assert(cause >= 0 && cause < FAILURE_CAUSE_COUNT);
    return FAILURE_FIELDS[1 + (int)cause].key;
}

// A rate of next to nothing would store for longer than numbers reach; 0 says that it is unknown.
static void check_rate(const struct json *part, const char *key, double bytes_per_s,
                       struct err *err)
{
    if (err->kind || bytes_per_s <= 0 || bytes_per_s >= 1) return;
    struct json rate = json_get(part, key, err);
    json_fail(&rate, err, "must be 0 (unknown) or at least 1, found %g", bytes_per_s);
}

void failures_read(const struct json *object, struct failures *failures, struct err *err)
{
    bool is_given = !err->kind && json_has(object, "failures");
    failures->gpu_mtbf_h = CLUSTER_GPU_MTBF_H;
    if (!is_given) return;
    struct json part = json_get(object, "failures", err);
    json_read(&part, FAILURE_FIELDS, failures, err);
    check_rate(&part, "checkpoint_bytes_per_s", failures->checkpoint_bytes_per_s, err);
    check_rate(&part, "host_checkpoint_bytes_per_s", failures->host_checkpoint_bytes_per_s, err);
    if (err->kind) return;
    // Preemption fails nothing of the cluster: it may stand beside either way of saying the rest.
    enum failure_cause given = FAILURE_PREEMPTION;
    for (int cause = FAILURE_PREEMPTION - 1; cause >= 0; cause--) {
        if (json_has(&part, key_of((enum failure_cause)cause))) given = (enum failure_cause)cause;
    }
    if (given == FAILURE_PREEMPTION) return;
    if (json_has(&part, "gpu_mtbf_h")) {
        struct json sum = json_get(&part, "gpu_mtbf_h", err);
        json_fail(&sum, err,
                  "is of a GPU with its share of the rest: expected it or %s, found both",
                  key_of(given));
        return;
    }
    failures->gpu_mtbf_h = 0;
    for (int cause = 0; cause < FAILURE_PREEMPTION; cause++) {
        if (json_has(&part, key_of((enum failure_cause)cause))) continue;
        failures->mtbf_h[cause] = table_mtbf_h((enum failure_cause)cause);
    }
}

// In the order of the fields; what is 0 is not written, but for causes where the file lists them.
void failures_write(struct json_writer *writer, const struct failures *failures)
{
    bool by_cause = false;
    for (int cause = 0; cause < FAILURE_PREEMPTION; cause++)
        by_cause = by_cause || failures->mtbf_h[cause] > 0;
    json_open(writer, "failures", '{');
    if (!by_cause) json_put_f64(writer, "gpu_mtbf_h", failures->gpu_mtbf_h);
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++) {
        double mtbf_h = failures->mtbf_h[cause];
        bool is_listed = by_cause && cause != FAILURE_PREEMPTION;
        if (is_listed || mtbf_h > 0)
            json_put_f64(writer, key_of((enum failure_cause)cause), mtbf_h);
    }
    json_put_f64(writer, "restart_s", failures->restart_s);
    double each_s = failures->communicator_s, rank_s = failures->communicator_rank_s;
    if (each_s > 0) json_put_f64(writer, "communicator_s", each_s);
    if (rank_s > 0) json_put_f64(writer, "communicator_rank_s", rank_s);
    if (failures->repair_s > 0) json_put_f64(writer, "repair_s", failures->repair_s);
    if (failures->spare_nodes > 0) json_put_i64(writer, "spare_nodes", failures->spare_nodes);
    json_put_f64(writer, "checkpoint_bytes_per_s", failures->checkpoint_bytes_per_s);
    double host_bytes_per_s = failures->host_checkpoint_bytes_per_s;
    if (host_bytes_per_s > 0) json_put_f64(writer, "host_checkpoint_bytes_per_s", host_bytes_per_s);
    double interval_s = failures->checkpoint_interval_s;
    if (interval_s > 0) json_put_f64(writer, "checkpoint_interval_s", interval_s);
    if (failures->async_checkpoints) json_put_bool(writer, "async_checkpoints", true);
    json_close(writer, '}');
}

int cluster_host_count(const struct cluster *cluster)
{
    int hosts = 0, left = cluster->rank_count;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int ranks = group->count * group->gpus < left ? group->count * group->gpus : left;
        hosts += (ranks + group->gpus_per_host - 1) / group->gpus_per_host;
        left -= ranks;
    }
    return hosts;
}

// GPUs, hosts, NICs, ...: whatever fails by this cause.
static double item_count(const struct cluster *cluster, enum failure_cause cause)
{
    if (cause == FAILURE_GPU || cause == FAILURE_SOFTWARE) return cluster->rank_count;
    if (cause == FAILURE_HOST || cause == FAILURE_PREEMPTION) return cluster_host_count(cluster);
    double nics = 0;
    for (int i = 0; cluster->node_count > 1 && i < cluster->node_group_count; i++)
        nics += (double)cluster->nodes[i].count * cluster->nodes[i].nics.count;
    return nics;
}

double cluster_failures_per_s(const struct cluster *cluster, enum failure_cause cause)
{
    assert((unsigned)cause < FAILURE_CAUSE_COUNT);
    const struct failures *failures = &cluster->failures;
    double per_h = 0;
    if (failures->gpu_mtbf_h > 0) {
        double share_ratio = (double)CAUSES[cause].count / TABLE_COUNT;
        per_h = share_ratio * cluster->rank_count / failures->gpu_mtbf_h;
    }
    if (failures->mtbf_h[cause] > 0) per_h += item_count(cluster, cause) / failures->mtbf_h[cause];
    return per_h / SECONDS_PER_HOUR;
}

bool failures_equal(const struct failures *a, const struct failures *b)
{
    bool same = a->gpu_mtbf_h == b->gpu_mtbf_h && a->restart_s == b->restart_s &&
                a->communicator_s == b->communicator_s &&
                a->communicator_rank_s == b->communicator_rank_s && a->repair_s == b->repair_s &&
                a->spare_nodes == b->spare_nodes &&
                a->checkpoint_bytes_per_s == b->checkpoint_bytes_per_s &&
                a->host_checkpoint_bytes_per_s == b->host_checkpoint_bytes_per_s &&
                a->checkpoint_interval_s == b->checkpoint_interval_s &&
                a->async_checkpoints == b->async_checkpoints;
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++)
        same &= a->mtbf_h[cause] == b->mtbf_h[cause];
    return same;
}
