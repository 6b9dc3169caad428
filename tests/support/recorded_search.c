#include "tests/support/recorded_search.h"

#include "core/file.h"
#include "planner/choice.h"
#include "planner/per_operator.h"
#include "planner/question.h"
#include "planner/ranking.h"
#include "planner/uneven.h"
#include "tests/support/random_question.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

#define RECORD "tests/data/searches.tsv"

static const char *const WAYS[WAY_COUNT] = {
    "time",         "memory",   "offload",     "gradients",    "parameters", "memory-offload",
    "per-operator", "stage-tp", "stage-ranks", "ranks-pinned", "branches",   "exhaustive"};

// Numbers of ranks for the stages of a plan on so many GPUs, and what is pinned beside them.
static void pin_ranks(struct pins *pins, int gpus, int seed)
{
    static const struct {
        int gpus, count, ranks[3], tp[3];
    } STAGES[] = {
        {8, 2, {6, 2}, {2, 1}}, {8, 2, {2, 6}, {1, 2}},       {8, 3, {4, 2, 2}, {2, 2, 1}},
        {6, 2, {4, 2}, {2, 1}}, {6, 3, {3, 2, 1}, {1, 1, 1}}, {6, 2, {2, 4}, {2, 2}},
        {4, 2, {3, 1}, {1, 1}}, {4, 2, {1, 3}, {1, 1}},       {4, 3, {2, 1, 1}, {2, 1, 1}}};
    for (size_t i = 0; i < sizeof STAGES / sizeof *STAGES; i++) {
        if (STAGES[i].gpus != gpus || (int)i % 3 != seed % 3) continue;
        pins->stage_ranks = STAGES[i].ranks;
        pins->stage_ranks_count = STAGES[i].count;
        if (seed % 5 == 2) pins->stage_tp = STAGES[i].tp;
        if (seed % 5 == 2) pins->stage_tp_count = STAGES[i].count;
    }
    if (seed % 5 == 1) pins_set(pins, CHOICE_MICRO_BATCH, 2, 2);
    if (seed % 5 == 3) pins_set(pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    if (seed % 5 == 4) pins_set(pins, CHOICE_DP, 1, 1);
}

void recorded_way(struct search_request *request, enum way way, int seed)
{
    struct pins *pins = &request->pins;
    bool moves = way >= WAY_OFFLOAD && way <= WAY_MEMORY_OFFLOAD;
    if (way == WAY_MEMORY || way == WAY_MEMORY_OFFLOAD) request->objective = OBJECTIVE_MEMORY;
    pins->search_offload = moves;
    pins->search_gradients = way == WAY_GRADIENTS;
    if (way == WAY_PARAMETERS) pins->search_parameters = TIER_HOST;
    pins->per_operator = way == WAY_PER_OPERATOR;
    if (way == WAY_PER_OPERATOR) pins_set(pins, CHOICE_TP, 2, 4);
    pins->search_stage_tp = way == WAY_STAGE_TP;
    pins->search_stage_ranks = way == WAY_STAGE_RANKS;
    pins->branches = way == WAY_BRANCHES ? BRANCHES_ON : BRANCHES_OFF;
    if (way == WAY_OFFLOAD && seed % 5 == 3)
        pins_set(pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
    if (way == WAY_RANKS_PINNED) pin_ranks(pins, request->cluster->rank_count, seed);
    request->exhaustive = way == WAY_ALL;
}

static const char *nanoseconds(struct arena *arena, double seconds)
{
    return isfinite(seconds) ? arena_print(arena, "%lld", (long long)step_ns(seconds)) : "-";
}

// What layouts of single operators come to for the plan.
static const char *add_layouts(struct arena *arena, const char *text,
                               const struct search_request *request,
                               const struct parallel *parallel)
{
    struct arena known = {0}, scratch = {0};
    const struct evaluation_request question = search_question(request, parallel);
    struct layout_memo *memo = layout_memo_new(&known, &scratch, request);
    const struct per_operator found = per_operator_find(arena, &scratch, memo, &question);
    text = arena_print(arena, "%s\tlayouts %d %d %d %d %.6f %s %s", text, found.operator_count,
                       found.choice_count, found.change_count, found.priced_count, found.gap_ratio,
                       nanoseconds(arena, found.table_s), nanoseconds(arena, found.found_s));
    arena_free(&scratch);
    arena_free(&known);
    return text;
}

const char *recorded_line(struct arena *arena, const char *name,
                          const struct search_request *request)
{
    struct search_result result = {0};
    struct uneven_answer answer = {0};
    struct err err = {0};
    if (!uneven_search(arena, request, &result, &answer, &err))
        return arena_print(arena, "%s\trefused: %s\n", name, err.text);
    const char *text = arena_print(
        arena, "%s\t%d\t%.0f\t%.0f\t%d\t%d\t%d", name, (int)result.status, result.considered_count,
        result.priced_count, answer.played_count, answer.meshes.played_count, result.remedy_count);
    for (int i = 0; i < DROP_COUNT; i++)
        text = arena_print(arena, "%s\t%.0f", text, result.dropped[i]);
    text = arena_print(arena, "%s\t%s\t%s", text, nanoseconds(arena, result.bound_s),
                       nanoseconds(arena, result.layers_s));
    for (int i = 0; i < result.best_count; i++) {
        const struct parallel *parallel = &result.best[i].parallel;
        text = arena_print(arena, "%s\t%s %s %lld tp %d pp %d vpp %d zero %d kept %d/%d/%d", text,
                           nanoseconds(arena, result.best[i].closed_form_s),
                           nanoseconds(arena, result.best[i].cost.step_s),
                           (long long)result.best[i].memory.reserved_bytes,
                           parallel->degree[AXIS_TP], parallel->degree[AXIS_PP], parallel->vpp,
                           parallel->zero, parallel->recompute_layers, parallel->offload.layers[1],
                           parallel->stage_layers_count);
    }
    if (result.best_count == 0)
        text = arena_print(arena, "%s\t%lld", text, (long long)result.shortfall_bytes);
    for (int i = 0; i < result.cut_count; i++)
        text = arena_print(arena, "%s\t%s %s", text, cut_name(result.cuts[i].cut),
                           nanoseconds(arena, result.cuts[i].bound_s));
    if (request->pins.per_operator && result.best_count > 0)
        text = add_layouts(arena, text, request, &result.best[0].parallel);
    return arena_print(arena, "%s\n", text);
}

void recorded_check(struct arena *arena, const char *begins, const char *lines)
{
    enum { BYTES_MOST = 1 << 20 };
    struct err err = {0};
    size_t bytes = 0, length = strlen(begins);
    const char *record = file_read(arena, RECORD, BYTES_MOST, &bytes, &err), *others = "";
    assert_string_equal(err.text, "");
    for (const char *at = record, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        assert_non_null(end);
        int width = (int)(end - at);
        bool is_own = strncmp(at, begins, length) == 0;
        if (!is_own) others = arena_print(arena, "%s%.*s\n", others, width, at);
        if (getenv("UPDATE") || !is_own) continue;
        if (strncmp(at, lines, (size_t)width + 1) != 0)
            fail_msg("recorded %.*s\nfound    %.*s", width, at, (int)strcspn(lines, "\n"), lines);
        lines += width + 1;
    }
    if (!getenv("UPDATE")) assert_string_equal(lines, "");
    const struct file_text file = {RECORD, arena_print(arena, "%s%s", others, lines)};
    if (getenv("UPDATE")) assert_true(file_write_all(&file, 1, &err));
}

// A drawn question of at most eight GPUs, two a node or as they are, and so many sequences that
// these divide them.
static struct search_request draw_request(struct arena *arena, struct draw *draw, bool in_pairs)
{
    static const int GPUS[] = {1, 2, 2, 4, 4, 6, 8, 8};
    struct search_request request = random_search(arena, draw);
    struct cluster *cluster = cluster_copy(arena, request.cluster);
    struct err err = {0};
    int gpus = DRAW_ONE(draw, GPUS);
    request.workload.global_batch = draw_int(draw, 0, 2) ? 48 : 24;
    request.nothing = SEARCH_FITS_ONLY;
    while (cluster->rank_count < gpus)
        gpus /= 2;
    assert_true(cluster_take_gpus(cluster, gpus, &err));
    struct node_group *nodes = &cluster->nodes[0];
    if (in_pairs && gpus % 2 == 0) {
        nodes->gpus = nodes->gpus_per_host = 2;
        nodes->count = cluster->node_count = gpus / 2;
    }
    request.cluster = cluster;
    return request;
}

const char *recorded_name(enum way way)
{
    return WAYS[way];
}

void recorded_check_draws(struct arena *result, const struct recorded_draws *draws, int count)
{
    enum { SEEDS = sizeof draws->seeds / sizeof *draws->seeds };
    for (int d = 0; d < count; d++) {
        enum way way = draws[d].way;
        const char *lines = "", *begins = arena_print(result, "drawn %s ", WAYS[way]);
        for (int i = 0; i < SEEDS && draws[d].seeds[i] > 0; i++) {
            struct arena arena = {0};
            struct err err = {0};
            int seed = draws[d].seeds[i];
            struct draw draw = {(uint64_t)seed};
            struct search_request request =
                draw_request(&arena, &draw, way == WAY_RANKS_PINNED && seed % 2 == 0);
            // What no other stack runs.
            if (way >= WAY_GRADIENTS && way != WAY_MEMORY_OFFLOAD)
                request.stack = stack_load(&arena, "meshwright", &err);
            assert_string_equal(err.text, "");
            request.workload.unclipped = seed % 3 == 0;
            recorded_way(&request, way, seed);
            const char *name = arena_print(&arena, "%s%d", begins, seed);
            lines = arena_print(result, "%s%s", lines, recorded_line(&arena, name, &request));
            arena_free(&arena);
        }
        recorded_check(result, begins, lines);
    }
}
