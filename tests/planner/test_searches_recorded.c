#include "core/file.h"
#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/uneven.h"
#include "tests/support/random_question.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

// What searches do, in whole numbers: the plans that their spaces hold, how many of them were
// priced, played and left out, the bounds that they end with, and the best plans. A bound that
// holds less, or a move that is tried no longer, costs time or a certificate more often than the
// answer, which other tests look at. The numbers stand in RECORD; UPDATE=1 writes them anew, for
// who changed the space or a bound and has read what became of them.

#define RECORD "tests/data/searches.tsv"

// What is asked beside the question itself.
enum way {
    WAY_TIME,
    WAY_MEMORY,
    WAY_OFFLOAD,
    WAY_GRADIENTS,
    WAY_PARAMETERS,
    WAY_MEMORY_OFFLOAD,
    WAY_PER_OPERATOR,
    WAY_STAGE_TP,
    WAY_STAGE_RANKS,
    WAY_BRANCHES,
    WAY_ALL,
    WAY_COUNT
};
static const char *const WAYS[WAY_COUNT] = {
    "time",         "memory",   "offload",     "gradients", "parameters", "memory-offload",
    "per-operator", "stage-tp", "stage-ranks", "branches",  "exhaustive"};

static void take_way(struct search_request *request, enum way way)
{
    struct pins *pins = &request->pins;
    bool moves = way >= WAY_OFFLOAD && way <= WAY_MEMORY_OFFLOAD;
    if (way == WAY_MEMORY || way == WAY_MEMORY_OFFLOAD) request->objective = OBJECTIVE_MEMORY;
    pins->search_offload = moves;
    pins->search_gradients = way == WAY_GRADIENTS;
    if (way == WAY_PARAMETERS) pins->search_parameters = TIER_HOST;
    pins->per_operator = way == WAY_PER_OPERATOR;
    pins->search_stage_tp = way == WAY_STAGE_TP;
    pins->search_stage_ranks = way == WAY_STAGE_RANKS;
    pins->branches = way == WAY_BRANCHES ? BRANCHES_ON : BRANCHES_OFF;
    request->exhaustive = way == WAY_ALL;
}

static const char *nanoseconds(struct arena *arena, double seconds)
{
    return isfinite(seconds) ? arena_print(arena, "%lld", (long long)step_ns(seconds)) : "-";
}

static const char *line_of(struct arena *arena, const char *name,
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
    for (int i = 0; i < result.best_count; i++)
        text = arena_print(arena, "%s\t%s %s %lld", text,
                           nanoseconds(arena, result.best[i].closed_form_s),
                           nanoseconds(arena, result.best[i].cost.step_s),
                           (long long)result.best[i].memory.reserved_bytes);
    if (result.best_count == 0)
        text = arena_print(arena, "%s\t%lld", text, (long long)result.shortfall_bytes);
    for (int i = 0; i < result.cut_count; i++)
        text = arena_print(arena, "%s\t%s %s", text, cut_name(result.cuts[i].cut),
                           nanoseconds(arena, result.cuts[i].bound_s));
    return arena_print(arena, "%s\n", text);
}

// The lines of the record that begin so are these.
static void check(struct arena *arena, const char *begins, const char *lines)
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

// A drawn question of at most eight GPUs and so many sequences that these divide them.
static struct search_request draw_request(struct arena *arena, struct draw *draw)
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
    request.cluster = cluster;
    return request;
}

// Draws that differ in what they come to, and take a few milliseconds each.
static const struct {
    enum way way;
    int seeds[21];
} DRAWN[] = {
    {WAY_TIME, {43, 32, 27, 33, 10, 24, 28, 39}},
    {WAY_MEMORY, {84, 87, 71, 73, 99, 58}},
    {WAY_OFFLOAD, {120, 112, 134, 145, 118, 103, 121, 144, 148, 108, 129,
                   101, 104, 106, 107, 113, 127, 131, 132, 137, 142}},
    {WAY_GRADIENTS, {183, 185, 151}},
    {WAY_PARAMETERS, {203, 218, 221, 201}},
    {WAY_MEMORY_OFFLOAD, {3, 4, 9, 10, 11, 5}},
    {WAY_PER_OPERATOR, {290, 261, 282, 264}},
    {WAY_STAGE_TP, {347, 349, 303, 334, 338}},
    {WAY_STAGE_RANKS, {352, 361, 386, 388, 396}},
    {WAY_ALL, {452, 467, 493, 472, 460}},
};

