#include "models/strided.h"
#include "executor/cuda/image.h"
#include "plan/strided_sums.h"

#include <assert.h>
#include <string.h>

// Operators of imported graphs that go with loops over the numbers of a sample (models/strided.h),
// and norms of rows: what their kernels are given. The same as executor/cpu/strided.c computes.

// Sides of a call: the result, or its gradient, and the operands, or theirs.
struct strided_call {
    const struct strided *loops;
    enum strided_kind kind;
    int parts;  // operands
    bool is_backward;
    int64_t samples;
    const struct kernel_array *made;
};

static const enum strided_kind KINDS[IMPORTED_COUNT] = {[IMPORTED_MOVE] = STRIDED_MOVE,
                                                        [IMPORTED_ADD] = STRIDED_ADD,
                                                        [IMPORTED_SUBTRACT] = STRIDED_SUBTRACT,
                                                        [IMPORTED_MULTIPLY] = STRIDED_MULTIPLY,
                                                        [IMPORTED_DIVIDE] = STRIDED_DIVIDE};

static const char *read_call(const struct kernel_call *call, struct strided_call *s)
{
    *s = (struct strided_call){.loops = call->op->work.strided,
                               .kind = KINDS[call->op->work.type],
                               .is_backward = call->op->phase != PHASE_FORWARD};
    s->parts = s->kind == STRIDED_MOVE ? 1 : 2;
    s->made = s->is_backward ? &call->inputs[0] : &call->outputs[0];
    s->samples = array_size(s->made, DIM_BATCH);
    bool reads = !s->is_backward || s->kind >= STRIDED_MULTIPLY;
    if (call->input_count != s->is_backward + (reads ? s->parts : 0) ||
        call->output_count != (s->is_backward ? s->parts : 1))
        return "loops over other tensors than these";
    if (s->samples > 0 && array_elements(s->made) != s->samples * strided_elements(s->loops))
        return "loops over parts of an image";
    return NULL;
}

// Numbers of an operand from one sample to the next; 0: it is a weight.
static int64_t sample_of(const struct strided_call *s, const struct kernel_array *array)
{
    bool is_weight = array_find(array, DIM_BATCH) < 0;
    return is_weight ? 0 : array_elements(array) / s->samples;
}

// Samples are the first of the loops, what is made stands in their order.
static int begin_loops(const struct strided_call *s, int64_t sizes[STRIDED_LOOPS],
                       struct strided_array *made)
{
    int64_t step = 1;
    assert(s->loops->count < STRIDED_LOOPS);
    for (int l = s->loops->count; l >= 0; l--) {
        sizes[l] = l == 0 ? s->samples : s->loops->sizes[l - 1];
        made->steps[l] = step;
        step *= sizes[l];
    }
    return s->loops->count + 1;
}
// Loop 0 is over samples, those of the operator follow.
static struct strided_array side_of(const struct run *run, const struct strided_call *s, int input,
                                    const struct kernel_array *array)
{
    struct strided_array side = {.reals = reals_of(run->device, array),
                                 .first = s->loops->first[input]};
    side.steps[0] = sample_of(s, array);
    for (int l = 0; l < s->loops->count; l++)
        side.steps[l + 1] = s->loops->steps[input][l];
    return side;
}

// The loop along which a side goes number by number, if it is one to speak of.
static int unit_of(const struct strided_args *args, const struct strided_array *side)
{
    enum { UNIT_LEAST = 8 };
    for (int l = args->count - 1; l >= 0; l--) {
        bool is_unit = side->steps[l] == 1 || side->steps[l] == -1;
        if (is_unit && args->sizes[l] >= UNIT_LEAST) return l;
    }
    return -1;
}

static void move_or_combine(const struct run *run, struct strided_args *args)
{
    args->a_unit = args->kind == STRIDED_MOVE ? unit_of(args, &args->a) : -1;
    args->y_unit = unit_of(args, &args->y);
    if (args->y_unit < 0 || args->a_unit == args->y_unit) args->a_unit = -1;
    kernel_strided(run->on, args);
}

