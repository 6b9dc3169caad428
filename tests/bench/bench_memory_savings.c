#include "core/progress.h"
#include "core/table.h"
#include "core/units.h"
#include "memory/formats.h"
#include "memory/from_onnx.h"
#include "tests/support/memory_graphs.h"
#include "tests/support/real_graphs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the schedule saves of program order under the caching allocator, of greedy rules, and of one
// integer program over the whole graph that gets the same seconds: $MESHWRIGHT_LIMIT_S, 10 unless
// told. The last takes all of them on most graphs, so that ten seconds make three minutes. Where a
// file of others is missing its rows are.

static const double LIMIT_S = 10;
enum { ALIGNMENT = 512 };

struct subject {
    const char *name;
    const struct memory_graph *graph;  // NULL: the packing problem
    struct pack_problem packing;
};

// Sums over graphs of 1 - ours / theirs, without and with what is persistent.
struct savings {
    double sum_ratio, persistent_sum_ratio;
    int count;
};

struct memory_savings_bench {
    struct arena rows;  // lives as long as the table
    struct table table;
    struct progress progress;
    double limit_s;
    struct savings against[MEMORY_METHOD_COUNT];
    bool is_too_large;  // the graph at hand for the integer program
    int ilp_better_count, ilp_proven_count, proven_count, graph_count;
};

static void stop(const struct err *err)
{
    fprintf(stderr, "bench_memory_savings: %s\n", err->text);
    exit(1);
}

static double saved_ratio(int64_t bytes, int64_t base_bytes)
{
    return base_bytes > 0 ? 1 - (double)bytes / (double)base_bytes : 0;
}

static const char *percent(struct arena *arena, double ratio)
{
    return arena_print(arena, "%.2f%%", 100 * ratio + 0.0);
}

// The only line of the log that is not GLPK's says that the program is not even written down.
static void see_line(void *context, const char *line)
{
    bool *is_too_large = context;
    *is_too_large |= strstr(line, "columns, of at most") != NULL;
}

// How far the integer program came: its incumbent at the start is program order.
static const char *ilp_answer(struct memory_savings_bench *bench, const struct memory_schedule *ilp,
                              const struct memory_schedule *program)
{
    if (bench->is_too_large) return "too large";
    bool is_better = ilp->live_bytes < program->live_bytes;
    bench->ilp_better_count += is_better;
    bench->ilp_proven_count += ilp->order_proven;
    return ilp->order_proven ? "optimal" : is_better ? "better" : "nothing";
}

static const char *compare(struct memory_savings_bench *bench, const struct memory_schedule *rows,
                           enum memory_method method)
{
    const struct memory_schedule *ours = &rows[MEMORY_ROAM], *theirs = &rows[method];
    struct savings *savings = &bench->against[method];
    double ratio = saved_ratio(ours->arena_bytes, theirs->arena_bytes);
    savings->sum_ratio += ratio;
    savings->persistent_sum_ratio += saved_ratio(ours->arena_bytes + ours->persistent_bytes,
                                                 theirs->arena_bytes + ours->persistent_bytes);
    savings->count++;
    return percent(&bench->rows, ratio);
}

static void add_row(struct memory_savings_bench *bench, const struct subject *subject,
                    const struct memory_schedule *rows, int size)
{
    const struct memory_schedule *ours = &rows[MEMORY_ROAM], *ilp = &rows[MEMORY_GLOBAL_ILP];
    struct arena *arena = &bench->rows;
    bool has_ilp = subject->graph != NULL;
    const char *cells[] = {
        arena_print(arena, "%s", subject->name),
        units_count(arena, size),
        units_bytes(arena, (double)rows[MEMORY_PROGRAM].arena_bytes),
        units_bytes(arena, (double)ours->arena_bytes),
        compare(bench, rows, MEMORY_PROGRAM),
        compare(bench, rows, MEMORY_GREEDY),
        has_ilp ? compare(bench, rows, MEMORY_GLOBAL_ILP) : "-",
        percent(arena, memory_gap(ours)),
        has_ilp ? ilp_answer(bench, ilp, &rows[MEMORY_PROGRAM]) : "-",
        has_ilp ? arena_print(arena, "%.1f", ilp->seconds) : "-",
        arena_print(arena, "%.3f", ours->seconds),
    };
    table_row(&bench->table, cells);
    bench->graph_count += has_ilp;
    bench->proven_count += ours->arena_bytes == ours->bound_bytes;
}

