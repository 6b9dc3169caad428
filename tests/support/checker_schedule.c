#include "tests/support/checker_config.h"

#include <stdlib.h>
#include <string.h>

// Orders of tasks, judged by what the papers say of them: GPipe (Huang et al. 2019), 1F1B and
// interleaving (Narayanan et al. 2021), zero bubble (Qi et al. 2023) and its V shape (Qi et al.
// 2024).

enum { FORWARD, BACKWARD, WEIGHT, KINDS };

static int slot_count(const struct checker_order *order)
{
    return KINDS * order->chunks * order->micro_batches;
}

static bool is(const struct checker_order *order, const char *schedule)
{
    return strcmp(order->schedule, schedule) == 0;
}

// Where a task of a stage stands in its order, by kind, chunk and micro-batch.
static int place(const struct checker_order *order, int kind, int chunk, int micro_batch)
{
    return (kind * order->chunks + chunk) * order->micro_batches + micro_batch;
}

// Every task once. Fills at[place] with its position.
static bool locate(const struct checker_order *order, int stage, int *at,
                   struct checker_result *result)
{
    int count = slot_count(order);
    for (int i = 0; i < count; i++)
        at[i] = -1;
    for (int i = 0; i < count; i++) {
        const struct checker_slot *slot = &order->slots[stage][i];
        bool exists = slot->kind >= 0 && slot->kind < KINDS && slot->chunk >= 0 &&
                      slot->chunk < order->chunks && slot->micro_batch >= 0 &&
                      slot->micro_batch < order->micro_batches;
        int *position =
            exists ? &at[place(order, slot->kind, slot->chunk, slot->micro_batch)] : NULL;
        if (!position || *position >= 0) {
            checker_violate(result, "stage %d: slot %d is no task, or one of before", stage, i);
            return false;
        }
        *position = i;
    }
    return true;
}

static void check_sequence(const struct checker_order *order, int stage, const int *at,
                           struct checker_result *result)
{
    bool is_fused = is(order, "gpipe") || is(order, "1f1b") || is(order, "interleaved");
    for (int chunk = 0; chunk < order->chunks; chunk++) {
        for (int m = 0; m < order->micro_batches; m++) {
            int forward = at[place(order, FORWARD, chunk, m)];
            int backward = at[place(order, BACKWARD, chunk, m)];
            int weight = at[place(order, WEIGHT, chunk, m)];
            if (forward < backward && backward < weight && (!is_fused || weight == backward + 1)) {
                continue;
            }
            checker_violate(result, "stage %d, chunk %d, micro-batch %d: F %d, B %d, W %d", stage,
                            chunk, m, forward, backward, weight);
        }
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Micro-batches (of chunks) that a stage may hold between F and B, and between F and W.
static void limits(const struct checker_order *order, int stage, int *alive, int *held)
{
    int p = order->stages, v = order->chunks, all = v * order->micro_batches;
    *alive = *held = all;
    if (is(order, "1f1b")) *alive = p - stage;
    // Warm-up and the one that begins the steady state.
    if (is(order, "interleaved")) *alive = 2 * (p - stage - 1) + (v - 1) * p + 1;
    if (is(order, "zb-h1")) *alive = p - stage, *held = p;
    int more = is(order, "zb-h2") && order->in_flight == 2 * p;  // searched under a limit
    if (is(order, "zb-h2")) *alive = 2 * (p - stage) - 1 + more, *held = 2 * p - 1 + more;
    if (is(order, "zb-v")) *alive = *held = 2 * p;
    if (is(order, "zb-auto")) *alive = *held = order->in_flight ? order->in_flight : p;
    *alive = least(*alive, all);
    *held = least(*held, all);
}

// Memory is bounded: a fused W ends with its B.
static void check_held(const struct checker_order *order, int stage, struct checker_result *result)
{
    int alive = 0, held = 0, alive_most = 0, held_most = 0;
    limits(order, stage, &alive_most, &held_most);
    for (int i = 0; i < slot_count(order); i++) {
        int kind = order->slots[stage][i].kind;
        alive += (kind == FORWARD) - (kind == BACKWARD);
        held += (kind == FORWARD) - (kind == WEIGHT);
        if (alive <= alive_most && held <= held_most) continue;
        checker_violate(result, "%s, stage %d: %d alive of %d, %d held of %d", order->schedule,
                        stage, alive, alive_most, held, held_most);
        return;
    }
}

// The place of a chunk in the model.
static int virtual_stage(const struct checker_order *order, int stage, int chunk)
{
    bool turns = is(order, "zb-v") && chunk % 2;
    return chunk * order->stages + (turns ? order->stages - 1 - stage : stage);
}

// All stages together come to an end: nobody waits for a task that stands behind its own.
static void check_progress(const struct checker_order *order, struct checker_result *result)
{
    int last = order->stages * order->chunks - 1, count = slot_count(order), ended = 0;
    bool *done = calloc((size_t)((last + 1) * order->micro_batches * KINDS), sizeof *done);
    int *next = calloc((size_t)order->stages, sizeof *next);
    if (!done || !next) abort();
    bool moved = true;
    while (moved && ended < order->stages * count) {
        moved = false;
        for (int stage = 0; stage < order->stages; stage++) {
            for (; next[stage] < count; next[stage]++, ended++, moved = true) {
                const struct checker_slot *slot = &order->slots[stage][next[stage]];
                int at = virtual_stage(order, stage, slot->chunk);
                int index = (at * order->micro_batches + slot->micro_batch) * KINDS;
                int step = order->micro_batches * KINDS;
                bool waits =
                    (slot->kind == FORWARD && at > 0 && !done[index - step + FORWARD]) ||
                    (slot->kind == BACKWARD && at < last && !done[index + step + BACKWARD]);
                if (waits) break;
                done[index + slot->kind] = true;
            }
        }
    }
    if (ended < order->stages * count) checker_violate(result, "stages wait for each other");
    free(done);
    free(next);
}

struct checker_result checker_schedule(const struct checker_order *order)
{
    struct checker_result result = {0};
    int *at = calloc((size_t)slot_count(order), sizeof *at);
    if (!at) abort();
    for (int stage = 0; stage < order->stages && !result.violation_count; stage++) {
        if (!locate(order, stage, at, &result)) break;
        check_sequence(order, stage, at, &result);
        check_held(order, stage, &result);
    }
    free(at);
    if (!result.violation_count) check_progress(order, &result);
    return result;
}
