#include "tests/support/keep_problems.h"

#include <math.h>

// Sizes are whole megabytes and limits half ones: none is met within the slack that solvers need.
void keep_draw(struct draw *draw, struct keep_drawn *drawn)
{
    *drawn = (struct keep_drawn){0};
    struct keep_problem *problem = &drawn->problem;
    problem->classes = drawn->classes;
    problem->recomputes = drawn->recomputes;
    problem->stages = drawn->stages;
    problem->class_count = draw_int(draw, 1, KEEP_CLASSES);
    problem->recompute_count = draw_int(draw, 1, KEEP_RECOMPUTES);
    problem->stage_count = draw_int(draw, 1, KEEP_STAGES);
    for (int c = 0; c < problem->class_count; c++) {
        unsigned class = (unsigned)(2 * c + draw_int(draw, 0, 1));
        drawn->classes[c] = (struct keep_class){2 * draw_int(draw, 0, 10) * KEEP_MEGABYTE, class};
        for (int r = 0; r < problem->recompute_count; r++) {
            int64_t saved = drawn->classes[c].bytes;
            if (r > 0) saved = saved * draw_int(draw, 0, 2) / 2;
            drawn->recomputes[r].saved_bytes[class] = saved;
        }
    }
    for (int r = 1; r < problem->recompute_count; r++) {
        drawn->recomputes[r].seconds = 1e-3 * draw_int(draw, 1, 20);
        drawn->recomputes[r].window_s = drawn->recomputes[r].seconds * draw_int(draw, 0, 2) / 2;
        drawn->recomputes[r].transient_bytes = draw_int(draw, 0, 9) * KEEP_MEGABYTE;
    }
    for (int s = 0; s < problem->stage_count; s++) {
        drawn->stages[s] = (struct keep_stage){.layer_count = draw_int(draw, 1, KEEP_LAYERS),
                                               .in_flight = draw_int(draw, 1, 4),
                                               .other_bytes = draw_int(draw, 0, 40) * KEEP_MEGABYTE,
                                               .forward_s = 1e-3 * draw_int(draw, 1, 20),
                                               .backward_s = 1e-3 * draw_int(draw, 1, 40)};
    }
    problem->micro_batch_count = 8;
    problem->device_bytes = draw_int(draw, 20, 300) * KEEP_MEGABYTE + KEEP_MEGABYTE / 2;
    problem->host_bytes_per_s = draw_int(draw, 0, 4) * 500e6;
    problem->nvme_bytes_per_s = draw_int(draw, 0, 2) * 400e6;
    problem->host_bytes = draw_int(draw, 0, 200) * KEEP_MEGABYTE + KEEP_MEGABYTE / 2;
    problem->nvme_bytes = draw_int(draw, 0, 400) * KEEP_MEGABYTE + KEEP_MEGABYTE / 2;
    problem->tiers = (unsigned)draw_int(draw, 0, 7) | 1;
}

double keep_rate(const struct keep_problem *problem, enum tier tier)
{
    double host = problem->host_bytes_per_s, nvme = problem->nvme_bytes_per_s;
    return tier == TIER_NVME && nvme < host ? nvme : host;
}

struct keep_asked keep_ask(const struct keep_problem *problem, const struct keep_result *choice,
                           enum tier tier)
{
    struct keep_asked asked = {.lack_bytes = -INFINITY, .fits_tiers = true};
    const struct keep_recompute *recompute = &problem->recomputes[choice->recompute];
    for (int s = 0; s < problem->stage_count; s++) {
        const struct keep_stage *stage = &problem->stages[s];
        double kept = 0, moved = 0, most = 0, added = 0, transient = 0;
        for (int i = 0; i < stage->layer_count; i++) {
            bool recomputed = choice->recompute > 0 && i < choice->recompute_layers;
            double up = 0, transit = 0, recompute_s = recomputed ? recompute->seconds : 0;
            double window_s = stage->backward_s + (recomputed ? recompute->window_s : 0);
            for (int c = 0; c < problem->class_count; c++) {
                const struct keep_class *class = &problem->classes[c];
                int count = choice->layers[tier][class->op_class];
                int64_t bytes = recomputed ? recompute->saved_bytes[class->op_class] : class->bytes;
                *(i < count ? &up : &kept) += (double)bytes;
                if (count > 0) transit += (double)bytes;
            }
            moved += up;
            most = fmax(most, transit);
            if (recomputed) transient = (double)recompute->transient_bytes;
            added += recompute_s;
            if (up <= 0) continue;
            added += fmax(0, up / keep_rate(problem, tier) - stage->forward_s);
            added += fmax(0, up / keep_rate(problem, tier) - window_s);
        }
        double device = (double)stage->other_bytes + stage->in_flight * kept + 2 * most + transient;
        double on_host = tier == TIER_NVME ? 2 * most : stage->in_flight * moved;
        asked.lack_bytes = fmax(asked.lack_bytes, device - (double)problem->device_bytes);
        asked.added_s = fmax(asked.added_s, added);
        asked.moved_bytes = fmax(asked.moved_bytes, moved);
        if (moved > 0 && on_host > (double)problem->host_bytes) asked.fits_tiers = false;
        bool on_nvme = tier == TIER_NVME;
        if (on_nvme && stage->in_flight * moved > (double)problem->nvme_bytes)
            asked.fits_tiers = false;
    }
    return asked;
}

// Six layers, of which two micro-batches are alive, and copies that hide behind compute.
struct keep_problem keep_one_class(struct keep_class *class, struct keep_recompute *recomputes,
                                   struct keep_stage *stage)
{
    *class = (struct keep_class){10 * KEEP_MEGABYTE, 1};
    recomputes[0] = (struct keep_recompute){.saved_bytes = {0, 10 * KEEP_MEGABYTE}};
    recomputes[1] = (struct keep_recompute){.seconds = 1e-3, .window_s = 1e-3};
    *stage = (struct keep_stage){.layer_count = 6,
                                 .in_flight = 2,
                                 .other_bytes = 5 * KEEP_MEGABYTE,
                                 .forward_s = 0.01,
                                 .backward_s = 0.02};
    return (struct keep_problem){.classes = class,
                                 .class_count = 1,
                                 .recomputes = recomputes,
                                 .recompute_count = 2,
                                 .stages = stage,
                                 .stage_count = 1,
                                 .micro_batch_count = 4,
                                 .device_bytes = 106 * KEEP_MEGABYTE,
                                 .host_bytes_per_s = 1e9,
                                 .host_bytes = 1000 * KEEP_MEGABYTE,
                                 .tiers = 1 << TIER_DEVICE | 1 << TIER_HOST};
}
