#include "cli/commands.h"
#include "cli/options.h"
#include "core/console.h"
#include "core/file.h"
#include "core/json_write.h"
#include "core/table.h"
#include "core/units.h"
#include "cost_models/band.h"
#include "cost_models/stack.h"
#include "models/import.h"
#include "topologies/cluster.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// `models`, `clusters`, `devices`, `stacks`: what is shipped, a line each.

enum { CELL_MAX = 6 };

// A listing that is being made: the table for people, the array for programs.
struct listing {
    struct arena *arena;
    struct table table;
    struct json_writer writer;
    const struct bands *bands;  // of stacks
};

struct listing_kind {
    const char *command;
    const char *folder;
    const char *help;
    const char *aligns;
    const char *heads[CELL_MAX];
    // Adds the row of one file. False and `err` where it is wrong.
    bool (*add)(struct listing *listing, const char *name, struct err *err);
    const char *foot;
};

static void put_row(struct listing *listing, const char *const cells[CELL_MAX])
{
    assert(listing->table.column_count <= CELL_MAX);
    table_row(&listing->table, cells);
}

static bool add_model(struct listing *listing, const char *name, struct err *err)
{
    struct arena *arena = listing->arena;
    const struct model_config *config = model_load(arena, name, NULL, NULL, err);
    if (!config) return false;
    const struct import_options options = {.flash = true};
    const struct graph *graph = model_graph(arena, config, &options);
    const char *seq =
        graph->seq_len_max > 0 ? units_count(arena, (double)graph->seq_len_max) : "any";
    const char *cells[CELL_MAX] = {name,
                                   units_count(arena, (double)graph->parameter_count),
                                   arena_print(arena, "%d", graph->layer_count),
                                   units_count(arena, (double)graph->hidden),
                                   seq,
                                   config->model_type};
    put_row(listing, cells);
    struct json_writer *writer = &listing->writer;
    json_put_text(writer, "name", name);
    json_put_text(writer, "model_type", config->model_type);
    json_put_i64(writer, "parameters", graph->parameter_count);
    json_put_i64(writer, "active_parameters", graph->active_parameter_count);
    json_put_i64(writer, "layers", graph->layer_count);
    json_put_i64(writer, "hidden", graph->hidden);
    json_put_i64(writer, "seq_len_max", graph->seq_len_max);
    return true;
}

static const char *link_text(struct arena *arena, const char *kind, double bytes_per_s)
{
    if (strcmp(kind, "none") == 0) return "-";
    return arena_print(arena, "%s %.4g", kind, bytes_per_s / 1e9);
}

static bool add_cluster(struct listing *listing, const char *name, struct err *err)
{
    struct arena *arena = listing->arena;
    const struct cluster *cluster = cluster_load(arena, name, err);
    if (!cluster) return false;
    const struct node_group *group = &cluster->nodes[0];
    double network = group->nics.count * group->nics.bandwidth_bytes_per_s;
    const char *more = cluster->node_group_count > 1 ? ", ..." : "";
    const char *cells[CELL_MAX] = {
        name, arena_print(arena, "%d x %d", cluster->node_count, group->gpus),
        arena_print(arena, "%s%s", group->device->name, more),
        link_text(arena, group->intra.kind, group->intra.bandwidth_bytes_per_s),
        link_text(arena, cluster->network.kind, network)};
    put_row(listing, cells);
    struct json_writer *writer = &listing->writer;
    json_put_text(writer, "name", name);
    json_put_i64(writer, "nodes", cluster->node_count);
    json_put_i64(writer, "gpus", cluster->rank_count);
    json_put_i64(writer, "gpus_per_node", group->gpus);
    json_put_text(writer, "device", group->device->name);
    json_put_text(writer, "intra", group->intra.kind);
    json_put_f64(writer, "intra_bytes_per_s_per_gpu", group->intra.bandwidth_bytes_per_s);
    json_put_text(writer, "network", cluster->network.kind);
    json_put_f64(writer, "network_bytes_per_s_per_node", network);
    return true;
}

static bool add_device(struct listing *listing, const char *name, struct err *err)
{
    struct arena *arena = listing->arena;
    const struct device *device = device_load(arena, name, err);
    if (!device) return false;
    double peak = device_training_peak(device);
    bool has_bf16 = device->peak_flop_per_s[PRECISION_BF16] > 0;
    const char *cells[CELL_MAX] = {
        name, device->kind,
        arena_print(arena, "%s%s", units_flop_per_s(arena, peak), has_bf16 ? "" : " (fp16)"),
        units_bytes(arena, (double)device->memory_bytes),
        units_bytes_per_s(arena, device->memory_bandwidth_bytes_per_s)};
    put_row(listing, cells);
    struct json_writer *writer = &listing->writer;
    json_put_text(writer, "name", name);
    json_put_text(writer, "kind", device->kind);
    json_open_flat(writer, "peak_flop_per_s", '{');
    for (int i = 0; i < PRECISION_COUNT; i++) {
        double of = device->peak_flop_per_s[i];
        if (of > 0) json_put_f64(writer, precision_name((enum precision)i), of);
    }
    json_close(writer, '}');
    json_put_i64(writer, "memory_bytes", device->memory_bytes);
    json_put_f64(writer, "memory_bandwidth_bytes_per_s", device->memory_bandwidth_bytes_per_s);
    return true;
}

