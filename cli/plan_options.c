#include "cli/plan_options.h"
#include "cli/local.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "plan/layout/annotations.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
         "config.json, .onnx, .pt2 or .mlir file, or the name of a shipped model (or its hub id)",
         NULL, 0, 0},
        {"CLUSTER", OPTION_TEXT, &a->cluster,
         "cluster file, or the name of a shipped one; NAME-xN has N nodes; local is this machine",
         NULL, 0, 0},
        {"--nodes", OPTION_I64, &a->nodes, "override the number of nodes", "N", 0, 0},
        {"--gpus", OPTION_I64, &a->gpus, "use only the first N GPUs", "N", 0, 0},
        {"--device-memory", OPTION_I64, &a->device_memory_bytes,
         "what each device has, in place of what its file says", "BYTES", 1, 1e15},
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
         "gradients by their global norm; off or 0: each bucket of them is updated as it comes",
         "on|off|0", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

static int put_pins(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"--stages", OPTION_TEXT, &a->stages, "layers of each stage", "10,12,12,10", 0, 0},
        {"--stage-tp", OPTION_TEXT, &a->stage_tp,
         "tp of each stage, where stages have meshes of their own (auto: searched)", "4,2,2", 0, 0},
        {"--stage-ranks", OPTION_TEXT, &a->stage_ranks,
         "GPUs of each stage, where stages have unlike numbers of them (auto: searched)", "8,4,4",
         0, 0},
        {"--branches", OPTION_TEXT, &a->branches,
         "branches of a model side by side, on stages of their own: auto, on or off (default auto: "
         "where a step is shorter)",
         "on", 0, 0},
        {"--replica-batches", OPTION_TEXT, &a->replica_batches,
         "micro-batches of each replica (rank of dp), where they differ", "5,5,3,3", 0, 0},
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

// A line may quote a file.
static void say(const char *word, const char *line)
{
    struct arena spare = {0};
    console_printf(stderr, "%s: %s\n", word, plain_copy(&spare, line));
    arena_free(&spare);
}

static void note(void *context, const char *line)
{
    (void)context;
    say("note", line);
}

static void warn(void *context, const char *line)
{
    (void)context;
    say("warning", line);
}

// "10,12,12,10"
static bool read_numbers(struct arena *arena, const char *option, const char *text, int low,
                         const int **numbers, int *numbers_count, struct err *err)
{
    int count = 1;
    for (const char *at = text; *at; at++) {
        count += *at == ',';
    }
    int *list = ARENA_NEW(arena, int, count);
    const char *at = text;
    for (int i = 0; i < count; i++) {
        char word[32];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        int64_t number = 0;
        if (!units_parse_i64(word, option, low, 1 << 20, &number, err)) return false;
        list[i] = (int)number;
        at += length + 1;
    }
    *numbers = list;
    *numbers_count = count;
    return true;
}

// "tp=16"
static bool read_forbidden(struct arena *arena, const char *text, struct pins *pins,
                           struct err *err)
{
    enum choice choice = CHOICE_TP;
    int64_t value = 0;
    if (!choice_parse_pair(arena, "--forbid: ", text, &choice, &value, err)) return false;
    int most = (int)(sizeof pins->forbidden / sizeof *pins->forbidden);
    if (pins->forbidden_count == most) {
        return err_set(err, ERR_USAGE, "--forbid: at most %d are allowed", most);
    }
    pins->forbidden[pins->forbidden_count].key = choice_name(choice);
    pins->forbidden[pins->forbidden_count++].value = value;
    return true;
}

static bool read_branches(const char *text, enum branches_wish *wish, struct err *err)
{
    static const char *const WISHES[] = {"auto", "off", "on"};
    for (int i = 0; text && i < 3; i++) {
        if (strcmp(text, WISHES[i]) != 0) continue;
        *wish = (enum branches_wish)i;
        return true;
    }
    return !text || err_set(err, ERR_USAGE, "--branches: \"%s\" is none of auto, off, on", text);
}

