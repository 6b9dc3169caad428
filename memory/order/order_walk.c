#include "memory/order/order_walk.h"

#include <assert.h>
#include <string.h>

// Sets that one segment may take in one pass: a pass is repeated some tens of times.
enum { WALK_STATES_MAX = 20000, WALK_UNITS_MAX = 4000 };

struct order_walking {
    struct arena *scratch;
    const struct order_walk_request *request;
    struct order_walk_result result;
    struct order_builder builder;
    const int64_t *base_bytes;  // [segment]
    int64_t level_bytes;
    int64_t blocked_bytes;  // lowest peak of a move that the limit forbade, since something waits
    int *waiting, waiting_count;  // units that could have run
    int *ran, ran_count;          // units
};

// A higher limit changes nothing as long as it allows none of the moves that were forbidden.
static void refuse(struct order_walking *walk, int64_t next_bytes)
{
    if (walk->blocked_bytes < next_bytes) next_bytes = walk->blocked_bytes;
    int64_t least_bytes = walk->request->limit_bytes + 1;
    walk->result.passed = false;
    walk->result.next_bytes = next_bytes > least_bytes ? next_bytes : least_bytes;
}

// The segment's own order, when nothing waits.
static bool take_part(struct order_walking *walk, int segment)
{
    const struct order_division *division = walk->request->division;
    const struct order_parts *parts = walk->request->parts;
    const struct order_part *part = &parts->parts[parts->of_segment[segment]];
    int64_t peak_bytes = division->base_bytes[segment] + part->peak_bytes;
    if (walk->waiting_count > 0 || peak_bytes > walk->request->limit_bytes) return false;
    for (int i = 0; i < part->local->unit_count; i++)
        walk->ran[walk->ran_count++] = division->first_unit[segment] + part->units[i];
    walk->level_bytes = walk->base_bytes[segment + 1];
    return true;
}

static bool contains(const uint64_t *set, int unit)
{
    return set[unit >> 6] >> (unit & 63) & 1;
}

// Units that have run at any exit: what none of them holds waiting.
static uint64_t *join_exits(struct order_walking *walk, const struct order_local *local,
                            const struct order_search_result *result)
{
    int words = (local->unit_count + 63) / 64;
    uint64_t *joined = ARENA_NEW(walk->scratch, uint64_t, words);
    for (int e = 0; e < result->exit_count; e++) {
        for (int i = 0; i < words; i++)
            joined[i] |= result->exits[e].done[i];
    }
    return joined;
}

static const struct order_exit *best_exit(const struct order_search_result *result)
{
    assert(result->exit_count > 0);
    const struct order_exit *best = &result->exits[0];
    for (int e = 1; e < result->exit_count; e++) {
        if (result->exits[e].level_bytes < best->level_bytes) best = &result->exits[e];
    }
    return best;
}

static void leave(struct order_walking *walk, const struct order_local *local,
                  const struct order_search_result *result)
{
    const struct order_exit *exit = best_exit(result);
    const uint64_t *done = exit->done;
    if (walk->request->relaxed) {
        done = join_exits(walk, local, result);
        // No exit is better than one at which everything has run that ran at any of them.
    } else {
        int *units = ARENA_NEW(walk->scratch, int, local->unit_count);
        int count = order_path_read(&result->path, exit->place, units);
        for (int i = 0; i < count; i++)
            walk->ran[walk->ran_count++] = local->units[units[i]];
    }
    struct order_cursor cursor = order_cursor_make(walk->scratch, local);
    order_cursor_load(&cursor, done);
    walk->level_bytes = cursor.level_bytes;
    walk->waiting_count = 0;
    for (int u = 0; u < local->unit_count; u++) {
        if (!contains(done, u)) walk->waiting[walk->waiting_count++] = local->units[u];
    }
}

static struct order_local *make_local(struct order_walking *walk, int segment)
{
    const struct order_division *division = walk->request->division;
    int first = division->first_unit[segment], end = division->first_unit[segment + 1];
    int count = end - first + walk->waiting_count;
    int *units = ARENA_NEW(walk->scratch, int, count), at = 0;
    for (int u = first; u < end; u++)
        units[at++] = u;
    memcpy(&units[at], walk->waiting, (size_t)walk->waiting_count * sizeof *units);
    bool is_last = segment == division->segment_count - 1;
    int mandatory_count = is_last ? count : division->core_count[segment];
    assert(mandatory_count <= count);
    // After the last segment nothing may wait any more.
    return order_local_make(walk->scratch, &walk->builder, segment, units, count, mandatory_count,
                            walk->level_bytes);
}

