#include "executor/straggler.h"

#include <assert.h>
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

// The ranks of a stage in a step, and their lower median by what is predicted.
struct stage {
    const struct work *works;
    int count;
    double pace;
};

struct stragglers {
    int rank_count, stage_count;
    const int *stages;
    const double *stage_work_s;
    struct straggler_rank *ranks;
    struct work *sorted;    // of a step: by stage, work and rank
    struct stage *of_step;  // its stages
};

struct stragglers *stragglers_new(struct arena *arena, const int *stages,
                                  const double *stage_work_s, int rank_count)
{
    assert(rank_count > 0);
    struct stragglers *made = ARENA_NEW(arena, struct stragglers, 1);
    *made = (struct stragglers){.rank_count = rank_count,
                                .stages = stages,
                                .stage_work_s = stage_work_s,
                                .of_step = ARENA_NEW(arena, struct stage, rank_count),
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

static void judge(struct straggler_rank *of, int64_t step, double ratio, double least,
                  double step_s)
{
    assert(ratio >= 0 && least > 1 && step_s >= 0);
    if (ratio < least) {
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
        judge(&stragglers->ranks[works[i].rank], step, ratio, STRAGGLER_RATIO, step_s);
    }
}

static int by_pace(const void *left, const void *right)
{
    const struct stage *a = left, *b = right;
    if (a->pace != b->pace) return a->pace < b->pace ? -1 : 1;
    return a->works->stage < b->works->stage ? -1 : a->works->stage > b->works->stage;
}

// Ranks that are alone in their stage, against the lower median of the other stages.
static void judge_alone(struct stragglers *stragglers, int64_t step, double step_s)
{
    struct stage *stages = stragglers->of_step;
    int count = stragglers->stage_count, middle = (count - 2) / 2;
    for (int i = 0; i < count; i++) {
        double predicted_s = stragglers->stage_work_s[stages[i].works->stage];
        if (predicted_s <= 0) return;
        const struct work *median = &stages[i].works[(stages[i].count - 1) / 2];
        stages[i].pace = (double)median->ns / predicted_s;
    }
    qsort(stages, (size_t)count, sizeof *stages, by_pace);
    for (int i = 0; i < count && count > 1; i++) {
        double others = stages[i <= middle ? middle + 1 : middle].pace;
        if (stages[i].count > 1) continue;
        judge(&stragglers->ranks[stages[i].works->rank], step, stages[i].pace / others,
              STRAGGLER_STAGE_RATIO, step_s);
    }
}

static bool is_alone(const struct stragglers *stragglers, int rank)
{
    int ranks = 0;
    for (int r = 0; r < stragglers->rank_count; r++)
        ranks += stragglers->stages[r] == stragglers->stages[rank];
    return ranks == 1;
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
        return (struct straggler){.rank = r,
                                  .ratio = of->ratio,
                                  .since_step = of->since_step,
                                  .is_over = !of->is_said,
                                  .is_alone = is_alone(stragglers, r),
                                  .step_s = step_s};
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
    stragglers->stage_count = 0;
    for (int first = 0, end; first < count; first = end) {
        for (end = first; end < count && sorted[end].stage == sorted[first].stage; end++) {
        }
        judge_stage(stragglers, sorted + first, end - first, step, step_s);
        stragglers->of_step[stragglers->stage_count++] =
            (struct stage){sorted + first, end - first, 0};
    }
    assert(stragglers->stage_count > 0 && stragglers->stage_count <= count);
    if (stragglers->stage_work_s) judge_alone(stragglers, step, step_s);
    return news(stragglers);
}
