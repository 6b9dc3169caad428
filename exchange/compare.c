#include "exchange/compare.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *verdict_name(enum verdict verdict)
{
    assert(verdict <= VERDICT_IMPROVEMENT);
    static const char *const NAMES[] = {"same", "regression", "improvement"};
    return NAMES[verdict];
}

bool compare_side_read(struct arena *arena, const char *const *paths, int count, int steps_told,
                       struct compare_side *side, struct err *err)
{
    assert(count > 0 && count <= COMPARE_FILES_MAX);
    *side = (struct compare_side){.count = count};
    double *medians = ARENA_NEW(arena, double, count);
    for (int i = 0; i < count; i++) {
        struct side_file *file = &side->files[i];
        if (!side_read(arena, paths[i], steps_told, file, err)) return false;
        const struct side_file *first = &side->files[0];
        if (file->kind != first->kind) {
            return err_set(err, ERR_USAGE, "%s is a %s and %s is a %s: runs of one side are alike",
                           first->path, side_kind_name(first->kind), file->path,
                           side_kind_name(file->kind));
        }
        medians[i] = samples_median(arena, (struct samples){file->step_s, file->step_count});
        side->peak_bytes = fmax(side->peak_bytes, file->peak_bytes);
    }
    const struct side_file *first = &side->files[0];
    side->tokens_per_step = first->tokens_per_step;
    side->step_s = count > 1 ? (struct samples){medians, count}
                             : (struct samples){first->step_s, first->step_count};
    side->median_s = samples_median(arena, side->step_s);
    side->spread_s = samples_spread(arena, side->step_s);
    return true;
}

// Beyond the threshold and beyond the noise: either alone is no change.
static enum verdict judge(const struct compare_request *request, double ratio,
                          const struct noise *noise)
{
    assert(request->threshold_ratio >= 0);
    bool is_slower = ratio > request->threshold_ratio && (!noise || noise_is_slower(noise));
    bool is_faster = ratio < -request->threshold_ratio && (!noise || noise_is_faster(noise));
    return is_slower ? VERDICT_REGRESSION : is_faster ? VERDICT_IMPROVEMENT : VERDICT_SAME;
}

static void add_metric(struct compare *compare, struct compare_metric metric)
{
    assert(compare->metric_count < COMPARE_METRICS_MAX);
    metric.ratio = metric.now / metric.base - 1;
    metric.verdict = judge(&compare->request, metric.ratio, metric.noise);
    compare->metrics[compare->metric_count++] = metric;
}

// Steps of different batches are compared by the token.
static void compare_steps(struct arena *arena, struct compare *compare)
{
    const struct compare_side *base = compare->base, *now = compare->now;
    double base_tokens = base->tokens_per_step, tokens = now->tokens_per_step;
    bool by_token = base_tokens > 0 && tokens > 0 && fabs(tokens / base_tokens - 1) > 1e-6;
    struct samples scaled[2] = {base->step_s, now->step_s};
    const double by[2] = {by_token ? base_tokens : 1, by_token ? tokens : 1};
    for (int side = 0; side < 2 && by_token; side++) {
        double *values = ARENA_NEW(arena, double, scaled[side].count);
        for (int i = 0; i < scaled[side].count; i++)
            values[i] = scaled[side].values[i] / by[side];
        scaled[side].values = values;
    }
    struct noise *noise = ARENA_NEW(arena, struct noise, 1);
    // Steps of one run each are of the same data in the same order; runs are not in pairs.
    *noise = noise_test(arena, scaled[0], scaled[1], base->count == 1 && now->count == 1);
    add_metric(compare, (struct compare_metric){.name = by_token ? "s_per_token" : "step_s",
                                                .base = base->median_s / by[0],
                                                .now = now->median_s / by[1],
                                                .noise = noise,
                                                .is_judged = compare->request.judges_step});
}

static const struct side_task *find_task(const struct side_file *file, const char *name)
{
    for (int i = 0; i < file->task_count; i++) {
        if (strcmp(file->tasks[i].name, name) == 0) return &file->tasks[i];
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct side_task *)a)->name, ((const struct side_task *)b)->name);
}

// Every name of either side once, in the order of their bytes.
static struct side_task *all_names(struct arena *arena, const struct compare *compare, int *count)
{
    const struct compare_side *const sides[] = {compare->base, compare->now};
    int capacity = 0, all = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < sides[side]->count; i++)
            capacity += sides[side]->files[i].task_count;
    struct side_task *names = ARENA_NEW(arena, struct side_task, capacity);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < sides[side]->count; i++) {
            const struct side_file *file = &sides[side]->files[i];
            for (int task = 0; task < file->task_count; task++)
                names[all++] = file->tasks[task];
        }
    }
    qsort(names, (size_t)all, sizeof *names, by_name);
    *count = 0;
    assert(all == capacity);
    for (int i = 0; i < all; i++) {
        if (*count == 0 || strcmp(names[*count - 1].name, names[i].name) != 0)
            names[(*count)++] = names[i];
    }
    return names;
}

