#include "executor/cpu/image.h"

#include <assert.h>

// Operators of imported graphs that go with loops over the numbers of a sample
// (models/strided.h), and norms of rows. Of a Mul and an Add backward adds to what is repeated once
// for each time.

struct strided_side {
    REAL *data;
    int64_t sample;  // numbers from one to the next; 0: a weight
};
static struct strided_side side_of(const struct kernel_array *array, int64_t samples)
{
    bool is_weight = array_find(array, DIM_BATCH) < 0;
    int64_t elements = array_elements(array);
    return (struct strided_side){array->data, is_weight || samples < 1 ? 0 : elements / samples};
}

// Places of the inputs where a run of the last loop begins.
static void places_of(const struct strided *s, int64_t run, int64_t at[LOOPS_INPUTS])
{
    assert(s->count <= (int)(sizeof s->sizes / sizeof *s->sizes) && run >= 0);
    for (int i = 0; i < LOOPS_INPUTS; i++)
        at[i] = s->first[i];
    for (int l = s->count - 2; l >= 0; l--) {
        int64_t turn = run % s->sizes[l];
        run /= s->sizes[l];
        for (int i = 0; i < LOOPS_INPUTS; i++)
            at[i] += turn * s->steps[i][l];
    }
}

// What is done with a run of numbers: of `a` and `b`, `n` of them, and y or its gradient.
struct strided_run {
    REAL *a, *b, *y, *d_a, *d_b, *kept;  // the last: y, where y is its gradient
    int64_t n, a_step, b_step;
};

static void run_move(const struct strided_run *r, bool is_backward)
{
    for (int64_t i = 0; i < r->n; i++) {
        REAL *at = (is_backward ? r->d_a : r->a) + i * r->a_step;
        if (is_backward) *at += r->y[i];
        if (!is_backward) r->y[i] = *at;
    }
}

static void run_add(const struct strided_run *r, bool is_backward)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (!is_backward) r->y[i] = r->a[i * r->a_step] + r->b[i * r->b_step];
        if (is_backward) r->d_a[i * r->a_step] += r->y[i];
        if (is_backward) r->d_b[i * r->b_step] += r->y[i];
    }
}

static void run_subtract(const struct strided_run *r, bool is_backward)
{
    for (int64_t i = 0; i < r->n; i++) {
        if (!is_backward) r->y[i] = r->a[i * r->a_step] - r->b[i * r->b_step];
        if (is_backward) r->d_a[i * r->a_step] += r->y[i];
        if (is_backward) r->d_b[i * r->b_step] -= r->y[i];
    }
}

static void run_divide(const struct strided_run *r, bool is_backward)
{
    for (int64_t i = 0; i < r->n; i++) {
        REAL b = r->b[i * r->b_step];
        if (!is_backward) r->y[i] = r->a[i * r->a_step] / b;
        if (is_backward) r->d_a[i * r->a_step] += r->y[i] / b;
        if (is_backward) r->d_b[i * r->b_step] -= r->y[i] * r->kept[i] / b;
    }
}

static void run_multiply(const struct strided_run *r, bool is_backward)
{
    for (int64_t i = 0; i < r->n; i++) {
        REAL a = r->a[i * r->a_step], b = r->b[i * r->b_step];
        if (!is_backward) r->y[i] = a * b;
        if (is_backward) r->d_a[i * r->a_step] += r->y[i] * b;
        if (is_backward) r->d_b[i * r->b_step] += r->y[i] * a;
    }
}

static REAL *part(const struct strided_side *side, int64_t sample, int64_t at)
{
    return side->data + (side->data ? sample * side->sample + at : 0);
}

// `y` is the result, or its gradient; the other sides without data are none of this call.
static void go(const struct strided *s, const struct strided_side sides[6], int64_t samples,
               void (*run)(const struct strided_run *run, bool is_backward), bool is_backward)
{
    assert(samples >= 0 && sides[2].data && "a result, or its gradient");
    int last = s->count - 1;
    int64_t n = last < 0 ? 1 : s->sizes[last], runs = strided_elements(s) / n;
    for (int64_t i = 0; i < samples * runs; i++) {
        int64_t sample = i / runs, at[LOOPS_INPUTS];
        places_of(s, i % runs, at);
        const struct strided_run one = {.a = part(&sides[0], sample, at[0]),
                                        .b = part(&sides[1], sample, at[1]),
                                        .y = part(&sides[2], sample, i % runs * n),
                                        .d_a = part(&sides[3], sample, at[0]),
                                        .d_b = part(&sides[4], sample, at[1]),
                                        .kept = part(&sides[5], sample, i % runs * n),
                                        .n = n,
                                        .a_step = last < 0 ? 0 : s->steps[0][last],
                                        .b_step = last < 0 ? 0 : s->steps[1][last]};
        run(&one, is_backward);
    }
}

