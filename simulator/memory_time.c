#include "simulator/memory_time.h"
#include "core/sort.h"

#include <assert.h>
#include <math.h>

enum { RAMPS = 1200, RAMP_MAX = 32 };

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
    assert(working >= 0 && saved >= 0 && waiting >= 0);
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
static bool is_before(const void *a, const void *b)
{
    const struct moment *first = a, *second = b;
    if (first->at_ns != second->at_ns) return first->at_ns < second->at_ns;
    return first->working_bytes < 0 && second->working_bytes >= 0;
}

static struct curve curve_of(struct arena *arena, const struct program *program,
                             const struct stack *stack, const struct trace *trace, int rank,
                             int stage)
{
    int chunk_count = program->shape.chunk_count;
    struct memory_in_flight *in_flight = ARENA_NEW(arena, struct memory_in_flight, chunk_count);
    memory_of_chunks(program, stack, stage, in_flight);
    struct curve curve = {.parts = memory_of_stage(program, stack, stage)};
    for (int i = 0; i < chunk_count; i++) {
        if (in_flight[i].loss_bytes <= 0) continue;
        curve.loss = in_flight[i].loss_bytes;
        curve.logits_each = in_flight[i].logits_bytes;
    }
    int tasks = SLOT_KIND_COUNT * chunk_count * program->shape.micro_batch_count;
    int wanted = RAMPS / tasks;
    curve.ramp = wanted < 1 ? 1 : wanted > RAMP_MAX ? RAMP_MAX : wanted;
    assert(tasks > 0);
    curve.moments = ARENA_NEW(arena, struct moment, (2 + curve.ramp) * tasks);
    for (int64_t i = 0; i < trace->span_count; i++) {
        if (trace->spans[i].rank == rank) add_task(&curve, program, in_flight, &trace->spans[i]);
    }
    sort_stable(arena, curve.moments, curve.count, sizeof *curve.moments, is_before);
    if (!offload_moves_activations(&program->parallel.offload)) return curve;
    double saved = 0, most = 0;
    for (int i = 0; i < curve.count; i++) {
        saved += curve.moments[i].saved_bytes;
        most = fmax(most, saved);
    }
    curve.transit = fmax((double)curve.parts.activations_bytes - most, 0);
    return curve;
}

struct memory_time memory_time(struct arena *arena, const struct program *program,
                               const struct stack *stack, const struct trace *trace, int rank,
                               int stage)
{
    struct curve curve = curve_of(arena, program, stack, trace, rank, stage);
    const struct memory_parts *parts = &curve.parts;
    double standing = curve.transit + (double)(parts->weights_bytes + parts->gradients_bytes +
                                               parts->optimizer_bytes + parts->buffers_bytes);
    struct memory_time time = {.list = ARENA_NEW(arena, struct trace_level, curve.count + 1)};
    time.list[time.count++] = (struct trace_level){rank, 0, standing};
    double alive = 0;
    int heads = 0, losses = 0;
    for (int i = 0; i < curve.count; i++) {
        const struct moment *moment = &curve.moments[i];
        alive += moment->saved_bytes + moment->working_bytes;
        heads += moment->heads;
        losses += moment->losses;
        assert(heads >= 0 && losses >= 0 && "no task gives back what none has taken");
        double logits = heads > 1 ? (heads - 1) * curve.logits_each : 0;
        double all = standing + alive + logits + (losses > 0 ? curve.loss : 0);
        time.list[time.count++] = (struct trace_level){rank, moment->at_ns, all};
    }
    return time;
}
