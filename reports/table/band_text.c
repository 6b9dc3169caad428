#include "reports/table/band_text.h"

#include "reports/table/model_text.h"

#include <assert.h>
#include <string.h>

static bool is_any(const char *name)
{
    return strcmp(name, "*") == 0;
}

static const char *validated_text(struct arena *arena, const struct band *band)
{
    return arena_print(arena, "validated by %d measured %s runs (%s, %s)", band->row_count,
                       band->kind, band->device, band->stack);
}

static const char *extrapolated_text(struct arena *arena, const struct band *band)
{
    const char *device = is_any(band->device) ? "other devices" : band->device;
    const char *stack = is_any(band->stack) ? "other stacks" : band->stack;
    if (band->row_count == 0) {
        return arena_print(arena, "extrapolated: no measured %s run (%s)", band->kind, device);
    }
    return arena_print(arena, "extrapolated from %d measured %s %s (%s, %s)", band->row_count,
                       band->kind, band->row_count == 1 ? "run" : "runs", device, stack);
}

// What a prediction of a model of samples rests on: no run of such a model is among the measured.
static const char *borrowed_text(struct arena *arena, const struct band *band)
{
    if (band->confidence == CONFIDENCE_DATASHEET) {
        return "datasheet: neither this device nor such a model was ever measured in a run";
    }
    return arena_print(arena,
                       "extrapolated: no run of such a model was measured; the band is that of %d "
                       "%s runs of transformers (%s, %s)",
                       band->row_count, band->kind,
                       is_any(band->device) ? "other devices" : band->device,
                       is_any(band->stack) ? "any stack" : band->stack);
}

static const char *rests_on(struct arena *arena, const struct band *band, const struct graph *graph)
{
    if (model_has_samples(graph)) return borrowed_text(arena, band);
    switch (band->confidence) {
    case CONFIDENCE_VALIDATED:
        return validated_text(arena, band);
    case CONFIDENCE_EXTRAPOLATED:
        return extrapolated_text(arena, band);
    case CONFIDENCE_DATASHEET:
        return "datasheet: this device was never measured in a run";
    case CONFIDENCE_ANCHORED:
        return "anchored: constants were corrected by runs that were measured";
    }
    assert(0 && "a confidence without words");
    return "";
}

const char *band_text(struct arena *arena, const struct prediction *prediction,
                      const struct graph *graph)
{
    if (!prediction->band) return "";
    const char *text = arena_print(
        arena, "90 %% band %s to %s, %s", units_seconds(arena, prediction->step_s_low),
        units_seconds(arena, prediction->step_s_high), rests_on(arena, prediction->band, graph));
    assert(prediction->step_s_low <= prediction->step_s_high);
    bool is_wider = prediction->selected_count > 1 && prediction->bands->selection.sweep_count > 0;
    if (!is_wider) return text;
    return arena_print(arena, "%s; wider because it was chosen from %s plans", text,
                       units_count(arena, prediction->selected_count));
}

const char *memory_band_text(struct arena *arena, const struct prediction *prediction,
                             const struct graph *graph, const char *stack)
{
    const struct memory_band *band = prediction->memory_band;
    enum memory_fit fit = memory_fit(prediction);
    if (!band || fit == MEMORY_LACKS) return "";
    double left_bytes = (double)(prediction->device_bytes - prediction->reserved_bytes);
    double left = left_bytes / (double)prediction->device_bytes;
    bool is_of_any = strcmp(band->stack, MEMORY_OF_ANY) == 0;
    const char *whose =
        is_of_any ? "unseen software" : arena_print(arena, "%s, the widest", band->stack);
    const char *of = prediction->is_own_memory_band
                         ? arena_print(arena, "%d runs of %s", band->row_count, stack)
                         : arena_print(arena, "%d runs of %s: that of %s never was",
                                       band->row_count, whose, stack);
    if (model_has_samples(graph))
        of = arena_print(arena, "%s; of transformers, none of such a model", of);
    return arena_print(arena,
                       "%s with %s to spare: allocated memory was measured up to %s above "
                       "predictions (%s)",
                       memory_fit_name(fit), units_ratio(arena, left),
                       units_ratio(arena, band->high_ratio - 1), of);
}

