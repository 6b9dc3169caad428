#include "core/units.h"
#include "reports/page/figure.h"

#include <math.h>

// What is alive on a GPU of a stage over the time of a step: what stands (weights, gradients,
// optimizer, buffers), what each micro-batch leaves between its forward and its backward, and the
// working memory of the task that runs. The highest point is what the memory model says of the
// stage.

static const double GIB = 1024.0 * 1024.0 * 1024.0;
enum { STAGES_MAX = 4, COLUMNS = 600, RAMP_MAX = 32 };

// Something comes or goes.
struct moment {
    int64_t at_ns;
    double saved_bytes, working_bytes;
    int heads;   // micro-batches whose logits are kept
    int losses;  // and whose copies of them the loss needs, or what it leaves for W
};

struct curve {
    struct moment *moments;
    int count;
    int ramp;  // moments in which a task brings or frees, fewer where tasks are many
    struct memory_parts parts;
    double logits_each, loss;  // of the head's chunk, where the stage has it
    double transit;            // of what is offloaded
};

static void add_moment(struct curve *curve, int64_t at_ns, double saved, double working, int heads,
                       int losses)
{
    curve->moments[curve->count++] = (struct moment){at_ns, saved, working, heads, losses};
}

// A task goes through the layers of its chunk one after another, which are much alike: what it
// saves or frees comes or goes evenly. A forward has brought all before it ends, its logits last; a
// backward frees nothing before it has begun, its logits first.
static void add_ramp(struct curve *curve, const struct span *span, bool comes, double saved,
                     int heads, int losses)
{
    int64_t length_ns = span->end_ns - span->start_ns;
    int count = curve->ramp, last = comes ? count - 1 : 0;
    for (int part = 0; part < count; part++) {
        bool is_head = part == last;
        add_moment(curve, span->start_ns + length_ns * (part + !comes) / count, saved / count, 0,
                   is_head ? heads : 0, is_head ? losses : 0);
    }
}

// F brings what it saves; B takes it away and leaves what W reads, W takes that. While a task runs
// it needs its working memory; its exposed communication, behind it, needs none.
static void add_task(struct curve *curve, const struct program *program,
                     const struct memory_in_flight *in_flight, const struct span *span)
{
    struct task_id id = task_id_of(&program->shape, span->task);
    if (span->stream != STREAM_COMPUTE || id.kind >= SLOT_KIND_COUNT) return;
    const struct memory_in_flight *hold = &in_flight[id.chunk];
    bool is_fused = schedule_row(program->parallel.schedule)->backward_fused;
    double waiting = is_fused ? 0 : hold->waiting_bytes;
    double working = (double)curve->parts.transient_bytes, saved = hold->saved_bytes;
    int heads = hold->loss_bytes > 0;
    add_moment(curve, span->start_ns, 0, working, 0, 0);
    if (id.kind == TASK_FORWARD)
        add_ramp(curve, span, true, saved, heads, heads);
    else if (id.kind == TASK_BACKWARD)
        add_ramp(curve, span, false, waiting - saved, -heads, is_fused ? -heads : 0);
    else
        add_ramp(curve, span, false, -waiting, 0, is_fused ? 0 : -heads);
    add_moment(curve, span->end_ns, 0, -working, 0, 0);
}

// By time; at one moment what goes before what comes, because the next task uses it again.
static bool is_before(const struct moment *a, const struct moment *b)
{
    if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
    return a->working_bytes < 0 && b->working_bytes >= 0;
}

// A stable merge sort.
static void sort(struct arena *arena, struct curve *curve)
{
    struct moment *from = curve->moments, *to = ARENA_NEW(arena, struct moment, curve->count);
    for (int width = 1; width < curve->count; width *= 2) {
        for (int low = 0; low < curve->count; low += 2 * width) {
            int middle = low + width < curve->count ? low + width : curve->count;
            int high = middle + width < curve->count ? middle + width : curve->count;
            int left = low, right = middle;
            for (int at = low; at < high; at++) {
                bool take_right =
                    left == middle || (right < high && is_before(&from[right], &from[left]));
                to[at] = take_right ? from[right++] : from[left++];
            }
        }
        struct moment *swap = from;
        from = to;
        to = swap;
    }
    curve->moments = from;
}

