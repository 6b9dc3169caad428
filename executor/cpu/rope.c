#include "executor/cpu/array.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// Rotary positions (Su et al. 2021) and ALiBi (Press et al. 2021), which both go by the index in
// the whole sequence.

static bool is_same(const struct cpu_rotation *a, const struct cpu_rotation *b)
{
    return a->theta == b->theta && a->dims == b->dims && a->count == b->count &&
           a->columns == b->columns && a->still == b->still;
}

// The angle of pair `i` of the token with this index, see rotary_columns of struct op.
static double angle_of(const struct cpu_rotation *rotation, int64_t i, int64_t token)
{
    int64_t dims = rotation->dims, place = token - rotation->still;
    int64_t pairs = rotation->columns ? dims / 4 : dims / 2;  // of rows, and of columns behind them
    double rate = pow(rotation->theta, -(double)(i % pairs) / (double)pairs);
    if (!rotation->columns) return rate * (double)token;
    if (place < 0) return 0;
    return rate * (double)(i < pairs ? place / rotation->columns : place % rotation->columns);
}

// Angles in double: a position of some thousands leaves no digits of a float's angle.
static void fill(struct cpu_rotation *rotation)
{
    int64_t half = rotation->dims / 2;
    for (int64_t i = 0; i < half; i++) {
        for (int64_t t = 0; t < rotation->count; t++) {
            double angle = angle_of(rotation, i, t);
            rotation->table[t * rotation->dims + i] = (REAL)cos(angle);
            rotation->table[t * rotation->dims + half + i] = (REAL)sin(angle);
        }
    }
}

// The table of a rope, made unless one of the last few calls had the same; NULL without memory.
static const REAL *table_of(struct cpu_device *device, const struct cpu_rotation *wanted)
{
    assert(wanted->dims > 0 && wanted->dims % 2 == 0 && wanted->count > 0);
    for (int i = 0; i < ROTATION_MAX; i++) {
        if (is_same(&device->rotations[i], wanted)) return device->rotations[i].table;
    }
    struct cpu_rotation *rotation = &device->rotations[device->next_rotation];
    device->next_rotation = (device->next_rotation + 1) % ROTATION_MAX;
    int64_t bytes = wanted->count * wanted->dims * (int64_t)sizeof(REAL);
    if (bytes > rotation->capacity_bytes) {
        REAL *table = realloc(rotation->table, (size_t)bytes);
        if (!table) return NULL;
        rotation->table = table;
        rotation->capacity_bytes = bytes;
    }
    rotation->theta = wanted->theta;
    rotation->dims = wanted->dims;
    rotation->count = wanted->count;
    rotation->columns = wanted->columns;
    rotation->still = wanted->still;
    fill(rotation);
    return rotation->table;
}

// One head of one token; `sign` is -1 in backward. In place is allowed: both of a pair are read
// before either is written.
FAST static void rotate(const struct op *op, const REAL *table, REAL sign, int64_t width,
                        const REAL *x, REAL *y)
{
    int64_t half = op->rotary_dims / 2;
    const REAL *cosine = table, *sine = table + half;
    if (x != y) memcpy(y, x, (size_t)width * sizeof(REAL));
    x += op->rotary_first;
    y += op->rotary_first;
    VECTOR for (int64_t i = 0; i < half; i++)
    {
        REAL a = x[i], b = x[half + i], s = sign * sine[i];
        y[i] = a * cosine[i] - b * s;
        y[half + i] = b * cosine[i] + a * s;
    }
}

const char *cpu_rope(struct cpu_device *device, const struct kernel_call *call)
{
    const struct kernel_array *in = &call->inputs[0];
    const struct op *op = call->op;
    // Of a video's frames the place is that of the frame, which stands in front of the heads.
    int at = in->rank > 4 ? in->rank - 3 : array_find(in, DIM_SEQ);
    if (at < 0) at = array_find(in, DIM_JOINT);
    if (at < 0) at = array_find(in, DIM_ENTRY);
    int64_t width = array_last(in);
    if (at < 0) return "rope needs the dim seq";
    if (op->rotary_first + op->rotary_dims > width) return "rope is wider than a head";
    int64_t elements = array_elements(in);
    if (elements == 0) return NULL;
    // Of all positions, whichever of them are here: some rows at a time come by.
    int64_t last = in->first[at] + in->sizes[at], each = op->rate > 0 ? op->rate : 1;
    struct cpu_rotation wanted = {.theta = op->scalar,
                                  .dims = op->rotary_dims,
                                  .columns = op->rotary_columns,
                                  .still = op->rotary_still,
                                  .count = each * (last > in->whole[at] ? last : in->whole[at])};
    const REAL *table = table_of(device, &wanted), *x = in->data;
    if (!table) return cpu_no_memory(device);
    bool is_back = (op->phase == PHASE_FORWARD) == (op->function == FUNCTION_ROPE_BACK);
    REAL *y = call->outputs[0].data, sign = is_back ? -1 : 1;
    int64_t inner = array_stride(in, at);
    for (int64_t i = 0; i < elements; i += width) {
        int64_t position = in->first[at] + i / inner % in->sizes[at];
        if (in->dims[at] == DIM_SEQ) position = sequence_place(&call->order, position);
        rotate(op, table + each * position * wanted.dims, sign, width, x + i, y + i);
    }
    return NULL;
}

FAST static void add_slopes(int64_t keys, REAL slope, int64_t first, const REAL *x, REAL *y)
{
    VECTOR for (int64_t i = 0; i < keys; i++) y[i] = x[i] + slope * (REAL)(first + i);
}

const char *cpu_alibi(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *in = &call->inputs[0];
    int head = array_find(in, DIM_HEAD);
    int64_t keys = array_last(in), elements = array_elements(in);
    if (head < 0 || in->dims[in->rank - 1] != DIM_KV_SEQ) return "alibi needs head and kv_seq";
    if (call->head_count <= 0) return "alibi needs the number of heads";
    for (int64_t i = 0; i < elements; i += keys) {
        int64_t index = in->first[head] + i / array_stride(in, head) % in->sizes[head];
        double exponent = -8.0 * (double)(index + 1) / (double)call->head_count;
        REAL slope = (REAL)(call->op->scalar * exp2(exponent));
        add_slopes(keys, slope, in->first[in->rank - 1], (const REAL *)in->data + i,
                   (REAL *)call->outputs[0].data + i);
    }
    return NULL;
}