// Published runs of the stack that predictions were held against, on whatever device.
static int measured_runs(const struct bands *bands, const char *stack)
{
    int count = 0;
    for (int i = 0; i < bands->count; i++) {
        const struct band *band = &bands->rows[i];
        bool is_of_all = strcmp(band->device, "*") == 0 && band->confidence != CONFIDENCE_DATASHEET;
        if (is_of_all && strcmp(band->stack, stack) == 0) count += band->row_count;
    }
    return count;
}

// What it is stands before the first colon; the rest are its ways.
static const char *first_words(struct arena *arena, const char *text)
{
    return arena_print(arena, "%.*s", (int)strcspn(text, ":;"), text);
}

static bool add_stack(struct listing *listing, const char *name, struct err *err)
{
    const struct stack *stack = stack_load(listing->arena, name, err);
    if (!stack) return false;
    if (!listing->bands) listing->bands = bands_load(listing->arena, err);
    if (err->kind) return false;
    int runs = measured_runs(listing->bands, name);
    const char *cells[CELL_MAX] = {name, arena_print(listing->arena, "%d", runs),
                                   first_words(listing->arena, stack->description)};
    put_row(listing, cells);
    struct json_writer *writer = &listing->writer;
    json_put_text(writer, "name", name);
    json_put_text(writer, "description", stack->description);
    json_put_i64(writer, "measured_runs", runs);
    return true;
}

static const struct listing_kind KINDS[] = {
    {"models",
     "models/zoo",
     "the models that MODEL may name, by name",
     "lrrrrl",
     {"model", "parameters", "layers", "hidden", "positions", "type"},
     add_model,
     "MODEL may also be the path of a Hugging Face config.json or an ONNX file."},
    {"clusters",
     "topologies",
     "the clusters that CLUSTER may name, by name",
     "lrlll",
     {"cluster", "nodes x GPUs", "device", "intra GB/s", "network GB/s"},
     add_cluster,
     "GB/s of one direction: intra a GPU, network a node. NAME-xN is NAME with N nodes,\n"
     "`local` this machine. One of your own: docs/clusters.md, from the template that\n"
     "`meshwright topology dgx-h100 --json` prints."},
    {"devices",
     "topologies/devices",
     "the devices that cluster files may name",
     "llrrr",
     {"device", "kind", "bf16 peak", "memory", "bandwidth"},
     add_device,
     "The \"device\" of a cluster file is one of them, a path, or an object of its own."},
    {"stacks",
     "cost_models/stacks",
     "the software that --stack may name",
     "lrl",
     {"stack", "runs", "what it is"},
     add_stack,
     "Runs: how many published ones its predictions were held against."},
};

// They have no layers and no positions: names are all that the table could say.
static const char *recommenders_text(struct arena *arena)
{
    int count = 0;
    const char **names = file_list_data(arena, "models/recommenders", &count), *text = "";
    for (int i = 0; i < count; i++)
        text = arena_print(arena, "%s%s%s", text, i ? ", " : "", names[i]);
    return arena_print(arena, "Recommendation models: %s (docs/recommendation.md).\n", text);
}

static bool list_all(struct listing *listing, const struct listing_kind *kind, struct err *err)
{
    int count = 0;
    const char **names = file_list_data(listing->arena, kind->folder, &count);
    if (count == 0) return err_set(err, ERR_SYSTEM, "there is no data in %s", kind->folder);
    listing->table = table_new(listing->arena, kind->aligns);
    put_row(listing, kind->heads);
    json_open(&listing->writer, NULL, '{');
    json_open(&listing->writer, kind->command, '[');
    for (int i = 0; i < count; i++) {
        json_open_flat(&listing->writer, NULL, '{');
        if (!kind->add(listing, names[i], err)) return false;
        json_close(&listing->writer, '}');
    }
    json_close(&listing->writer, ']');
    json_close(&listing->writer, '}');
    return true;
}

int shipped_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    const struct listing_kind *kind = KINDS;
    while (strcmp(kind->command, argv[0]) != 0)
        kind++;
    assert(kind < KINDS + sizeof KINDS / sizeof *KINDS);
    bool as_json = false;
    const struct option options[] = {
        {"--json", OPTION_FLAG, &as_json, "the same as one object for programs", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) {
        if (options_help_is_text(argc, argv))
            console_printf(stdout, "\nLists %s.\n%s\n", kind->help, kind->foot);
        return 0;
    }
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    struct listing listing = {.arena = arena, .writer = {.arena = arena}};
    bool is_done = list_all(&listing, kind, err);
    if (is_done && as_json) fputs(listing.writer.text, stdout);
    if (is_done && !as_json)
        console_printf(stdout, "%s\n%s\n%s", table_text(&listing.table), kind->foot,
                       kind == KINDS ? recommenders_text(arena) : "");
    return is_done ? 0 : exit_status(err);
}
