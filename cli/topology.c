#include "cli/commands.h"
#include "cli/local.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/price_options.h"
#include "core/console.h"
#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/machine/cluster_drawing.h"
#include "reports/machine/host_parts.h"
#include "reports/machine/nvml.h"
#include "topologies/found.h"

#include <string.h>

// One line of the description: what it is called, and its parts joined by commas.
static void put_fact(struct table *table, const char *name, const char *text)
{
    const char *cells[] = {name, text};
    table_row(table, cells);
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
    const char *sizes = "";
    for (int i = 0; i < intra->torus_count; i++)
        sizes = arena_print(arena, "%s%s%d", sizes, i ? " x " : "", intra->torus[i]);
    const char *shape = intra->torus_open ? "mesh of " : "torus of ";
    const char *torus = *sizes ? arena_print(arena, ", %s%s", shape, sizes) : "";
    put_fact(table, "  intra",
             arena_print(arena, "%s, %s per GPU and direction, %s%s%s", intra->kind,
                         units_bytes_per_s(arena, intra->bandwidth_bytes_per_s),
                         units_seconds(arena, intra->latency_s),
                         intra->in_network_reduction ? ", reduces in the network" : "", torus));
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
                         units_counted(arena, host->cores, "core"),
                         units_counted(arena, group->gpus_per_host, "GPU"),
                         units_bytes(arena, (double)host->memory_bytes),
                         units_bytes_per_s(arena, host->memory_bandwidth_bytes_per_s),
                         units_bytes_per_s(arena, host->pcie_bytes_per_s), nvme));
}

static void put_tiers(struct arena *arena, struct table *table, const struct network *network)
{
    for (int i = 0; i < network->tier_count; i++) {
        const struct network_tier *tier = &network->tiers[i];
        const char *shape = tier->dragonfly ? ", joined as a dragonfly" : "";
        const char *hashed = "";
        if (tier->uplinks > 0)
            hashed = arena_print(arena, ", %s hashed over %s upward",
                                 units_counted(arena, network->flows_per_nic, "flow"),
                                 units_counted(arena, tier->uplinks, "link"));
        put_fact(table, arena_print(arena, "  tier %d", i + 1),
                 arena_print(arena, "blocks of %s, oversubscription %.3g%s%s",
                             units_counted(arena, tier->nodes, "node"),
                             tier->oversubscription_ratio, shape, hashed));
    }
    if (network->loss_ratio > 0)
        put_fact(table, "  losses",
                 arena_print(arena, "%.3g of packets, each a stall of %s", network->loss_ratio,
                             units_seconds(arena, network->loss_stall_s)));
}

static void put_network(struct arena *arena, struct table *table, const struct cluster *cluster)
{
    const struct network *network = &cluster->network;
    put_fact(table, "network",
             arena_print(arena, "%s, %s, oversubscription %.3g%s%s", network->kind,
                         units_seconds(arena, network->latency_s), network->oversubscription_ratio,
                         network->rail_optimized ? ", rail-optimized" : "",
                         network->in_network_reduction ? ", reduces in the network" : ""));
    put_tiers(arena, table, network);
    const struct between_groups *between = &cluster->between;
    if (between->kind && cluster->node_group_count > 1)
        put_fact(table, "between",
                 arena_print(arena, "%s, %s, %s for all ranks of a kind of nodes together",
                             between->kind, units_seconds(arena, between->latency_s),
                             units_bytes_per_s(arena, between->bandwidth_bytes_per_s)));
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
                   units_counted(arena, cluster->node_count, "node"),
                   units_counted(arena, cluster->rank_count, "GPU"));
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

struct arguments {
    const char *name, *path, *drawing, *like, *device, *intra, *network;
    int nodes, gpus, ranks, gpus_per_node, nics;
    double intra_bytes_per_s, nic_bytes_per_s;
    struct text_list also;
    struct price_arguments price;
    bool json;
};

