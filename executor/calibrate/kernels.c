#include "executor/array.h"
#include "executor/calibrate/calibrate.h"

#include "plan/lower/groups.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Every operator of some models' blocks, forward and backward, one after the other as in a step:
// between two calls of one kernel the caches have seen the others.

// Measured in any case. On a device the first two are over as soon as they are called, so that only
// the third says how long others take.
enum { LEAST_HOST = 2, LEAST_DEVICE = 3 };
static const double WARM_MOST_S = 3;  // of a device, to make its kernels for a subject
// Of a device, while the host calls a block's operators; no longer where it waits for something.
static const double LEAD_MOST_S = 0.02;
static const double MEMORY_SHARE = 0.7;  // of what a rank may use

struct measured_block {
    struct calibrate_block of;
    struct kernel_array *arrays;
    struct calibrate_rooms rooms;  // that they lie in
    int first_row;
    double called_s;  // that the host needed for its calls the last time
};

struct calibrate_kernels {
    struct arena *arena;
    const struct calibrate_request *request;
    const struct calibrate_side *side;
    struct calibrate_pattern pattern;
    struct measured_block *blocks;
    int block_count, used_count;  // used: those that there is time and memory for
    struct calibrate_kernel *rows;
    struct calibrate_samples *samples;  // by row
    int row_count;
    struct event **marks;  // of a device: before the first row of a block, behind each
    int mark_count;
    struct calibrate_timer timer;
    struct calibrate_step step;
    bool has_step;
    int64_t bytes;
};

static void add_rows(struct calibrate_kernels *kernels)
{
    for (int b = 0; b < kernels->block_count; b++)
        kernels->row_count += kernels->blocks[b].of.row_count;
    kernels->rows = ARENA_NEW(kernels->arena, struct calibrate_kernel, kernels->row_count);
    kernels->samples = ARENA_NEW(kernels->arena, struct calibrate_samples, kernels->row_count);
    struct calibrate_kernel *row = kernels->rows;
    for (int b = 0; b < kernels->block_count; b++) {
        const struct calibrate_block *of = &kernels->blocks[b].of;
        const struct block_program *program = of->program;
        kernels->blocks[b].first_row = (int)(row - kernels->rows);
        for (int i = 0; i < program->instr_count; i++) {
            if (!calibrate_is_measured(of, &program->instrs[i])) continue;
            *row++ = (struct calibrate_kernel){.program = program,
                                               .instr = &program->instrs[i],
                                               .of_plan = of->plan != NULL,
                                               .precision = kernels->side->precision};
        }
    }
    assert(row - kernels->rows == kernels->row_count);
}

// As many as the longest block has rows, and one in front.
static bool add_marks(struct calibrate_kernels *kernels, struct err *err)
{
    const struct calibrate_side *side = kernels->side;
    int most = 0;
    if (!calibrate_has_marks(side)) return true;
    for (int b = 0; b < kernels->block_count; b++) {
        if (kernels->blocks[b].of.row_count > most) most = kernels->blocks[b].of.row_count;
    }
    kernels->marks = ARENA_NEW(kernels->arena, struct event *, most + 1);
    for (; kernels->mark_count <= most; kernels->mark_count++) {
        struct event *made = side->backend->event_new(side->device);
        if (!made) return err_set(err, ERR_SYSTEM, "measuring: no more marks");
        kernels->marks[kernels->mark_count] = made;
    }
    return true;
}

struct calibrate_kernels *calibrate_kernels_new(struct arena *arena,
                                                const struct calibrate_request *request,
                                                const struct calibrate_side *side, struct err *err)
{
    struct calibrate_kernels *kernels = ARENA_NEW(arena, struct calibrate_kernels, 1);
    *kernels = (struct calibrate_kernels){.arena = arena, .request = request, .side = side};
    kernels->timer = (struct calibrate_timer){.request = request, .side = side};
    kernels->step = (struct calibrate_step){.arena = arena, .request = request, .side = side};
    kernels->has_step = side == request->sides;
    int count = 0;
    const struct calibrate_block *blocks = calibrate_blocks(arena, request, side, &count, err);
    if (!blocks) return kernels;
    kernels->blocks = ARENA_NEW(arena, struct measured_block, count);
    kernels->block_count = count;
    for (int b = 0; b < count; b++) {
        int arrays = calibrate_array_count(&blocks[b]);
        kernels->blocks[b] = (struct measured_block){
            .of = blocks[b], .arrays = ARENA_NEW(arena, struct kernel_array, arrays)};
    }
    add_rows(kernels);
    if (!add_marks(kernels, err) || !calibrate_timer_open(&kernels->timer, err)) return kernels;
    if (!calibrate_pattern_make(side, &kernels->pattern, err)) return kernels;
    if (kernels->has_step && !calibrate_step_open(&kernels->step, err)) return kernels;
    return kernels;
}

