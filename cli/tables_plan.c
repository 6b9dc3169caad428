#include "cli/output.h"
#include "cli/plan_options.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "core/table.h"
#include "reports/tables/plan_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// MODEL may stand behind options and their values: any word that names such a model is it.
bool tables_are_asked(int argc, char **argv, struct err *err)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' && recommender_is(argv[i], err)) return true;
    }
    return false;
}

// The first word that is no option and no number, which before PLAN is what options take.
bool tables_plan_is_asked(int argc, char **argv, struct err *err)
{
    for (int i = 1; i < argc; i++) {
        bool is_number = argv[i][0] >= '0' && argv[i][0] <= '9';
        if (argv[i][0] != '-' && !is_number) return table_plan_is(argv[i], err);
    }
    return false;
}

struct arguments {
    const char *model, *cluster, *stack, *precision, *optimizer, *cache, *tier, *output;
    int64_t nodes, gpus, global_batch;
    int ranks;
    bool json, min_gpus;
};

static const struct arguments DEFAULTS = {
    .optimizer = "rowwise-adagrad", .cache = "static", .tier = "nvme", .output = "plan.json"};

enum { WORKLOAD_OPTION_COUNT = 10 };

static int put_options(struct arguments *a, struct option *options)
{
    const struct option rows[WORKLOAD_OPTION_COUNT] = {
        {"MODEL", OPTION_TEXT, &a->model,
         "config of a recommendation model, or the name of a shipped one", NULL, 0, 0},
        {"CLUSTER", OPTION_TEXT, &a->cluster,
         "cluster file, or the name of a shipped one; NAME-xN has N nodes; local is this machine",
         NULL, 0, 0},
        {"--nodes", OPTION_I64, &a->nodes, "override the number of nodes", "N", 0, 0},
        {"--gpus", OPTION_I64, &a->gpus, "use only the first N GPUs", "N", 0, 0},
        {"--ranks", OPTION_INT, &a->ranks, "CPU ranks of local (default: as many as cores)", "N", 1,
         4096},
        {"--global-batch", OPTION_I64, &a->global_batch, "samples of a step", "N", 1, 1 << 30},
        {"--precision", OPTION_CHOICE, &a->precision,
         "of dense products and exchanges (default fp16; on CPUs fp32); tables are fp32",
         "fp32|fp16|bf16", 0, 0},
        {"--optimizer", OPTION_CHOICE, &a->optimizer, "(default rowwise-adagrad)",
         "sgd|adagrad|rowwise-adagrad", 0, 0},
        {"--cache", OPTION_CHOICE, &a->cache,
         "how rows of tables off the device are kept there (default static: the hottest)",
         "static|lru", 0, 0},
        {"--stack", OPTION_TEXT, &a->stack,
         "software that will run it: a file or hugectr, meshwright (default: hugectr; on CPUs "
         "meshwright)",
         "NAME", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return WORKLOAD_OPTION_COUNT;
}

static int word_index(const char *word, const char *(*name)(int index), int count)
{
    int index = 0;
    while (index < count - 1 && strcmp(name(index), word) != 0)
        index++;
    return index;
}

static const char *optimizer_at(int index)
{
    return table_optimizer_name((enum table_optimizer)index);
}

static void use_tier(struct place_request *request, const char *tier)
{
    bool is_cpu = strcmp(request->cluster->nodes[0].device->kind, "cpu") == 0;
    request->uses_nvme = !is_cpu && strcmp(tier, "nvme") == 0;
    request->uses_host = !is_cpu && strcmp(tier, "device") != 0;
}

static bool read_request(struct arena *arena, const struct arguments *arguments,
                         struct place_request *request, struct err *err)
{
    struct plan_arguments plan = plan_arguments_default();
    plan.nodes = arguments->nodes;
    plan.gpus = arguments->gpus;
    plan.ranks = arguments->ranks;
    struct search_request found = {0};
    *request = (struct place_request){.model = recommender_load(arena, arguments->model, err)};
    if (!request->model || !plan_cluster(arena, "plan", arguments->cluster, &plan, &found, err))
        return false;
    if (arguments->global_batch == 0)
        return err_set(err, ERR_USAGE, "--global-batch: the samples of a step must be given");
    request->cluster = found.cluster;
    request->fabrics = found.fabrics ? found.fabrics : fabrics_load(arena, err);
    bool is_cpu = strcmp(request->cluster->nodes[0].device->kind, "cpu") == 0;
    const char *stack = arguments->stack ? arguments->stack : is_cpu ? "meshwright" : "hugectr";
    const char *precision = arguments->precision ? arguments->precision : is_cpu ? "fp32" : "fp16";
    request->stack = table_stack_load(arena, stack, err);
    request->workload.global_batch = arguments->global_batch;
    request->workload.optimizer =
        (enum table_optimizer)word_index(arguments->optimizer, optimizer_at, TABLE_OPTIMIZER_COUNT);
    request->workload.cache = strcmp(arguments->cache, "lru") == 0 ? CACHE_LRU : CACHE_STATIC;
    if (!precision_from_name(precision, &request->workload.precision))
        return err_set(err, ERR_USAGE, "--precision: unknown \"%s\"", precision);
    use_tier(request, arguments->tier);
    return !err->kind;
}

static int plan_it(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct place_request request;
    struct place_result result;
    if (!read_request(arena, arguments, &request, err)) return exit_status(err);
    if (!place_tables(arena, &request, &result, err)) return exit_status(err);
    if (!result.placement) {
        console_printf(stderr, "meshwright plan: nothing fits: %s\n", result.lacks);
        return 1;
    }
    const char *text = table_plan_document(arena, &request, &result);
    const char *table = table_plan_text(arena, &request, &result);
    const char *noted = output_noted(arena, arguments->output);
    const char *said = output_said(arena, arguments->output);
    const char *word = plain_shell(arena, arguments->output);
    if (!file_write(arguments->output, text, strlen(text), err)) return exit_status(err);
    if (arguments->json) {
        console_print(stderr, noted);
        fputs(text, stdout);
        return 0;
    }
    console_print(stdout, table);
    if (*said)
        console_printf(stdout, "%s.\nNext: meshwright simulate %s\n      meshwright report %s\n",
                       said, word, word);
    return 0;
}

int tables_plan_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = DEFAULTS;
    struct option options[WORKLOAD_OPTION_COUNT + 5] = {0};
    int count = put_options(&arguments, options);
    const struct option rows[] = {
        {"--tables-on", OPTION_CHOICE, &arguments.tier,
         "the slowest memory that tables may live in, if they must (default nvme)",
         "device|host|nvme", 0, 0},
        {"-o", OPTION_OUTPUT, &arguments.output, "the plan (default plan.json)", "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &arguments.json, "print the plan instead of the table", NULL, 0, 0},
    };
    memcpy(options + count, rows, sizeof rows);
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&arguments.output, err)) return exit_status(err);
    return plan_it(arena, &arguments, err);
}

