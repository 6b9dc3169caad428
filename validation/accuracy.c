#include "validation/accuracy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const GROUP_NAMES[ACCURACY_GROUP_COUNT] = {
    [ACCURACY_DENSE] = "dense, 16 bits",        [ACCURACY_LOW_PRECISION] = "dense, fp8 and fp4",
    [ACCURACY_ALL_DENSE] = "all dense",         [ACCURACY_MIXTURE] = "mixtures of experts",
    [ACCURACY_UNSTATED] = "network not stated", [ACCURACY_ALL] = "all",
};
static const char *const TIER_NAMES[ACCURACY_TIER_COUNT] = {"tier A", "tier B", "tier C"};

// One row's numbers, once as `plan` predicts now and once left out.
struct pair {
    const struct row *row;
    struct estimate now, left_out;
};

struct pairs {
    struct arena *arena;
    const struct pair *items;
    int count;
    const char *tiers;
};

static struct pairs pairs_of(struct arena *arena, const struct trials *trials, const char *tiers,
                             const struct left_out *left_out)
{
    struct pair *items = ARENA_NEW(arena, struct pair, trials->count);
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        const struct row *row = trial->row;
        struct pair *pair = &items[i];
        pair->row = row;
        if (row->has_narrow_base) continue;
        pair->now.measured = row->step_s;
        if (trial->answered) {
            pair->now.predicted = trial->prediction.step_s;
            pair->now.low = trial->prediction.step_s_low;
            pair->now.high = trial->prediction.step_s_high;
        }
        const struct left_out_row *out = left_out ? left_out_find(left_out, row->id) : NULL;
        if (!out) continue;
        pair->left_out =
            (struct estimate){row->step_s, out->step_s, out->step_s_low, out->step_s_high};
    }
    return (struct pairs){arena, items, trials->count, tiers};
}

static bool is_of_tiers(const struct pairs *pairs, const struct row *row)
{
    return strchr(pairs->tiers, row->tier) != NULL;
}

// Both scores are of the same rows, so that their difference is that of the predictions.
static struct accuracy_line line_of(const struct pairs *pairs, const char *name,
                                    bool (*wanted)(const struct pairs *pairs, const struct row *row,
                                                   const void *context),
                                    const void *context)
{
    struct estimate *now = ARENA_NEW(pairs->arena, struct estimate, pairs->count);
    struct estimate *left_out = ARENA_NEW(pairs->arena, struct estimate, pairs->count);
    int count = 0;
    for (int i = 0; i < pairs->count; i++) {
        if (!wanted(pairs, pairs->items[i].row, context)) continue;
        now[count] = pairs->items[i].now;
        left_out[count++] = pairs->items[i].left_out;
    }
    assert(count <= pairs->count);
    return (struct accuracy_line){name, score_of(now, count), score_of(left_out, count)};
}

// Rows of unstated networks are of another group as well: groups overlap.
static bool is_of_group(const struct pairs *pairs, const struct row *row, const void *context)
{
    if (!is_of_tiers(pairs, row)) return false;
    switch (*(const enum accuracy_group *)context) {
    case ACCURACY_DENSE:
        return row->kind == ROW_KIND_DENSE;
    case ACCURACY_LOW_PRECISION:
        return row->kind == ROW_KIND_DENSE_LOW_PRECISION;
    case ACCURACY_ALL_DENSE:
        return row->kind != ROW_KIND_MIXTURE;
    case ACCURACY_MIXTURE:
        return row->kind == ROW_KIND_MIXTURE;
    case ACCURACY_UNSTATED:
        return !row->network_stated;
    default:
        return true;
    }
}

static bool is_of_tier(const struct pairs *pairs, const struct row *row, const void *context)
{
    (void)pairs;
    return row->tier == *(const char *)context;
}

static bool is_of_family(const struct pairs *pairs, const struct row *row, const void *context)
{
    const struct row *first = context;
    return is_of_tiers(pairs, row) && strcmp(row->family, first->family) == 0;
}

// What the row says it ran, which may be a release; else the stack that it is asked of.
static const char *software_of(const struct row *row)
{
    return row->facts.software ? row->facts.software : row->stack;
}

static bool is_of_software(const struct pairs *pairs, const struct row *row, const void *context)
{
    return is_of_tiers(pairs, row) && strcmp(software_of(row), context) == 0;
}

// Dense families first, then mixtures, each by name.
static int compare_families(const void *a, const void *b)
{
    const struct row *const *left = a, *const *right = b;
    bool left_mixture = (*left)->kind == ROW_KIND_MIXTURE;
    bool right_mixture = (*right)->kind == ROW_KIND_MIXTURE;
    if (left_mixture != right_mixture) return left_mixture ? 1 : -1;
    return strcmp((*left)->family, (*right)->family);
}

// The first row of each family.
static const struct row **families_of(const struct pairs *pairs, int *count)
{
    const struct row **firsts = ARENA_NEW(pairs->arena, const struct row *, pairs->count);
    *count = 0;
    for (int i = 0; i < pairs->count; i++) {
        const struct row *row = pairs->items[i].row;
        bool known = !is_of_tiers(pairs, row) || row->has_narrow_base || row->gave_nothing;
        for (int k = 0; k < *count && !known; k++) {
            known = strcmp(firsts[k]->family, row->family) == 0;
        }
        if (!known) firsts[(*count)++] = row;
    }
    qsort(firsts, (size_t)*count, sizeof *firsts, compare_families);
    assert(*count <= pairs->count);
    return firsts;
}

