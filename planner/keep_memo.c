#include "planner/keep_memo.h"

#include <assert.h>
#include <string.h>

struct keep_memo_entry {
    const double *words;
    int word_count;
    struct keep_result result;
};

struct words {
    struct arena *arena;
    double *items;
    int count, capacity;
};

// Bytes are whole numbers far below 2^53.
static void add(struct words *words, double value)
{
    ARENA_GROW(words->arena, words->items, words->count, words->capacity);
    words->items[words->count++] = value;
}

static void add_recompute(struct words *words, const struct keep_problem *problem,
                          const struct keep_recompute *recompute)
{
    add(words, recompute->recompute);
    add(words, recompute->classes);
    add(words, recompute->seconds);
    add(words, recompute->window_s);
    add(words, (double)recompute->transient_bytes);
    for (int c = 0; c < problem->class_count; c++)
        add(words, (double)recompute->saved_bytes[problem->classes[c].op_class]);
}

static void add_stage(struct words *words, const struct keep_stage *stage)
{
    add(words, stage->layer_count);
    add(words, stage->in_flight);
    add(words, (double)stage->other_bytes);
    add(words, stage->forward_s);
    add(words, stage->backward_s);
}

// All that the program is made of.
static struct words words_of(struct arena *arena, const struct keep_problem *problem)
{
    struct words words = {.arena = arena};
    const double scalars[] = {problem->class_count,          problem->recompute_count,
                              problem->stage_count,          problem->micro_batch_count,
                              (double)problem->device_bytes, problem->host_bytes_per_s,
                              problem->nvme_bytes_per_s,     (double)problem->host_bytes,
                              (double)problem->nvme_bytes,   problem->tiers};
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        add(&words, scalars[i]);
    for (int c = 0; c < problem->class_count; c++) {
        add(&words, (double)problem->classes[c].bytes);
        add(&words, problem->classes[c].op_class);
    }
    for (int r = 0; r < problem->recompute_count; r++)
        add_recompute(&words, problem, &problem->recomputes[r]);
    for (int s = 0; s < problem->stage_count; s++)
        add_stage(&words, &problem->stages[s]);
    return words;
}

struct keep_result keep_memo_solve(struct keep_memo *memo, struct arena *scratch,
                                   const struct keep_problem *problem,
                                   const struct milp_options *options)
{
    assert(problem->stage_count >= 1 && problem->recompute_count >= 1);
    struct words words = words_of(memo->arena, problem);
    size_t bytes = (size_t)words.count * sizeof *words.items;
    for (int i = 0; i < memo->count; i++) {
        const struct keep_memo_entry *entry = &memo->entries[i];
        if (entry->word_count != words.count) continue;
        if (memcmp(entry->words, words.items, bytes) == 0) return entry->result;
    }
    struct keep_result result = keep_solve(scratch, problem, options);
    ARENA_GROW(memo->arena, memo->entries, memo->count, memo->capacity);
    memo->entries[memo->count++] = (struct keep_memo_entry){words.items, words.count, result};
    return result;
}