// What the command line says goes before what files say.
static struct found_facts by_hand(const struct arguments *arguments)
{
    struct found_facts found = {
        .nodes = arguments->nodes,
        .gpus = arguments->gpus_per_node,
        .device = arguments->device,
        .intra = arguments->intra,
        .intra_bytes_per_s = arguments->intra_bytes_per_s,
        .nics = arguments->nics,
        .nic_bytes_per_s = arguments->nic_bytes_per_s,
        .network = arguments->network,
    };
    found_by_hand(&found);
    return found;
}

static bool says_facts(const struct arguments *arguments)
{
    return arguments->gpus_per_node || arguments->device || arguments->intra ||
           arguments->intra_bytes_per_s > 0 || arguments->nics || arguments->nic_bytes_per_s > 0 ||
           arguments->network || arguments->like || arguments->also.count;
}

// The file name without folder and ending.
static const char *name_of(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path;
    const char *dot = strrchr(start, '.');
    return plain_copy(arena,
                      arena_print(arena, "%.*s",
                                  (int)(dot && dot > start ? (size_t)(dot - start) : strlen(start)),
                                  start));
}

static bool is_nvml(const struct arguments *arguments)
{
    return strcmp(arguments->name, "nvml") == 0;
}

// What NVML says of this machine, before what files say.
static bool add_nvml(struct arena *arena, struct found_facts *found, struct err *err)
{
    struct nvml_machine machine;
    struct found_facts said;
    return nvml_find(arena, &machine, err) && nvml_facts(arena, &machine, &said, err) &&
           found_add(arena, &said, "NVML", found, err);
}

// A cluster of what tools say of it.
static struct cluster *convert(struct arena *arena, const struct arguments *arguments,
                               struct err *err)
{
    struct found_facts found = by_hand(arguments);
    bool done = is_nvml(arguments) ? add_nvml(arena, &found, err)
                                   : found_read(arena, arguments->name, &found, err);
    if (!done) return NULL;
    for (int i = 0; i < arguments->also.count; i++)
        if (!found_read(arena, arguments->also.items[i], &found, err)) return NULL;
    if (arguments->like) {
        const struct cluster *like = cluster_load(arena, arguments->like, err);
        if (!like) return NULL;
        found_fill(arena, &found, like);
    }
    const char *name = name_of(arena, arguments->name);
    const char *text = found_cluster_text(arena, &found, name, arguments->name, err);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!text || !json_parse(arena, arguments->name, text, strlen(text), document, err))
        return NULL;
    console_print(stderr, found_text(arena, &found));
    const struct json root = json_root(document);
    return cluster_read(arena, &root, err);
}

static struct cluster *load(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    bool is_found;
    enum found_kind kind;
    if (!found_is(arena, arguments->name, &is_found, &kind, err)) return NULL;
    is_found = is_found || is_nvml(arguments);
    if (!is_found && says_facts(arguments)) {
        err_set(err, ERR_USAGE,
                "facts given by hand complete what tools say; CLUSTER is a cluster: change a copy "
                "of its file");
        return NULL;
    }
    struct cluster *cluster =
        is_found ? convert(arena, arguments, err)
                 : local_or_load(arena, "topology", arguments->name, arguments->ranks, NULL, err);
    if (!cluster) return NULL;
    if (!is_found && arguments->nodes && !cluster_set_nodes(cluster, arguments->nodes, err))
        return NULL;
    if (arguments->gpus && !cluster_take_gpus(cluster, arguments->gpus, err)) return NULL;
    const struct cluster *priced = cluster;
    if (!price_apply(arena, &arguments->price, &priced, 1, err)) return NULL;
    return (struct cluster *)priced;
}

static bool write_files(struct arena *arena, const struct arguments *arguments,
                        const struct cluster *cluster, const char *text, const char **said,
                        struct err *err)
{
    struct file_text files[2];
    const char *paths[2];
    int count = 0;
    if (arguments->path) files[count++] = (struct file_text){arguments->path, text};
    if (arguments->drawing)
        files[count++] = (struct file_text){arguments->drawing, cluster_drawing(arena, cluster)};
    for (int i = 0; i < count; i++)
        paths[i] = files[i].path;
    if (count == 0) return true;
    *said = count == 1 ? output_said(arena, paths[0]) : output_said_files(arena, paths, count);
    if (arguments->json) *said = count == 1 ? output_noted(arena, paths[0]) : "";
    return count == 1 ? file_write(paths[0], files[0].text, strlen(files[0].text), err)
                      : file_write_all(files, count, err);
}

