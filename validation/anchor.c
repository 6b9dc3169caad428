#include "validation/anchor.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Steps near the end of memory wait for the allocator: they teach nothing of the kernels.
static bool is_full(const struct trial *trial)
{
    return trial->row->peak_bytes > ANCHOR_FULL_RATIO * (double)trial->prediction.device_bytes;
}

// Which of the trials are fitted. False where one has no answer.
static bool answer(struct arena *arena, struct trials *trials, bool *used, struct anchor *anchor,
                   struct err *err)
{
    const struct fabrics *fabrics = fabrics_load(arena, err);
    if (!fabrics) return false;
    anchor->runs = ARENA_NEW(arena, struct anchor_run, trials->count);
    anchor->run_count = trials->count;
    for (int i = 0; i < trials->count; i++) {
        struct trial *trial = &trials->items[i];
        trial_answer(arena, trial, fabrics, NULL);
        if (!trial->answered || trial->row->step_s == 0)
            return err_set(err, ERR_INPUT, "%s: %s", trial->row->id,
                           trial->answered ? "has no measured step" : trial->why_not);
        used[i] = !is_full(trial);
        anchor->used_count += used[i];
        anchor->runs[i] = (struct anchor_run){
            .name = trial->row->id,
            .measured_s = trial->row->step_s,
            .is_used = used[i],
        };
    }
    if (anchor->used_count > 0) return true;
    return err_set(err, ERR_INPUT,
                   "%s: took more than %.0f %% of the device's memory, where steps wait for the "
                   "allocator: such a run says nothing of larger ones",
                   trials->items[0].row->id, 100 * ANCHOR_FULL_RATIO);
}

static const struct fit_options OPTIONS = {
    .tiers = "ABC",
    .from_values = true,
};

bool anchor_make(struct arena *arena, struct trials *trials, struct anchor *anchor, struct err *err)
{
    *anchor = (struct anchor){0};
    bool *used = ARENA_NEW(arena, bool, trials->count);
    struct fit_options options = OPTIONS;
    struct fit_result result;
    options.fitted = used;
    if (!answer(arena, trials, used, anchor, err)) return false;
    if (!fit_trials(arena, trials, &options, &result, err)) return false;
    assert(result.prediction_count == anchor->run_count && "each trial was answered");
    anchor->is_met = true;
    for (int i = 0; i < result.prediction_count; i++) {
        struct anchor_run *run = &anchor->runs[i];
        run->before_s = result.predictions[i].prior_s;
        run->after_s = result.predictions[i].step_s;
        run->is_met = fabs(run->after_s / run->measured_s - 1) <= ANCHOR_MET_WITHIN;
        anchor->is_met &= run->is_met || !run->is_used;
    }
    anchor->constants = result.constants;
    anchor->constant_count = result.constant_count;
    return true;
}

bool anchor_predict(struct arena *arena, const struct trials *trials, int first_count,
                    int *used_count, struct fit_result *result, struct err *err)
{
    assert(first_count >= 0 && first_count <= trials->count);
    bool *used = ARENA_NEW(arena, bool, trials->count);
    struct fit_options options = OPTIONS;
    options.fitted = used;
    *used_count = 0;
    for (int i = 0; i < first_count; i++) {
        used[i] = !is_full(&trials->items[i]);
        *used_count += used[i];
    }
    assert(*used_count >= 0 && *used_count <= first_count);
    return *used_count == 0 || fit_trials(arena, trials, &options, result, err);
}

// The entries with one for each constant of this owner that moved.
static void say(struct arena *arena, const struct anchor *anchor, enum constant_owner owner,
                const char *owner_name, const char *words, struct provenance **entries, int *count)
{
    int most = *count + anchor->constant_count;
    struct provenance *list = ARENA_NEW(arena, struct provenance, most);
    assert(most >= *count);
    if (*count > 0) memcpy(list, *entries, (size_t)*count * sizeof *list);
    for (int i = 0; i < anchor->constant_count; i++) {
        const struct fit_constant *constant = &anchor->constants[i];
        if (constant->owner != owner || strcmp(constant->owner_name, owner_name) != 0) continue;
        int at = 0;
        while (at < *count && strcmp(list[at].key, constant->key) != 0)
            at++;
        if (at == *count) ++*count;
        list[at] = (struct provenance){
            .key = constant->key,
            .kind = PROVENANCE_FITTED,
            .source = arena_print(arena, "anchored to %s, from %.4g", words, constant->prior),
            .prior = constant->prior,
            .spread = constant->spread,
        };
    }
    *entries = list;
}

// How many of the list's constants were set.
static int set_values(const struct anchor *anchor, const struct constant_list *list)
{
    int count = 0;
    for (int i = 0; i < anchor->constant_count; i++) {
        const struct fit_constant *from = &anchor->constants[i];
        struct constant *to = constants_find(list, from->owner, from->owner_name, from->key);
        if (!to) continue;
        *to->value = from->value;
        count++;
    }
    return count;
}

// Copies: a cluster file's device is shared by all who loaded it.
static int correct_devices(struct arena *arena, const struct anchor *anchor, const char *words,
                           const struct cluster **cluster)
{
    struct cluster *copy = ARENA_NEW(arena, struct cluster, 1);
    int groups = (*cluster)->node_group_count, moved = 0;
    *copy = **cluster;
    copy->nodes = ARENA_NEW(arena, struct node_group, groups);
    for (int i = 0; i < groups; i++) {
        copy->nodes[i] = (*cluster)->nodes[i];
        struct device *device = device_copy(arena, copy->nodes[i].device);
        struct constant_list list = constants_list(arena, device, NULL, NULL);
        moved += set_values(anchor, &list);
        say(arena, anchor, CONSTANT_DEVICE, device->name, words, &device->provenance,
            &device->provenance_count);
        copy->nodes[i].device = device;
    }
    *cluster = copy;
    return moved;
}

// Where neither device nor stack moved, the runs say nothing of this question.
bool anchor_apply(struct arena *arena, const struct anchor *anchor, const char *words,
                  const struct cluster **cluster, const struct stack **stack, struct err *err)
{
    struct stack *copy = stack_copy(arena, *stack);
    struct constant_list list = constants_list(arena, NULL, copy, NULL);
    int moved = set_values(anchor, &list) + correct_devices(arena, anchor, words, cluster);
    if (moved == 0)
        return err_set(err, ERR_INPUT,
                       "%s ran on another device and with other software than %s with %s", words,
                       (*cluster)->nodes[0].device->name, (*stack)->name);
    say(arena, anchor, CONSTANT_STACK, copy->name, words, &copy->provenance,
        &copy->provenance_count);
    *stack = copy;
    return true;
}
