#include "cli/run_log.h"

#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "core/progress.h"
#include "cost_models/input.h"
#include "reports/page/gnuplot.h"
#include "reports/table/model_text.h"
#include "reports/training/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct run_log {
    struct arena *arena;
    const struct run_arguments *arguments;
    const struct run_job *job;
    bool is_planned_device;
    FILE *metrics, *events;
    bool is_cut;        // the metrics hold no steps that are run again
    bool has_diverged;  // which was said
    const char *events_path;
    struct err err;  // the first of the files' failures
    struct step_metrics *steps;
    double first_end_s;  // when the first step was over
    double waited_s, took_s;
};

static double seconds_since_1970(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void put(struct run_log *log, FILE *stream, const char *path, const char *text, size_t bytes)
{
    if (!stream) return;
    bool done = fwrite(text, 1, bytes, stream) == bytes && fflush(stream) == 0;
    if (!done) (void)err_set(&log->err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
}

static FILE *open_file(const char *path, const char *mode, struct err *err)
{
    FILE *stream = fopen(path, mode);
    if (!stream) err_set(err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return stream;
}

// A file of its own a run, named as TensorBoard looks for them.
static void open_events(struct run_log *log, const char *folder, struct err *err)
{
    size_t bytes = 0;
    double now_s = seconds_since_1970();
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        err_set(err, ERR_SYSTEM, "cannot make folder %s: %s", folder, strerror(errno));
        return;
    }
    log->events_path =
        arena_print(log->arena, "%s/events.out.tfevents.%lld.meshwright", folder, (long long)now_s);
    log->events = open_file(log->events_path, "wb", err);
    if (!log->events) return;
    const char *head = tensorboard_head(log->arena, now_s, &bytes);
    put(log, log->events, log->events_path, head, bytes);
}

struct run_log *run_log_open(struct arena *arena, const struct run_arguments *arguments,
                             const struct run_job *job, bool is_planned_device, struct err *err)
{
    const struct training_arguments *training = &arguments->training;
    struct run_log *log = ARENA_NEW(arena, struct run_log, 1);
    *log = (struct run_log){.arena = arena,
                            .arguments = arguments,
                            .job = job,
                            .is_planned_device = is_planned_device,
                            .steps = ARENA_NEW(arena, struct step_metrics, arguments->steps)};
    if (training->metrics)
        log->metrics =
            open_file(training->metrics, arguments->checkpoint.resume ? "ab" : "wb", err);
    if (training->tensorboard && !err->kind) open_events(log, training->tensorboard, err);
    return err->kind ? (run_log_end(log, false, err) ? log : NULL) : log;
}

static double left_s(struct run_log *log, const struct run_result *result)
{
    int done = result->step_count;
    int64_t left = log->arguments->steps - result->saved.resumed_step - done;
    if (done == 1) log->first_end_s = clock_s();
    if (left == 0) return 0;
    return done < 2 ? NAN : (clock_s() - log->first_end_s) / (done - 1) * (double)left;
}

static const char *skip_word(enum run_skip skip)
{
    return skip == RUN_UPDATED ? NULL : skip == RUN_SKIP_ROOM ? "room" : "spike";
}

static void take(struct run_log *log, const struct run_result *result, struct step_metrics *of)
{
    int at = result->step_count - 1;
    int64_t step = at + 1 + result->saved.resumed_step;
    const struct workload *workload = &log->job->request.workload;
    const struct prediction *predicted = &log->job->evaluation.prediction;
    double tokens = (double)workload->global_batch * (double)workload->seq_len;
    double step_s = result->step_s[at];
    *of = (struct step_metrics){
        .step = step,
        .loss = result->loss[at],
        .gradient_norm = result->gradient_norm[at],
        .learning_rate = result->learning_rate[at],
        .validation_loss = result->validation_loss[at],
        .loss_scale = result->loss_scale[at],
        .step_s = step_s,
        .predicted_step_s = predicted->step_s,
        .data_wait_s = result->data_wait_s[at],
        .between_s = result->between_s[at],
        .tokens = tokens * (double)step,
        .tokens_per_s = tokens / step_s,
        // The same work on the same device in another time.
        .mfu_ratio =
            log->is_planned_device ? predicted->mfu_ratio * predicted->step_s / step_s : NAN,
        .left_s = left_s(log, result),
        .peak_bytes = result->peak_bytes,
        .skipped = skip_word(result->skip[at]),
    };
    log->waited_s += of->data_wait_s;
    log->took_s += step_s;
}

static void say_skipped(const struct step_metrics *of)
{
    if (!of->skipped) return;
    if (strcmp(of->skipped, "room") == 0)
        console_printf(
            stderr,
            "meshwright run: step %lld: gradients past what fp16 holds, times a loss scale of "
            "%.0f: weights stay as they are, and the scale is halved\n",
            (long long)of->step, of->loss_scale);
    else
        console_printf(stderr,
                       "meshwright run: step %lld: a gradient norm of %g is out of line: weights "
                       "stay as they are\n",
                       (long long)of->step, of->gradient_norm);
}

// Once, and of what is not left out: from there on weights are lost.
static void say_diverged(struct run_log *log, const struct step_metrics *of)
{
    if (log->has_diverged || isfinite(of->loss) || of->skipped) return;
    log->has_diverged = true;
    console_printf(stderr,
                   "meshwright run: step %lld: the loss is no number any more: training has "
                   "diverged; --skip-spikes leaves out what is out of line\n",
                   (long long)of->step);
}

static void say_straggler(const struct straggler *of, int64_t step)
{
    if (of->rank < 0) return;
    if (of->is_over)
        console_printf(stderr,
                       "meshwright run: rank %d is as fast as the others again, in step %lld; it "
                       "was %.1f times slower since step %lld\n",
                       of->rank, (long long)step, of->ratio, (long long)of->since_step);
    else
        console_printf(stderr,
                       "meshwright run: rank %d is slow and all wait for it: since step %lld its "
                       "own work takes %.1f times %s\n",
                       of->rank, (long long)of->since_step, of->ratio,
                       of->is_alone ? "what is predicted for its stage, as the others keep to it"
                                    : "that of the other ranks of its stage");
}

static void say(const struct run_log *log, const struct step_metrics *of)
{
    struct arena scratch = {0};
    const char *norm = arena_print(&scratch, "  norm %.4f", of->gradient_norm);
    if (!step_takes_norm(&log->job->request.workload)) norm = "";
    const char *line = arena_print(
        &scratch, "step %4lld  loss %.4f%s  rate %.3g  %s, predicted %s  %s %s  %s",
        (long long)of->step, of->loss, norm, of->learning_rate, units_seconds(&scratch, of->step_s),
        units_seconds(&scratch, of->predicted_step_s), units_count(&scratch, of->tokens_per_s),
        model_rate_text(log->job->evaluation.graph), units_bytes(&scratch, (double)of->peak_bytes));
    if (!isnan(of->mfu_ratio))
        line = arena_print(&scratch, "%s  MFU %s", line, units_ratio(&scratch, of->mfu_ratio));
    if (of->left_s > 0)
        line = arena_print(&scratch, "%s  %s left", line, units_duration(&scratch, of->left_s));
    console_printf(stdout, "%s\n", line);
    if (!isnan(of->validation_loss))
        console_printf(stdout, "step %4lld  held out: loss %.4f\n", (long long)of->step,
                       of->validation_loss);
    say_skipped(of);
    fflush(stdout);
    arena_free(&scratch);
}

// Bytes of the first lines, whole and each of a step up to `last`.
static size_t lines_up_to(const char *text, int64_t last)
{
    size_t at = 0;
    for (;;) {
        const char *end = strchr(text + at, '\n');
        long long step = 0;
        bool is_line = end && sscanf(text + at, "{\"step\": %lld", &step) == 1;
        if (!is_line || step > last) return at;
        at = (size_t)(end - text) + 1;
    }
}

// A run that goes on goes on with its file. The run before may have come further than to its last
// checkpoint: those steps are run again, and their lines are gone.
static void cut_metrics(struct run_log *log, int64_t resumed_step)
{
    const char *path = log->arguments->training.metrics;
    struct arena scratch = {0};
    size_t bytes = 0;
    struct stat found;
    log->is_cut = true;
    bool holds = stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0;
    const char *text =
        holds ? file_read(&scratch, path, (size_t)found.st_size, &bytes, &log->err) : NULL;
    size_t kept = text ? lines_up_to(text, resumed_step) : 0;
    if (text && kept < bytes && truncate(path, (off_t)kept) != 0)
        (void)err_set(&log->err, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    arena_free(&scratch);
}

void run_log_step(struct run_log *log, const struct run_result *result)
{
    if (log->metrics && !log->is_cut) cut_metrics(log, result->saved.resumed_step);
    struct step_metrics *of = &log->steps[result->step_count - 1];
    take(log, result, of);
    if (!log->arguments->json) say(log, of);
    say_diverged(log, of);
    say_straggler(&result->straggler, of->step);
    struct arena scratch = {0};
    if (log->metrics) {
        const char *line = metrics_line(&scratch, of);
        put(log, log->metrics, log->arguments->training.metrics, line, strlen(line));
    }
    if (log->events) {
        size_t bytes = 0;
        const char *record = tensorboard_step(&scratch, of, seconds_since_1970(), &bytes);
        put(log, log->events, log->events_path, record, bytes);
    }
    arena_free(&scratch);
}

static bool draw(struct run_log *log, struct err *err)
{
    const char *path = log->arguments->training.plot;
    int count = 0;
    while (count < log->arguments->steps && log->steps[count].step > 0)
        count++;
    size_t bytes = 0;
    const char *said = output_said(log->arena, path);
    const char *script =
        loss_plot_script(log->arena, log->steps, count, log->job->evaluation.graph->name);
    const char *picture = gnuplot_image(log->arena, script, &bytes, err);
    if (!picture || !file_write(path, picture, bytes, err)) return false;
    if (!log->arguments->json) console_printf(stdout, "%s\n", said);
    return true;
}

static void say_waits(const struct run_log *log)
{
    struct arena scratch = {0};
    double all_s = log->took_s + log->waited_s;
    if (log->waited_s > INPUT_WAIT_RATIO * all_s)
        console_printf(stderr,
                       "meshwright run: %s of the time the ranks waited for their data: reading it "
                       "is the bottleneck\n",
                       units_ratio(&scratch, log->waited_s / all_s));
    arena_free(&scratch);
}

bool run_log_end(struct run_log *log, bool done, struct err *err)
{
    FILE *const files[] = {log->metrics, log->events};
    for (int i = 0; i < 2; i++) {
        if (files[i] && fclose(files[i]) != 0)
            (void)err_set(&log->err, ERR_SYSTEM, "cannot write %s: %s",
                          i ? log->events_path : log->arguments->training.metrics, strerror(errno));
    }
    log->metrics = log->events = NULL;
    if (!done) return false;
    if (log->err.kind) {
        *err = log->err;
        return false;
    }
    say_waits(log);
    return !log->arguments->training.plot || draw(log, err);
}