static void run(struct memory_savings_bench *bench, const struct subject *subject)
{
    struct err err = {0};
    struct arena arena = {0}, scratch = {0};
    struct memory_schedule rows[MEMORY_METHOD_COUNT] = {0};
    struct memory_options options = {
        .alignment = subject->graph ? ALIGNMENT : 1,
        .time_limit_s = bench->limit_s,
        .certify = true,
        .log = see_line,
        .log_context = &bench->is_too_large,
    };
    bench->is_too_large = false;
    const struct memory_problem *problem =
        subject->graph ? memory_problem_make(&arena, subject->graph, ALIGNMENT) : NULL;
    for (int method = 0; method < MEMORY_METHOD_COUNT; method++) {
        if (method == MEMORY_GLOBAL_ILP && !problem) continue;
        progress_show(&bench->progress, "%s, %s", subject->name,
                      memory_method_name((enum memory_method)method));
        options.method = (enum memory_method)method;
        bool ok = problem ? memory_schedule_graph(&arena, &scratch, subject->graph, problem,
                                                  &options, &rows[method], &err)
                          : memory_schedule_packing(&arena, &scratch, &subject->packing, &options,
                                                    &rows[method], &err);
        if (!ok) stop(&err);
    }
    add_row(bench, subject, rows, problem ? problem->operator_count : subject->packing.count);
    arena_free(&scratch);
    arena_free(&arena);
}

static void run_generated(struct memory_savings_bench *bench)
{
    static const int BATCHES[] = {1, 32};
    for (int i = 0; i < 2; i++) {
        struct arena arena = {0};
        int batch = BATCHES[i];
        const struct subject subjects[] = {
            {"GPT-2 12 x 768", graph_gpt(&arena, 12, batch, 768), {0}},
            {"GPT-2 XL 48 x 1600", graph_gpt(&arena, 48, batch, 1600), {0}},
            {"Inception, 12 blocks", graph_inception(&arena, 12, batch), {0}},
            {"ResNet, 16 blocks", graph_resnet(&arena, 16, batch), {0}},
        };
        for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++) {
            struct subject subject = subjects[s];
            subject.name = arena_print(&arena, "%s, batch %d", subject.name, batch);
            run(bench, &subject);
        }
        arena_free(&arena);
    }
}

static void run_onnx(struct memory_savings_bench *bench, const char *name, int batch)
{
    struct arena arena = {0};
    struct err err = {0};
    const char *path = real_graph(&arena, arena_print(&arena, "onnx-light/light_%s.onnx", name));
    if (path) {
        const struct onnx_options options = {.batch = batch, .training = true, .moment_count = 2};
        const struct onnx_graph *onnx = onnx_load(&arena, path, &options, &err);
        struct subject subject = {.name = arena_print(&arena, "onnx %s, batch %d", name, batch)};
        if (onnx) subject.graph = memory_graph_from_onnx(&arena, path, onnx, &err);
        if (!subject.graph) stop(&err);
        run(bench, &subject);
    }
    arena_free(&arena);
}

static void run_nodes(struct memory_savings_bench *bench, const char *file, const char *name)
{
    struct arena arena = {0};
    struct err err = {0};
    const char *path = real_graph(&arena, arena_print(&arena, "dnn-partitioning/%s.json", file));
    if (path) {
        const struct subject subject = {name, memory_graph_load(&arena, path, &err), {0}};
        if (!subject.graph) stop(&err);
        run(bench, &subject);
    }
    arena_free(&arena);
}