// A segment that is nothing but core and was given up before: what is known of it has to do.
static bool judge_hard_part(struct order_walking *walk, int segment)
{
    const struct order_walk_request *request = walk->request;
    const struct order_division *division = request->division;
    const struct order_part *part = &request->parts->parts[request->parts->of_segment[segment]];
    bool is_core = part->local->unit_count == division->core_count[segment];
    int64_t bound_bytes = walk->base_bytes[segment] + part->bound_bytes;
    if (is_core && bound_bytes > request->limit_bytes) {
        refuse(walk, bound_bytes);
    } else if (request->relaxed) {
        walk->level_bytes = walk->base_bytes[segment + 1];
    } else {
        refuse(walk, division->base_bytes[segment] + part->peak_bytes);
    }
    return walk->result.passed;
}

static bool pass_segment(struct order_walking *walk, int segment)
{
    const struct order_walk_request *request = walk->request;
    const struct order_part *part = &request->parts->parts[request->parts->of_segment[segment]];
    bool is_hard = part->capped || part->local->unit_count > WALK_UNITS_MAX;
    if (walk->waiting_count == 0) walk->blocked_bytes = INT64_MAX;
    if (is_hard && walk->waiting_count == 0) return judge_hard_part(walk, segment);
    struct order_local *local = make_local(walk, segment);
    int64_t cap = order_state_cap(request->limits, local->unit_count);
    struct order_search_options options = {
        .start_bytes = request->limit_bytes,
        .limit_bytes = request->limit_bytes,
        .state_cap = cap < WALK_STATES_MAX ? cap : WALK_STATES_MAX,
        .deadline_s = request->limits->deadline_s,
        .no_forced_moves = request->limits->no_forced_moves,
        .all_exits = true,
    };
    struct order_search_result result = order_search(walk->scratch, local, &options);
    walk->result.state_count += result.state_count;
    if (result.blocked_bytes < walk->blocked_bytes) walk->blocked_bytes = result.blocked_bytes;
    if (request->relaxed && (result.capped || result.exit_count == ORDER_EXITS_MAX)) {
        walk->waiting_count = 0;
        walk->level_bytes = walk->base_bytes[segment + 1];
    } else if (result.exit_count > 0) {
        leave(walk, local, &result);
    } else {
        refuse(walk, result.threshold_bytes);
    }
    return walk->result.passed;
}

struct order_walk_result order_walk(struct arena *arena, struct arena *scratch,
                                    const struct order_walk_request *request)
{
    const struct order_division *division = request->division;
    int count = division->problem->operator_count;
    int *order = request->relaxed ? NULL : ARENA_NEW(arena, int, count);
    struct arena_mark mark = arena_mark(scratch);
    int64_t *bytes = ARENA_NEW(scratch, int64_t, division->problem->buffer_count);
    for (int b = 0; b < division->problem->buffer_count; b++)
        bytes[b] = division->problem->buffers[b].bytes;
    struct order_walking walk = {
        .scratch = scratch, .request = request, .result = {.passed = true}};
    walk.base_bytes = request->relaxed ? division->relaxed_base_bytes : division->base_bytes;
    walk.builder =
        order_builder_make(scratch, division, request->relaxed ? division->relaxed_bytes : bytes);
    walk.level_bytes = walk.base_bytes[0];
    walk.blocked_bytes = INT64_MAX;
    walk.waiting = ARENA_NEW(scratch, int, division->unit_count);
    walk.ran = ARENA_NEW(scratch, int, division->unit_count);
    for (int k = 0; k < division->segment_count && walk.result.passed; k++) {
        struct arena_mark before = arena_mark(scratch);
        if (!take_part(&walk, k)) pass_segment(&walk, k);
        arena_reset(scratch, before);
    }
    int at = 0;
    for (int i = 0; order && walk.result.passed && i < walk.ran_count; i++) {
        int unit = walk.ran[i];
        for (int o = division->first_operator[unit]; o < division->first_operator[unit + 1]; o++)
            order[at++] = division->operators[o];
    }
    arena_reset(scratch, mark);
    assert(!order || !walk.result.passed || at == count);
    walk.result.order = order;
    return walk.result;
}