bool plan_pins(struct arena *arena, const struct plan_arguments *arguments, struct pins *pins,
               struct err *err)
{
    *pins = pins_none();
    if (!choice_pins(arguments->choices, pins, err)) return false;
    for (int i = 0; i < arguments->forbid.count; i++) {
        if (!read_forbidden(arena, arguments->forbid.items[i], pins, err)) return false;
    }
    if (arguments->stages && !read_numbers(arena, "--stages", arguments->stages, 0,
                                           &pins->stage_layers, &pins->stage_layers_count, err))
        return false;
    pins->search_stage_tp = arguments->stage_tp && strcmp(arguments->stage_tp, "auto") == 0;
    if (arguments->stage_tp && !pins->search_stage_tp &&
        !read_numbers(arena, "--stage-tp", arguments->stage_tp, 1, &pins->stage_tp,
                      &pins->stage_tp_count, err))
        return false;
    pins->search_stage_ranks =
        arguments->stage_ranks && strcmp(arguments->stage_ranks, "auto") == 0;
    if (arguments->stage_ranks && !pins->search_stage_ranks &&
        !read_numbers(arena, "--stage-ranks", arguments->stage_ranks, 1, &pins->stage_ranks,
                      &pins->stage_ranks_count, err))
        return false;
    if (!read_branches(arguments->branches, &pins->branches, err)) return false;
    return !arguments->replica_batches ||
           read_numbers(arena, "--replica-batches", arguments->replica_batches, 1,
                        &pins->replica_micro_batches, &pins->replica_count, err);
}

// The layouts of the file that --annotate names, as pins.
static bool plan_annotations(struct arena *arena, const struct plan_arguments *arguments,
                             const struct model_config *model, struct pins *pins, struct err *err)
{
    enum { LIMIT_BYTES = 1 << 20 };
    const struct import_options fused = {.flash = true}, chain = {.flash = false};
    pins->per_operator = arguments->per_operator;
    if (!arguments->annotate) return true;
    if (arguments->per_operator)
        return err_set(err, ERR_USAGE, "--annotate and --per-operator: give one of them");
    size_t bytes = 0;
    const char *text = file_read(arena, arguments->annotate, LIMIT_BYTES, &bytes, err);
    if (!text) return false;
    const struct graph *const graphs[] = {model_graph(arena, model, &fused),
                                          model_graph(arena, model, &chain)};
    struct annotations annotations;
    if (!annotations_read(arena, arguments->annotate, text, graphs, 2, pins->stage_ranks_count,
                          &annotations, err))
        return false;
    pins->layouts = annotations.rules;
    pins->layout_count = annotations.count;
    return true;
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

struct inquiry plan_asked(const struct plan_arguments *arguments)
{
    struct inquiry inquiry = inquiry_start();
    inquiry.model = arguments->model;
    inquiry.cluster = arguments->cluster;
    inquiry.stack = arguments->stack;
    inquiry.kernels = arguments->kernels;
    inquiry.nodes = arguments->nodes;
    inquiry.gpus = arguments->gpus;
    inquiry.device_memory_bytes = arguments->device_memory_bytes;
    inquiry.seq_len = arguments->seq_len;
    inquiry.global_batch = arguments->global_batch;
    inquiry.tokens = arguments->tokens;
    inquiry.expert_imbalance = arguments->expert_imbalance;
    inquiry.capacity_factor = arguments->capacity_factor;
    inquiry.unclipped = arguments->clip && strcmp(arguments->clip, "on") != 0;
    inquiry.precision = arguments->precision;
    inquiry.optimizer = arguments->optimizer;
    inquiry.objective = plan_objective(arguments->objective);
    inquiry.top = arguments->top;
    inquiry.exhaustive = arguments->exhaustive;
    inquiry.ear = (struct inquiry_ear){.note = note, .warn = warn};
    return inquiry;
}

bool plan_cluster(struct arena *arena, const char *command, const char *name,
                  const struct plan_arguments *arguments, struct search_request *request,
                  struct err *err)
{
    const struct inquiry inquiry = plan_asked(arguments);
    struct cluster *cluster =
        local_or_load(arena, command, name, arguments->ranks, &request->stack, err);
    if (!cluster) return false;
    reliability_apply(&arguments->reliability, &cluster->failures);
    return inquiry_cluster(arena, &inquiry, cluster, request, err);
}

bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                  struct search_request *request, struct err *err)
{
    struct inquiry inquiry = plan_asked(arguments);
    if (!plan_pins(arena, arguments, &inquiry.pins, err)) return false;
    request->model = arguments->given ? arguments->given : inquiry_model(arena, &inquiry, err);
    if (!request->model || !plan_annotations(arena, arguments, request->model, &inquiry.pins, err))
        return false;
    return plan_cluster(arena, "plan", arguments->cluster, arguments, request, err) &&
           price_apply(arena, &arguments->price, &request->cluster, 1, err) &&
           inquiry_request(arena, &inquiry, request, err);
}
