#include "cost_models/offload.h"
#include "plan/step_end.h"
#include "planner/choice.h"
#include "planner/composing.h"
#include "planner/saturated.h"

#include <assert.h>
#include <math.h>

// Lower bounds on plans by memoised blocks.

static double chunk_phase_s(const struct step_price *price, int stage, int chunk, enum phase phase)
{
    int class = price->class_of[stage * price->shape.chunk_count + chunk];
    return parts_s(price->classes[class].phase_s[phase]);
}

// Where W may be put off. A stage has its own work, and before that waits for the first forward
// through the stages in front of it, if it has one chunk. The stage whose F and B take longest
// takes them of all micro-batches, of which the first comes up through those in front and the last
// goes down again; and a micro-batch passes all stages up and down. Where steps run into each other
// a stage is still busy with the step before while it waits for its first forward; the first stage,
// which does not wait, sees the rest of them all the same.
static double parted_s(const struct step_price *price)
{
    assert(price->runs->run_count >= 1 && price->shape.micro_batch_count >= 1);
    double before_s[PHASE_COUNT] = {0}, chain_s = 0, least_s = 0;
    int chunks = price->shape.chunk_count;
    double m = price->shape.micro_batch_count, hop_s = price->hop_s;
    for (int i = 0; i < price->runs->run_count; i++) {
        struct stage_run run = price->runs->runs[i];
        double own_s[PHASE_COUNT] = {0};
        for (int chunk = 0; chunk < chunks; chunk++)
            for (int phase = 0; phase < PHASE_COUNT; phase++)
                own_s[phase] += chunk_phase_s(price, run.first, chunk, (enum phase)phase);
        double pair_s = own_s[PHASE_FORWARD] + own_s[PHASE_BACKWARD];
        chain_s += run.count * pair_s;
        int last = chunks == 1 ? run.count - 1 : 0;
        double up_s = before_s[PHASE_FORWARD] + last * (own_s[PHASE_FORWARD] + hop_s);
        double down_s = before_s[PHASE_BACKWARD] + last * (own_s[PHASE_BACKWARD] + hop_s);
        double idle_s = price->post_validated ? 0 : up_s;
        least_s = fmax(least_s, m * (pair_s + own_s[PHASE_WEIGHT]) + idle_s);
        least_s = fmax(least_s, m * pair_s + up_s + down_s);
        for (int phase = 0; phase < PHASE_COUNT && chunks == 1; phase++)
            before_s[phase] += run.count * (own_s[phase] + hop_s);
    }
    return fmax(least_s, chain_s);
}

double composer_bound(struct composer *composer, const struct parallel *parallel)
{
    struct step_price price = composing_steady(composer, parallel);
    // Where W stands apart the closed form replays the schedule: what no order of its tasks can
    // undercut is asked first.
    if (!schedule_row(parallel->schedule)->backward_fused) return parted_s(&price);
    return closed_form_after(&composer->paths, &price).step_s;
}

// The longest update of a stage, where hosts do it behind all gradients; else 0: it is short, and
// what comes once a step is not asked for it.
static double host_update_s(struct composer *composer, const struct parallel *parallel,
                            const struct step_price *price)
{
    bool is_apart = !price->post_validated && !step_streams(&composer->request->workload);
    if (!is_apart || parallel->offload.optimizer == TIER_DEVICE) return 0;
    const struct division *division = composer->division, *of;
    const struct step_price *once = composing_once(composer, parallel, division, &of);
    double most_s = 0;
    for (int i = 0; i < price->runs->run_count; i++) {
        int first = price->runs->runs[i].first * price->shape.chunk_count;
        double own_s = 0;
        for (int chunk = 0; chunk < price->shape.chunk_count; chunk++) {
            int class = price->class_of[first + chunk];
            own_s += once->classes[of == division ? class : division->base_class[class]].update_s;
        }
        most_s = fmax(most_s, own_s);
    }
    return most_s;
}

static double chunk_s(const struct chunk_price *class)
{
    double sum_s = 0;
    for (int part = 0; part < PHASE_COUNT * PART_COUNT; part++)
        sum_s += (&class->phase_s[0][0])[part];
    return sum_s;
}

// A stage does its tasks one after the other, between the first forward that comes down to it and
// the last gradient that goes up.
double composer_busiest(struct composer *composer, const struct parallel *parallel)
{
    struct step_price price = composing_steady(composer, parallel);
    double most_s = 0, before_s = 0;
    bool waits = composing_waits(composer, parallel);
    for (int i = 0; i < price.runs->run_count; i++) {
        struct stage_run run = price.runs->runs[i];
        const int *class_of = &price.class_of[run.first * price.shape.chunk_count];
        double work_s = 0, first_s = waits ? chunk_s(&price.classes[class_of[0]]) : 0;
        for (int chunk = 0; chunk < price.shape.chunk_count; chunk++)
            work_s += chunk_s(&price.classes[class_of[chunk]]);
        before_s += run.count * first_s;
        most_s = fmax(most_s, work_s * price.shape.micro_batch_count + before_s - first_s);
    }
    double once_s = price.overhead_s + host_update_s(composer, parallel, &price);
    return (most_s + once_s) * (1 - 1e-9);
}

double composing_guessed_s(const struct parallel *parallel, const struct saturated *saturated,
                           const struct memo_block *plain)
{
    const int *degree = parallel->degree;
    double ranks =
        (double)degree[AXIS_TP] * degree[AXIS_CP] * degree[AXIS_SP_H] * degree[AXIS_SP_W];
    const struct saturated_layer layer = {.saturated = saturated,
                                          .share = parallel->micro_batch / ranks,
                                          .hideable_s = plain->price.hideable_s};
    return saturated_more_s(&layer,
                            recompute_value(parallel->recompute, parallel->recompute_classes));
}

double composer_guessed(struct composer *composer, const struct parallel *parallel,
                        const struct saturated *const *guesses)
{
    assert(!composer->guesses && "a guess asks for no other");
    bool is_fused = schedule_row(parallel->schedule)->backward_fused;
    bool has_update = is_fused && !composing_once_hangs(composer, parallel);
    composer->guesses = guesses;
    double least_s =
        has_update ? composer_cost(composer, parallel).step_s : composer_bound(composer, parallel);
    composer->guesses = NULL;
    return least_s * (1 - 1e-9);
}