static const char *run_forward(const struct run *run, const struct strided_call *s)
{
    const struct kernel_call *call = run->call;
    struct strided_args args = {.kind = (int)s->kind};
    args.count = begin_loops(s, args.sizes, &args.y);
    args.y.reals = run_output(run, 0);
    args.a = side_of(run, s, 0, &call->inputs[0]);
    if (s->parts > 1) args.b = side_of(run, s, 1, &call->inputs[1]);
    move_or_combine(run, &args);
    return NULL;
}

// No turn's number is another's: the move itself, from its result, into what is 0 elsewhere.
static const char *move_back(const struct run *run, const struct strided_call *s)
{
    const struct kernel_array *out = &run->call->outputs[0];
    bool is_all = array_elements(out) == array_elements(s->made);
    const char *fault = is_all ? NULL : cuda_begin_sum(run->device, run->stream, run->call, 0);
    if (fault) return fault;
    struct strided_args args = {.kind = STRIDED_MOVE, .adds = !is_all || call_adds(run->call, 0)};
    args.count = begin_loops(s, args.sizes, &args.a);
    args.a.reals = run_input(run, 0);
    args.y = side_of(run, s, 0, out);
    move_or_combine(run, &args);
    return NULL;
}

struct loop_steps {
    int64_t size, a, b, y;
};
// The loops of operand `part`, those first that say which of its numbers it is, so that it goes
// forward along each.
static void add_loop(struct strided_sums_args *args, struct loop_steps loop)
{
    if (loop.y < 0) {
        args->a.first += (loop.size - 1) * loop.a;
        args->b.first += (loop.size - 1) * loop.b;
        args->y.first += (loop.size - 1) * loop.y;
        loop.a = -loop.a, loop.b = -loop.b, loop.y = -loop.y;
    }
    int at = args->count++;
    assert(at < STRIDED_LOOPS && loop.size > 0);
    args->sizes[at] = loop.size;
    args->a.steps[at] = loop.a, args->b.steps[at] = loop.b, args->y.steps[at] = loop.y;
    if (loop.y > 0)
        args->nested++;
    else
        args->turns *= loop.size;
}

// What is summed, and over what: the loops of y, which is side `input` of the operator, say which
// number it is, the others are summed over. `made`: what stands in the order of the loops, or has
// steps of its own.
struct summed {
    int input;
    const struct kernel_array *y;
    struct strided_array made, other;
    enum strided_kind kind;
    float factor;
    struct reals divisor;
};

static struct strided_sums_args sums_of(const struct run *run, const struct strided_call *s,
                                        const struct summed *of, bool adds)
{
    struct strided_array y = side_of(run, s, of->input, of->y), unused = {0};
    int order[LOOPS_MOST], nested = strided_order(s->loops, of->input, order);
    int64_t sizes[STRIDED_LOOPS] = {0};
    int count = begin_loops(s, sizes, &unused);
    struct strided_sums_args args = {.kind = (int)of->kind,
                                     .adds = adds,
                                     .factor = of->factor,
                                     .divisor = of->divisor,
                                     .numbers = array_elements(of->y),
                                     .turns = 1};
    args.a.reals = of->made.reals, args.b.reals = of->other.reals, args.y.reals = y.reals;
    args.a.first = of->made.first, args.b.first = of->other.first, args.y.first = y.first;
    for (int is_repeat = 0; is_repeat < 2; is_repeat++) {
        for (int k = 0; k < (is_repeat ? count : nested + 1); k++) {
            int l = is_repeat || k == 0 ? k : order[k - 1] + 1;
            bool is_it = is_repeat == (y.steps[l] == 0) && (sizes[l] > 1 || (l == 0 && !is_repeat));
            struct loop_steps loop = {sizes[l], of->made.steps[l], of->other.steps[l], y.steps[l]};
            if (is_it) add_loop(&args, loop);
        }
    }
    return args;
}

// Sums over many turns are cut into pieces, which are added up in their order.
static const char *add_up(const struct run *run, struct strided_sums_args *args)
{
    args->pieces = strided_pieces(args->numbers, args->turns);
    assert(args->turns > 0 && args->pieces > 0);
    if (args->pieces > 1) {
        args->partial = run_scratch(run, SCRATCH_PARTIAL, args->pieces * args->numbers * 4);
        if (!args->partial) return CUDA_NO_MEMORY;
    }
    if (args->numbers > 0) kernel_strided_sums(run->on, args);
    return NULL;
}

