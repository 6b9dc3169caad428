#include "executor/straggler.h"

#include <stdlib.h>

struct straggler_rank {
    int64_t since_step;
    int slow_steps;  // in a row; 0: the last was none
    double slow_s, ratios;
    double ratio;  // mean of the slow steps, the last row of them
    bool is_said;
};

struct work {
    int stage, rank;
    int64_t ns;
};

struct stragglers {
    int rank_count;
    const int *stages;
    struct straggler_rank *ranks;
    struct work *sorted;  // of a step: by stage, work and rank
};

struct stragglers *stragglers_new(struct arena *arena, const int *stages, int rank_count)
{
    struct stragglers *made = ARENA_NEW(arena, struct stragglers, 1);
    *made = (struct stragglers){.rank_count = rank_count,
                                .stages = stages,
                                .ranks = ARENA_NEW(arena, struct straggler_rank, rank_count),
                                .sorted = ARENA_NEW(arena, struct work, rank_count)};
    return made;
}

static int compare(const void *left, const void *right)
{
    const struct work *a = left, *b = right;
    if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void judge(struct straggler_rank *of, int64_t step, double ratio, double step_s)
{
    if (ratio < STRAGGLER_RATIO) {
        of->slow_steps = 0;
        of->slow_s = of->ratios = 0;
        return;
    }
    if (of->slow_steps == 0 && !of->is_said) of->since_step = step;
    of->slow_steps++;
    of->slow_s += step_s;
    of->ratios += ratio;
    of->ratio = of->ratios / of->slow_steps;
}

// The ranks of a stage, sorted. The others of one are those without it: of their lower median.
static void judge_stage(struct stragglers *stragglers, const struct work *works, int count,
                        int64_t step, double step_s)
{
    int middle = (count - 2) / 2;
    for (int i = 0; i < count && count > 1; i++) {
        int64_t others_ns = works[i <= middle ? middle + 1 : middle].ns;
        double ratio = (double)works[i].ns / (double)others_ns;
        judge(&stragglers->ranks[works[i].rank], step, ratio, step_s);
    }
}

// The first of which there is something to say.
static struct straggler news(struct stragglers *stragglers)
{
    for (int r = 0; r < stragglers->rank_count; r++) {
        struct straggler_rank *of = &stragglers->ranks[r];
        bool lasts = of->slow_steps >= STRAGGLER_STEPS && of->slow_s >= STRAGGLER_S;
        bool is_over = of->slow_steps == 0;
        if (of->is_said ? !is_over : !lasts) continue;
        of->is_said = !of->is_said;
        double step_s = is_over ? 0 : of->slow_s / of->slow_steps;
        return (struct straggler){r, of->ratio, of->since_step, !of->is_said, step_s};
    }
    return (struct straggler){.rank = -1};
}

struct straggler stragglers_take(struct stragglers *stragglers, int64_t step,
                                 const int64_t *work_ns, double step_s)
{
    struct work *sorted = stragglers->sorted;
    int count = stragglers->rank_count;
    for (int r = 0; r < count; r++) {
        if (work_ns[r] <= 0) return (struct straggler){.rank = -1};
        sorted[r] = (struct work){stragglers->stages[r], r, work_ns[r]};
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    for (int first = 0, end; first < count; first = end) {
        for (end = first; end < count && sorted[end].stage == sorted[first].stage; end++) {
        }
        judge_stage(stragglers, sorted + first, end - first, step, step_s);
    }
    return news(stragglers);
}
