#include "executor/cpu/image.h"

#include <assert.h>
#include <math.h>

// Pools over windows. What lies outside of the whole image is never taken; of a mean it counts
// where the operator says so. The largest of equal numbers is the first, and where it stood is kept
// as a place in the whole image, so that parts of images agree.

struct pool {
    struct planes x, y;
    struct window height, width;
    bool is_max, counts_padding;
};

static const char *pool_read(const struct kernel_call *call, const struct kernel_array *x,
                             const struct kernel_array *y, struct pool *p)
{
    const struct op_work *work = &call->op->work;
    const char *fault = image_read(x, &p->x);
    if (!fault) fault = image_read(y, &p->y);
    p->height = window_or_one(&work->windows[0]);
    p->width = window_or_one(&work->windows[1]);
    p->is_max = work->type == IMPORTED_MAX_POOL;
    p->counts_padding = work->scalar != 0;
    if (!fault && (p->x.channels != p->y.channels || p->x.batch != p->y.batch))
        fault = "a pool has as many channels before it as behind it";
    return fault;
}

// The places of one window in one dimension that the whole has, `step` apart.
struct reach {
    int64_t first, end, step;
};
static struct reach reach_of(const struct window *window, int64_t place, int64_t whole)
{
    assert(window->taps > 0 && window->stride > 0 && window->dilation > 0);
    int64_t start = place * window->stride - window->pad, step = window->dilation;
    struct reach reach = {start, start + window->taps * step, step};
    if (reach.first < 0) reach.first += (-reach.first + step - 1) / step * step;
    while (reach.end - step >= whole && reach.end > reach.first)
        reach.end -= step;
    return reach;
}
static int64_t reach_count(const struct reach *reach)
{
    return reach->end > reach->first ? (reach->end - reach->first) / reach->step : 0;
}

struct pooled {
    struct reach rows, columns;
    int64_t at;  // of the result's element
    REAL share;  // of a mean
};

static struct pooled place_of(const struct pool *p, int64_t sample, int64_t channel, int64_t row,
                              int64_t column)
{
    const struct planes *y = &p->y;
    struct pooled place = {.rows = reach_of(&p->height, y->row + row, p->x.whole_height),
                           .columns = reach_of(&p->width, y->column + column, p->x.whole_width),
                           .at = image_at(y, sample, channel) + row * y->row_stride +
                                 column * y->column_stride};
    int64_t count = p->counts_padding ? p->height.taps * p->width.taps
                                      : reach_count(&place.rows) * reach_count(&place.columns);
    place.share = count > 0 ? 1 / (REAL)count : 0;
    return place;
}

// Places are those of the whole image, of which this rank may hold a part.
static REAL *element(const struct planes *x, REAL *plane, int64_t row, int64_t column)
{
    return plane + (row - x->row) * x->row_stride + (column - x->column) * x->column_stride;
}

static void pool_place(const struct pool *p, const struct pooled *place, REAL *plane, REAL *y,
                       int64_t *kept)
{
    REAL sum = 0, most = -(REAL)HUGE_VAL;
    int64_t where = -1;
    for (int64_t row = place->rows.first; row < place->rows.end; row += place->rows.step) {
        const struct reach *columns = &place->columns;
        for (int64_t column = columns->first; column < columns->end; column += columns->step) {
            REAL value = *element(&p->x, plane, row, column);
            sum += value;
            if (where >= 0 && !(value > most)) continue;
            most = value;
            where = row * p->x.whole_width + column;
        }
    }
    *y = p->is_max ? most : sum * place->share;
    if (kept) *kept = where;
}

static void spread_place(const struct pool *p, const struct pooled *place, REAL d, int64_t kept,
                         REAL *plane)
{
    if (p->is_max) {
        if (kept < 0) return;
        *element(&p->x, plane, kept / p->x.whole_width, kept % p->x.whole_width) += d;
        return;
    }
    for (int64_t row = place->rows.first; row < place->rows.end; row += place->rows.step) {
        const struct reach *columns = &place->columns;
        for (int64_t column = columns->first; column < columns->end; column += columns->step)
            *element(&p->x, plane, row, column) += d * place->share;
    }
}

static void for_each(const struct pool *p, const REAL *d_y, REAL *y, int64_t *kept)
{
    for (int64_t i = 0; i < p->y.batch * p->y.channels; i++) {
        int64_t sample = i / p->y.channels, channel = i % p->y.channels;
        REAL *plane = image_plane(&p->x, sample, channel);
        for (int64_t row = 0; row < p->y.height; row++) {
            for (int64_t column = 0; column < p->y.width; column++) {
                struct pooled place = place_of(p, sample, channel, row, column);
                int64_t *where = kept ? kept + place.at : NULL;
                if (y)
                    pool_place(p, &place, plane, y + place.at, where);
                else
                    spread_place(p, &place, d_y[place.at], where ? *where : -1, plane);
            }
        }
    }
}

const char *cpu_pool(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct pool p;
    const char *fault = pool_read(call, &call->inputs[0], &call->outputs[0], &p);
    bool keeps = p.is_max && call->output_count > 1;
    if (fault || !call->outputs[0].data) return fault;
    for_each(&p, NULL, call->outputs[0].data, keeps ? call->outputs[1].data : NULL);
    return NULL;
}

const char *cpu_pool_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct pool p;
    const char *fault = pool_read(call, &call->outputs[0], &call->inputs[0], &p);
    if (!fault && p.is_max && call->input_count < 2) fault = "where maxima stood is not kept";
    if (fault || !call->outputs[0].data) return fault;
    call_begin_sum(call, 0);
    for_each(&p, call->inputs[0].data, NULL, p.is_max ? call->inputs[1].data : NULL);
    return NULL;
}