const char *bands_text(struct arena *arena, const struct bands *bands)
{
    const char *text = "";
    for (int i = 0; i < bands->memory_count; i++) {
        const struct memory_band *band = &bands->memory[i];
        bool is_of_any = strcmp(band->stack, MEMORY_OF_ANY) == 0;
        text = arena_print(arena, "%sMemory of %s: measured / predicted %.3f to %.3f (%d runs)\n",
                           text, is_of_any ? "others" : band->stack, band->low_ratio,
                           band->high_ratio, band->row_count);
    }
    const struct selection_band *selection = &bands->selection;
    if (selection->sweep_count == 0) return text;
    return arena_print(arena,
                       "%sSelection: the plan predicted best came out %s beside its sweep, "
                       "standard error %s (%d sweeps, %d families)\n",
                       text, units_signed_percent(arena, selection->mean_ratio - 1),
                       units_ratio(arena, selection->error_ratio), selection->sweep_count,
                       selection->family_count);
}

// Slower over faster, less 1.
static double difference_of(double a_s, double b_s)
{
    assert(a_s > 0 && b_s > 0);
    return (a_s > b_s ? a_s / b_s : b_s / a_s) - 1;
}

// One model, device and stack: the same ratios for all plans, so that bands overlap where the
// slower's low end is not above the faster's high end.
static bool overlaps(const struct band *band, double difference_ratio)
{
    assert(difference_ratio >= 0 && band->low_ratio <= band->high_ratio);
    return (1 + difference_ratio) * band->low_ratio <= band->high_ratio;
}

// "2 to 5 %"
static const char *range_text(struct arena *arena, const struct bands *bands,
                              const struct band_pairs *pairs)
{
    double low = pairs == bands->pairs ? 0 : 100 * pairs[-1].difference_ratio;
    if (pairs->difference_ratio == 0) return arena_print(arena, "over %g %%", low);
    return arena_print(arena, "%g to %g %%", low, 100 * pairs->difference_ratio);
}

static const char *measured_pairs_text(struct arena *arena, const struct bands *bands,
                                       double nearest_ratio, double furthest_ratio)
{
    const struct band_pairs *near = bands_pairs(bands, nearest_ratio);
    const struct band_pairs *far = bands_pairs(bands, furthest_ratio);
    if (!near) return "";
    const char *text =
        arena_print(arena,
                    "   Of %d pairs of published runs predicted %s apart, %.0f %% came out in the "
                    "predicted order",
                    near->pair_count, range_text(arena, bands, near), 100 * near->right_ratio);
    if (near == far) return arena_print(arena, "%s\n", text);
    return arena_print(arena, "%s; of %d predicted %s apart, %.0f %%\n", text, far->pair_count,
                       range_text(arena, bands, far), 100 * far->right_ratio);
}

int band_overlap_count(const struct search_result *result, const struct prediction *prediction)
{
    int count = 1;
    for (int i = 1; i < result->best_count && prediction->band; i++) {
        double difference_ratio =
            difference_of(result->best[0].cost.step_s, result->best[i].cost.step_s);
        count += overlaps(prediction->band, difference_ratio);
    }
    return count;
}

const char *band_overlap_text(struct arena *arena, const struct search_result *result,
                              const struct prediction *prediction)
{
    if (!prediction->band || result->best_count < 2) return "";
    double first_s = result->best[0].cost.step_s, nearest_ratio = 0, furthest_ratio = 0;
    const char *numbers = "1";
    int count = 0, last = 0;
    for (int i = 1; i < result->best_count; i++) {
        double difference_ratio = difference_of(first_s, result->best[i].cost.step_s);
        if (!overlaps(prediction->band, difference_ratio)) continue;
        if (count == 0 || difference_ratio < nearest_ratio) nearest_ratio = difference_ratio;
        if (difference_ratio > furthest_ratio) furthest_ratio = difference_ratio;
        last = i + 1;
        numbers = arena_print(arena, "%s, %d", numbers, last);
        count++;
    }
    if (count == 0) return "   The band of 1 overlaps no other: predicted times tell it apart\n";
    // The usual case is an unbroken run.
    if (last == count + 1) numbers = arena_print(arena, "1 %s %d", count > 1 ? "to" : "and", last);
    return arena_print(
        arena, "   The bands of %s overlap: predicted times cannot tell them apart\n%s", numbers,
        measured_pairs_text(arena, prediction->bands, nearest_ratio, furthest_ratio));
}
