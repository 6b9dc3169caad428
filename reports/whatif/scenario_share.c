#include "reports/whatif/scenario_share.h"

#include "planner/choice.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct question {
    const char *text;
    int index;
};

static const char *pins_text(struct arena *arena, const struct pins *pins)
{
    const char *text = arena_print(arena, "%d %d", (int)pins->search_offload, (int)pins->supposed);
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        struct int_range range = pins_get(pins, (enum choice)choice);
        if (!range.set) continue;
        text = arena_print(arena, "%s %d:%lld..%lld", text, choice, (long long)range.low,
                           (long long)range.high);
    }
    for (int i = 0; i < pins->forbidden_count; i++) {
        text = arena_print(arena, "%s !%s=%lld", text, pins->forbidden[i].key,
                           (long long)pins->forbidden[i].value);
    }
    for (int i = 0; i < pins->stage_layers_count; i++) {
        text = arena_print(arena, "%s,%d", text, pins->stage_layers[i]);
    }
    return text;
}

// The cluster as a search sees it.
static const char *machine_text(struct arena *arena, const struct cluster *cluster)
{
    struct cluster bare = *cluster;
    bare.price = (struct price){0};
    bare.failures = (struct failures){0};
    struct json_writer writer = {.arena = arena};
    cluster_write(&writer, NULL, &bare);
    return writer.text;
}

// All that a search reads, numbers to their last bit: equal texts have equal plans.
static const char *question_text(struct arena *arena, const struct scenario *scenario,
                                 const char *machine)
{
    const struct workload *workload = &scenario->workload;
    return arena_print(arena, "%p %a %lld %lld %d %d %a %a [%s] %s", (const void *)scenario->model,
                       scenario->slowest_s, (long long)workload->seq_len,
                       (long long)workload->global_batch, (int)workload->precision,
                       (int)workload->optimizer, workload->expert_imbalance,
                       workload->capacity_factor, pins_text(arena, &scenario->pins), machine);
}

static int compare(const void *a, const void *b)
{
    const struct question *left = a, *right = b;
    int order = strcmp(left->text, right->text);
    return order ? order : left->index - right->index;
}

void scenarios_share(struct arena *scratch, const struct scenario_request *request,
                     const struct scenario *scenarios, int count, int *leader_of)
{
    for (int i = 0; i < count; i++) {
        leader_of[i] = i;
    }
    if (request->alone || count < 2) return;
    struct question *questions = ARENA_NEW(scratch, struct question, count);
    const char *machine = NULL;
    for (int i = 0; i < count; i++) {
        if (i == 0 || scenarios[i].cluster != scenarios[i - 1].cluster) {
            machine = machine_text(scratch, scenarios[i].cluster);
        }
        questions[i] = (struct question){question_text(scratch, &scenarios[i], machine), i};
    }
    qsort(questions, (size_t)count, sizeof *questions, compare);
    for (int i = 1; i < count; i++) {
        if (strcmp(questions[i].text, questions[i - 1].text) == 0) {
            assert(questions[i - 1].index < questions[i].index);
            leader_of[questions[i].index] = leader_of[questions[i - 1].index];
        }
    }
}

struct money_request scenario_money(const struct scenario *scenario,
                                    const struct scenario_outcome *outcome)
{
    const struct workload *workload = &scenario->workload;
    return (struct money_request){
        .cluster = scenario->cluster,
        .step_s = outcome->prediction.step_s,
        .step_tokens = (double)workload->global_batch * (double)workload->seq_len,
        .tokens = scenario->tokens,
        .checkpoint_bytes = outcome->checkpoint_bytes,
        .idle_gpus = outcome->idle_gpus,
        .band = outcome->prediction.band,
        .communicators = outcome->communicators,
    };
}

void scenario_finish(const struct scenario *scenario, const struct scenario_outcome *leader,
                     struct scenario_outcome *outcome)
{
    *outcome = *leader;
    if (outcome->status != SCENARIO_FITS) return;
    struct prediction *prediction = &outcome->prediction;
    const struct money_request asked = scenario_money(scenario, outcome);
    struct money_band priced = money_of(&asked);
    prediction->money = priced.money;
    prediction->money_low = priced.low;
    prediction->money_high = priced.high;
    prediction->goodput = priced.goodput;
}

void scenario_rescale(const struct scenario *scenario, double ratio,
                      struct scenario_outcome *outcome)
{
    assert(ratio > 0);
    struct prediction *prediction = &outcome->prediction;
    if (outcome->status != SCENARIO_FITS) return;
    prediction->step_s /= ratio;
    prediction->step_s_low /= ratio;
    prediction->step_s_high /= ratio;
    prediction->tokens_per_s *= ratio;
    prediction->tokens_per_s_per_gpu *= ratio;
    prediction->model_flop_per_s_per_gpu *= ratio;
    prediction->hardware_flop_per_s_per_gpu *= ratio;
    prediction->mfu_ratio *= ratio;
    const struct scenario_outcome leader = *outcome;
    scenario_finish(scenario, &leader, outcome);
}
