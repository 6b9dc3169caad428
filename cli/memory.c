#include "cli/commands.h"
#include "cli/memory_run.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/tables.h"
#include "core/file.h"
#include "core/plain.h"
#include "core/zip.h"
#include "cost_models/onnx_seconds.h"
#include "memory/from_onnx.h"
#include "memory/spill/spill.h"
#include "models/stablehlo.h"
#include "plan/parallel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { GRAPH_ALIGNMENT = 512 };  // what CUDA's allocators round to

enum input { INPUT_PACKING, INPUT_JSON, INPUT_ONNX };

// By what stands at the start: ONNX begins with control bytes, a .pt2 as zips do, StableHLO with
// a module, JSON with a
// bracket.
static bool find_input(const char *path, enum input *input, struct err *err)
{
    enum { START_BYTES = 4096 };
    char start[START_BYTES];
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        struct arena arena = {0};
        size_t bytes = 0;
        bool is_read = file_read(&arena, path, 0, &bytes, err) != NULL;
        arena_free(&arena);
        return is_read;
    }
    size_t bytes = fread(start, 1, sizeof start, stream);
    int error = ferror(stream) ? errno : 0;
    fclose(stream);
    if (error) return err_set(err, ERR_SYSTEM, "cannot read %s: %s", path, strerror(error));
    size_t at = bytes >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *input = INPUT_PACKING;
    for (; at < bytes && strchr(" \t\r\n", start[at]) && start[at]; at++)
        ;
    if (at == bytes) return true;
    if (start[at] == '{' || start[at] == '[') *input = INPUT_JSON;
    bool is_model = zip_is(start, bytes) || stablehlo_is(start, bytes);
    if ((unsigned char)start[at] < ' ' || is_model) *input = INPUT_ONNX;
    return true;
}

// Asked before anything is written.
static const char *wrote_text(struct arena *arena, const struct memory_arguments *arguments,
                              const char *what)
{
    const char *said = arguments->output ? output_said(arena, arguments->output) : "";
    const char *text = *said ? arena_print(arena, "%s: %s\n", said, what) : "";
    said = arguments->plot ? output_said(arena, arguments->plot) : "";
    return *said ? arena_print(arena, "%s%s: address over time\n", text, said) : text;
}

static bool draw_packing(struct arena *arena, const struct memory_arguments *arguments,
                         const struct pack_problem *problem, const struct memory_report *report,
                         struct err *err)
{
    int count = problem->count;
    int64_t *lower = ARENA_NEW(arena, int64_t, count), *upper = ARENA_NEW(arena, int64_t, count);
    int64_t *size = ARENA_NEW(arena, int64_t, count);
    for (int i = 0; i < count; i++) {
        lower[i] = problem->buffers[i].lower;
        upper[i] = problem->buffers[i].upper;
        size[i] = problem->buffers[i].size;
    }
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    const struct memory_plot plot = {
        .title = report->name,
        .time_label = "time",
        .lower = lower,
        .upper = upper,
        .size = size,
        .offset = answer->offsets,
        .count = count,
        .arena_bytes = answer->arena_bytes,
        .capacity = arguments->capacity,
    };
    return memory_draw(arena, arguments, &plot, err);
}

// What the column `alignment` says stands, 1 as well; without it the command line decides.
static void align(struct packing_file *file, struct pack_buffer *buffers, int64_t alignment)
{
    memcpy(buffers, file->problem.buffers, (size_t)file->problem.count * sizeof *buffers);
    for (int i = 0; i < file->problem.count; i++) {
        if (!file->has_alignment) buffers[i].alignment = alignment;
    }
    file->problem.buffers = buffers;
}

