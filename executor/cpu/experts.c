#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// From tokens to the rows of the experts they chose, and back. With a routing the rows that exist
// stand one after another, by expert and then by token; without one every token has a row for every
// expert, zero where it was not chosen.

struct expert_row_list {
    const struct kernel_routing *routing;  // NULL: dense
    int64_t experts, first_expert, tokens, width;
    int64_t gates;        // width of the weights
    const REAL *weights;  // [token][gate]
};

static int64_t token_count(const struct kernel_array *array)
{
    return array_size(array, DIM_BATCH) * array_size(array, DIM_SEQ);
}

static const char *read_rows(const struct kernel_call *call, const struct kernel_array *rows,
                             const struct kernel_array *weights, struct expert_row_list *r)
{
    *r = (struct expert_row_list){.routing = call->routing,
                                  .experts = array_size(rows, DIM_EXPERT),
                                  .first_expert = array_first(rows, DIM_EXPERT),
                                  .tokens = token_count(weights),
                                  .width = array_last(rows),
                                  .gates = array_size(weights, DIM_GATE),
                                  .weights = weights->data};
    if (array_find(rows, DIM_EXPERT) < 0 || array_find(weights, DIM_GATE) < 0)
        return "rows of experts without the dims expert and gate";
    if (r->first_expert + r->experts > r->gates) return "an expert that no weight is for";
    if (r->routing && r->routing->expert_count != r->experts)
        return "the routing is of other experts";
    return NULL;
}

// Goes through the rows that exist; begins with expert 0 and row -1.
struct expert_row {
    int64_t expert, token, at;  // here; at: offset of the row
    int64_t number;             // ragged: of the row; dense: of the token
    REAL weight;
};

static bool next_row(const struct expert_row_list *r, struct expert_row *row)
{
    for (row->number++; row->expert < r->experts; row->expert++) {
        int64_t end = r->routing ? r->routing->rows_of[row->expert + 1] : r->tokens;
        for (; row->number < end; row->number++) {
            row->token = r->routing ? r->routing->token_of[row->number] : row->number;
            assert(row->token >= 0 && row->token < r->tokens && "rows are of tokens that are here");
            row->weight = r->weights[row->token * r->gates + r->first_expert + row->expert];
            if (!r->routing && row->weight == 0) continue;
            row->at = r->routing ? row->number : row->token * r->experts + row->expert;
            row->at *= r->width;
            return true;
        }
        if (!r->routing) row->number = 0;
    }
    return false;
}

FAST static void add_scaled(int64_t count, REAL factor, const REAL *x, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++) y[i] += factor * x[i];
}

const char *cpu_dispatch(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct expert_row_list r;
    const char *fault = read_rows(call, &call->outputs[0], &call->inputs[1], &r);
    if (fault) return fault;
    const REAL *x = call->inputs[0].data;
    REAL *y = call->outputs[0].data;
    if (!call->routing) array_zero(&call->outputs[0]);
    for (struct expert_row row = {.number = -1}; next_row(&r, &row);)
        memcpy(y + row.at, x + row.token * r.width, (size_t)r.width * sizeof(REAL));
    return NULL;
}

const char *cpu_dispatch_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct expert_row_list r;
    const char *fault = read_rows(call, &call->inputs[0], &call->inputs[1], &r);
    if (fault) return fault;
    const REAL *d = call->inputs[0].data;
    REAL *d_x = call->outputs[0].data;
    call_begin_sum(call, 0);
    for (struct expert_row row = {.number = -1}; next_row(&r, &row);)
        add_scaled(r.width, 1, d + row.at, d_x + row.token * r.width);
    return NULL;
}

const char *cpu_combine(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct expert_row_list r;
    const char *fault = read_rows(call, &call->inputs[0], &call->inputs[1], &r);
    if (fault) return fault;
    const REAL *x = call->inputs[0].data;
    REAL *y = call->outputs[0].data;
    call_begin_sum(call, 0);
    for (struct expert_row row = {.number = -1}; next_row(&r, &row);)
        add_scaled(r.width, row.weight, x + row.at, y + row.token * r.width);
    return NULL;
}

// d_row = weight * d; returns d . row, the gradient of the weight.
FAST static REAL combine_row_backward(int64_t count, REAL weight, const REAL *d, const REAL *x,
                                      REAL *d_x)
{
    REAL sum = SUM(i, 0, count, d[i] * x[i]);
    VECTOR for (int64_t i = 0; i < count; i++) d_x[i] = weight * d[i];
    return sum;
}

const char *cpu_combine_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct expert_row_list r;
    const char *fault = read_rows(call, &call->inputs[1], &call->inputs[2], &r);
    if (fault) return fault;
    const REAL *d = call->inputs[0].data, *x = call->inputs[1].data;
    REAL *d_x = call->outputs[0].data, *d_weights = call->outputs[1].data;
    if (!call->routing) array_zero(&call->outputs[0]);
    call_begin_sum(call, 1);
    for (struct expert_row row = {.number = -1}; next_row(&r, &row);) {
        REAL sum = combine_row_backward(r.width, row.weight, d + row.token * r.width, x + row.at,
                                        d_x + row.at);
        d_weights[row.token * r.gates + r.first_expert + row.expert] += sum;
    }
    return NULL;
}