void calibrate_kernels_free(struct calibrate_kernels *kernels)
{
    const struct calibrate_side *side = kernels->side;
    for (int b = 0; b < kernels->block_count; b++) {
        const struct calibrate_rooms *rooms = &kernels->blocks[b].rooms;
        for (int r = 0; r < rooms->count; r++)
            side->backend->release(side->device, rooms->memory[r]);
    }
    for (int i = 0; i < kernels->mark_count; i++)
        side->backend->event_free(side->device, kernels->marks[i]);
    calibrate_timer_close(&kernels->timer);
    calibrate_step_close(&kernels->step);
    calibrate_pattern_free(side, &kernels->pattern);
}

// Work on a part of a relay is a call for each sequence, as the engine runs it.
static const char *run_part(const struct calibrate_side *side, const struct instr *instr,
                            struct kernel_call *call)
{
    int64_t sequences = 1;
    const char *fault = NULL;
    for (int i = 0; i < call->input_count + call->output_count && instr->dim == DIM_SEQ; i++) {
        struct kernel_array *array =
            i < call->input_count ? &call->inputs[i] : &call->outputs[i - call->input_count];
        if (!array_has_rows(array)) continue;
        sequences = array->sizes[0];
        array->sizes[0] = 1;
    }
    for (int64_t s = 0; s < sequences && !fault; s++)
        fault = side->backend->run(side->device, STREAM_COMPUTE, call);
    return fault;
}

static const char *run_row(const struct calibrate_kernels *kernels,
                           const struct measured_block *block, int row, const char **what)
{
    const struct calibrate_side *side = kernels->side;
    const struct instr *instr = kernels->rows[row].instr;
    struct kernel_call calls[GROUP_MEMBERS_MAX];
    assert(row >= 0 && row < kernels->row_count && instr->joined <= GROUP_MEMBERS_MAX);
    calls[0] = calibrate_call(&block->of, block->arrays, instr);
    *what = calls[0].op->name;
    if (instr->rows) return run_part(side, instr, calls);
    if (!instr->joined) return side->backend->run(side->device, STREAM_COMPUTE, calls);
    for (int i = 1; i < instr->joined; i++)
        calls[i] = calibrate_call(&block->of, block->arrays, instr + i);
    return side->backend->run_joined(side->device, STREAM_COMPUTE, calls, instr->joined);
}

// On a host one after the other.
static bool measure_rows(struct calibrate_kernels *kernels, const struct measured_block *block,
                         bool is_kept, struct err *err)
{
    const char *what = NULL;
    for (int i = 0; i < block->of.row_count; i++) {
        int row = block->first_row + i;
        if (!calibrate_timer_start(&kernels->timer, err)) return false;
        const char *fault = run_row(kernels, block, row, &what);
        if (!calibrate_timer_stop(&kernels->timer, what, fault, err)) return false;
        if (is_kept)
            calibrate_sample(kernels->arena, &kernels->samples[row], kernels->timer.taken_s);
    }
    return true;
}

