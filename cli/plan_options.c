#include "cli/plan_options.h"
#include "cli/local.h"
#include "plan/passes.h"
#include "planner/choice.h"
#include "topologies/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const int64_t DEFAULT_SEQ_LEN_MOST = 4096;

struct plan_arguments plan_arguments_default(void)
{
    return (struct plan_arguments){.optimizer = "adamw",
                                   .objective = "time",
                                   .expert_imbalance = 1,
                                   .top = 5,
                                   .reliability = reliability_arguments_default()};
}

static int put_workload(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"MODEL", OPTION_TEXT, &a->model,
         "Hugging Face config.json, or the name of a shipped model", NULL, 0, 0},
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
         0, 0},
        {"--expert-imbalance", OPTION_F64, &a->expert_imbalance,
         "rows of the busiest expert group over the mean (default 1: balanced)", "X", 1, 1e6},
        {"--capacity-factor", OPTION_F64, &a->capacity_factor,
         "rows an expert has room for over the mean (default 0: no token is dropped)", "X", 0, 1e6},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

static int put_pins(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"Pins", OPTION_GROUP, NULL,
         "what is pinned is kept, what is not is searched; N or LOW..HIGH", NULL, 0, 0},
        {"--dp", OPTION_RANGE, &a->degree[AXIS_DP], "data parallel size", NULL, 0, 0},
        {"--tp", OPTION_RANGE, &a->degree[AXIS_TP], "tensor parallel size", NULL, 0, 0},
        {"--sp", OPTION_CHOICE, &a->sp, "sequence parallel beside tp", "on|off", 0, 0},
        {"--cp", OPTION_RANGE, &a->degree[AXIS_CP], "context parallel size", NULL, 0, 0},
        {"--cp-kind", OPTION_CHOICE, &a->cp_kind, "how attention gets the keys of other ranks",
         "ring|allgather|ulysses", 0, 0},
        {"--pp", OPTION_RANGE, &a->degree[AXIS_PP], "pipeline stages", NULL, 0, 0},
        {"--vpp", OPTION_RANGE, &a->vpp, "model chunks of a stage", NULL, 0, 0},
        {"--ep", OPTION_RANGE, &a->degree[AXIS_EP], "expert parallel size", NULL, 0, 0},
        {"--etp", OPTION_RANGE, &a->degree[AXIS_ETP], "tensor parallel size inside an expert", NULL,
         0, 0},
        {"--micro-batch", OPTION_RANGE, &a->micro_batch, "sequences of a micro-batch", NULL, 0, 0},
        {"--zero", OPTION_RANGE, &a->zero, "sharding: 1 optimizer, 2 gradients, 3 parameters", NULL,
         0, 3},
        {"--zero-group", OPTION_RANGE, &a->zero_group, "ranks a shard group spans (0: all of dp)",
         NULL, 0, 1 << 30},
        {"--recompute", OPTION_WORDS, &a->recompute,
         "activations computed again in backward; selective: those of attention; a list: those of "
         "the classes named",
         "none|selective|full|auto|attention|norm|activation|mlp|experts|mla-up", 0, 0},
        {"--recompute-layers", OPTION_RANGE, &a->recompute_layers,
         "only in the first N layers of each stage (default with --recompute: all)", NULL, 0,
         1 << 20},
        {"--schedule", OPTION_CHOICE, &a->schedule, "pipeline schedule",
         "gpipe|1f1b|interleaved|zb-h1|zb-h2|zb-v|zb-auto", 0, 0},
        {"--in-flight", OPTION_RANGE, &a->in_flight,
         "micro-batches a stage may hold under zb-auto (0: as many as stages)", NULL, 0, 1 << 30},
        {"--offload", OPTION_TEXT, &a->offload,
         "off the device: optimizer, activations, activations:N (of the first N layers), classes "
         "of "
         "--recompute; each @nvme; auto: searched (default none)",
         "none|auto|WORDS", 0, 0},
        {"--stages", OPTION_TEXT, &a->stages, "layers of each stage", "10,12,12,10", 0, 0},
        {"--attention", OPTION_CHOICE, &a->attention, "attention kernel", "flash|unfused", 0, 0},
        {"--overlap", OPTION_WORDS, &a->overlap, "communication beside compute",
         "none|grad-reduce|param-gather|tp|pp|cp|ep", 0, 0},
        {"--bucket-bytes", OPTION_INT, &a->bucket_bytes,
         "of gradient reduction (default as the stack has it)", NULL, 1, 1 << 30},
        {"--passes", OPTION_WORDS, &a->passes,
         "passes over graph and program (default all that the stack can do)",
         "none|all|attention|fusion|buckets|combine|latency-hiding|streams|early-stop", 0, 0},
        {"--forbid", OPTION_TEXTS, &a->forbid, "exclude a value, may be repeated", "KEY=VALUE", 0,
         0},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