static const char *run_sums(const struct run *run, const struct strided_call *s,
                            const struct summed *of, int output)
{
    struct strided_sums_args args = sums_of(run, s, of, call_adds(run->call, output));
    return add_up(run, &args);
}

// The result's gradient as it is, by the other operand, or over the divisor; that of the divisor is
// the result's times the quotient, over it.
static const char *run_gradient(const struct run *run, const struct strided_call *s, int part)
{
    const struct kernel_call *call = run->call;
    int64_t sizes[STRIDED_LOOPS];
    struct summed of = {
        .input = part, .y = &call->outputs[part], .kind = STRIDED_MOVE, .factor = 1};
    begin_loops(s, sizes, &of.made);
    of.made.reals = run_input(run, 0);
    if (s->kind == STRIDED_MULTIPLY || (s->kind == STRIDED_DIVIDE && part == 0)) {
        of.kind = s->kind;
        int other = 1 - part, at = s->kind == STRIDED_DIVIDE ? 1 : 1 + other;
        of.other = side_of(run, s, other, &call->inputs[at]);
    } else if (s->kind == STRIDED_DIVIDE) {
        of.kind = STRIDED_MULTIPLY, of.factor = -1;
        of.other = of.made, of.other.reals = run_input(run, 2);
        of.divisor = run_input(run, 1);
    }
    if (s->kind == STRIDED_SUBTRACT && part == 1) of.factor = -1;
    return run_sums(run, s, &of, part);
}

// Whether several turns read one of its numbers, so that their gradients are added up.
static bool is_repeated(const struct strided_call *s, const struct kernel_array *array)
{
    for (int l = 0; l < s->loops->count; l++)
        if (s->loops->steps[0][l] == 0 && s->loops->sizes[l] > 1) return true;
    return sample_of(s, array) == 0;
}

const char *cuda_strided(const struct run *run)
{
    struct strided_call s;
    const char *fault = read_call(run->call, &s);
    if (fault) return fault;
    bool is_none = array_elements(s.made) == 0;
    if (!s.is_backward) return is_none ? NULL : run_forward(run, &s);
    bool is_move = s.kind == STRIDED_MOVE && !is_none && !is_repeated(&s, &run->call->outputs[0]);
    if (is_move) return move_back(run, &s);
    for (int i = 0; i < s.parts && !fault; i++)
        fault = is_none ? cuda_begin_sum(run->device, run->stream, run->call, i)
                        : run_gradient(run, &s, i);
    return fault;
}

// Between the numbers of what is read, in order of the loops, and where they go in the result.
const char *cuda_row_place(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct op_work *work = &call->op->work;
    struct strided_call s = {.loops = work->strided,
                             .is_backward = call->op->phase != PHASE_FORWARD};
    const struct kernel_array *large = s.is_backward ? &call->outputs[0] : &call->inputs[0];
    const struct kernel_array *placed = s.is_backward ? &call->inputs[0] : &call->outputs[0];
    s.samples = array_size(large, DIM_BATCH);
    if (call->input_count != 1) return "sums of other tensors than one";
    if (s.samples < 1) return NULL;
    int64_t made = array_elements(placed) / s.samples, read = array_elements(large) / s.samples;
    if (!strided_fits(s.loops, 0, read) || !strided_fits(s.loops, 1, made))
        return "loops over parts of an image";
    struct summed of = {.input = s.is_backward ? 0 : 1,
                        .y = &call->outputs[0],
                        .made = side_of(run, &s, s.is_backward ? 1 : 0, &call->inputs[0]),
                        .factor = 1};
    if (work->type == IMPORTED_ROW_MEAN) of.factor = (float)made / (float)read;
    return run_sums(run, &s, &of, 0);
}

