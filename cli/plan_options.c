#include "cli/plan_options.h"
#include "cli/local.h"
#include "core/console.h"
#include "core/plain.h"
#include "plan/program.h"
#include "planner/batch.h"
#include "topologies/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const int64_t DEFAULT_SEQ_LEN_MOST = 4096;

struct plan_arguments plan_arguments_default(void)
{
    return (struct plan_arguments){.optimizer = "adamw",
                                   .objective = "time",
                                   .idle = "no",
                                   .expert_imbalance = 1,
                                   .top = 5,
                                   .reliability = reliability_arguments_default()};
}

static int put_workload(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"MODEL", OPTION_TEXT, &a->model,
         "config.json or .onnx file, or the name of a shipped model (or its hub id)", NULL, 0, 0},
        {"CLUSTER", OPTION_TEXT, &a->cluster,
         "cluster file, or the name of a shipped one; NAME-xN has N nodes; local is this machine",
         NULL, 0, 0},
        {"--nodes", OPTION_I64, &a->nodes, "override the number of nodes", "N", 0, 0},
        {"--gpus", OPTION_I64, &a->gpus, "use only the first N GPUs", "N", 0, 0},
        {"--ranks", OPTION_INT, &a->ranks, "CPU ranks of local (default: as many as cores)", "N", 1,
         4096},
        {"Workload", OPTION_GROUP, NULL, "what is trained; never changed by the search", NULL, 0,
         0},
        {"--seq-len", OPTION_I64, &a->seq_len, "tokens of a sequence", "N", 0, 0},
        {"--global-batch", OPTION_I64, &a->global_batch, "sequences of a step", "N", 1, 1 << 20},
        {"--precision", OPTION_CHOICE, &a->precision,
         "of the matrix products (default bf16; on CPUs fp32)", "fp32|fp16|bf16|fp8|fp4", 0, 0},
        {"--optimizer", OPTION_CHOICE, &a->optimizer, "(default adamw)", "adamw|adam|sgd|lamb|lars",
         0, 0},
        {"--tokens", OPTION_F64, &a->tokens, "to train in all, for time and money to finish", "N",
         PLAN_TOKENS_LOW, PLAN_TOKENS_HIGH},
        {"--expert-imbalance", OPTION_F64, &a->expert_imbalance,
         "rows of the busiest expert group over the mean (default 1: balanced)", "X", 1, 1e6},
        {"--capacity-factor", OPTION_F64, &a->capacity_factor,
         "rows an expert has room for in a sequence over the mean (default 0: no token is dropped)",
         "X", 0, 1e6},
        {"--clip", OPTION_CHOICE, &a->clip,
         "gradients by their global norm; off: each bucket of them is updated as it comes",
         "on|off", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

static int put_pins(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"--stages", OPTION_TEXT, &a->stages, "layers of each stage", "10,12,12,10", 0, 0},
        {"--forbid", OPTION_TEXTS, &a->forbid, "exclude a value, may be repeated", "KEY=VALUE", 0,
         0},
    };
    options[0] = (struct option){.name = "Pins",
                                 .kind = OPTION_GROUP,
                                 .help = "what is pinned is kept, what is not is searched; "
                                         "N or LOW..HIGH"};
    int count = 1 + choice_options(a->choices, options + 1);
    memcpy(options + count, rows, sizeof rows);
    return count + (int)(sizeof rows / sizeof *rows);
}