// Of each slowest tier the fewest GPUs.
static int find_fewest(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    static const char *const TIERS[] = {"device", "host", "nvme"};
    enum { MOST_GPUS = 4096, TIERS_COUNT = sizeof TIERS / sizeof *TIERS };
    struct place_request request;
    if (!read_request(arena, arguments, &request, err)) return exit_status(err);
    assert(request.model && request.cluster);
    struct json_writer writer = {.arena = arena};
    struct table table = table_new(arena, "lrrrrr");
    table_row(&table, (const char *[]){"tables on", "fewest GPUs", "samples/s", "step", "batch",
                                       "found on the device"});
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "model", request.model->name);
    json_put_text(&writer, "cluster", request.cluster->name);
    json_open(&writer, "tiers", '[');
    bool any = false;
    for (int i = 0; i < TIERS_COUNT; i++) {
        struct fewest fewest;
        use_tier(&request, TIERS[i]);
        if (!place_fewest(arena, &request, MOST_GPUS, &fewest, err)) return exit_status(err);
        const struct table_prediction *prediction = &fewest.result.prediction;
        any |= fewest.gpus > 0;
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "tables_on", TIERS[i]);
        json_put_i64(&writer, "least_gpus", fewest.gpus);
        json_put_i64(&writer, "global_batch", fewest.global_batch);
        json_put_f64(&writer, "step_s", prediction->step_s);
        json_put_f64(&writer, "samples_per_s", prediction->samples_per_s);
        json_put_f64(&writer, "hit_ratio", prediction->hit_ratio);
        json_close(&writer, '}');
        bool is_found = fewest.gpus > 0;
        table_row(&table,
                  (const char *[]){TIERS[i],
                                   is_found ? units_count(arena, fewest.gpus)
                                            : arena_print(arena, "over %d", MOST_GPUS),
                                   is_found ? units_count(arena, prediction->samples_per_s) : "",
                                   is_found ? units_seconds(arena, prediction->step_s) : "",
                                   is_found ? units_count(arena, (double)fewest.global_batch) : "",
                                   is_found ? units_ratio(arena, prediction->hit_ratio) : ""});
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    if (arguments->json) fputs(writer.text, stdout);
    if (!arguments->json)
        console_printf(
            stdout, "%s on %s: %s of tables\n\n%s", request.model->name, request.cluster->name,
            units_bytes(arena, (double)recommender_table_parameters(request.model) * WEIGHT_BYTES),
            table_text(&table));
    return any ? 0 : 1;
}

int tables_whatif_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments arguments = DEFAULTS;
    struct option options[WORKLOAD_OPTION_COUNT + 3] = {0};
    int count = put_options(&arguments, options);
    const struct option rows[] = {
        {"--min-gpus", OPTION_FLAG, &arguments.min_gpus,
         "the fewest GPUs that hold the tables, with hosts and drives and without", NULL, 0, 0},
        {"--json", OPTION_FLAG, &arguments.json, "the same as one object for programs", NULL, 0, 0},
    };
    memcpy(options + count, rows, sizeof rows);
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!arguments.min_gpus) {
        err_set(err, ERR_USAGE,
                "whatif of a recommendation model answers --min-gpus; `plan` places its tables");
        return exit_status(err);
    }
    return find_fewest(arena, &arguments, err);
}