static void check_drawn(struct arena *result, enum way first, enum way last)
{
    enum { SEEDS = sizeof DRAWN[0].seeds / sizeof *DRAWN[0].seeds };
    for (size_t d = 0; d < sizeof DRAWN / sizeof *DRAWN; d++) {
        enum way way = DRAWN[d].way;
        const char *lines = "", *begins = arena_print(result, "drawn %s ", WAYS[way]);
        if (way < first || way > last) continue;
        for (int i = 0; i < SEEDS && DRAWN[d].seeds[i] > 0; i++) {
            struct arena arena = {0};
            struct err err = {0};
            struct draw draw = {(uint64_t)DRAWN[d].seeds[i]};
            struct search_request request = draw_request(&arena, &draw);
            // What no other stack runs.
            if (way >= WAY_GRADIENTS && way != WAY_MEMORY_OFFLOAD)
                request.stack = stack_load(&arena, "meshwright", &err);
            assert_string_equal(err.text, "");
            request.workload.unclipped = DRAWN[d].seeds[i] % 3 == 0;
            take_way(&request, way);
            const char *name = arena_print(&arena, "%s%d", begins, DRAWN[d].seeds[i]);
            lines = arena_print(result, "%s%s", lines, line_of(&arena, name, &request));
            arena_free(&arena);
        }
        check(result, begins, lines);
    }
}

static void drawn_searches_of_whole_spaces_go_as_recorded(void **state)
{
    check_drawn(*state, WAY_TIME, WAY_MEMORY);
    check_drawn(*state, WAY_ALL, WAY_ALL);
}

static void drawn_searches_of_what_leaves_the_device_go_as_recorded(void **state)
{
    check_drawn(*state, WAY_OFFLOAD, WAY_MEMORY_OFFLOAD);
}

static void drawn_searches_by_operator_and_stage_go_as_recorded(void **state)
{
    check_drawn(*state, WAY_PER_OPERATOR, WAY_STAGE_RANKS);
}

struct question {
    const char *model, *cluster, *stack;
    int gpus, other_gpus;  // of the first kind of nodes and, where there are several, of the second
    int64_t seq_len, global_batch;
    enum way way;
};

static const struct question QUESTIONS[] = {
    {"gpt2", "h100-a100-mixed", "meshwright", 1, 2, 1024, 11, WAY_TIME},
    {"two-towers-2b", "rtx4090-pcie8", "meshwright", 4, 0, 256, 1, WAY_BRANCHES},
    {"gpt2", "rtx4090-pcie8", "meshwright", 4, 0, 1024, 8, WAY_STAGE_TP},
    {"gpt2", "rtx4090-pcie8", "meshwright", 4, 0, 1024, 8, WAY_PER_OPERATOR},
    {"deepseek-v2-lite", "dgx-h100", "megatron-core", 4, 0, 2048, 16, WAY_TIME},
    {"mamba-2.8b", "dgx-a100-40g", "megatron-core", 8, 0, 1024, 16, WAY_TIME},
    {"bert-base", "dgx-a100-40g", "fsdp2", 4, 0, 512, 32, WAY_TIME},
    {"switch-base-8", "dgx-h100", "meshwright", 2, 0, 512, 16, WAY_TIME},
    {"gpt3-1.3b", "dgx-a100-80g", "megatron-zero-bubble", 4, 0, 1024, 32, WAY_TIME},
};

static void shipped_questions_are_answered_as_recorded(void **state)
{
    const char *lines = "";
    for (size_t i = 0; i < sizeof QUESTIONS / sizeof *QUESTIONS; i++) {
        const struct question *question = &QUESTIONS[i];
        struct arena arena = {0};
        struct err err = {0};
        struct cluster *cluster = cluster_load(&arena, question->cluster, &err);
        assert_string_equal(err.text, "");
        if (question->other_gpus == 0)
            assert_true(cluster_take_gpus(cluster, question->gpus, &err));
        for (int kind = 0; kind < 2 && question->other_gpus > 0; kind++)
            cluster->nodes[kind].gpus = cluster->nodes[kind].gpus_per_host =
                kind ? question->other_gpus : question->gpus;
        cluster->rank_count = question->gpus + question->other_gpus;
        struct search_request request = {
            .model = model_load(&arena, question->model, NULL, NULL, &err),
            .cluster = cluster,
            .stack = stack_load(&arena, question->stack, &err),
            .fabrics = fabrics_load(&arena, &err),
            .workload = {.seq_len = question->seq_len,
                         .global_batch = question->global_batch,
                         .precision = PRECISION_BF16,
                         .optimizer = OPTIMIZER_ADAMW},
            .pins = pins_none(),
            .top = 3,
            .nothing = SEARCH_FITS_ONLY,
        };
        assert_string_equal(err.text, "");
        take_way(&request, question->way);
        const char *name = arena_print(&arena, "shipped %zu %s %s", i, question->model,
                                       WAYS[question->way]),
                   *line = line_of(&arena, name, &request);
        lines = arena_print(*state, "%s%s", lines, line);
        arena_free(&arena);
    }
    check(*state, "shipped ", lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_searches_of_whole_spaces_go_as_recorded),
        cmocka_unit_test(drawn_searches_of_what_leaves_the_device_go_as_recorded),
        cmocka_unit_test(drawn_searches_by_operator_and_stage_go_as_recorded),
        cmocka_unit_test(shipped_questions_are_answered_as_recorded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