static int put_search(struct plan_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"Search", OPTION_GROUP, NULL, "what is wanted of it", NULL, 0, 0},
        {"--stack", OPTION_TEXT, &a->stack,
         "software that will run it: a file or a shipped name (default meshwright; on CPUs "
         "meshwright-cpu)",
         "NAME", 0, 0},
        {"--kernels", OPTION_TEXT, &a->kernels,
         "measured kernels that override the formulas: a file or a shipped name", "NAME", 0, 0},
        {"--objective", OPTION_CHOICE, &a->objective, "(default time)", "time|cost|memory", 0, 0},
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
    assert(count <= PLAN_OPTION_COUNT);
    return count;
}

static void warn(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "warning: %s\n", line);
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

static bool pin_word(struct pins *pins, enum choice choice, const char *word, struct err *err)
{
    int64_t value = 0;
    if (!word) return true;
    if (!choice_parse(choice, word, &value, err)) return false;
    pins_set(pins, choice, value, value);
    return true;
}

static bool pins_recompute(const struct plan_arguments *arguments)
{
    return arguments->recompute && strcmp(arguments->recompute, "auto") != 0;
}

static bool read_offload(const char *words, struct pins *pins, struct err *err)
{
    struct offload offload;
    if (!words) return true;
    pins->search_offload = strcmp(words, "auto") == 0;
    if (pins->search_offload) return true;
    if (!offload_parse(words, &offload)) {
        return err_set(err, ERR_USAGE,
                       "--offload: \"%s\" is neither none nor auto nor a list of optimizer, "
                       "activations and classes of operators, each with :N or @nvme",
                       words);
    }
    int64_t value = offload_value(&offload);
    pins_set(pins, CHOICE_OFFLOAD, value, value);
    return true;
}

// Lists in which some words stand alone.
static bool pin_masks(const struct plan_arguments *arguments, struct pins *pins, struct err *err)
{
    unsigned overlap = 0, passes = 0, classes = 0;
    enum recompute recompute = RECOMPUTE_NONE;
    if (arguments->overlap) {
        if (!overlap_parse(arguments->overlap, &overlap)) {
            return err_set(err, ERR_USAGE, "--overlap: \"none\" stands alone");
        }
        pins->overlap = (int)overlap;
    }
    if (arguments->passes && strcmp(arguments->passes, "all") != 0) {
        if (!pass_parse(arguments->passes, &passes)) {
            return err_set(err, ERR_USAGE, "--passes: \"none\" and \"all\" stand alone");
        }
        pins->passes = (int)passes;
    }
    if (!pins_recompute(arguments)) return true;
    if (!recompute_parse(arguments->recompute, &recompute, &classes)) {
        return err_set(err, ERR_USAGE,
                       "--recompute: \"none\", \"selective\", \"full\" and \"auto\" stand alone");
    }
    pins->recompute = recompute_value(recompute, classes);
    return true;
}

