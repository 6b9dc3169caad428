#include "planner/around.h"

#include "planner/choice.h"
#include "planner/question.h"
#include "simulator/inject.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Plans of all ranks that are played with the rank slow: the best by the closed form without it.
enum { KEEPERS = 4 };

// Counts of ranks without the slow one that are asked: the plan of one fewer may divide badly.
enum { COUNTS_MOST = 8 };

struct played {
    double step_s;  // INFINITY: the choices do not fit, or are none
    int stage;      // of the slow rank
    int replica;    // the same
    int *layers;    // of each stage, in the arena given
    int stage_count;
};

static void count_layers(struct arena *arena, const struct program *program, struct played *played)
{
    const struct graph *graph = program->graph;
    int chunks = program->shape.chunk_count;
    played->stage_count = program->shape.stage_count;
    played->layers = ARENA_NEW(arena, int, played->stage_count);
    for (int c = 0; c < played->stage_count * chunks; c++) {
        const struct chunk_span *span = &program->spans[c];
        for (int b = span->first; b < span->first + span->count; b++)
            played->layers[c / chunks] += graph->blocks[graph->sequence[b]].role == BLOCK_LAYER;
    }
}

// A step of these choices with the rank slow.
static struct played play(struct arena *arena, const struct around_request *request,
                          const struct parallel *parallel, struct err *err)
{
    const struct evaluation_request question = search_question(&request->search, parallel);
    const struct injection_cause slow = {INJECT_RANK, request->slow_rank, request->slow_rank,
                                         request->ratio};
    const struct injection injection = {.causes = &slow, .count = 1};
    struct arena own = {0}, scratch = {0};
    struct evaluation evaluation;
    struct injection_result result;
    struct played played = {.step_s = INFINITY};
    if (evaluate(&own, &scratch, &question, &evaluation, err) &&
        inject(&own, &scratch, &question, &evaluation, &injection, false, &result, err)) {
        if (memory_fit(&evaluation.prediction) != MEMORY_LACKS) played.step_s = result.step_s;
        played.stage = mesh_stage_of(&evaluation.program->mesh, request->slow_rank);
        played.replica = program_replica(evaluation.program, request->slow_rank);
        count_layers(arena, evaluation.program, &played);
    }
    arena_free(&own);
    arena_free(&scratch);
    return played;
}

// Takes layers off the stage of the slow rank, each to where it gains most, as long as it does.
static void move_layers(struct arena *arena, const struct around_request *request,
                        struct parallel *parallel, struct played *best)
{
    assert(isfinite(best->step_s) && "a plan that was played says what layers its stages have");
    for (bool is_better = true; is_better;) {
        const struct played from = *best;
        is_better = false;
        for (int to = 0; to < from.stage_count; to++) {
            struct err refused = {0};  // a stage of fewer layers than chunks
            if (to == from.stage) continue;
            int *layers = ARENA_NEW(arena, int, from.stage_count);
            memcpy(layers, from.layers, (size_t)from.stage_count * sizeof *layers);
            layers[from.stage]--;
            layers[to]++;
            struct parallel other = *parallel;
            other.stage_layers = layers;
            other.stage_layers_count = from.stage_count;
            struct played moved = play(arena, request, &other, &refused);
            if (!(moved.step_s < best->step_s)) continue;
            *best = moved;
            is_better = true;
        }
        if (!is_better) return;
        parallel->stage_layers = best->layers;
        parallel->stage_layers_count = best->stage_count;
    }
}

// `own` micro-batches for this replica, what is left of all as evenly as can be for the others.
static const int *share(struct arena *arena, int64_t all, int replicas, int replica, int64_t own)
{
    assert(replicas > 1 && replica >= 0 && replica < replicas && own >= 1 && own < all);
    int *counts = ARENA_NEW(arena, int, replicas);
    int64_t left = all - own, others = replicas - 1;
    for (int r = 0, n = 0; r < replicas; r++) {
        if (r == replica) counts[r] = (int)own;
        if (r != replica) counts[r] = (int)(left / others + (n++ < left % others));
    }
    return counts;
}

// Takes micro-batches off the replica of the slow rank as long as it helps, in steps that halve.
static void move_batches(struct arena *arena, const struct around_request *request,
                         struct parallel *parallel, struct played *best)
{
    const struct search_request *search = &request->search;
    int replicas = parallel->degree[AXIS_DP];
    bool is_open = replicas > 1 && parallel->replica_count == 0 && parallel->zero < 2 &&
                   parallel->vpp == 1 && parallel->degree[AXIS_EP] == 1;
    if (!is_open || !stack_is_executed(search->stack) || !isfinite(best->step_s)) return;
    int64_t all = search->workload.global_batch / parallel->micro_batch, own = all / replicas;
    for (int64_t step = own / 2 > 0 ? own / 2 : 1; step > 0;) {
        struct err refused = {0};
        struct parallel other = *parallel;
        bool is_better = false;
        if (own > step) {
            other.replica_count = replicas;
            other.replica_micro_batches = share(arena, all, replicas, best->replica, own - step);
            struct played moved = play(arena, request, &other, &refused);
            is_better = moved.step_s < best->step_s;
            if (is_better) *best = moved, *parallel = other, own -= step;
        }
        if (!is_better) step /= 2;
    }
}

