#include "executor/cpu/array.h"
#include "executor/cpu/sums.h"

// y = (scalar + gate) * up, as normed states are scaled and branches are gated in diffusion
// transformers (Peebles and Xie 2023, section 3.2): the gate has the last dim of up and any of the
// others, over which it is repeated. Backward d_up = (scalar + gate) * d, d_gate = sum of d * up
// over what it was repeated over.

struct modulation {
    int64_t width, rows;               // of up
    int64_t strides[TENSOR_RANK_MAX];  // of the gate, by dim of up; 0: repeated
};

static const char *read_modulation(const struct kernel_array *gate, const struct kernel_array *up,
                                   struct modulation *m)
{
    m->width = array_last(up);
    m->rows = m->width > 0 ? array_elements(up) / m->width : 0;
    if (gate->row_stride || up->row_stride) return "modulation wants dense rows";
    for (int i = 0; i < up->rank; i++) {
        int at = array_find(gate, up->dims[i]);
        m->strides[i] = at < 0 ? 0 : array_stride(gate, at);
        bool is_same =
            at < 0 || (gate->sizes[at] == up->sizes[i] && gate->first[at] == up->first[i]);
        if (!is_same) return "gate and what it modulates are not the same slices";
    }
    if (m->strides[up->rank - 1] != 1) return "modulation wants a gate with the last dim";
    return NULL;
}

// Where the gate of a row begins.
static int64_t gate_at(const struct modulation *m, const struct kernel_array *up, int64_t row)
{
    int64_t at = 0;
    for (int i = up->rank - 2; i >= 0; i--) {
        at += row % up->sizes[i] * m->strides[i];
        row /= up->sizes[i];
    }
    return at;
}

FAST static void scale_row(int64_t count, REAL scalar, const REAL *gate, const REAL *up, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++) y[i] = (scalar + gate[i]) * up[i];
}

FAST static void sum_row(int64_t count, const REAL *d, const REAL *up, REAL *d_gate)
{
    VECTOR for (int64_t i = 0; i < count; i++) d_gate[i] += d[i] * up[i];
}

const char *cpu_modulate(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    bool is_forward = call->op->phase == PHASE_FORWARD;
    const struct kernel_array *gate = &call->inputs[!is_forward], *up = gate + 1;
    struct modulation m;
    const char *fault = read_modulation(gate, up, &m);
    if (fault) return fault;
    if (!is_forward) array_zero(&call->outputs[0]);
    const REAL *factors = gate->data, *x = up->data, *d = call->inputs[0].data;
    REAL *y = call->outputs[0].data, *d_up = is_forward ? NULL : call->outputs[1].data;
    REAL scalar = (REAL)call->op->scalar;
    for (int64_t row = 0; row < m.rows; row++) {
        int64_t from = gate_at(&m, up, row), at = row * m.width;
        if (is_forward) {
            scale_row(m.width, scalar, factors + from, x + at, y + at);
        } else {
            sum_row(m.width, d + at, x + at, y + from);
            scale_row(m.width, scalar, factors + from, d + at, d_up + at);
        }
    }
    return NULL;
}