// On a device all at once, a mark behind each.
static bool measure_marked(struct calibrate_kernels *kernels, struct measured_block *block,
                           bool is_kept, struct err *err)
{
    const struct calibrate_clock *clock = &kernels->request->clock;
    const struct calibrate_side *side = kernels->side;
    const struct backend *backend = side->backend;
    const char *what = "a mark",
               *fault = calibrate_lead(side, fmin(1.5 * block->called_s, LEAD_MOST_S));
    double start_s = clock->wall_s(clock->context);
    if (!fault) fault = backend->event_record(side->device, STREAM_COMPUTE, kernels->marks[0]);
    for (int i = 0; i < block->of.row_count && !fault; i++) {
        fault = run_row(kernels, block, block->first_row + i, &what);
        if (!fault)
            fault = backend->event_record(side->device, STREAM_COMPUTE, kernels->marks[i + 1]);
    }
    block->called_s = clock->wall_s(clock->context) - start_s;
    if (!fault) fault = backend->synchronize(side->device, STREAM_COMPUTE);
    if (!calibrate_ok(err, what, fault)) return false;
    for (int i = 0; is_kept && i < block->of.row_count; i++) {
        double s = backend->event_seconds(side->device, kernels->marks[i], kernels->marks[i + 1]);
        calibrate_sample(kernels->arena, &kernels->samples[block->first_row + i], s);
    }
    return true;
}

static bool measure_block(struct calibrate_kernels *kernels, int block, bool is_kept,
                          struct err *err)
{
    struct measured_block *of = &kernels->blocks[block];
    assert(block >= 0 && block < kernels->used_count);
    return kernels->marks ? measure_marked(kernels, of, is_kept, err)
                          : measure_rows(kernels, of, is_kept, err);
}

static bool measure_step(struct calibrate_kernels *kernels, bool is_kept, struct err *err)
{
    return !kernels->has_step || calibrate_step_measure(&kernels->step, is_kept, err);
}

bool calibrate_kernels_round(struct calibrate_kernels *kernels, struct err *err)
{
    for (int b = 0; b < kernels->used_count; b++) {
        if (!measure_block(kernels, b, true, err)) return false;
    }
    return measure_step(kernels, true, err);
}

// Work and memory of the subject that begins here.
static double subject_flop(const struct calibrate_kernels *kernels, int block, int64_t *bytes)
{
    double flop = 0;
    *bytes = 0;
    for (int b = block; b < kernels->block_count; b++) {
        const struct calibrate_block *of = &kernels->blocks[b].of;
        if (b > block && of->begins_subject) break;
        flop += of->flop;
        *bytes += calibrate_block_bytes(kernels->side, of);
    }
    return flop;
}

// What has been run so far to judge the rest by: on a host all of it, on a device the last subject,
// when its kernels were there.
struct pace {
    double flop, s;
};

// On a host this subject twice, and what has run once more.
static double more_s(const struct calibrate_kernels *kernels, const struct pace *pace,
                     double more_flop)
{
    assert(pace->flop > 0 && more_flop >= 0 && pace->s >= 0);
    double of_pace = more_flop / pace->flop;
    if (kernels->marks) return WARM_MOST_S + 3 * pace->s * of_pace;
    return pace->s * (1 + 2 * of_pace);
}

// Whether on all ranks there is memory for this subject, and it ends in time at the speed of what
// has run.
static bool has_room(struct calibrate_kernels *kernels, int block, const struct pace *pace,
                     double until_s, struct group *world, struct err *err)
{
    const struct calibrate_request *request = kernels->request;
    int64_t bytes = 0;
    double more_flop = subject_flop(kernels, block, &bytes);
    double now_s = request->clock.wall_s(request->clock.context);
    double most_bytes = MEMORY_SHARE * (double)request->memory_bytes;
    bool is_too_large = request->memory_bytes > 0 && (double)(kernels->bytes + bytes) > most_bytes;
    double late = now_s + more_s(kernels, pace, more_flop) > until_s || is_too_large;
    return calibrate_mean(request, world, &late, 1, err) && late == 0;
}

// A first call may compile, allocate, or look for an algorithm: it is not kept.
static bool warm_block(struct calibrate_kernels *kernels, int block, struct pace *pace,
                       struct err *err)
{
    const struct calibrate_clock *clock = &kernels->request->clock;
    struct measured_block *of = &kernels->blocks[block];
    double begun_s = clock->wall_s(clock->context);
    of->rooms.memory = ARENA_NEW(kernels->arena, void *, calibrate_array_count(&of->of) + 2);
    if (!calibrate_arrays(kernels->side, &kernels->pattern, &of->of, of->arrays, &of->rooms, err))
        return false;
    kernels->bytes += calibrate_block_bytes(kernels->side, &of->of);
    if (!measure_block(kernels, block, false, err)) return false;
    if (kernels->marks) {
        if (of->of.begins_subject) *pace = (struct pace){0};
        begun_s = clock->wall_s(clock->context);
        if (!measure_block(kernels, block, false, err)) return false;
    }
    pace->s += clock->wall_s(clock->context) - begun_s;
    pace->flop += of->of.flop;
    return true;
}