static void run_packing(struct memory_savings_bench *bench, const char *file, const char *name)
{
    struct arena arena = {0};
    struct err err = {0};
    const char *path = real_graph(&arena, file);
    if (path) {
        struct packing_file packing;
        if (!packing_load(&arena, path, &packing, &err)) stop(&err);
        const struct subject subject = {name, NULL, packing.problem};
        run(bench, &subject);
    }
    arena_free(&arena);
}

static void run_real(struct memory_savings_bench *bench)
{
    static const char *const MODELS[] = {"bvlc_alexnet", "squeezenet", "resnet50"};
    for (int i = 0; i < 3; i++) {
        run_onnx(bench, MODELS[i], 1);
        run_onnx(bench, MODELS[i], 32);
    }
    run_nodes(bench, "LayerGraphs_gnmt_training", "GNMT, layers");
    run_nodes(bench, "LayerGraphs_resnet50_training", "ResNet-50, layers");
    run_nodes(bench, "OperatorGraphs_bert_l-3_training", "BERT, 3 layers, operators");
    run_nodes(bench, "OperatorGraphs_bert_l-6_training", "BERT, 6 layers, operators");
    run_packing(bench, "somas/resnet50.csv", "ResNet-50, buffers of SOMAS");
}

static const char *mean(struct memory_savings_bench *bench, enum memory_method method,
                        bool with_persistent)
{
    const struct savings *savings = &bench->against[method];
    assert(savings->count > 0);
    double sum = with_persistent ? savings->persistent_sum_ratio : savings->sum_ratio;
    return percent(&bench->rows, sum / savings->count);
}

static void add_means(struct memory_savings_bench *bench)
{
    for (int with = 0; with < 2; with++) {
        const char *cells[] = {
            with ? "  with weights and states" : "mean",
            "",
            "",
            "",
            mean(bench, MEMORY_PROGRAM, with),
            mean(bench, MEMORY_GREEDY, with),
            mean(bench, MEMORY_GLOBAL_ILP, with),
            "",
            "",
            "",
            "",
        };
        table_row(&bench->table, cells);
    }
    // The abstract of arXiv 2310.19295: of PyTorch and of two methods, on graphs of its own.
    static const char *const PUBLISHED[] = {
        "ROAM's own graphs, published", "", "", "", "35.7%", "13.3%", "27.2%", "", "", "", ""};
    table_row(&bench->table, PUBLISHED);
}

int main(void)
{
    const char *given = getenv("MESHWRIGHT_LIMIT_S");
    struct memory_savings_bench bench = {.progress = progress_start(),
                                         .limit_s = given ? atof(given) : LIMIT_S};
    if (!(bench.limit_s > 0)) {
        fprintf(stderr, "bench_memory_savings: MESHWRIGHT_LIMIT_S: wanted seconds above 0\n");
        return 1;
    }
    bench.table = table_new(&bench.rows, "lrrrrrrrlrr");
    static const char *const HEADER[] = {"saved of",  "operators", "program", "ours",
                                         "program",   "greedy",    "ILP",     "gap",
                                         "ILP found", "ILP s",     "ours s"};
    table_row(&bench.table, HEADER);
    run_generated(&bench);
    run_real(&bench);
    add_means(&bench);
    progress_end(&bench.progress);
    fputs(table_text(&bench.table), stdout);
    printf("%g s a method: the whole-graph ILP proves %d of %d orders and betters program order in "
           "%d; ours proven optimal, order and addresses, %d of %d\n",
           bench.limit_s, bench.ilp_proven_count, bench.graph_count, bench.ilp_better_count,
           bench.proven_count, bench.against[MEMORY_PROGRAM].count);
    arena_free(&bench.rows);
    return 0;
}