static void score_families(const struct pairs *pairs, struct accuracy *accuracy)
{
    const struct row **firsts = families_of(pairs, &accuracy->family_count);
    accuracy->families = ARENA_NEW(pairs->arena, struct accuracy_line, accuracy->family_count);
    int now_count = 0, left_out_count = 0;
    for (int i = 0; i < accuracy->family_count; i++) {
        struct accuracy_line *line = &accuracy->families[i];
        *line = line_of(pairs, firsts[i]->family, is_of_family, firsts[i]);
        accuracy->family_mape += line->now.mape;
        accuracy->left_out_family_mape += line->left_out.mape;
        now_count += line->now.row_count > 0;
        left_out_count += line->left_out.row_count > 0;
    }
    if (now_count) accuracy->family_mape /= now_count;
    if (left_out_count) accuracy->left_out_family_mape /= left_out_count;
}

// Peaks of one kind; `stack` NULL: of all.
static struct score score_memory(const struct pairs *pairs, const struct trials *trials,
                                 bool allocated, const char *stack)
{
    struct estimate *estimates = ARENA_NEW(pairs->arena, struct estimate, trials->count);
    int count = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        if (trial->row->allocated != allocated || !is_of_tiers(pairs, trial->row)) continue;
        if (trial->row->has_narrow_base) continue;
        if (stack && strcmp(stack, trial->row->stack) != 0) continue;
        struct estimate *estimate = &estimates[count++];
        estimate->measured = trial->row->peak_bytes;
        if (!trial->answered) continue;
        estimate->predicted =
            (double)(allocated ? trial->prediction.peak_bytes : trial->prediction.reserved_bytes);
    }
    return score_of(estimates, count);
}

// Of stacks that any run's allocated memory was published of.
static void score_stacks(const struct pairs *pairs, const struct trials *trials,
                         struct accuracy *accuracy)
{
    struct accuracy_line *lines = ARENA_NEW(pairs->arena, struct accuracy_line, trials->count);
    int count = 0;
    for (int i = 0; i < trials->count; i++) {
        const char *stack = trials->items[i].row->stack;
        bool known = false;
        for (int k = 0; k < count && !known; k++)
            known = strcmp(lines[k].name, stack) == 0;
        if (known) continue;
        lines[count] = (struct accuracy_line){stack, score_memory(pairs, trials, true, stack), {0}};
        count += lines[count].now.row_count > 0;
    }
    assert(count <= trials->count);
    accuracy->allocated_stacks = lines;
    accuracy->allocated_stack_count = count;
}

// A software without a scored row has no line.
static void score_softwares(const struct pairs *pairs, struct accuracy *accuracy)
{
    struct accuracy_line *lines = ARENA_NEW(pairs->arena, struct accuracy_line, pairs->count);
    int count = 0;
    for (int i = 0; i < pairs->count; i++) {
        const char *software = software_of(pairs->items[i].row);
        bool known = false;
        for (int k = 0; k < count && !known; k++)
            known = strcmp(lines[k].name, software) == 0;
        if (known) continue;
        lines[count] = line_of(pairs, software, is_of_software, software);
        count += lines[count].now.row_count + lines[count].now.failure_count > 0;
    }
    accuracy->softwares = lines;
    accuracy->software_count = count;
}

// Plans without a prediction stay in the list, and ranking_of leaves them out.
static struct ranking_score rank(const struct pairs *pairs, bool left_out)
{
    struct ranked *plans = ARENA_NEW(pairs->arena, struct ranked, pairs->count);
    int count = 0;
    for (int i = 0; i < pairs->count; i++) {
        const struct pair *pair = &pairs->items[i];
        if (!is_of_tiers(pairs, pair->row)) continue;
        plans[count++] = (struct ranked){
            .sweep = row_sweep(pairs->arena, pair->row),
            .measured_s = pair->row->step_s,
            .predicted_s = left_out ? pair->left_out.predicted : pair->now.predicted,
        };
    }
    return ranking_of(plans, count);
}

struct accuracy *accuracy_of(struct arena *arena, const struct trials *trials, const char *tiers,
                             const struct left_out *left_out)
{
    assert(trials->count >= 0 && *tiers);
    struct accuracy *accuracy = ARENA_NEW(arena, struct accuracy, 1);
    struct pairs pairs = pairs_of(arena, trials, tiers, left_out);
    accuracy->trials = trials;
    accuracy->tiers = tiers;
    accuracy->has_left_out = left_out != NULL;
    score_families(&pairs, accuracy);
    for (enum accuracy_group group = 0; group < ACCURACY_GROUP_COUNT; group++) {
        accuracy->groups[group] = line_of(&pairs, GROUP_NAMES[group], is_of_group, &group);
    }
    for (int i = 0; i < ACCURACY_TIER_COUNT; i++) {
        char tier = (char)('A' + i);
        accuracy->tier_lines[i] = line_of(&pairs, TIER_NAMES[i], is_of_tier, &tier);
    }
    accuracy->allocated = score_memory(&pairs, trials, true, NULL);
    accuracy->reserved = score_memory(&pairs, trials, false, NULL);
    score_stacks(&pairs, trials, accuracy);
    score_softwares(&pairs, accuracy);
    accuracy->fits = fits_of(trials);
    for (int i = 0; i < trials->count; i++) {
        accuracy->adapter_count += trials->items[i].row->has_narrow_base;
    }
    accuracy->ranking = rank(&pairs, false);
    accuracy->left_out_ranking = rank(&pairs, true);
    return accuracy;
}
