#include "executor/cpu/array.h"
#include "executor/lookup_call.h"

#include <assert.h>

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

// Where the element at `at` of the rows is looked up; -1: its id is none that the table has.
static int64_t place_of(const struct looked_pairs *pairs, const struct kernel_array *ids,
                        int64_t whole, int64_t at)
{
    int64_t id_at = 0, table_at = 0;
    for (int i = pairs->rank - 1; i >= 0; i--) {
        assert(pairs->sizes[i] > 0);  // else there is no element
        int64_t index = at % pairs->sizes[i];
        at /= pairs->sizes[i];
        id_at += index * pairs->ids[i];
        table_at += index * pairs->table[i];
    }
    int64_t id = ((const int64_t *)ids->data)[id_at];
    return id >= 0 && id < whole ? table_at + id * pairs->row : -1;
}

static const char *gather_pairs(const struct kernel_call *call)
{
    const struct kernel_array *ids = &call->inputs[0], *table = &call->inputs[1];
    struct looked_pairs pairs;
    const char *fault = call_read_pairs(ids, table, &call->outputs[0], &pairs);
    int64_t count = fault ? 0 : array_elements(&call->outputs[0]);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = place_of(&pairs, ids, table->whole[0], i);
        if (from < 0) return "an id that its table does not have";
        ((REAL *)call->outputs[0].data)[i] = ((const REAL *)table->data)[from];
    }
    return fault;
}

static const char *gather_pairs_backward(const struct kernel_call *call)
{
    const struct kernel_array *rows = &call->inputs[0], *ids = &call->inputs[1];
    const struct kernel_array *table = &call->outputs[0];
    struct looked_pairs pairs;
    const char *fault = call_read_pairs(ids, table, rows, &pairs);
    if (fault) return fault;
    call_begin_sum(call, 0);
    for (int64_t i = 0; i < array_elements(rows); i++) {
        int64_t to = place_of(&pairs, ids, table->whole[0], i);
        if (to < 0) return "an id that its table does not have";
        ((REAL *)table->data)[to] += ((const REAL *)rows->data)[i];
    }
    return NULL;
}

const char *cpu_gather(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    if (array_shares_dims(&call->inputs[0], &call->inputs[1])) return gather_pairs(call);
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
    if (array_shares_dims(&call->inputs[1], table)) return gather_pairs_backward(call);
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
