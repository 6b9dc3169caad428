#include "validation/fits.h"

#include <assert.h>
#include <string.h>

static const double LEFT_RATIO = 0.9;  // of a device, above which runs of the published sweep stall

static bool has_failed_runs(const struct trials *trials, const char *family)
{
    for (int i = 0; i < trials->count; i++) {
        const struct row *row = trials->items[i].row;
        if (row->gave_nothing && strcmp(row->family, family) == 0) return true;
    }
    return false;
}

// A row that does not say a degree has 1 of it.
static int degree(int of)
{
    return of > 1 ? of : 1;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

// Micro-batches a step.
static int micro_batches(const struct row_facts *facts)
{
    int64_t sequences = (int64_t)degree(facts->dp) * degree(facts->micro_batch);
    int64_t count = facts->global_batch / sequences;
    return count > 1 ? (int)count : 1;
}

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool trains_alike(const struct row *a, const struct row *b)
{
    return strcmp(a->family, b->family) == 0 && is_same(a->model_name, b->model_name) &&
           strcmp(a->device, b->device) == 0 && a->facts.seq_len == b->facts.seq_len &&
           is_same(a->facts.precision, b->facts.precision) &&
           is_same(a->facts.recompute, b->facts.recompute) &&
           degree(a->facts.cp) == degree(b->facts.cp) && degree(a->facts.ep) == degree(b->facts.ep);
}

// The first stage of a pipeline has as many micro-batches alive as there are stages, so that fewer
// stages of as many more layers each hold the same. Where ranks reduce gradients some software
// keeps them twice, and where there are several micro-batches what the one before left.
bool fits_holds_as_much(const struct row *row, const struct row *other)
{
    const struct row_facts *most = &row->facts, *least = &other->facts;
    int stages = degree(most->pp), alive = stages > 1 ? stages : 2;
    bool is_split_less = degree(most->tp) <= degree(least->tp) && stages <= degree(least->pp);
    bool is_fed_more = most->micro_batch >= least->micro_batch &&
                       micro_batches(most) >= smaller(micro_batches(least), alive);
    bool is_sharded_less = most->zero_stage < least->zero_stage ||
                           (most->zero_stage == least->zero_stage &&
                            (most->zero_stage == 0 || degree(most->dp) <= degree(least->dp)));
    bool reduces = degree(most->dp) > 1 || degree(least->dp) == 1;
    return trains_alike(row, other) && is_split_less && is_fed_more && is_sharded_less && reduces;
}

// A run that filled the device may have been saved by its allocator: it shows nothing.
static bool left_room(const struct trial *trial)
{
    double device_bytes = (double)trial->cluster->nodes[0].device->memory_bytes;
    return trial->row->peak_bytes > 0 && trial->row->peak_bytes <= LEFT_RATIO * device_bytes;
}

// A heavier run that had room shows that memory was not why the other failed.
static bool is_outdone(const struct trials *trials, const struct row *failed)
{
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        if (trial->row->gave_nothing || !trial->cluster || !left_room(trial)) continue;
        if (fits_holds_as_much(trial->row, failed)) return true;
    }
    return false;
}

// What software refused is no matter of memory, nor what a heavier run outdid.
static void count_failure(const struct trials *trials, const struct row *row, bool fits_now,
                          struct accuracy_fits *fits)
{
    fits->failed_count++;
    fits->failed_unfit_count += !fits_now;
    if (row->refused) {
        fits->refused_count++;
        fits->refused_unfit_count += !fits_now;
    } else if (is_outdone(trials, row)) {
        fits->outdone_count++;
    } else {
        fits->short_count++;
        fits->short_unfit_count += !fits_now;
    }
}

struct accuracy_fits fits_of(const struct trials *trials)
{
    struct accuracy_fits fits = {0};
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        bool fits_now = trial->answered && memory_fit(&trial->prediction) != MEMORY_LACKS;
        if (!has_failed_runs(trials, trial->row->family)) {
            bool is_full = trial->row->tier == 'A' && !trial->row->has_narrow_base;
            fits.other_count += is_full;
            fits.other_fit_count += is_full && fits_now;
        } else if (trial->row->gave_nothing) {
            count_failure(trials, trial->row, fits_now, &fits);
        } else {
            fits.ran_count++;
            fits.ran_fit_count += fits_now;
        }
    }
    assert(fits.failed_count == fits.refused_count + fits.outdone_count + fits.short_count);
    assert(fits.ran_fit_count <= fits.ran_count && fits.other_fit_count <= fits.other_count);
    return fits;
}
