#include "cli/memory_run.h"
#include "cli/memory_bug.h"
#include "core/console.h"
#include "core/file.h"
#include "reports/page/gnuplot.h"

#include <stdio.h>
#include <string.h>

static void print_line(void *context, const char *line)
{
    (void)context;
    console_printf(stderr, "glpk: %s\n", line);
}

struct memory_options memory_options_of(const struct memory_arguments *arguments, int64_t alignment)
{
    return (struct memory_options){
        .alignment = alignment,
        .capacity = arguments->capacity,
        .time_limit_s = arguments->time_limit_s,
        .certify = true,
        .log = arguments->verbose ? print_line : NULL,
        .spoil = arguments->spoil,
    };
}

static void show_watch(struct memory_watch *watch)
{
    double took_s = clock_s() - watch->progress.start_s;
    char left[PROGRESS_LEFT_BYTES] = "";
    if (watch->count > 0) {
        progress_left(&watch->progress, (double)watch->done / watch->count, left);
        progress_show(&watch->progress, "%s: stage %d of %d%s", watch->method, watch->done + 1,
                      watch->count, left);
    } else if (watch->limit_s > 0) {
        progress_show(&watch->progress, "%s: %.0f s, at most %.0f s a method", watch->method,
                      took_s, watch->limit_s);
    } else {
        progress_show(&watch->progress, "%s: %.0f s", watch->method, took_s);
    }
}

static void watch_stage(void *context, int done, int count)
{
    struct memory_watch *watch = context;
    watch->done = done;
    watch->count = count;
    show_watch(watch);
}

// The solver talks while it works: its lines keep the watch going.
static void watch_solver(void *context, const char *line)
{
    (void)line;
    show_watch(context);
}

void memory_watch_start(struct memory_watch *watch, const struct memory_arguments *arguments,
                        struct memory_options *options)
{
    *watch = (struct memory_watch){.progress = progress_start(),
                                   .method = arguments->method,
                                   .limit_s = arguments->time_limit_s};
    if (!watch->progress.on || arguments->verbose) return;
    options->log = watch_solver;
    options->log_context = watch;
    options->progress = watch_stage;
    options->progress_context = watch;
}

void memory_watch_end(struct memory_watch *watch)
{
    progress_end(&watch->progress);
}

struct memory_methods memory_methods_of(const struct memory_arguments *arguments)
{
    struct memory_methods methods = {{MEMORY_PROGRAM}, 1};
    enum memory_method wanted = MEMORY_ROAM;
    if (!memory_method_from_name(arguments->method, &wanted)) return methods;
    if (wanted == MEMORY_ROAM) methods.methods[methods.count++] = MEMORY_GREEDY;
    if (wanted != MEMORY_PROGRAM) methods.methods[methods.count++] = wanted;
    return methods;
}

bool memory_run_graph(struct arena *arena, const struct memory_arguments *arguments,
                      const struct memory_graph *graph, const struct memory_problem *problem,
                      int64_t alignment, const struct memory_schedule *answer,
                      struct memory_report *report, struct err *err)
{
    struct memory_methods methods = memory_methods_of(arguments);
    struct memory_schedule *rows = ARENA_NEW(arena, struct memory_schedule, methods.count);
    struct memory_options options = memory_options_of(arguments, alignment);
    struct memory_watch watch;
    memory_watch_start(&watch, arguments, &options);
    struct arena scratch = {0};
    bool ok = true;
    for (int i = 0; i < methods.count && ok; i++) {
        options.method = methods.methods[i];
        if (answer && i == methods.count - 1) {
            rows[i] = *answer;
        } else {
            ok = memory_schedule_graph(arena, &scratch, graph, problem, &options, &rows[i], err);
        }
    }
    arena_free(&scratch);
    memory_watch_end(&watch);
    if (!ok) return err->kind == ERR_SYSTEM && memory_save_graph(arena, graph, err);
    *report = (struct memory_report){
        .name = graph->name,
        .operator_count = problem->operator_count,
        .buffer_count = problem->buffer_count,
        .rows = rows,
        .row_count = methods.count,
        .alignment = alignment,
        .capacity = arguments->capacity,
    };
    return true;
}

bool memory_run_packing(struct arena *arena, const struct memory_arguments *arguments,
                        const struct pack_problem *problem, struct memory_schedule *rows,
                        struct err *err)
{
    struct memory_methods methods = memory_methods_of(arguments);
    struct memory_options options = memory_options_of(arguments, 1);
    struct memory_watch watch;
    memory_watch_start(&watch, arguments, &options);
    struct arena scratch = {0};
    bool ok = true;
    for (int i = 0; i < methods.count && ok; i++) {
        options.method = methods.methods[i];
        ok = memory_schedule_packing(arena, &scratch, problem, &options, &rows[i], err);
    }
    arena_free(&scratch);
    memory_watch_end(&watch);
    if (ok || err->kind != ERR_SYSTEM) return ok;
    return memory_save_packing(arena, problem, err);
}

int memory_answer(struct arena *arena, const struct memory_arguments *arguments,
                  const struct memory_report *report, const char *wrote)
{
    if (arguments->json) {
        struct json_writer writer = {.arena = arena};
        memory_report_write(&writer, NULL, report);
        fputs(writer.text, stdout);
    } else {
        console_print(stdout, memory_table_text(arena, report));
        console_print(stdout, wrote);
    }
    if (report->rows[report->row_count - 1].fits) return 0;
    console_printf(stderr, "meshwright memory: %s\n", memory_shortfall_text(arena, report));
    return 1;
}

bool memory_draw(struct arena *arena, const struct memory_arguments *arguments,
                 const struct memory_plot *plot, struct err *err)
{
    if (!arguments->plot) return true;
    size_t bytes;
    const char *picture = gnuplot_image(arena, memory_plot_script(arena, plot), &bytes, err);
    return picture && file_write(arguments->plot, picture, bytes, err);
}

bool memory_draw_graph(struct arena *arena, const struct memory_arguments *arguments,
                       const struct memory_problem *problem, const struct memory_report *report,
                       struct err *err)
{
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    int64_t *sizes = ARENA_NEW(arena, int64_t, problem->buffer_count);
    for (int i = 0; i < problem->buffer_count; i++) {
        sizes[i] = problem->buffers[i].bytes;
    }
    const struct memory_plot plot = {
        .title = report->name,
        .time_label = "step",
        .lower = answer->birth,
        .upper = answer->death,
        .size = sizes,
        .offset = answer->offsets,
        .count = problem->buffer_count,
        .arena_bytes = answer->arena_bytes,
        .capacity = arguments->capacity,
    };
    return memory_draw(arena, arguments, &plot, err);
}
