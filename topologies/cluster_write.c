#include "topologies/cluster.h"

#include <stdlib.h>
#include <string.h>

static void write_host(struct json_writer *writer, const struct host *host)
{
    json_open(writer, "host", '{');
    json_put_i64(writer, "memory_bytes", host->memory_bytes);
    json_put_f64(writer, "memory_bandwidth_bytes_per_s", host->memory_bandwidth_bytes_per_s);
    json_put_i64(writer, "cores", host->cores);
    json_put_f64(writer, "pcie_bytes_per_s", host->pcie_bytes_per_s);
    json_put_f64(writer, "nvme_bytes_per_s", host->nvme_bytes_per_s);
    if (host->nvme_duplex_ratio > 0)
        json_put_f64(writer, "nvme_duplex_ratio", host->nvme_duplex_ratio);
    json_put_i64(writer, "nvme_bytes", host->nvme_bytes);
    json_close(writer, '}');
}

// Absent where each GPU is joined to all others.
static void write_torus(struct json_writer *writer, const struct intra_fabric *intra)
{
    if (intra->torus_count == 0) return;
    json_put_ints(writer, "torus", intra->torus, intra->torus_count);
    if (intra->torus_open) json_put_bool(writer, "torus_open", true);
}

static void write_node_group(struct json_writer *writer, const struct node_group *group)
{
    json_open(writer, NULL, '{');
    json_put_i64(writer, "count", group->count);
    json_put_i64(writer, "gpus", group->gpus);
    device_write(writer, "device", group->device);
    json_open(writer, "intra", '{');
    json_put_text(writer, "kind", group->intra.kind);
    json_put_f64(writer, "bandwidth_bytes_per_s", group->intra.bandwidth_bytes_per_s);
    json_put_f64(writer, "latency_s", group->intra.latency_s);
    json_put_bool(writer, "in_network_reduction", group->intra.in_network_reduction);
    write_torus(writer, &group->intra);
    json_close(writer, '}');
    json_put_i64(writer, "gpus_per_host", group->gpus_per_host);
    write_host(writer, &group->host);
    json_open(writer, "nics", '{');
    json_put_i64(writer, "count", group->nics.count);
    json_put_f64(writer, "bandwidth_bytes_per_s", group->nics.bandwidth_bytes_per_s);
    json_close(writer, '}');
    json_close(writer, '}');
}

static void write_between(struct json_writer *writer, const struct cluster *cluster)
{
    const struct between_groups *between = &cluster->between;
    if (!between->kind || cluster->node_group_count == 1) return;
    json_open(writer, "between", '{');
    json_put_text(writer, "kind", between->kind);
    json_put_f64(writer, "bandwidth_bytes_per_s", between->bandwidth_bytes_per_s);
    json_put_f64(writer, "latency_s", between->latency_s);
    json_close(writer, '}');
}

static void write_price(struct json_writer *writer, const struct price *price)
{
    if (price->per_gpu_hour <= 0) return;
    json_open(writer, "price", '{');
    json_put_f64(writer, "per_gpu_hour", price->per_gpu_hour);
    json_put_text(writer, "currency", price->currency);
    if (price->spot_per_gpu_hour > 0) {
        json_put_f64(writer, "spot_per_gpu_hour", price->spot_per_gpu_hour);
    }
    if (price->date) json_put_text(writer, "date", price->date);
    if (price->source) json_put_text(writer, "source", price->source);
    json_close(writer, '}');
}

// Of the groups that are left after cluster_take_gpus.
static bool is_of(const struct cluster *cluster, const char *key)
{
    static const char LIST[] = "nodes[";
    if (strncmp(key, LIST, strlen(LIST)) != 0) return true;
    return strtol(key + strlen(LIST), NULL, 10) < cluster->node_group_count;
}

static void write_provenance(struct json_writer *writer, const struct cluster *cluster)
{
    if (cluster->provenance_count == 0) return;
    json_open(writer, "provenance", '[');
    for (int i = 0; i < cluster->provenance_count; i++) {
        if (!is_of(cluster, cluster->provenance[i].key)) continue;
        json_open_flat(writer, NULL, '{');
        provenance_put(writer, &cluster->provenance[i]);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

void cluster_write(struct json_writer *writer, const char *key, const struct cluster *cluster)
{
    int64_t gpu_count = 0;
    json_open(writer, key, '{');
    json_put_text(writer, "name", cluster->name);
    json_open(writer, "nodes", '[');
    for (int i = 0; i < cluster->node_group_count; i++) {
        write_node_group(writer, &cluster->nodes[i]);
        gpu_count += (int64_t)cluster->nodes[i].count * cluster->nodes[i].gpus;
    }
    json_close(writer, ']');
    network_write(writer, &cluster->network);
    write_between(writer, cluster);
    write_price(writer, &cluster->price);
    failures_write(writer, &cluster->failures);
    write_provenance(writer, cluster);
    if (cluster->rank_count < gpu_count) {
        json_put_i64(writer, "rank_count", cluster->rank_count);
    }
    if (cluster->idle_gpus > 0) json_put_i64(writer, "idle_gpus", cluster->idle_gpus);
    json_close(writer, '}');
}
