#include "cli/commands.h"
#include "cli/local.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "core/json_write.h"
#include "core/table.h"
#include "core/units.h"
#include "topologies/cluster.h"

#include <string.h>

// One line of the description: what it is called, and its parts joined by commas.
static void put_fact(struct table *table, const char *name, const char *text)
{
    const char *cells[] = {name, text};
    table_row(table, cells);
}

static const char *plural(struct arena *arena, double count, const char *noun)
{
    return arena_print(arena, "%s %s%s", units_count(arena, count), noun, count == 1 ? "" : "s");
}

static void put_device(struct arena *arena, struct table *table, const struct device *device)
{
    const char *peaks = "";
    for (int i = 0; i < PRECISION_COUNT; i++) {
        double peak = device->peak_flop_per_s[i];
        if (peak <= 0) continue;
        peaks = arena_print(arena, "%s%s%s %s", peaks, *peaks ? ", " : "",
                            precision_name((enum precision)i), units_flop_per_s(arena, peak));
    }
    put_fact(table, "  peak", peaks);
    put_fact(table, "  memory",
             arena_print(arena, "%s, %s", units_bytes(arena, (double)device->memory_bytes),
                         units_bytes_per_s(arena, device->memory_bandwidth_bytes_per_s)));
}

static void put_links(struct arena *arena, struct table *table, const struct node_group *group)
{
    const struct intra_fabric *intra = &group->intra;
    put_fact(table, "  intra",
             arena_print(arena, "%s, %s per GPU and direction, %s%s", intra->kind,
                         units_bytes_per_s(arena, intra->bandwidth_bytes_per_s),
                         units_seconds(arena, intra->latency_s),
                         intra->in_network_reduction ? ", reduces in the network" : ""));
    if (group->nics.count == 0) return;
    put_fact(table, "  nics",
             arena_print(arena, "%d x %s per node", group->nics.count,
                         units_bytes_per_s(arena, group->nics.bandwidth_bytes_per_s)));
}

static void put_host(struct arena *arena, struct table *table, const struct node_group *group)
{
    const struct host *host = &group->host;
    const char *nvme = "";
    if (host->nvme_bytes_per_s > 0) {
        nvme = arena_print(arena, ", NVMe %s at %s", units_bytes(arena, (double)host->nvme_bytes),
                           units_bytes_per_s(arena, host->nvme_bytes_per_s));
    }
    put_fact(table, "  host",
             arena_print(arena, "%s for %s, %s at %s, PCIe %s per GPU%s",
                         plural(arena, host->cores, "core"),
                         plural(arena, group->gpus_per_host, "GPU"),
                         units_bytes(arena, (double)host->memory_bytes),
                         units_bytes_per_s(arena, host->memory_bandwidth_bytes_per_s),
                         units_bytes_per_s(arena, host->pcie_bytes_per_s), nvme));
}

static void put_network(struct arena *arena, struct table *table, const struct cluster *cluster)
{
    const struct network *network = &cluster->network;
    put_fact(table, "network",
             arena_print(arena, "%s, %s, oversubscription %.3g%s%s", network->kind,
                         units_seconds(arena, network->latency_s), network->oversubscription_ratio,
                         network->rail_optimized ? ", rail-optimized" : "",
                         network->in_network_reduction ? ", reduces in the network" : ""));
    const struct price *price = &cluster->price;
    if (price->per_gpu_hour > 0) {
        const char *spot = "";
        if (price->spot_per_gpu_hour > 0) {
            spot = arena_print(arena, ", spot %.2f", price->spot_per_gpu_hour);
        }
        put_fact(table, "price",
                 arena_print(arena, "%.2f %s per GPU hour%s%s%s", price->per_gpu_hour,
                             price->currency, spot, price->date ? ", " : "",
                             price->date ? price->date : ""));
    }
    double failures_per_h = 0;
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++)
        failures_per_h += cluster_failures_per_s(cluster, (enum failure_cause)cause) * 3600;
    if (failures_per_h > 0) {
        const char *restart = "";
        if (cluster->failures.restart_s > 0) {
            restart = arena_print(arena, ", restart %s",
                                  units_seconds(arena, cluster->failures.restart_s));
        }
        put_fact(table, "failures",
                 arena_print(arena, "one per %s GPU hours%s",
                             units_count(arena, cluster->rank_count / failures_per_h), restart));
    }
}