static int packing(struct arena *arena, const struct memory_arguments *arguments, struct err *err)
{
    struct packing_file file;
    if (!packing_load(arena, arguments->input, &file, err)) return exit_status(err);
    int64_t alignment = arguments->alignment ? arguments->alignment : 1;
    align(&file, ARENA_NEW(arena, struct pack_buffer, file.problem.count), alignment);
    file.problem.capacity = arguments->capacity;
    struct memory_methods methods = memory_methods_of(arguments);
    struct memory_schedule *rows = ARENA_NEW(arena, struct memory_schedule, methods.count);
    if (!memory_run_packing(arena, arguments, &file.problem, rows, err)) return exit_status(err);
    const char *slash = strrchr(arguments->input, '/');
    const struct memory_report report = {
        .name = plain_copy(arena, slash ? slash + 1 : arguments->input),
        .buffer_count = file.problem.count,
        .rows = rows,
        .row_count = methods.count,
        .alignment = alignment,
        .capacity = arguments->capacity,
    };
    const char *wrote = wrote_text(arena, arguments, "the same rows with their offsets");
    if (arguments->output) {
        const char *text = packing_text(arena, &file, rows[methods.count - 1].offsets);
        if (!file_write(arguments->output, text, strlen(text), err)) return exit_status(err);
    }
    if (!draw_packing(arena, arguments, &file.problem, &report, err)) return exit_status(err);
    return memory_answer(arena, arguments, &report, wrote);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// `operator_s`: see memory_spill.
static int graph(struct arena *arena, const struct memory_arguments *arguments,
                 const struct memory_graph *memory_graph, const double *operator_s, struct err *err)
{
    int64_t alignment = arguments->alignment ? arguments->alignment : GRAPH_ALIGNMENT;
    const struct spill_result *spilled = NULL;
    if (arguments->recompute || arguments->offload) {
        if (!memory_spill(arena, arguments, memory_graph, operator_s, alignment, &spilled, err))
            return exit_status(err);
        memory_graph = spilled->graph;
    }
    const struct memory_problem *problem =
        spilled ? spilled->problem : memory_problem_make(arena, memory_graph, alignment);
    struct memory_report report;
    if (!memory_run_graph(arena, arguments, memory_graph, problem, alignment,
                          spilled ? &spilled->schedule : NULL, &report, err))
        return exit_status(err);
    report.spilled = spilled;
    const struct memory_schedule *answer = &report.rows[report.row_count - 1];
    const char *wrote = wrote_text(arena, arguments, "order and offsets");
    if (arguments->output) {
        const char *text =
            ends_with(arguments->output, ".csv")
                ? memory_result_csv(arena, memory_graph, problem, answer)
                : memory_result_json(arena, memory_graph, problem, alignment, answer);
        if (!file_write(arguments->output, text, strlen(text), err)) return exit_status(err);
    }
    if (!memory_draw_graph(arena, arguments, problem, &report, err)) return exit_status(err);
    return memory_answer(arena, arguments, &report, wrote);
}

static const double *node_seconds(struct arena *arena, const struct memory_arguments *arguments,
                                  const struct onnx_graph *model, struct err *err)
{
    const struct cluster *cluster = cluster_load(arena, arguments->cluster, err);
    return cluster ? onnx_seconds(arena, model, cluster->nodes[0].device, err) : NULL;
}

static int onnx(struct arena *arena, const struct memory_arguments *arguments, struct err *err)
{
    enum optimizer optimizer = OPTIMIZER_ADAMW;
    if (!optimizer_from_name(arguments->optimizer, &optimizer)) {
        err_set(err, ERR_USAGE, "--optimizer: unknown \"%s\"", arguments->optimizer);
        return exit_status(err);
    }
    const struct onnx_options options = {
        .batch = arguments->batch,
        .training = arguments->training,
        .moment_count = optimizer_moment_count(optimizer),
    };
    const struct onnx_graph *model = onnx_load(arena, arguments->input, &options, err);
    if (!model) return exit_status(err);
    const struct memory_graph *made = memory_graph_from_onnx(arena, arguments->input, model, err);
    const double *operator_s = NULL;
    if (made && arguments->recompute) {
        if (!arguments->cluster)
            err_set(err, ERR_USAGE,
                    "--recompute of %s needs --cluster, whose device says what its "
                    "operators take",
                    arguments->input);
        else
            operator_s = node_seconds(arena, arguments, model, err);
        if (!operator_s) return exit_status(err);
    }
    return made ? graph(arena, arguments, made, operator_s, err) : exit_status(err);
}

static bool check_plan_only(const struct memory_arguments *arguments, enum input input,
                            struct err *err)
{
    if (arguments->policies)
        return err_set(err, ERR_USAGE, "--policies: %s is no plan", arguments->input);
    if (memory_asks_moments(arguments))
        return err_set(err, ERR_USAGE, "--offload moments: %s is no plan", arguments->input);
    const char *option = arguments->recompute ? "--recompute"
                         : arguments->offload ? "--offload"
                                              : NULL;
    if (input != INPUT_PACKING || !option) return true;
    return err_set(err, ERR_USAGE, "%s: %s is no plan and no graph", option, arguments->input);
}

// --policies places no tensors: what asks for that has no say beside it.
static bool check_policies(const struct memory_arguments *arguments, struct err *err)
{
    if (arguments->device_bytes && !arguments->policies)
        return err_set(err, ERR_USAGE, "--device-memory belongs to --policies");
    if (!arguments->policies) return true;
    const char *other = arguments->recompute   ? "--recompute"
                        : arguments->offload   ? "--offload"
                        : arguments->output    ? "-o"
                        : arguments->plot      ? "--plot"
                        : arguments->capacity  ? "--capacity"
                        : arguments->alignment ? "--alignment"
                                               : NULL;
    return !other || err_set(err, ERR_USAGE, "%s has no say beside --policies", other);
}

static int run(struct arena *arena, const struct memory_arguments *arguments, struct err *err)
{
    enum input input = INPUT_PACKING;
    if (arguments->recompute && memory_asks_moments(arguments))
        err_set(err, ERR_USAGE, "--recompute has no say beside --offload moments");
    if (err->kind || !check_policies(arguments, err)) return exit_status(err);
    if (!find_input(arguments->input, &input, err)) return exit_status(err);
    if (input != INPUT_JSON && !check_plan_only(arguments, input, err)) return exit_status(err);
    if (input == INPUT_PACKING) return packing(arena, arguments, err);
    if (input == INPUT_ONNX) return onnx(arena, arguments, err);
    struct json_document document;
    if (!json_load(arena, arguments->input, &document, err)) return exit_status(err);
    struct json root = json_root(&document);
    if (json_is_object(&root) && json_has(&root, "parallel")) {
        if (arguments->cluster)
            err_set(err, ERR_USAGE, "--cluster is of a graph: a plan has its own");
        if (err->kind) return exit_status(err);
        return arguments->policies ? memory_policies(arena, arguments, err)
                                   : memory_plan(arena, arguments, err);
    }
    if (!check_plan_only(arguments, input, err)) return exit_status(err);
    const struct memory_graph *made = memory_graph_load(arena, arguments->input, err);
    return made ? graph(arena, arguments, made, NULL, err) : exit_status(err);
}

// Whether the command is to run with them; 0 in `status` where help was asked for.
static bool take_arguments(int argc, char **argv, struct memory_arguments *taken, int *status,
                           struct err *err)
{
    struct memory_arguments a = *taken;
    const struct option options[] = {
        {"INPUT", OPTION_TEXT, &a.input,
         "plan.json, a graph (JSON, ONNX, .pt2, .mlir) or a packing problem (CSV: "
         "id,lower,upper,size)",
         NULL, 0, 0},
        {"--method", OPTION_CHOICE, &a.method, "how order and addresses are found (default roam)",
         "program|greedy|global-ilp|roam", 0, 0},
        {"--capacity", OPTION_I64, &a.capacity,
         "bytes that the arena may take; exit 1 where it needs more", "N", 0, 0},
        {"--alignment", OPTION_I64, &a.alignment,
         "of offsets and sizes (default 512); of offsets of a CSV without that column (default 1)",
         "N", 1, 1 << 30},
        {"--time-limit", OPTION_F64, &a.time_limit_s, "seconds a method (default 300; 0 = none)",
         "S", 0, 0},
        {"-o", OPTION_OUTPUT, &a.output,
         "order and offsets: JSON or, where it ends so, .csv (of a plan: of one stage); a plan "
         "without it "
         "is updated in place",
         "FILE", 0, 0},
        {"--plot", OPTION_OUTPUT, &a.plot, "draw addresses over time (needs gnuplot)", "FILE.svg",
         0, 0},
        OPTION_FORCE_ROW,
        {"--stage", OPTION_INT, &a.stage, "of a plan: which to print (default: the largest arena)",
         "N", 0, 1e6},
        {"--recompute", OPTION_CHOICE, &a.recompute,
         "what a plan recomputes is chosen again, so that the arena fits; of a graph: operators "
         "(those with seconds) that are run again, so that it fits --capacity",
         "auto", 0, 0},
        {"--offload", OPTION_CHOICE, &a.offload,
         "auto: so are the activations that a plan moves, and tensors of a graph that are copied "
         "out; moments: of a plan that offloads parameters, which of them stay between which uses",
         "auto|moments", 0, 0},
        {"--cluster", OPTION_TEXT, &a.cluster,
         "of a graph: whose link copies take, whose device runs an ONNX model", "CLUSTER", 0, 0},
        {"--policies", OPTION_FLAG, &a.policies,
         "of a plan: what static, least recently used and planned placement of its state move "
         "between device, host and NVMe; nothing is written",
         NULL, 0, 0},
        {"--device-memory", OPTION_I64, &a.device_bytes,
         "with --policies: bytes of the device (default: the cluster's)", "N", 0, 0},
        {"--batch", OPTION_I64, &a.batch, "of an ONNX model: its open dimension", "N", 0, 0},
        {"--training", OPTION_FLAG, &a.training, "of an ONNX model: backward and update as well",
         NULL, 0, 0},
        {"--optimizer", OPTION_CHOICE, &a.optimizer, "of an ONNX model (default adamw)",
         "adamw|adam|sgd|lamb|lars", 0, 0},
        {"--json", OPTION_FLAG, &a.json, "print the table as JSON", NULL, 0, 0},
        {"--verbose", OPTION_FLAG, &a.verbose, "the solver's messages on stderr", NULL, 0, 0},
        {0}};
    *status = 0;
    if (options_help(argc, argv, options)) return false;
    bool is_right = options_parse(options, argc, argv, err) && output_take_stdout(&a.output, err) &&
                    output_take_stdout(&a.plot, err);
    *taken = a;
    if (!is_right) *status = exit_status(err);
    return is_right;
}

int memory_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    if (tables_plan_is_asked(argc, argv, err)) return tables_memory_command(arena, argc, argv, err);
    if (err->kind) return exit_status(err);
    struct memory_arguments a = {
        .method = "roam", .optimizer = "adamw", .stage = -1, .time_limit_s = 300};
    int status;
    if (!take_arguments(argc, argv, &a, &status, err)) return status;

    return run(arena, &a, err);
}