bool plan_pins(struct arena *arena, const struct plan_arguments *arguments, struct pins *pins,
               struct err *err)
{
    *pins = pins_none();
    memcpy(pins->degree, arguments->degree, sizeof pins->degree);
    pins->vpp = arguments->vpp;
    pins->micro_batch = arguments->micro_batch;
    pins->zero = arguments->zero;
    pins->zero_group = arguments->zero_group;
    pins->recompute_layers = arguments->recompute_layers;
    pins->in_flight = arguments->in_flight;
    int bucket_bytes = arguments->bucket_bytes;
    if (bucket_bytes > 0) pins_set(pins, CHOICE_BUCKET_BYTES, bucket_bytes, bucket_bytes);
    // "--recompute full" alone means every layer, as every framework has it.
    if (pins_recompute(arguments) && !arguments->recompute_layers.set) {
        pins_set(pins, CHOICE_RECOMPUTE_LAYERS, -1, -1);
    }
    if (!pin_masks(arguments, pins, err)) return false;
    if (!read_offload(arguments->offload, pins, err)) return false;
    for (int i = 0; i < arguments->forbid.count; i++) {
        if (!read_forbidden(arena, arguments->forbid.items[i], pins, err)) return false;
    }
    if (arguments->stages && !read_stages(arena, arguments->stages, pins, err)) return false;
    return pin_word(pins, CHOICE_SP, arguments->sp, err) &&
           pin_word(pins, CHOICE_CP_KIND, arguments->cp_kind, err) &&
           pin_word(pins, CHOICE_SCHEDULE, arguments->schedule, err) &&
           pin_word(pins, CHOICE_ATTENTION, arguments->attention, err);
}

static bool is_cpu(const struct cluster *cluster)
{
    return strcmp(cluster->nodes[0].device->kind, "cpu") == 0;
}

int64_t plan_seq_len(struct arena *arena, const struct model_config *model, int64_t given)
{
    struct import_options options = {.flash = true};
    int64_t most = model_graph(arena, model, &options)->seq_len_max;
    if (!given) {
        int64_t taken = most > 0 && most < DEFAULT_SEQ_LEN_MOST ? most : DEFAULT_SEQ_LEN_MOST;
        fprintf(stderr, "note: --seq-len not given, taking %lld\n", (long long)taken);
        return taken;
    }
    if (most > 0 && given > most) {
        fprintf(stderr,
                "warning: --seq-len %lld is past the %lld positions the model was made for\n",
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
        workload->global_batch = batch > 0 ? batch : ranks;
        fprintf(stderr, "note: --global-batch not given, taking %lld sequences\n",
                (long long)workload->global_batch);
    }
}

// What is taken because the pins describe a run, where a search would have chosen.
static void note_described(const struct search_request *request)
{
    enum attention attention;
    if (search_describes_stages(request)) {
        fputs("note: --stages not given, taking even ones: --pp, --schedule and --micro-batch "
              "describe a run\n",
              stderr);
    }
    if (search_describes_attention(request, &attention)) {
        fprintf(stderr,
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

bool plan_kernels(struct arena *arena, const char *name, const struct cluster **cluster,
                  struct err *err)
{
    if (!name) return true;
    const struct kernel_table *table = kernels_load(arena, name, err);
    *cluster = table ? cluster_with_kernels(arena, *cluster, table, err) : NULL;
    return *cluster != NULL;
}

static bool load_stack(struct arena *arena, const struct plan_arguments *arguments,
                       struct search_request *request, struct err *err)
{
    const char *name = arguments->stack;
    if (!name && request->stack) return true;
    if (!name) name = is_cpu(request->cluster) ? CPU_STACK : "meshwright";
    request->stack = stack_load(arena, name, err);
    return request->stack != NULL;
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
    if (!load_stack(arena, arguments, request, err)) return false;
    request->fabrics = request->stack ? fabrics_load(arena, err) : NULL;
    return request->fabrics && fabrics_cover(request->fabrics, cluster, err);
}

bool plan_request(struct arena *arena, const struct plan_arguments *arguments,
                  struct search_request *request, struct err *err)
{
    if (!plan_pins(arena, arguments, &request->pins, err)) return false;
    request->model = plan_model(arena, arguments->model, err);
    if (!request->model) return false;
    if (!plan_cluster(arena, "plan", arguments->cluster, arguments, request, err)) return false;
    request->objective = plan_objective(arguments->objective);
    request->top = arguments->top;
    request->exhaustive = arguments->exhaustive;
    read_workload(arena, arguments, request);
    note_described(request);
    return true;
}
