#include "exchange/compare_plan.h"

#include "core/plain.h"
#include "exchange/log_read.h"
#include "exchange/trace_kinds.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Constants whose influence is less explain nothing by themselves.
static const double ELASTICITY_LEAST = 0.05;
// The step follows a constant in proportion over a part of its range only; what would have to
// change by more than this explains nothing alone.
static const double CHANGE_MOST = 4;

// Seconds of a step, from whatever the step lines measure.
static double step_of(const struct log_run *run, double value,
                      const struct evaluation_request *request)
{
    const struct workload *workload = &request->workload;
    double sequences = (double)workload->global_batch;
    assert(value > 0 && sequences > 0 && "lines that say no time are left out");
    switch (run->measure) {
    case LOG_STEP_MS:
        return value * 1e-3;
    case LOG_STEP_S:
        return value;
    case LOG_SAMPLES_PER_S:
        return sequences / value;
    case LOG_TOKENS_PER_S_PER_GPU:
        break;
    }
    return sequences * (double)workload->seq_len / (value * request->cluster->rank_count);
}

static bool read_log(struct arena *arena, const char *path,
                     const struct evaluation_request *request, struct measurement *measured,
                     struct err *err)
{
    struct log_run run;
    if (!log_read(arena, path, &run, err)) return false;
    double planned = (double)request->workload.global_batch;
    if (run.global_batch > 0 && run.global_batch != planned) {
        return err_set(err, ERR_INPUT,
                       "%s: the log is of steps of %.0f sequences, the plan of %.0f: not of this "
                       "plan",
                       run.path, run.global_batch, planned);
    }
    for (int i = 0; i < run.count; i++)
        run.values[i] = step_of(&run, run.values[i], request);
    *measured = (struct measurement){
        .path = run.path,
        .framework = run.framework,
        .step_s = {run.values, run.count},
        .peak_bytes = run.allocated_bytes > 0 ? run.allocated_bytes : run.reserved_bytes,
        .is_reserved = run.allocated_bytes == 0,
        .flop_per_s_per_gpu = run.flop_per_s_per_gpu,
    };
    return true;
}

// What Nsight Systems records, which only its own program reads.
static bool is_report(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".nsys-rep") == 0 || strcmp(dot, ".qdrep") == 0);
}

bool measurement_read(struct arena *arena, const char *path, int steps_told,
                      const struct evaluation_request *request, struct measurement *measured,
                      struct err *err)
{
    enum side_kind kind;
    if (is_report(path))
        return err_set(err, ERR_INPUT, "%s: first make a database of it: nsys export --type sqlite",
                       plain_copy(arena, path));
    if (!side_kind_of(arena, path, &kind, err)) return false;
    struct side_file *file = ARENA_NEW(arena, struct side_file, 1);
    bool is_trace = kind == SIDE_TRACE;
    if (kind == SIDE_LOG) {
        if (!read_log(arena, path, request, measured, err)) return false;
    } else if (!(is_trace ? side_read_kinds(arena, path, steps_told, file, err)
                          : side_read(arena, path, steps_told, file, err))) {
        return false;
    } else {
        *measured = (struct measurement){
            .path = file->path,
            .framework = is_trace ? "profile" : side_kind_name(file->kind),
            .step_s = {file->step_s, file->step_count},
            .peak_bytes = file->peak_bytes,
            .kinds = is_trace ? file : NULL,
        };
    }
    measured->median_s = samples_median(arena, measured->step_s);
    return true;
}

static struct kind_row *row_of(struct arena *arena, struct plan_compare *compare, const char *kind)
{
    for (int i = 0; i < compare->row_count; i++)
        if (strcmp(compare->rows[i].kind, kind) == 0) return &compare->rows[i];
    ARENA_GROW(arena, compare->rows, compare->row_count, compare->row_capacity);
    compare->rows[compare->row_count] = (struct kind_row){.kind = kind};
    return &compare->rows[compare->row_count++];
}

