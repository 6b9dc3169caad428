#include "core/progress.h"
#include "memory/formats.h"
#include "memory/pack/pack_branch.h"
#include "tests/support/pack_problems.h"

#include <stdio.h>
#include <stdlib.h>

// Exact packing: MiniMalloc's problems A to F (when they are there), the real ResNet-50 step, and
// generated siblings. Beside the portfolio, each of its members alone under a limit of its own.

static const double LIMIT_S = 2, MEMBER_LIMIT_S = 0.3;
enum { CAPACITY = 1048576 };

static const char *graphs(void)
{
    const char *given = getenv("MESHWRIGHT_GRAPHS");
    return given ? given : "../shared/graphs";
}

static bool load(struct arena *arena, const char *name, struct pack_problem *problem)
{
    struct err err = {0};
    struct packing_file file = {0};
    if (!packing_load(arena, arena_print(arena, "%s/%s", graphs(), name), &file, &err)) {
        printf("%s: skipped (%s)\n", name, err.text);
        return false;
    }
    *problem = file.problem;
    return true;
}

static enum pack_answer timed(struct arena *arena, const struct pack_problem *problem,
                              int64_t height, unsigned members, int64_t *offsets, double *seconds,
                              struct pack_result *counts)
{
    double start_s = clock_s();
    struct pack_options options = {.deadline_s =
                                       start_s + (members == ~0u ? LIMIT_S : MEMBER_LIMIT_S)};
    enum pack_answer answer =
        pack_search_by(arena, problem, height, &options, members, offsets, counts);
    *seconds = clock_s() - start_s;
    return answer;
}

// One line a problem; returns whether it was solved.
static bool bench(struct arena *arena, const char *name, const struct pack_problem *problem,
                  int64_t height, double *sum_s, int64_t *offsets)
{
    struct arena_mark mark = arena_mark(arena);
    struct pack_result counts = {0};
    int64_t *trial = ARENA_NEW(arena, int64_t, problem->count);
    double own_s, member_s, best_s = 0, best_member_s = MEMBER_LIMIT_S;
    enum pack_answer answer = timed(arena, problem, height, ~0u, offsets, &own_s, &counts);
    int solved = 0;
    for (int m = 0; m < pack_member_count(); m++) {
        struct pack_result ignored = {0};
        enum pack_answer alone = timed(arena, problem, height, 1u << m, trial, &member_s, &ignored);
        solved += alone == PACK_YES;
        best_s += member_s;
        if (alone == PACK_YES && member_s < best_member_s) best_member_s = member_s;
    }
    double greedy_ratio = (double)pack_greedy(arena, problem, trial) / (double)height;
    printf("%-24s %4d buffers: %s %.3f s, %lld nodes, %d starts; members alone: %d of %d, mean "
           "%.3f s (%.3g x), best %.3f s; greedy %.3f x the height\n",
           name, problem->count,
           answer == PACK_YES  ? "fits"
           : answer == PACK_NO ? "REFUTED"
                               : "open",
           own_s, (long long)counts.node_count, counts.restart_count, solved, pack_member_count(),
           best_s / pack_member_count(), best_s / pack_member_count() / own_s, best_member_s,
           greedy_ratio);
    *sum_s += own_s;
    arena_reset(arena, mark);
    return answer == PACK_YES;
}

static void bench_siblings(struct arena *arena, struct draw *draw, const char *name,
                           const struct pack_problem *problem, const int64_t *offsets)
{
    double sum_s = 0;
    struct arena_mark mark = arena_mark(arena);
    const struct pack_problem siblings[] = {
        problem_mirrored(arena, draw, problem),
        problem_split(arena, draw, problem, problem->count / 5, 1024),
        problem_grown(arena, draw, problem, offsets, 50),
        problem_loosened(arena, draw, problem, 10, 1024),
    };
    static const char *const KINDS[] = {"mirrored", "split", "grown", "loosened"};
    for (int k = 0; k < 4; k++) {
        int64_t *trial = ARENA_NEW(arena, int64_t, siblings[k].count);
        bench(arena, arena_print(arena, "  %s %s", name, KINDS[k]), &siblings[k], CAPACITY, &sum_s,
              trial);
    }
    arena_reset(arena, mark);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct arena arena = {0};
    struct draw draw = {20261121};
    double sum_s = 0;
    int solved = 0;
    struct pack_problem problem;
    for (char letter = 'A'; letter <= 'F'; letter++) {
        char name[40];
        snprintf(name, sizeof name, "minimalloc/%c.1048576.csv", letter);
        if (!load(&arena, name, &problem)) continue;
        int64_t *offsets = ARENA_NEW(&arena, int64_t, problem.count);
        bool fits = bench(&arena, name, &problem, CAPACITY, &sum_s, offsets);
        solved += fits;
        if (fits) bench_siblings(&arena, &draw, (char[]){letter, 0}, &problem, offsets);
    }
    printf("A to F: %d of 6 in %.3f s together\n", solved, sum_s);
    if (load(&arena, "somas/resnet50.csv", &problem)) {
        double start_s = clock_s();
        struct arena scratch = {0};
        struct pack_options options = {.deadline_s = start_s + 10};
        struct pack_result result = pack_solve(&arena, &scratch, &problem, &options);
        printf("somas/resnet50.csv, as the command solves it: %.4f x the bound, %.3f s\n",
               (double)result.height / (double)result.bound, clock_s() - start_s);
        arena_free(&scratch);
    }
    arena_free(&arena);
    return 0;
}