static bool is_described(const struct cluster *cluster, int group)
{
    for (int i = 0; i < group; i++) {
        if (strcmp(cluster->nodes[i].device->name, cluster->nodes[group].device->name) == 0) {
            return true;
        }
    }
    return false;
}

static void print_sources(struct arena *arena, const char *name, const struct provenance *entries,
                          int count)
{
    console_printf(stdout, "\nWhere the numbers of %s come from:\n", name);
    struct table table = table_new(arena, "lll");
    table.head_count = 0;
    for (int i = 0; i < count; i++) {
        const char *cells[] = {arena_print(arena, "  %s", entries[i].key),
                               provenance_kind_name(entries[i].kind), entries[i].source};
        table_row(&table, cells);
    }
    console_print(stdout, table_text(&table));
}

static void print_provenance(struct arena *arena, const struct cluster *cluster)
{
    if (cluster->provenance_count > 0)
        print_sources(arena, cluster->name, cluster->provenance, cluster->provenance_count);
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        if (is_described(cluster, i) || device->provenance_count == 0) continue;
        print_sources(arena, device->name, device->provenance, device->provenance_count);
    }
}

static void print_cluster(struct arena *arena, const struct cluster *cluster)
{
    console_printf(stdout, "%s: %s, %s\n\n", cluster->name,
                   plural(arena, cluster->node_count, "node"),
                   plural(arena, cluster->rank_count, "GPU"));
    struct table table = table_new(arena, "ll");
    table.head_count = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        put_fact(&table, "nodes",
                 arena_print(arena, "%s x %d %s", units_count(arena, group->count), group->gpus,
                             group->device->name));
        put_device(arena, &table, group->device);
        put_links(arena, &table, group);
        put_host(arena, &table, group);
    }
    put_network(arena, &table, cluster);
    console_print(stdout, table_text(&table));
    print_provenance(arena, cluster);
}

static char *file_text(struct arena *arena, const struct cluster *cluster)
{
    struct json_writer writer = {.arena = arena};
    cluster_write(&writer, NULL, cluster);
    return writer.text;
}

static struct cluster *load(struct arena *arena, const char *name, int nodes, int gpus, int ranks,
                            struct err *err)
{
    struct cluster *cluster = local_or_load(arena, "topology", name, ranks, NULL, err);
    if (!cluster) return NULL;
    if (nodes && !cluster_set_nodes(cluster, nodes, err)) return NULL;
    if (gpus && !cluster_take_gpus(cluster, gpus, err)) return NULL;
    return cluster;
}

int topology_command(int argc, char **argv, struct err *err)
{
    const char *name = NULL, *path = NULL;
    int nodes = 0, gpus = 0, ranks = 0;
    bool as_json = false;
    const struct option options[] = {
        {"CLUSTER", OPTION_TEXT, &name,
         "cluster file, shipped cluster or NAME-xN for N nodes; local is this machine", NULL, 0, 0},
        {"--nodes", OPTION_INT, &nodes, "use N nodes", NULL, 0, 0},
        {"--gpus", OPTION_INT, &gpus, "use the first N GPUs", NULL, 0, 0},
        {"--ranks", OPTION_INT, &ranks, "CPU ranks of local (default: as many as cores)", "N", 1,
         4096},
        {"--json", OPTION_FLAG, &as_json,
         "print the cluster file itself, complete: a template for one of your own", NULL, 0, 0},
        {"-o", OPTION_OUTPUT, &path, "write that file; - is stdout", "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&path, err)) return exit_status(err);

    struct arena arena = {0};
    const struct cluster *cluster = load(&arena, name, nodes, gpus, ranks, err);
    const char *text = cluster ? file_text(&arena, cluster) : NULL;
    const char *said = path ? output_said(&arena, path) : "";
    if (*said) said = arena_print(&arena, "\n%s\n", said);
    const char *noted = path && as_json ? output_noted(&arena, path) : "";
    bool is_done = text && (!path || file_write(path, text, strlen(text), err));
    if (is_done && as_json) {
        fputs(text, stdout);
        console_print(stderr, noted);
    } else if (is_done) {
        print_cluster(&arena, cluster);
        console_print(stdout, said);
    }
    arena_free(&arena);
    return is_done ? 0 : exit_status(err);
}