static int by_difference(const void *a, const void *b)
{
    const struct kind_row *left = a, *right = b;
    double more = fabs(right->s - right->predicted_s) - fabs(left->s - left->predicted_s);
    return more > 0 ? 1 : more < 0 ? -1 : strcmp(left->kind, right->kind);
}

// Kernels beside lines of the stage with most to do. A kernel of a collective also waits for the
// others, and takes its whole time whether hidden or not: beside it stands what it takes alone.
static void compare_kinds(struct arena *arena, struct arena *scratch, struct plan_compare *compare)
{
    assert(compare->measured->kinds);
    const struct breakdown breakdown =
        breakdown_make(arena, scratch, compare->request, compare->evaluation);
    for (int i = 0; i < breakdown.count; i++) {
        const struct breakdown_line *line = &breakdown.lines[i];
        struct kind_row *row = row_of(arena, compare, line_kind_of(line));
        row->predicted_count += line->count;
        row->predicted_s += breakdown_is_communication(line) ? line->alone_s : line->s;
    }
    const struct side_file *kinds = compare->measured->kinds;
    for (int i = 0; i < kinds->task_count; i++) {
        struct kind_row *row = row_of(arena, compare, kinds->tasks[i].name);
        row->count += kinds->tasks[i].count;
        row->s += kinds->tasks[i].s;
    }
    qsort(compare->rows, (size_t)compare->row_count, sizeof *compare->rows, by_difference);
}

// In the order of the sensitivity: the constants that the step follows most come first.
static void find_causes(struct arena *arena, struct arena *scratch, struct plan_compare *compare)
{
    const struct sensitivity sensitivity =
        sensitivity_make(arena, scratch, compare->request, compare->evaluation);
    for (int i = 0; i < sensitivity.count && compare->cause_count < LONE_CAUSES_MAX; i++) {
        const struct sensitivity_row *row = &sensitivity.rows[i];
        if (fabs(row->elasticity) < ELASTICITY_LEAST) continue;
        double wanted = *row->constant->value * exp(log(compare->ratio) / row->elasticity);
        double change = wanted / *row->constant->value;
        bool may_be = wanted >= row->constant->low && wanted <= row->constant->high &&
                      change < CHANGE_MOST && change * CHANGE_MOST > 1;
        if (!may_be) continue;
        compare->causes[compare->cause_count++] =
            (struct lone_cause){row->constant, row->elasticity, wanted};
    }
}

// A band that the prediction has decides where no threshold is asked for; without both any
// difference counts.
static enum verdict verdict_of(const struct plan_compare *compare)
{
    const struct prediction *prediction = &compare->evaluation->prediction;
    bool has_band = compare->threshold_ratio < 0 && prediction->step_s_high > 0;
    double most = compare->threshold_ratio < 0 ? 0 : compare->threshold_ratio;
    double low_s = has_band ? prediction->step_s_low : prediction->step_s * (1 - most);
    double high_s = has_band ? prediction->step_s_high : prediction->step_s * (1 + most);
    double measured_s = compare->measured->median_s;
    return measured_s > high_s  ? VERDICT_REGRESSION
           : measured_s < low_s ? VERDICT_IMPROVEMENT
                                : VERDICT_SAME;
}

void plan_compare_make(struct arena *arena, struct arena *scratch,
                       const struct evaluation_request *request,
                       const struct evaluation *evaluation, const struct measurement *measured,
                       double threshold_ratio, struct plan_compare *compare)
{
    assert(evaluation->prediction.step_s > 0);
    *compare = (struct plan_compare){
        .request = request,
        .evaluation = evaluation,
        .measured = measured,
        .ratio = measured->median_s / evaluation->prediction.step_s,
        .threshold_ratio = threshold_ratio,
    };
    compare->verdict = verdict_of(compare);
    if (measured->kinds) compare_kinds(arena, scratch, compare);
    find_causes(arena, scratch, compare);
}