// What the task took in each file of a side: 0 where it is not there.
static struct samples task_samples(struct arena *arena, const struct compare_side *side,
                                   const char *name, double *count, double *bytes)
{
    double *values = ARENA_NEW(arena, double, side->count);
    for (int i = 0; i < side->count; i++) {
        const struct side_task *task = find_task(&side->files[i], name);
        values[i] = task ? task->s : 0;
        if (task && *count == 0) {
            *count = task->count;
            *bytes = task->bytes;
        }
    }
    return (struct samples){values, side->count};
}

static int by_change(const void *a, const void *b)
{
    const struct compare_task *left = a, *right = b;
    double more = fabs(right->change_s) - fabs(left->change_s);
    return more > 0 ? 1 : more < 0 ? -1 : strcmp(left->name, right->name);
}

static void compare_tasks(struct arena *arena, struct compare *compare)
{
    const struct side_task *names = all_names(arena, compare, &compare->task_count);
    compare->tasks = ARENA_NEW(arena, struct compare_task, compare->task_count);
    for (int i = 0; i < compare->task_count; i++) {
        struct compare_task *task = &compare->tasks[i];
        *task = (struct compare_task){.name = names[i].name, .kind = names[i].kind};
        struct samples base =
            task_samples(arena, compare->base, task->name, &task->base_count, &task->base_bytes);
        struct samples now =
            task_samples(arena, compare->now, task->name, &task->count, &task->bytes);
        task->base_s = samples_median(arena, base);
        task->s = samples_median(arena, now);
        task->change_s = task->s - task->base_s;
        struct noise noise = noise_test(arena, base, now, false);
        double ratio = task->base_s > 0     ? task->change_s / task->base_s
                       : task->change_s > 0 ? INFINITY
                                            : 0;
        task->verdict = judge(&compare->request, ratio, &noise);
    }
    qsort(compare->tasks, (size_t)compare->task_count, sizeof *compare->tasks, by_change);
}

static const char *choice_of(const struct side_file *file, const char *key)
{
    for (int i = 0; i < file->choice_count; i++) {
        if (strcmp(file->choices[i].key, key) == 0) return file->choices[i].value;
    }
    return NULL;
}

// What both say alike is left out, also where the order of the files differs.
static void compare_choices(struct arena *arena, struct compare *compare)
{
    const struct side_file *base = &compare->base->files[0], *now = &compare->now->files[0];
    compare->choices =
        ARENA_NEW(arena, struct compare_choice, base->choice_count + now->choice_count);
    for (int i = 0; i < base->choice_count; i++) {
        const struct side_choice *choice = &base->choices[i];
        const char *other = choice_of(now, choice->key);
        if (other && strcmp(other, choice->value) == 0) continue;
        compare->choices[compare->choice_count++] =
            (struct compare_choice){choice->key, choice->value, other};
    }
    for (int i = 0; i < now->choice_count; i++) {
        const struct side_choice *choice = &now->choices[i];
        if (choice_of(base, choice->key)) continue;
        compare->choices[compare->choice_count++] =
            (struct compare_choice){choice->key, NULL, choice->value};
    }
}

// A regression of anything that is judged is one; an improvement only where nothing got worse.
static enum verdict verdict_of(const struct compare *compare)
{
    enum verdict verdict = VERDICT_SAME;
    for (int i = 0; i < compare->metric_count; i++) {
        const struct compare_metric *metric = &compare->metrics[i];
        if (!metric->is_judged || metric->verdict == VERDICT_SAME) continue;
        if (verdict != VERDICT_REGRESSION) verdict = metric->verdict;
    }
    return verdict;
}

static const struct compare_task *cause_of(const struct compare *compare)
{
    assert(compare->metric_count > 0 && "the first metric is the step");
    enum verdict step = compare->metrics[0].verdict;
    for (int i = 0; i < compare->task_count && step != VERDICT_SAME; i++) {
        const struct compare_task *task = &compare->tasks[i];
        bool fits = step == VERDICT_REGRESSION ? task->change_s > 0 : task->change_s < 0;
        if (fits) return task;
    }
    return NULL;
}

bool compare_make(struct arena *arena, const struct compare_request *request,
                  const struct compare_side *base, const struct compare_side *now,
                  struct compare *compare, struct err *err)
{
    assert(base->count > 0 && now->count > 0 && request->threshold_ratio >= 0);
    *compare = (struct compare){.request = *request, .base = base, .now = now};
    const struct side_file *first = &base->files[0], *second = &now->files[0];
    if (first->kind != second->kind) {
        return err_set(err, ERR_USAGE, "%s is a %s and %s is a %s: two of a kind are compared",
                       first->path, side_kind_name(first->kind), second->path,
                       side_kind_name(second->kind));
    }
    compare_steps(arena, compare);
    if (base->peak_bytes > 0 && now->peak_bytes > 0) {
        add_metric(compare, (struct compare_metric){.name = "peak_bytes",
                                                    .base = base->peak_bytes,
                                                    .now = now->peak_bytes,
                                                    .is_judged = request->judges_memory});
    }
    compare_tasks(arena, compare);
    compare_choices(arena, compare);
    compare->verdict = verdict_of(compare);
    compare->cause = cause_of(compare);
    return true;
}