bool calibrate_kernels_warm(struct calibrate_kernels *kernels, struct group *world, double until_s,
                            struct err *err)
{
    struct pace pace = {0};
    int least = kernels->marks ? LEAST_DEVICE : LEAST_HOST;
    kernels->used_count = kernels->block_count;
    for (int b = 0, subjects = 0; b < kernels->used_count; b++) {
        const struct measured_block *block = &kernels->blocks[b];
        bool is_due = subjects < least || block->of.plan;
        subjects += block->of.begins_subject && !block->of.plan;
        if (block->of.begins_subject && !is_due &&
            !has_room(kernels, b, &pace, until_s, world, err)) {
            kernels->used_count = b;
            kernels->row_count = block->first_row;
            break;
        }
        if (!warm_block(kernels, b, &pace, err)) return false;
    }
    return !err->kind && measure_step(kernels, false, err);
}

// Behind those of the sides before this one.
static void add_kernels(struct calibrate_kernels *kernels, struct calibration *calibration)
{
    int before = calibration->kernel_count, count = before + kernels->row_count;
    assert(kernels->used_count <= kernels->block_count);
    struct calibrate_kernel *all = ARENA_NEW(kernels->arena, struct calibrate_kernel, count);
    if (before > 0) memcpy(all, calibration->kernels, (size_t)before * sizeof *all);
    memcpy(all + before, kernels->rows, (size_t)kernels->row_count * sizeof *all);
    calibration->kernels = all;
    calibration->kernel_count = count;
}

// What is measured once has no rows.
enum { UPDATE, COPY, TO_HOST, FROM_HOST, HOST_COPY, CALL, HOST_CALL, STEP_VALUES };

// What there is none of was not measured, and has no rate.
static double rate_of(double bytes, double s)
{
    return s > 0 ? bytes / s : 0;
}

static void add_step(const struct calibrate_kernels *kernels, const double *values,
                     struct calibration *calibration)
{
    if (!kernels->has_step) return;
    double bytes = (double)kernels->step.elements * kernels->side->backend->real_bytes;
    calibration->precision = kernels->side->precision;
    calibration->update_elements = kernels->step.elements;
    calibration->update_s = values[UPDATE];
    calibration->copy_bytes_per_s = rate_of(2 * bytes, values[COPY]);
    double host_bytes = (double)kernels->step.host_elements * kernels->side->backend->real_bytes;
    calibration->to_host_bytes_per_s = rate_of(host_bytes, values[TO_HOST]);
    calibration->from_host_bytes_per_s = rate_of(host_bytes, values[FROM_HOST]);
    calibration->host_copy_bytes_per_s = rate_of(host_bytes, values[HOST_COPY]);
    calibration->call_s = values[CALL];
    calibration->host_call_s = values[HOST_CALL];
}

bool calibrate_kernels_finish(struct calibrate_kernels *kernels, struct group *world,
                              struct calibration *calibration, struct err *err)
{
    int count = kernels->row_count;
    const struct calibrate_step *step = &kernels->step;
    const struct calibrate_samples *once[STEP_VALUES] = {
        &step->update,    &step->copy, &step->to_host,  &step->from_host,
        &step->host_copy, &step->call, &step->host_call};
    double *values = ARENA_NEW(kernels->arena, double, count + STEP_VALUES);
    for (int row = 0; row < count; row++)
        values[row] = calibrate_median(&kernels->samples[row]);
    for (int i = 0; i < STEP_VALUES; i++)
        values[count + i] = calibrate_median(once[i]);
    if (!calibrate_mean(kernels->request, world, values, count + STEP_VALUES, err)) return false;
    for (int row = 0; row < count; row++)
        kernels->rows[row].s = values[row];
    add_kernels(kernels, calibration);
    add_step(kernels, values + count, calibration);
    return true;
}