// Rows of a part and of the whole that has it; a weight is a part of every sample.
static const char *run_part(const struct run *run, const struct kernel_array *piece, int at,
                            struct strided_array part, int64_t rows, bool joins)
{
    const struct kernel_call *call = run->call;
    int64_t samples = array_size(joins ? call->outputs : call->inputs, DIM_BATCH);
    bool is_each = array_find(piece, DIM_BATCH) < 0;
    int64_t own = array_elements(piece) / (is_each ? rows : rows * samples);
    struct strided_array here = {.reals = reals_of(run->device, piece),
                                 .steps = {is_each ? 0 : rows * own, own, 1}};
    const int64_t sizes[STRIDED_LOOPS] = {samples, rows, own};
    if (own == 0) return NULL;
    if (is_each && !joins) {
        struct strided_sums_args args = {.count = 3,
                                         .nested = 2,
                                         .factor = 1,
                                         .adds = call_adds(call, at),
                                         .sizes = {rows, own, samples},
                                         .numbers = rows * own,
                                         .turns = samples,
                                         .y = here};
        memcpy(args.y.steps, (const int64_t[]){own, 1, 0}, 3 * sizeof(int64_t));
        args.a = part;
        memcpy(args.a.steps, (const int64_t[]){part.steps[1], 1, part.steps[0]},
               3 * sizeof(int64_t));
        return add_up(run, &args);
    }
    struct strided_args args = {.kind = STRIDED_MOVE,
                                .count = 3,
                                .adds = call_adds(call, joins ? 0 : at),
                                .a = joins ? here : part,
                                .y = joins ? part : here,
                                .a_unit = -1,
                                .y_unit = -1};
    memcpy(args.sizes, sizes, sizeof sizes);
    kernel_strided(run->on, &args);
    return NULL;
}

// Rows of the whole and, in each result, the part of each; of a Join the other way.
const char *cuda_split(const struct run *run)
{
    const struct kernel_call *call = run->call;
    bool is_backward = call->op->phase != PHASE_FORWARD;
    bool joins = is_backward != (call->op->work.type == IMPORTED_JOIN);
    const struct kernel_array *whole = joins ? &call->outputs[0] : &call->inputs[0];
    const struct kernel_array *pieces = joins ? call->inputs : call->outputs;
    int count = joins ? call->input_count : call->output_count;
    int64_t samples = array_size(whole, DIM_BATCH), sum = 0;
    int64_t rows = strided_elements(call->op->work.strided);
    for (int i = 0; i < count; i++)
        sum += array_elements(&pieces[i]) * (array_find(&pieces[i], DIM_BATCH) < 0 ? samples : 1);
    if (sum != array_elements(whole)) return "parts of an image that are not all of it";
    if (samples < 1) return NULL;
    int64_t width = array_elements(whole) / (samples * rows);
    struct strided_array part = {.reals = reals_of(run->device, whole),
                                 .steps = {rows * width, width, 1}};
    const char *fault = NULL;
    for (int i = 0; i < count && !fault; i++) {
        bool is_each = array_find(&pieces[i], DIM_BATCH) < 0;
        fault = run_part(run, &pieces[i], i, part, rows, joins);
        part.first += array_elements(&pieces[i]) / (is_each ? rows : rows * samples);
    }
    assert((fault || part.first == width) && "parts of whole rows");
    return fault;
}

// As the norm of a language model's rows, which keeps nothing: moments are taken again.
const char *cuda_row_norm(const struct run *run)
{
    const struct kernel_call *call = run->call;
    bool is_backward = call->op->phase != PHASE_FORWARD;
    struct op op = *call->op;
    struct kernel_call norm = *call;
    struct run own = *run;
    int64_t width = array_elements(&call->inputs[is_backward + 1]);
    if (call->input_count < 2 + is_backward || width < 1 ||
        array_elements(&call->inputs[is_backward]) % width != 0)
        return "a norm of rows without factors";
    op.function = FUNCTION_LAYER_NORM;
    op.scalar = op.work.scalar;
    norm.op = &op;
    own.call = &norm;
    if (is_backward) {
        norm.input_count = 3;
        return cuda_norm_backward(&own);
    }
    norm.output_count = 1;
    cudaError_t error = cudaSuccess;
    for (int i = 1; i < call->output_count && error == cudaSuccess; i++) {
        struct reals kept = run_output(run, i);
        int64_t bytes = array_elements(&call->outputs[i]) * number_bytes(kept.number);
        if (bytes > 0) error = cudaMemsetAsync(kept.data, 0, (size_t)bytes, run->on);
    }
    const char *fault = cuda_fault(error);
    return fault ? fault : cuda_norm(&own);
}
