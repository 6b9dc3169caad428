#include "planner/batch.h"

#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

struct batch_limit {
    int64_t samples;
    const char *source;
};

// Indexed by enum optimizer: the largest batch that its published runs trained without a loss in
// quality, in samples (here sequences).
static const struct batch_limit LIMITS[OPTIMIZER_COUNT] = {
    [OPTIMIZER_ADAMW] = {8000, "the practice before layer-wise optimizers"},
    [OPTIMIZER_ADAM] = {8000, "the practice before layer-wise optimizers"},
    // 8192 images in one hour: Goyal et al. 2017, arXiv 1706.02677, abstract.
    [OPTIMIZER_SGD] = {8000, "Goyal et al. 2017"},
    // BERT with batches of 32k: You et al. 2020, arXiv 1904.00962, abstract.
    [OPTIMIZER_LAMB] = {32768, "You et al. 2020"},
    // ResNet-50 with batches of 32k: You, Gitman, Ginsburg 2017, arXiv 1708.03888, abstract.
    [OPTIMIZER_LARS] = {32768, "You et al. 2017"},
};

int64_t batch_limit(enum optimizer optimizer)
{
    assert((unsigned)optimizer < OPTIMIZER_COUNT);
    return LIMITS[optimizer].samples;
}

const char *batch_warning(struct arena *arena, const struct workload *workload)
{
    assert((unsigned)workload->optimizer < OPTIMIZER_COUNT);
    const struct batch_limit *limit = &LIMITS[workload->optimizer];
    if (workload->global_batch <= limit->samples) return NULL;
    bool layer_wise =
        workload->optimizer == OPTIMIZER_LAMB || workload->optimizer == OPTIMIZER_LARS;
    return arena_print(arena,
                       "global batch %lld is past the %lld samples that %s is known to bear (%s): "
                       "the model may end worse%s",
                       (long long)workload->global_batch, (long long)limit->samples,
                       optimizer_name(workload->optimizer), limit->source,
                       layer_wise ? "" : "; --optimizer lamb is known to bear more");
}

int64_t batch_iterations(double samples, double epochs, int64_t batch)
{
    assert(batch > 0);
    return (int64_t)ceil(samples * epochs / (double)batch);
}

const char *batch_table(struct arena *arena, const struct workload *workload, double samples,
                        double epochs)
{
    enum { TIMES = 8 };
    const struct batch_limit *limit = &LIMITS[workload->optimizer];
    struct table table = table_new(arena, "rrll");
    table_row(&table, (const char *[]){"batch", "steps", "", ""});
    for (int64_t parts = TIMES, times = 1; times <= TIMES;) {
        int64_t batch = workload->global_batch * times / parts;
        bool is_whole = batch * parts == workload->global_batch * times;
        bool is_past = batch > limit->samples;
        const char *known = arena_print(arena, "past what %s is known to bear (%s)",
                                        optimizer_name(workload->optimizer), limit->source);
        int64_t steps = is_whole ? batch_iterations(samples, epochs, batch) : 0;
        const char *cells[] = {units_count(arena, (double)batch), units_count(arena, (double)steps),
                               parts == 1 && times == 1 ? "this" : "", is_past ? known : ""};
        if (is_whole) table_row(&table, cells);
        if (parts > 1)
            parts /= 2;
        else
            times *= 2;
    }
    return table_text(&table);
}
