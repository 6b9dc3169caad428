#include "validation/fit_residuals.h"
#include "validation/left_out.h"
#include "validation/ranking.h"

#include <assert.h>

// A fitted row that was predicted without its family and without its device.
static bool has_residual(const struct fit_prediction *prediction)
{
    return prediction->fitted && prediction->left_out_s[FIT_LEAVE_FAMILY] > 0 &&
           prediction->left_out_s[FIT_LEAVE_DEVICE] > 0;
}

struct residuals fit_residuals(struct arena *arena, const struct fit_result *result)
{
    struct residuals residuals = {ARENA_NEW(arena, struct residual, result->prediction_count), 0};
    for (int i = 0; i < result->prediction_count; i++) {
        const struct fit_prediction *prediction = &result->predictions[i];
        const struct row *row = prediction->row;
        if (!has_residual(prediction)) continue;
        residuals.items[residuals.count++] = (struct residual){
            .device = row->device,
            .stack = row->stack,
            .kind = row_kind_name(row->kind),
            .family = row->family,
            .sweep = row_sweep(arena, row),
            .measured_s = row->step_s,
            .left_out_s = prediction->left_out_s[FIT_LEAVE_FAMILY],
            .device_out_s = prediction->left_out_s[FIT_LEAVE_DEVICE],
        };
    }
    assert(residuals.count <= result->prediction_count);
    return residuals;
}

// `bands` has one for each residual, in their order.
const char *fit_left_out_text(struct arena *arena, const struct fit_result *result,
                              const struct band *bands, const char *source)
{
    int most = result->prediction_count;
    struct left_out left_out = {source, ARENA_NEW(arena, struct left_out_row, most), 0};
    for (int i = 0; i < result->prediction_count; i++) {
        const struct fit_prediction *prediction = &result->predictions[i];
        double step_s = prediction->left_out_s[FIT_LEAVE_FAMILY];
        if (!has_residual(prediction)) continue;
        const struct band *band = &bands[left_out.count];
        assert(band->low_ratio > 0 && band->low_ratio <= band->high_ratio);
        left_out.rows[left_out.count++] = (struct left_out_row){
            .id = prediction->row->id,
            .family = prediction->row->family,
            .step_s = step_s,
            .device_out_s = prediction->left_out_s[FIT_LEAVE_DEVICE],
            .step_s_low = step_s * band->low_ratio,
            .step_s_high = step_s * band->high_ratio,
        };
    }
    return left_out_text(arena, &left_out);
}