// Forward a, b -> y; backward d_y(, a, b) -> d_a(, d_b), of a quotient d_y, b, y -> d_a, d_b.
const char *cpu_strided(const struct kernel_call *call)
{
    const struct op_work *work = &call->op->work;
    bool is_backward = call->op->phase != PHASE_FORWARD, divides = work->type == IMPORTED_DIVIDE;
    bool multiplies = work->type != IMPORTED_ADD && work->type != IMPORTED_SUBTRACT;
    const struct kernel_array *made = is_backward ? &call->inputs[0] : &call->outputs[0];
    int64_t samples = array_size(made, DIM_BATCH);
    int parts = work->type == IMPORTED_MOVE ? 1 : 2;
    bool reads = !is_backward || (parts == 2 && multiplies);
    if (call->input_count != is_backward + (reads ? parts : 0) ||
        call->output_count != (is_backward ? parts : 1))
        return "loops over other tensors than these";
    if (samples > 0 && array_elements(made) != samples * strided_elements(work->strided))
        return "loops over parts of an image";
    if (!call->outputs[0].data || !made->data) return NULL;
    struct strided_side sides[6] = {0};
    for (int i = 0; i < parts; i++) {
        int side = is_backward && divides ? (i == 0 ? 1 : 5) : i;
        if (reads) sides[side] = side_of(&call->inputs[is_backward + i], samples);
        if (is_backward) sides[3 + i] = side_of(&call->outputs[i], samples);
        if (is_backward) call_begin_sum(call, i);
    }
    sides[2] = side_of(made, samples);
    go(work->strided, sides, samples,
       parts == 1                        ? run_move
       : divides                         ? run_divide
       : multiplies                      ? run_multiply
       : work->type == IMPORTED_SUBTRACT ? run_subtract
                                         : run_add,
       is_backward);
    return NULL;
}

// Whether it is a weight, which each sample has.
static bool is_each(const struct kernel_array *array)
{
    return array_find(array, DIM_BATCH) < 0;
}

// Rows of the whole and, in each result, the part of each; of a Join the other way.
const char *cpu_split(const struct kernel_call *call)
{
    bool is_backward = call->op->phase != PHASE_FORWARD;
    bool joins = is_backward != (call->op->work.type == IMPORTED_JOIN);
    const struct kernel_array *whole = joins ? &call->outputs[0] : &call->inputs[0];
    const struct kernel_array *pieces = joins ? call->inputs : call->outputs;
    int count = joins ? call->input_count : call->output_count;
    int64_t samples = array_size(whole, DIM_BATCH);
    int64_t each = strided_elements(call->op->work.strided), rows = samples * each;
    int64_t before = 0, width = rows > 0 ? array_elements(whole) / rows : 0, sum = 0;
    for (int i = 0; i < count; i++)
        sum += array_elements(&pieces[i]) * (is_each(&pieces[i]) ? samples : 1);
    if (sum != array_elements(whole)) return "parts of an image that are not all of it";
    if (!whole->data || rows == 0) return NULL;
    for (int i = 0; i < call->output_count; i++)
        call_begin_sum(call, i);
    for (int i = 0; i < count; i++) {
        int64_t own = array_elements(&pieces[i]) / (is_each(&pieces[i]) ? each : rows);
        int64_t all = array_elements(&pieces[i]);
        for (int64_t k = 0; k < rows * own; k++) {
            REAL *at = (REAL *)whole->data + k / own * width + before + k % own;
            REAL *piece = (REAL *)pieces[i].data + k % all;
            if (joins) *at += *piece;
            if (!joins) *piece += *at;
        }
        before += own;
    }
    return NULL;
}

// What that norm writes is added where the call says so.
static const char *add_row_gradient(struct cpu_device *device, struct kernel_call *norm)
{
    struct kernel_array *made = &norm->outputs[0];
    REAL *to = made->data;
    int64_t elements = array_elements(made);
    if (!call_adds(norm, 0)) return cpu_norm_backward(device, norm);
    made->data = cpu_scratch(device, SCRATCH_ROWS, elements * (int64_t)sizeof(REAL) + 1);
    if (!made->data) return cpu_no_memory(device);
    const char *fault = cpu_norm_backward(device, norm);
    for (int64_t i = 0; i < elements && !fault; i++)
        to[i] += ((const REAL *)made->data)[i];
    return fault;
}

// As the norm of a language model's rows, which keeps nothing: moments are taken again.
const char *cpu_row_norm(struct cpu_device *device, const struct kernel_call *call)
{
    bool is_backward = call->op->phase != PHASE_FORWARD;
    struct op op = *call->op;
    struct kernel_call norm = *call;
    const struct kernel_array *factors = &call->inputs[is_backward + 1];
    int64_t width = array_elements(factors);
    if (call->input_count < 2 + is_backward || width < 1 ||
        array_elements(&call->inputs[is_backward]) % width != 0)
        return "a norm of rows without factors";
    op.function = FUNCTION_LAYER_NORM;
    op.scalar = op.work.scalar;
    norm.op = &op;
    norm.input_count = is_backward ? 3 : call->input_count;
    if (!call->outputs[0].data) return NULL;
    if (is_backward) return add_row_gradient(device, &norm);
    norm.output_count = 1;
    for (int i = 1; i < call->output_count; i++) {
        REAL *kept = call->outputs[i].data;
        for (int64_t k = 0; k < array_elements(&call->outputs[i]); k++)
            kept[k] = 0;
    }
    return cpu_norm(device, &norm);
}