// The same in smaller micro-batches, which can be shared out more finely.
static void share_batches(struct arena *arena, const struct around_request *request,
                          struct parallel *parallel, struct played *best)
{
    enum { HALVINGS = 2 };
    struct parallel smaller = *parallel;
    move_batches(arena, request, parallel, best);
    for (int i = 0; i < HALVINGS && smaller.micro_batch % 2 == 0; i++) {
        struct err refused = {0};
        smaller.micro_batch /= 2;
        struct parallel other = smaller;
        struct played played = play(arena, request, &other, &refused);
        move_batches(arena, request, &other, &played);
        if (other.replica_count > 0 && played.step_s < best->step_s)
            *best = played, *parallel = other;
    }
}

static void take(const struct parallel *parallel, double step_s, bool keeps,
                 struct around_answer *answer)
{
    assert(step_s > 0 && isfinite(step_s));
    answer->is_found = true;
    answer->keeps = keeps;
    answer->parallel = *parallel;
    answer->step_s = step_s;
}

static bool is_plan(const struct parallel *a, const struct parallel *b)
{
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        if (choice_value(a, choice) != choice_value(b, choice)) return false;
    }
    return a->stage_layers_count == b->stage_layers_count && a->replica_count == b->replica_count;
}

// With all ranks: the plan that runs and the best that the search knows, each with its layers
// moved.
static bool keep_rank(struct arena *arena, const struct around_request *request,
                      struct around_answer *answer, struct err *err)
{
    struct search_request search = request->search;
    struct search_result result = {0};
    struct err refused = {0};
    search.pins = fewer_pins(&request->was, FEWER_KEPT_FIXED);
    search.top = KEEPERS;
    search.nothing = SEARCH_FITS_ONLY;
    (void)!search_plans(arena, &search, &result, &refused);
    answer->request = search;
    // What is played with the rank slow is not what was searched: nothing is proven of it.
    answer->result = (struct search_result){.status = SEARCH_STOPPED,
                                            .considered_count = result.best_count + 1,
                                            .priced_count = result.best_count + 1};
    answer->kept = FEWER_KEPT_FIXED;
    for (int i = -1; i < result.best_count; i++) {
        struct err fault = {0};
        struct parallel parallel = i < 0 ? request->was : result.best[i].parallel;
        struct played played = play(arena, request, &parallel, i < 0 ? err : &fault);
        if (err->kind) return false;
        if (i < 0) answer->stay_s = played.step_s;
        if (isfinite(played.step_s)) move_layers(arena, request, &parallel, &played);
        share_batches(arena, request, &parallel, &played);
        bool is_other = i < 0 ? played.step_s < answer->stay_s : !is_plan(&parallel, &request->was);
        if (is_other && played.step_s < (answer->is_found ? answer->step_s : INFINITY))
            take(&parallel, played.step_s, true, answer);
    }
    return true;
}

// Without it: of fewer ranks the fastest.
static bool leave_rank(struct arena *arena, const struct around_request *request,
                       struct around_answer *answer, struct err *err)
{
    int most = request->search.cluster->rank_count - 1;
    int least = most > COUNTS_MOST ? most - COUNTS_MOST + 1 : 1;
    for (int count = most; count >= least;) {
        struct err none = {0};
        struct fewer_answer fewer;
        if (!fewer_search(arena, &request->search, &request->was, count, &fewer, &none))
            return none.kind == ERR_USAGE || err_set(err, none.kind, "%s", none.text);
        const struct candidate *best = &fewer.result.best[0];
        // Each turn asks about fewer ranks than the one before: the loop ends.
        assert(fewer.request.cluster->rank_count <= count && fewer.result.best_count > 0);
        if (!answer->is_found || best->cost.step_s < answer->step_s) {
            take(&best->parallel, best->cost.step_s, false, answer);
            answer->request = fewer.request;
            answer->result = fewer.result;
            answer->kept = fewer.kept;
        }
        count = fewer.request.cluster->rank_count - 1;
    }
    return true;
}

bool around_search(struct arena *arena, const struct around_request *request,
                   struct around_answer *answer, struct err *err)
{
    assert(request->ratio >= 1 && request->slow_rank >= 0);
    assert(request->slow_rank < request->search.cluster->rank_count);
    *answer = (struct around_answer){0};
    return keep_rank(arena, request, answer, err) && leave_rank(arena, request, answer, err);
}