static struct curve curve_of(struct arena *arena, const struct report *report, int stage)
{
    const struct program *program = report->evaluation->program;
    const struct trace *trace = &report->evaluation->simulation->trace;
    int chunk_count = program->shape.chunk_count;
    struct memory_in_flight *in_flight = ARENA_NEW(arena, struct memory_in_flight, chunk_count);
    memory_of_chunks(program, report->request->stack, stage, in_flight);
    struct curve curve = {.parts = memory_of_stage(program, report->request->stack, stage)};
    for (int i = 0; i < chunk_count; i++) {
        if (in_flight[i].loss_bytes <= 0) continue;
        curve.loss = in_flight[i].loss_bytes;
        curve.logits_each = in_flight[i].logits_bytes;
    }
    int tasks = SLOT_KIND_COUNT * chunk_count * program->shape.micro_batch_count;
    int wanted = 2 * COLUMNS / tasks;
    curve.ramp = wanted < 1 ? 1 : wanted > RAMP_MAX ? RAMP_MAX : wanted;
    curve.moments = ARENA_NEW(arena, struct moment, (2 + curve.ramp) * tasks);
    for (int64_t i = 0; i < trace->span_count; i++) {
        if (trace->spans[i].rank == stage) add_task(&curve, program, in_flight, &trace->spans[i]);
    }
    sort(arena, &curve);
    if (!offload_moves_activations(&program->parallel.offload)) return curve;
    double saved = 0, most = 0;
    for (int i = 0; i < curve.count; i++) {
        saved += curve.moments[i].saved_bytes;
        most = fmax(most, saved);
    }
    curve.transit = fmax((double)curve.parts.activations_bytes - most, 0);
    return curve;
}

// The most that is alive in each column of the picture. Returns the most of all.
static double draw_curve(const struct chart *chart, struct chart_series *series,
                         const struct curve *curve, double end_s)
{
    const struct memory_parts *parts = &curve->parts;
    double standing = curve->transit + (double)(parts->weights_bytes + parts->gradients_bytes +
                                                parts->optimizer_bytes + parts->buffers_bytes);
    double alive = 0, all = standing, highest = standing;
    int heads = 0, losses = 0, next = 0;
    for (int column = 0; column <= COLUMNS; column++) {
        double until_ns = 1e9 * end_s * (column + 1) / COLUMNS, most = all;
        for (; next < curve->count && (double)curve->moments[next].at_ns < until_ns; next++) {
            const struct moment *moment = &curve->moments[next];
            alive += moment->saved_bytes + moment->working_bytes;
            heads += moment->heads;
            losses += moment->losses;
            double logits = heads > 1 ? (heads - 1) * curve->logits_each : 0;
            all = standing + alive + logits + (losses > 0 ? curve->loss : 0);
            most = fmax(most, all);
        }
        highest = fmax(highest, most);
        chart_mark(chart, series,
                   &(struct chart_mark){.x0 = end_s * column / COLUMNS, .y0 = most / GIB});
    }
    return highest;
}

static void add_level(struct chart *chart, enum chart_color color, const char *name, double bytes)
{
    struct chart_series *series = chart_add(chart, CHART_LINE, color, name);
    series->dashed = true;
    chart_mark(chart, series, &(struct chart_mark){.x0 = chart->x.low, .y0 = bytes / GIB});
    chart_mark(chart, series, &(struct chart_mark){.x0 = chart->x.high, .y0 = bytes / GIB});
}

// The first, the fullest, one between and the last.
static int stages_shown(const struct evaluation *evaluation, int stages[STAGES_MAX])
{
    int last = evaluation->program->shape.stage_count - 1, count = 0;
    const int wanted[STAGES_MAX] = {0, evaluation->worst_stage, last / 2, last};
    for (int i = 0; i < STAGES_MAX; i++) {
        bool is_new = true;
        for (int k = 0; k < count; k++)
            is_new = is_new && stages[k] != wanted[i];
        if (is_new) stages[count++] = wanted[i];
    }
    return count;
}

bool figure_memory_time(const struct report_facts *facts, struct chart *chart)
{
    static const enum chart_color COLORS[STAGES_MAX] = {CHART_FORWARD, CHART_BACKWARD, CHART_UPDATE,
                                                        CHART_WEIGHT};
    const struct report *report = facts->report;
    const struct evaluation *evaluation = report->evaluation;
    struct arena *arena = chart->arena;
    double end_s = evaluation->prediction.step_s;
    double limit = (double)cluster_device_bytes(report->request->cluster), highest = limit;
    chart->name = "memory-time";
    chart->title = "Memory alive over one step";
    chart->how = "Each line climbs with every forward whose activations wait for their backward; "
                 "it must stay below the dashed limit, less the reserve of the software.";
    chart->x = (struct chart_axis){
        .label = "time in the step", .low = 0, .high = end_s, .format = figure_seconds};
    chart->height = 260;
    int stages[STAGES_MAX], count = stages_shown(evaluation, stages);
    bool has_stages = evaluation->program->shape.stage_count > 1;
    for (int i = 0; i < count; i++) {
        struct curve curve = curve_of(arena, report, stages[i]);
        const char *name = arena_print(arena, has_stages ? "stage %d" : "alive", stages[i]);
        struct chart_series *series = chart_add(chart, CHART_STEPS, COLORS[i], name);
        highest = fmax(highest, draw_curve(chart, series, &curve, end_s));
    }
    if (evaluation->prediction.planned_bytes > 0)
        add_level(chart, CHART_PLAIN, "allocated by the memory schedule",
                  (double)evaluation->prediction.peak_bytes);
    add_level(chart, CHART_LIMIT, "what a GPU has", limit);
    chart->y = (struct chart_axis){.label = "GiB", .low = 0, .high = 1.05 * highest / GIB};
    return true;
}