static int put_search(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"Search", OPTION_GROUP, NULL, "what is wanted of it", NULL, 0, 0},
        {"--stack", OPTION_TEXT, &a->stack,
         "software that will run it: a file, a shipped name or an alias (default: that with most "
         "measured runs on the device; meshwright for `run`)",
         "NAME", 0, 0},
        {"--kernels", OPTION_TEXT, &a->kernels,
         "measured kernels that override the formulas: a file or a shipped name", "NAME", 0, 0},
        {"--objective", OPTION_CHOICE, &a->objective, "(default time)", "time|cost|memory", 0, 0},
        {"--idle", OPTION_CHOICE, &a->idle,
         "ok: GPUs may stand idle where a smaller number is faster (default no)", "no|ok", 0, 0},
        {"--top", OPTION_INT, &a->top, "plans to show, best first (default 5)", "N", 1, 100},
        {"--exhaustive", OPTION_FLAG, &a->exhaustive, "price every plan; the answer is the same",
         NULL, 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

int plan_options(struct plan_arguments *arguments, struct option options[PLAN_OPTION_COUNT])
{
    int count = put_workload(arguments, options);
    count += put_pins(arguments, options + count);
    count += put_search(arguments, options + count);
    count += reliability_options(&arguments->reliability, options + count);
    count += price_options(&arguments->price, options + count);
    assert(count <= PLAN_OPTION_COUNT);
    return count;
}

static void warn(void *context, const char *line)
{
    (void)context;
    char shown[TEXT_BYTES_MAX];  // it may quote a file
    snprintf(shown, sizeof shown, "%s", line);
    plain_make(shown);
    console_printf(stderr, "warning: %s\n", shown);
}

// "10,12,12,10"
static bool read_stages(struct arena *arena, const char *text, struct pins *pins, struct err *err)
{
    int count = 1;
    for (const char *at = text; *at; at++) {
        count += *at == ',';
    }
    int *layers = ARENA_NEW(arena, int, count);
    const char *at = text;
    for (int i = 0; i < count; i++) {
        char word[32];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        int64_t number = 0;
        if (!units_parse_i64(word, "--stages", 0, 1 << 20, &number, err)) return false;
        layers[i] = (int)number;
        at += length + 1;
    }
    pins->stage_layers = layers;
    pins->stage_layers_count = count;
    return true;
}

// "tp=16"
static bool read_forbidden(struct arena *arena, const char *text, struct pins *pins,
                           struct err *err)
{
    const char *equals = strchr(text, '=');
    if (!equals) return err_set(err, ERR_USAGE, "--forbid: expected KEY=VALUE, found \"%s\"", text);
    char *name = arena_print(arena, "%.*s", (int)(equals - text), text);
    enum choice choice = CHOICE_TP;
    int64_t value = 0;
    if (!choice_from_name(name, &choice, err)) return false;
    if (!choice_parse(choice, equals + 1, &value, err)) return false;
    int most = (int)(sizeof pins->forbidden / sizeof *pins->forbidden);
    if (pins->forbidden_count == most) {
        return err_set(err, ERR_USAGE, "--forbid: at most %d are allowed", most);
    }
    pins->forbidden[pins->forbidden_count].key = choice_name(choice);
    pins->forbidden[pins->forbidden_count++].value = value;
    return true;
}

bool plan_pins(struct arena *arena, const struct plan_arguments *arguments, struct pins *pins,
               struct err *err)
{
    *pins = pins_none();
    if (!choice_pins(arguments->choices, pins, err)) return false;
    for (int i = 0; i < arguments->forbid.count; i++) {
        if (!read_forbidden(arena, arguments->forbid.items[i], pins, err)) return false;
    }
    return !arguments->stages || read_stages(arena, arguments->stages, pins, err);
}

static bool is_cpu(const struct cluster *cluster)
{
    return strcmp(cluster->nodes[0].device->kind, "cpu") == 0;
}

void plan_model_notes(const struct model_config *model)
{
    struct arena spare = {0};
    for (const char **note = model->notes; *note; note++)
        console_printf(stderr, "note: %s\n", plain_copy(&spare, *note));
    arena_free(&spare);
}

int64_t plan_seq_len(struct arena *arena, const struct model_config *model, int64_t given)
{
    struct import_options options = {.flash = true};
    int64_t most = model_graph(arena, model, &options)->seq_len_max;
    if (!given) {
        int64_t taken = most > 0 && most < DEFAULT_SEQ_LEN_MOST ? most : DEFAULT_SEQ_LEN_MOST;
        console_printf(stderr, "note: --seq-len not given, taking %lld\n", (long long)taken);
        return taken;
    }
    if (most > 0 && given > most) {
        console_printf(
            stderr, "warning: --seq-len %lld is past the %lld positions the model was made for\n",
            (long long)given, (long long)most);
    }
    return given;
}

void plan_workload(const struct plan_arguments *arguments, const struct cluster *cluster,
                   struct workload *workload)
{
    workload->tokens = arguments->tokens;
    workload->expert_imbalance = arguments->expert_imbalance;
    workload->capacity_factor = arguments->capacity_factor;
    workload->unclipped = arguments->clip && strcmp(arguments->clip, "off") == 0;
    const char *precision = arguments->precision;
    if (!precision) precision = cluster && is_cpu(cluster) ? "fp32" : "bf16";
    bool known = precision_from_name(precision, &workload->precision) &&
                 optimizer_from_name(arguments->optimizer, &workload->optimizer);
    assert(known);  // the option table allows no other word
    (void)known;
}

// What was not given is filled in and said.
static void read_workload(struct arena *arena, const struct plan_arguments *arguments,
                          struct search_request *request)
{
    struct workload *workload = &request->workload;
    plan_workload(arguments, request->cluster, workload);
    workload->seq_len = plan_seq_len(arena, request->model, arguments->seq_len);
    workload->global_batch = arguments->global_batch;
    if (!workload->global_batch) {
        int64_t ranks = request->cluster->rank_count;
        int64_t batch = PLAN_BATCH_TOKENS / workload->seq_len / ranks * ranks;
        int64_t most = batch_limit(workload->optimizer) / ranks * ranks;
        if (batch > most) batch = most;
        workload->global_batch = batch > 0 ? batch : ranks;
        console_printf(stderr, "note: --global-batch not given, taking %lld sequences\n",
                       (long long)workload->global_batch);
    }
}

// What is taken because the pins describe a run, where a search would have chosen.
static void note_described(const struct search_request *request)
{
    enum attention attention;
    if (search_describes_stages(request)) {
        console_print(
            stderr,
            "note: --stages not given, taking even ones: --pp, --schedule and --micro-batch "
            "describe a run\n");
    }
    if (search_describes_attention(request, &attention)) {
        console_printf(stderr,
                       "note: --attention not given, taking %s: --pp, --schedule and --micro-batch "
                       "describe a run, and in fp16 those of stack %s have it\n",
                       attention_name(attention), request->stack->name);
    }
}

enum objective plan_objective(const char *name)
{
    if (strcmp(name, "cost") == 0) return OBJECTIVE_COST;
    return strcmp(name, "memory") == 0 ? OBJECTIVE_MEMORY : OBJECTIVE_TIME;
}

bool plan_may_idle(const struct plan_arguments *arguments, bool *may, struct err *err)
{
    *may = strcmp(arguments->idle, "ok") == 0;
    if (!*may || plan_objective(arguments->objective) != OBJECTIVE_MEMORY) return true;
    return err_set(err, ERR_USAGE,
                   "--idle ok is for the fastest plan: --objective memory has no "
                   "use of idle GPUs");
}

bool plan_kernels(struct arena *arena, const char *name, const struct cluster **cluster,
                  struct err *err)
{
    if (!name) return true;
    const struct kernel_table *table = kernels_load(arena, name, err);
    *cluster = table ? cluster_with_kernels(arena, *cluster, table, err) : NULL;
    return *cluster != NULL;
}

const struct model_config *plan_model(struct arena *arena, const char *name, struct err *err)
{
    return model_load(arena, name, warn, NULL, err);
}

bool plan_cluster(struct arena *arena, const char *command, const char *name,
                  const struct plan_arguments *arguments, struct search_request *request,
                  struct err *err)
{
    struct cluster *cluster =
        local_or_load(arena, command, name, arguments->ranks, &request->stack, err);
    if (!cluster) return false;
    if (arguments->nodes && !cluster_set_nodes(cluster, arguments->nodes, err)) return false;
    if (arguments->gpus && !cluster_take_gpus(cluster, arguments->gpus, err)) return false;
    reliability_apply(&arguments->reliability, &cluster->failures);
    request->cluster = cluster;
    if (!plan_kernels(arena, arguments->kernels, &request->cluster, err)) return false;
    request->fabrics = fabrics_load(arena, err);
    return request->fabrics && fabrics_cover(request->fabrics, cluster, err);
}

// What is asked of NVMe hangs on a fact that the cluster's file may leave out: then it is the file.
static bool check_offload(const struct search_request *request, struct err *err)
{
    struct offload moved = offload_of_value(pins_get(&request->pins, CHOICE_OFFLOAD).low);
    struct err lack = {0};
    if (program_check_offload(request->cluster, &moved, &lack)) return true;
    return err_set(err, ERR_INPUT, "%s", lack.text);
}

bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                  struct search_request *request, struct err *err)
{
    if (!plan_pins(arena, arguments, &request->pins, err)) return false;
    request->model = arguments->given ? arguments->given : plan_model(arena, arguments->model, err);
    if (!request->model) return false;
    if (!plan_cluster(arena, "plan", arguments->cluster, arguments, request, err)) return false;
    if (!check_offload(request, err)) return false;
    if (!price_apply(arena, &arguments->price, &request->cluster, 1, err)) return false;
    request->objective = plan_objective(arguments->objective);
    request->top = arguments->top;
    request->exhaustive = arguments->exhaustive;
    read_workload(arena, arguments, request);
    const struct plan_stack_question asked = {
        .clusters = &request->cluster,
        .cluster_count = 1,
        .model = request->model,
        .precision = request->workload.precision,
        .pins = &request->pins,
    };
    if (!plan_stack(arena, arguments->stack, &asked, &request->stack, err)) return false;
    plan_model_notes(request->model);
    note_described(request);
    return true;
}