static void print_host(struct arena *arena)
{
    const char *text = host_parts_text(arena);
    struct nvml_machine machine;
    struct err none = {0};
    if (*text) console_printf(stdout, "\nWhat hwloc finds in this machine:\n%s", text);
    if (nvml_find(arena, &machine, &none))
        console_printf(stdout, "\nWhat NVML finds in it:\n%s", nvml_text(arena, &machine));
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    const struct cluster *cluster = load(arena, arguments, err);
    if (!cluster) return exit_status(err);
    const char *text = file_text(arena, cluster), *said = "";
    if (!write_files(arena, arguments, cluster, text, &said, err)) return exit_status(err);
    if (arguments->json) {
        fputs(text, stdout);
        console_print(stderr, said);
    } else {
        print_cluster(arena, cluster);
        if (strcmp(arguments->name, "local") == 0) print_host(arena);
        if (*said) console_printf(stdout, "\n%s\n", said);
    }
    return 0;
}

enum { OWN_OPTIONS = 20 };

int topology_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments a = {0};
    struct option options[OWN_OPTIONS + PRICE_OPTION_COUNT + 1] = {
        {"CLUSTER", OPTION_TEXT, &a.name,
         "cluster file, shipped cluster or NAME-xN for N nodes; local is this machine; nvml is "
         "what "
         "NVIDIA's driver says of its GPUs; or what "
         "lstopo (XML), NCCL (topology XML), nvidia-smi topo -m, ibnetdiscover or sinfo print of "
         "one",
         NULL, 0, 0},
        {"--nodes", OPTION_INT, &a.nodes, "use N nodes", NULL, 0, 0},
        {"--gpus", OPTION_INT, &a.gpus, "use the first N GPUs", NULL, 0, 0},
        {"--ranks", OPTION_INT, &a.ranks, "CPU ranks of local (default: as many as cores)", "N", 1,
         4096},
        {"--json", OPTION_FLAG, &a.json,
         "print the cluster file itself, complete: a template for one of your own", NULL, 0, 0},
        {"-o", OPTION_OUTPUT, &a.path, "write that file; - is stdout", "FILE", 0, 0},
        {"--draw", OPTION_OUTPUT, &a.drawing, "draw nodes, GPUs, links and network", "FILE.svg", 0,
         0},
        OPTION_FORCE_ROW,
        {"Converting", OPTION_GROUP, NULL, "what the tools do not say", NULL, 0, 0},
        {"--also", OPTION_TEXTS, &a.also, "another tool's output of the same cluster", "FILE", 0,
         0},
        {"--like", OPTION_TEXT, &a.like, "take what nobody says from this shipped cluster", "NAME",
         0, 0},
        {"--device", OPTION_TEXT, &a.device, "a shipped device", "NAME", 0, 0},
        {"--gpus-per-node", OPTION_INT, &a.gpus_per_node, "GPUs of a node", "N", 1, 100000},
        {"--intra", OPTION_TEXT, &a.intra, "links in a node: nvswitch, nvlink, xgmi, pcie, ...",
         "KIND", 0, 0},
        {"--intra-bandwidth", OPTION_F64, &a.intra_bytes_per_s,
         "bytes/s of a GPU over them, one direction", "B", 1, 1e15},
        {"--nics", OPTION_INT, &a.nics, "NICs of a node that train", "N", 1, 100000},
        {"--nic-bandwidth", OPTION_F64, &a.nic_bytes_per_s, "bytes/s of a NIC, one direction", "B",
         1, 1e15},
        {"--network", OPTION_TEXT, &a.network, "infiniband, roce, efa, ethernet, ...", "KIND", 0,
         0},
    };
    int count = 0;
    while (options[count].name)
        count++;
    count += price_options(&a.price, options + count);
    options[count] = (struct option){0};
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&a.path, err)) return exit_status(err);
    return run(arena, &a, err);
}
