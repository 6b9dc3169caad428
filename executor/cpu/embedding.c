#include "executor/cpu/array.h"

// Rows of a table by id, and their gradients back into it. Another rank may hold an id's row: its
// row here is zeros then, and the sum over the ranks is right. An id of -1 is nobody's.

struct lookup {
    const int64_t *ids;
    int64_t count;        // of ids
    int64_t width;        // of a row
    int64_t first, held;  // rows of the table here
    int64_t whole;
};

static const char *read_lookup(const struct kernel_array *ids, const struct kernel_array *table,
                               const struct kernel_array *rows, struct lookup *lookup)
{
    int64_t width = 1;
    for (int i = 1; i < table->rank; i++)
        width *= table->sizes[i];
    *lookup = (struct lookup){.ids = ids->data,
                              .count = array_elements(ids),
                              .width = width,
                              .first = table->first[0],
                              .held = table->sizes[0],
                              .whole = table->whole[0]};
    if (ids->element != ELEMENT_INT64) return "ids are 64-bit integers";
    bool fits = array_elements(rows) == lookup->count * width;
    return fits ? NULL : "rows, ids and table of a lookup do not fit together";
}

const char *cpu_gather(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct lookup l;
    const struct kernel_array *table = &call->inputs[1], *rows = &call->outputs[0];
    const char *fault = read_lookup(&call->inputs[0], table, rows, &l);
    for (int64_t i = 0; i < l.count && !fault; i++) {
        int64_t id = l.ids[i];
        REAL *row = (REAL *)rows->data + i * l.width;
        if (id < -1 || id >= l.whole) fault = "an id that its table does not have";
        if (fault) break;
        if (id >= l.first && id < l.first + l.held) {
            const REAL *from = (const REAL *)table->data + (id - l.first) * l.width;
            memcpy(row, from, (size_t)l.width * sizeof(REAL));
        } else {
            memset(row, 0, (size_t)l.width * sizeof(REAL));
        }
    }
    return fault;
}

FAST static void add_row(int64_t width, const REAL *x, REAL *y)
{
    VECTOR for (int64_t i = 0; i < width; i++) y[i] += x[i];
}

const char *cpu_gather_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct lookup l;
    const struct kernel_array *rows = &call->inputs[0], *table = &call->outputs[0];
    const char *fault = read_lookup(&call->inputs[1], table, rows, &l);
    if (fault) return fault;
    call_begin_sum(call, 0);
    for (int64_t i = 0; i < l.count; i++) {
        int64_t at = l.ids[i] - l.first;
        if (at < 0 || at >= l.held) continue;
        add_row(l.width, (const REAL *)rows->data + i * l.width,
                (REAL *)table->data + at * l.width);
    }
    return NULL;
}
