#include "cli/local.h"
#include "cli/whatif.h"

#include "core/console.h"
#include "core/names.h"
#include "core/plain.h"
#include "core/units.h"
#include "planner/choice.h"
#include "reports/whatif/whatif_refine.h"
#include "topologies/offers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Nodes tried where a limit is asked for and neither counts nor sizes are given.
static const char DEFAULT_NODES[] = "1..128";

// Rows of `plan` that are lists here, or have no meaning for many plans.
static const char *const REPLACED[] = {"MODEL",       "CLUSTER",   "--nodes",
                                       "--gpus",      "--seq-len", "--global-batch",
                                       "--precision", "--top",     "--exhaustive"};

static bool is_replaced(const char *name)
{
    return NAME_INDEX(REPLACED, name) >= 0;
}

static int put_sweep(struct whatif_arguments *a, struct option *options)
{
    const char **lists = a->lists;
    const struct option rows[] = {
        {"MODEL", OPTION_TEXT, &a->plan.model,
         "Hugging Face config.json, or the name of a shipped model", NULL, 0, 0},
        {"[CLUSTER...]", OPTION_TEXTS, &a->clusters,
         "cluster files, or names of shipped ones; NAME-xN has N nodes", NULL, 0, 0},
        {"Sweep", OPTION_GROUP, NULL,
         "lists: 8,16,24, or 8..1024 doubling, or 8..64:8 in steps; all combinations are asked",
         NULL, 0, 0},
        {"--gpus", OPTION_TEXT, &lists[SWEEP_GPUS], "of as many nodes as they need", "LIST", 0, 0},
        {"--nodes", OPTION_TEXT, &lists[SWEEP_NODES], "nodes of each cluster", "LIST", 0, 0},
        {"--seq-len", OPTION_TEXT, &lists[SWEEP_SEQ_LEN], "tokens of a sequence", "LIST", 0, 0},
        {"--global-batch", OPTION_TEXT, &lists[SWEEP_GLOBAL_BATCH], "sequences of a step", "LIST",
         0, 0},
        {"--batch-per-gpu", OPTION_I64, &a->batch_per_gpu,
         "sequences of a step a GPU: the batch grows with the GPUs", "N", 1, 1 << 20},
        {"--precision", OPTION_TEXT, &lists[SWEEP_PRECISION],
         "fp32, fp16, bf16, fp8, fp4 (default bf16; on CPUs fp32)", "LIST", 0, 0},
        {"--bandwidth-factor", OPTION_TEXT, &lists[SWEEP_BANDWIDTH_FACTOR], "on that of the NICs",
         "LIST", 0, 0},
        {"--intra-bandwidth-factor", OPTION_TEXT, &lists[SWEEP_INTRA_BANDWIDTH_FACTOR],
         "on that between the GPUs of a node", "LIST", 0, 0},
        {"--memory-factor", OPTION_TEXT, &lists[SWEEP_MEMORY_FACTOR], "on that of a GPU", "LIST", 0,
         0},
        {"--flops-factor", OPTION_TEXT, &lists[SWEEP_FLOPS_FACTOR], "on the peak rates of a GPU",
         "LIST", 0, 0},
        {"--price-factor", OPTION_TEXT, &lists[SWEEP_PRICE_FACTOR], "on the price", "LIST", 0, 0},
        {"Question", OPTION_GROUP, NULL,
         "with --tokens: the cheapest in time, the fastest for the money; without: how many tokens",
         NULL, 0, 0},
        {"--deadline", OPTION_TEXT, &a->deadline, "the run has to end in: 12h, 30d, 1.5y",
         "DURATION", 0, 0},
        {"--budget", OPTION_F64, &a->budget, "money there is, in the currency of the prices", "N",
         1e-9, 1e18},
        {"--min-gpus", OPTION_FLAG, &a->min_gpus,
         "the smallest number of GPUs of each cluster (of --gpus) that a plan fits on", NULL, 0, 0},
        {"--largest-model", OPTION_FLAG, &a->largest_model,
         "the largest model of this shape that fits: on the GPUs, with host memory, with NVMe",
         NULL, 0, 0},
        {"--tensor-kinds", OPTION_FLAG, &a->tensor_kinds,
         "tensor parallel ranks in a line and as grids, side by side (with --tp N)", NULL, 0, 0},
        {"--releases", OPTION_FLAG, &a->releases,
         "what upgrading the software gains: each release of --stack NAME, or NAME@RELEASE, side "
         "by side",
         NULL, 0, 0},
        {"--scaling", OPTION_FLAG, &a->scaling,
         "how speed grows with the GPUs of one cluster (default: one node to 1,024 GPUs)", NULL, 0,
         0},
        {"--calibrate", OPTION_TEXT, &a->calibrate,
         "tokens/s a GPU measured at so many GPUs; the rest is scaled by it", "GPUS[=VALUE]", 0, 0},
        {"--measured", OPTION_TEXT, &a->measured,
         "CSV of gpus,tokens_per_s_per_gpu to set beside the predictions", "FILE", 0, 0},
        {"--offers", OPTION_TEXT, &a->offers,
         "what can be rented, instead of CLUSTER: a file or a shipped name", "FILE", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

static int put_output(struct whatif_arguments *a, struct option *options)
{
    const struct option rows[] = {
        {"Output", OPTION_GROUP, NULL, "a table on stdout, all scenarios in files", NULL, 0, 0},
        {"--top", OPTION_INT, &a->top, "rows of the table, best first (default 20)", "N", 1,
         SWEEP_SCENARIO_MAX},
        {"--json", OPTION_FLAG, &a->json, "print JSON instead of the table", NULL, 0, 0},
        {"--csv", OPTION_FLAG, &a->csv, "print CSV instead of the table", NULL, 0, 0},
        {"-o", OPTION_OUTPUT, &a->folder,
         "write a page, its plots, whatif.csv and whatif.json into it; - prints the page", "DIR", 0,
         0},
        OPTION_FORCE_ROW,
        {"--workers", OPTION_INT, &a->workers, "searches at once (default: one a processor)", "N",
         1, 256},
    };
    memcpy(options, rows, sizeof rows);
    return sizeof rows / sizeof *rows;
}

int whatif_options(struct whatif_arguments *arguments, struct option options[WHATIF_OPTION_COUNT])
{
    struct option rows[PLAN_OPTION_COUNT] = {0};
    int count = put_sweep(arguments, options);
    int row_count = plan_options(&arguments->plan, rows);
    for (int i = 0; i < row_count; i++) {
        if (!is_replaced(rows[i].name)) options[count++] = rows[i];
    }
    count += put_output(arguments, options + count);
    assert(count < WHATIF_OPTION_COUNT);
    return count;
}

static bool has_value(const struct plan_arguments *arguments, const char *name, size_t length,
                      bool *known)
{
    struct plan_arguments copy = *arguments;
    struct option rows[PLAN_OPTION_COUNT] = {0};
    int count = plan_options(&copy, rows);
    *known = false;
    for (int i = 0; i < count; i++) {
        if (is_replaced(rows[i].name) || strlen(rows[i].name) != length) continue;
        if (strncmp(rows[i].name, name, length) != 0 || rows[i].kind == OPTION_GROUP) continue;
        *known = true;
        return rows[i].kind != OPTION_FLAG;
    }
    return false;
}

// What a price became stands in the row: a factor may have changed it.
static bool is_price(const char *name, size_t length)
{
    static const char *const NAMES[] = {"--price-per-gpu-hour", "--currency", "--currency-rate"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strlen(NAMES[i]) == length && strncmp(NAMES[i], name, length) == 0) return true;
    }
    return false;
}

// The options of `plan` among the arguments, as they were written.
static const char *shared_options(struct arena *arena, const struct plan_arguments *arguments,
                                  int argc, char **argv)
{
    const char *text = "";
    for (int i = 1; i < argc; i++) {
        bool known = false;
        size_t length = strcspn(argv[i], "=");
        bool takes = has_value(arguments, argv[i], length, &known);
        if (!known || is_price(argv[i], length)) continue;
        text = arena_print(arena, "%s %s", text, plain_shell(arena, argv[i]));
        if (takes && !argv[i][length] && i + 1 < argc) {
            text = arena_print(arena, "%s %s", text, plain_shell(arena, argv[++i]));
        }
    }
    return text;
}

static struct price *prices_of(struct arena *arena, const struct cluster *const *clusters,
                               int count)
{
    struct price *prices = ARENA_NEW(arena, struct price, count);
    for (int i = 0; i < count; i++) {
        prices[i] = clusters[i]->price;
    }
    return prices;
}

// Where not all have a price, GPU-hours are what is compared.
static void note_unpriced(const struct cluster *const *clusters, int count)
{
    const struct cluster *without = NULL;
    int priced_count = 0;
    for (int i = 0; i < count; i++) {
        priced_count += clusters[i]->price.per_gpu_hour > 0;
        if (!without && clusters[i]->price.per_gpu_hour <= 0) without = clusters[i];
    }
    if (!without || priced_count == 0) return;
    console_printf(stderr,
                   "note: %s has no price, comparing GPU-hours; --price-per-gpu-hour gives one\n",
                   without->name);
}

static bool check_price_factor(const struct whatif_arguments *arguments,
                               const struct cluster *const *clusters, int count, struct err *err)
{
    if (!arguments->lists[SWEEP_PRICE_FACTOR]) return true;
    for (int i = 0; i < count; i++) {
        if (clusters[i]->price.per_gpu_hour > 0) return true;
    }
    return err_set(err, ERR_USAGE,
                   "--price-factor: no cluster has a price; --price-per-gpu-hour gives one");
}

static bool load_clusters(struct arena *arena, const struct whatif_arguments *arguments,
                          struct whatif_job *job, struct err *err)
{
    int count = arguments->clusters.count;
    const struct cluster **clusters = ARENA_NEW(arena, const struct cluster *, count);
    for (int i = 0; i < count; i++) {
        struct search_request request = {0};
        const char *name = arguments->clusters.items[i];
        if (!plan_cluster(arena, "whatif", name, &arguments->plan, &request, err)) return false;
        clusters[i] = request.cluster;
        const struct stack *stack = job->request.stack;
        bool is_same = request.stack == stack ||
                       (request.stack && stack && strcmp(stack->name, request.stack->name) == 0);
        if (i > 0 && !is_same && !arguments->plan.stack) {
            return err_set(err, ERR_USAGE,
                           "clusters %s and %s do not run on one stack: --stack has to name one "
                           "for all",
                           arguments->clusters.items[0], name);
        }
        job->request.stack = request.stack;
        job->request.fabrics = request.fabrics;
    }
    job->words.prices = prices_of(arena, clusters, count);
    job->sweep.clusters = clusters;
    job->sweep.words = arguments->clusters.items;
    job->sweep.cluster_count = count;
    if (!price_apply(arena, &arguments->plan.price, clusters, count, err)) return false;
    note_unpriced(clusters, count);
    return check_price_factor(arguments, clusters, count, err);
}

// Credits are in the currency of the prices.
static bool price_offers(struct arena *arena, const struct whatif_arguments *arguments,
                         const struct offers *offers, const struct cluster **clusters, int count,
                         struct whatif_job *job, struct err *err)
{
    const struct price_arguments *price = &arguments->plan.price;
    if (!price_apply(arena, price, clusters, count, err)) return false;
    double rate = price_rate(arena, price, offers->currency, err);
    job->question.credits = offers->credits * (rate > 0 ? rate : 1);
    return !err->kind;
}

// What may be rented takes the place of the clusters.
static bool load_offers(struct arena *arena, const struct whatif_arguments *arguments,
                        struct whatif_job *job, struct err *err)
{
    const struct offers *offers = offers_load(arena, arguments->offers, err);
    if (!offers) return false;
    for (int i = 0; i < offers->count; i++)
        local_note(offers->items[i].cluster);
    int count = 0;
    const struct offer_cluster *rented = offers_clusters(arena, offers, &count);
    if (count == 0) {
        return err_set(err, ERR_INPUT, "%s: no GPU of any offer is free", arguments->offers);
    }
    const struct cluster **clusters = ARENA_NEW(arena, const struct cluster *, count);
    for (int i = 0; i < count; i++) {
        reliability_apply(&arguments->plan.reliability, &rented[i].cluster->failures);
        clusters[i] = rented[i].cluster;
        if (!inquiry_kernels(arena, arguments->plan.kernels, &clusters[i], err)) return false;
    }
    job->request.fabrics = fabrics_load(arena, err);
    if (!job->request.fabrics) return false;
    for (int i = 0; i < count; i++) {
        if (!fabrics_cover(job->request.fabrics, clusters[i], err)) return false;
    }
    if (!price_offers(arena, arguments, offers, clusters, count, job, err)) return false;
    job->sweep.clusters = clusters;
    job->sweep.cluster_count = count;
    return true;
}

static bool read_lists(struct arena *arena, const struct whatif_arguments *arguments,
                       struct whatif_job *job, struct err *err)
{
    for (int axis = 0; axis < SWEEP_AXIS_COUNT; axis++) {
        const char *text = arguments->lists[axis];
        if (!text) continue;
        if (!sweep_parse(arena, (enum sweep_axis)axis, text, &job->sweep.axes[axis], err)) {
            return false;
        }
    }
    return true;
}

// A limit asks how many GPUs to rent: clusters of one node are tried at several sizes.
static bool default_nodes(struct arena *arena, const struct whatif_arguments *arguments,
                          struct whatif_job *job, struct err *err)
{
    bool limited = arguments->deadline || arguments->budget > 0;
    bool sized = arguments->lists[SWEEP_GPUS] || arguments->lists[SWEEP_NODES];
    if (!limited || sized || arguments->min_gpus || arguments->largest_model) return true;
    if (arguments->offers || whatif_is_scaling(arguments)) return true;
    for (int i = 0; i < job->sweep.cluster_count; i++) {
        const struct cluster *cluster = job->sweep.clusters[i];
        if (cluster->node_count > 1 || cluster->nodes[0].nics.count == 0) return true;
    }
    console_printf(stderr, "note: neither --gpus nor --nodes given, trying %s nodes\n",
                   DEFAULT_NODES);
    return sweep_parse(arena, SWEEP_NODES, DEFAULT_NODES, &job->sweep.axes[SWEEP_NODES], err);
}

static void default_workload(struct arena *arena, const struct whatif_arguments *arguments,
                             struct whatif_job *job)
{
    struct sweep *sweep = &job->sweep;
    const struct cluster *first = sweep->cluster_count > 0 ? sweep->clusters[0] : NULL;
    const struct inquiry asked = plan_asked(&arguments->plan);
    inquiry_workload(&asked, first, &sweep->workload);
    const struct sweep_list *lengths = &sweep->axes[SWEEP_SEQ_LEN];
    int64_t longest = 0;
    for (int i = 0; i < lengths->count; i++) {
        if (lengths->values[i] > (double)longest) longest = (int64_t)lengths->values[i];
    }
    sweep->workload.seq_len = inquiry_seq_len(arena, &asked, job->request.model, longest);
    const struct sweep_list *precisions = &sweep->axes[SWEEP_PRECISION];
    if (precisions->count > 0) {
        sweep->workload.precision = (enum precision)(int)precisions->values[0];
    }
    sweep->sequences_per_gpu = arguments->batch_per_gpu;
    if (sweep->axes[SWEEP_GLOBAL_BATCH].count == 0 && sweep->sequences_per_gpu == 0) {
        sweep->batch_tokens = INQUIRY_BATCH_TOKENS;
        console_printf(stderr,
                       "note: --global-batch not given, taking 2^n sequences of at most %lld "
                       "tokens a step\n",
                       (long long)INQUIRY_BATCH_TOKENS);
    }
}

// The narrowest of the precisions asked for: what runs it runs the others.
static enum precision narrowest(const struct sweep *sweep)
{
    const struct sweep_list *list = &sweep->axes[SWEEP_PRECISION];
    enum precision found = sweep->workload.precision;
    for (int i = 0; i < list->count; i++) {
        enum precision other = (enum precision)(int)list->values[i];
        if (precision_bytes(other) < precision_bytes(found)) found = other;
    }
    return found;
}

bool whatif_stack(struct arena *arena, struct whatif_job *job,
                  const struct cluster *const *clusters, int cluster_count, struct err *err)
{
    struct inquiry asked = plan_asked(&job->arguments->plan);
    asked.pins = job->sweep.pins;
    // Software that has them.
    if (job->arguments->tensor_kinds) pins_set(&asked.pins, CHOICE_TP_KIND, TP_2D, TP_2D);
    return inquiry_stack(arena, &asked, job->request.model, clusters, cluster_count,
                         narrowest(&job->sweep), &job->request.stack, err);
}

// From one node to 1,024 GPUs, doubling.
static bool default_counts(struct arena *arena, const struct whatif_arguments *arguments,
                           struct whatif_job *job, struct err *err)
{
    enum { MOST = 1024 };
    if (!whatif_is_scaling(arguments) || arguments->lists[SWEEP_GPUS] ||
        arguments->lists[SWEEP_NODES]) {
        return true;
    }
    int per_node = job->sweep.clusters[0]->nodes[0].gpus;
    const char *text = per_node < MOST
                           ? arena_print(arena, "%d..%d", per_node, MOST)
                           : arena_print(arena, "%d..%lld", per_node, 8 * (long long)per_node);
    console_printf(stderr, "note: neither --gpus nor --nodes given, trying %s GPUs\n", text);
    return sweep_parse(arena, SWEEP_GPUS, text, &job->sweep.axes[SWEEP_GPUS], err);
}

// Sizes that double stand for those between; sizes of a list, or in steps, for themselves.
static bool is_range(const struct whatif_arguments *arguments, const struct whatif_job *job)
{
    enum sweep_axis axis = sweep_size_axis(&job->sweep);
    const char *text = arguments->lists[axis];
    if (job->sweep.axes[axis].count == 0) return false;
    return !text || (strstr(text, "..") && !strchr(text, ':'));
}

bool whatif_is_scaling(const struct whatif_arguments *arguments)
{
    return arguments->scaling || arguments->calibrate || arguments->measured;
}

bool whatif_job_make(struct arena *arena, const struct whatif_arguments *arguments, int argc,
                     char **argv, struct whatif_job *job, struct err *err)
{
    *job = (struct whatif_job){.arguments = arguments};
    if (!plan_pins(arena, &arguments->plan, &job->sweep.pins, err)) return false;
    if (!read_lists(arena, arguments, job, err)) return false;
    struct whatif_question *question = &job->question;
    question->tokens = arguments->plan.tokens;
    question->budget = arguments->budget;
    if (arguments->deadline &&
        !units_parse_duration(arguments->deadline, "--deadline", &question->deadline_s, err)) {
        return false;
    }
    const struct inquiry asked = plan_asked(&arguments->plan);
    job->request.model = inquiry_model(arena, &asked, err);
    if (!job->request.model) return false;
    bool loaded = arguments->offers ? load_offers(arena, arguments, job, err)
                                    : load_clusters(arena, arguments, job, err);
    if (!loaded) return false;
    if (job->sweep.cluster_count > 0 && (!default_nodes(arena, arguments, job, err) ||
                                         !default_counts(arena, arguments, job, err))) {
        return false;
    }
    job->request.bands = bands_load(arena, err);
    if (!job->request.bands) return false;
    job->request.objective = plan_objective(arguments->plan.objective);
    if (!plan_may_idle(&arguments->plan, &job->request.may_idle, err)) return false;
    job->request.workers = arguments->workers;
    job->request.nothing = SEARCH_CLOSEST;
    bool is_page = arguments->folder && strcmp(arguments->folder, "-") == 0;
    job->words.folder = is_page ? NULL : arguments->folder;
    job->refines =
        whatif_has_limit(&job->question) && !arguments->offers && is_range(arguments, job);
    inquiry_model_notes(&asked, job->request.model);
    default_workload(arena, arguments, job);
    const struct sweep *sweep = &job->sweep;
    bool is_open = !arguments->plan.stack && !job->request.stack && sweep->cluster_count > 0;
    if (sweep->cluster_count > 0 &&
        !whatif_stack(arena, job, sweep->clusters, sweep->cluster_count, err)) {
        return false;
    }
    const char *options = shared_options(arena, &arguments->plan, argc, argv);
    // `plan` asked of one of the clusters alone might take another.
    if (is_open) options = arena_print(arena, "%s --stack %s", options, job->request.stack->name);
    job->words.model = arguments->plan.model;
    job->words.options = options;
    return true;
}
