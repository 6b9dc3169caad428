#include "memory/pack/pack_branch.h"
#include "core/hash.h"

#include "core/progress.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_NODES = 1024, MEMO_BITS_LEAST = 10, MEMO_BITS_MOST = 20 };

// Of the buffers of a part, which are unplaced and how low they can get: all that its completions
// depend on. Never 0, which marks an empty slot.
static uint64_t key_of(const struct pack_state *state, int from, int to)
{
    uint64_t key = 0;
    for (int b = state->first_starting[from]; b < state->first_starting[to]; b++)
        key += state->hash[b];
    return hash_mix(key) | 1;
}

// On how many sides a buffer at its low would end level with the floor next to it: such ends leave
// fewer steps in the skyline, and pieces of a whole that was cut have many.
static int flush_sides(const struct pack_branch *branch, int b)
{
    const struct pack_state *state = branch->state;
    int64_t top = state->low[b] + state->size[b];
    int before = state->first[b] - 1, after = state->last[b];
    return (before >= 0 && state->sections[before].floor == top) +
           (after < state->section_count && state->sections[after].floor == top);
}

static bool goes_before(const struct pack_branch *branch, int a, int b)
{
    int lead = branch->is_flush ? flush_sides(branch, a) - flush_sides(branch, b) : 0;
    if (lead != 0) return lead > 0;
    if (branch->value[a] != branch->value[b]) return branch->value[a] > branch->value[b];
    return a < b;
}

static int choose_buffer(const struct pack_branch *branch, int from, int to)
{
    const struct pack_state *state = branch->state;
    int best = -1;
    for (int b = state->first_starting[from]; b < state->first_starting[to]; b++) {
        if (state->low[b] == INT64_MAX || state->buffers[b].fixed_offset >= 0) continue;
        if (best >= 0 && state->low[b] > state->low[best]) continue;
        if (best >= 0 && state->low[b] == state->low[best] && !goes_before(branch, b, best))
            continue;
        best = b;
    }
    assert(best >= 0);  // a part has candidates
    // Equal buffers may change places in any packing, so only one order of them is tried.
    while (branch->has_rules && state->twin[best] >= 0 &&
           state->low[state->twin[best]] != INT64_MAX)
        best = state->twin[best];
    return best;
}

// The lowest is taken.
static double score_of(const struct pack_branch *branch, int s)
{
    const struct pack_section *section = &branch->state->sections[s];
    double height = (double)branch->state->height;
    double slack = (height - (double)section->reach) / height;
    double branches = section->candidates + (slack > 0 ? 0.5 + slack : 0);
    switch (branch->member.choice) {
    case CHOOSE_FEWEST:
        return branches + 1e-3 * (double)section->floor / height;
    case CHOOSE_LOWEST:
        return (double)section->floor + 1e-3 * branches;
    case CHOOSE_WEIGHTED:
        return branches / (1 + branch->weight[s]);
    default:
        return section->candidates == 1 && slack == 0 ? -1e30 : -branch->weight[s];
    }
}

// Only sections of a valley qualify, a run of one floor between higher ones: what can start at the
// floor there fits inside, so that nothing can still come to lie under it.
static int choose_section(const struct pack_branch *branch, int from, int to)
{
    const struct pack_section *sections = branch->state->sections;
    int best = -1;
    double best_score = 0;
    for (int start = from, end; start < to; start = end) {
        for (end = start + 1; end < to && sections[end].floor == sections[start].floor;)
            end++;
        if (!sections[start].candidates) continue;
        if (start > from && sections[start - 1].floor < sections[start].floor) continue;
        if (end < to && sections[end].floor < sections[start].floor) continue;
        for (int s = start; s < end; s++) {
            double score = score_of(branch, s);
            if (best >= 0 && score >= best_score) continue;
            best = s;
            best_score = score;
        }
    }
    return best;
}

// Appends the candidates of a section to the frames, best first; of equal buffers only the first.
static int take_candidates(struct pack_branch *branch, int section)
{
    const struct pack_state *state = branch->state;
    const int *cover = &state->cover[state->first_cover[section]];
    int cover_count = state->live[section], count = 0;
    if (branch->frame_count + cover_count > branch->frame_room) {
        branch->frame_room = 2 * (branch->frame_count + cover_count);
        int *frames = ARENA_NEW(branch->arena, int, branch->frame_room);
        memcpy(frames, branch->frames, (size_t)branch->frame_count * sizeof *frames);
        branch->frames = frames;
    }
    int *list = branch->frames + branch->frame_count;
    for (int i = 0; i < cover_count; i++) {
        int b = cover[i], twin = state->twin[b];
        if (state->low[b] != state->sections[section].floor) continue;
        assert(state->buffers[b].fixed_offset < 0 && "free ones keep clear of them");
        if (branch->has_rules && twin >= 0 && state->low[twin] != INT64_MAX) continue;
        int at = count++;
        for (; at > 0 && goes_before(branch, b, list[at - 1]); at--)
            list[at] = list[at - 1];
        list[at] = b;
    }
    branch->frame_count += count;
    return count;
}

static bool is_over(struct pack_branch *branch)
{
    branch->node_count++;
    if (branch->deadline_s > 0 && branch->node_count % DEADLINE_NODES == 0)
        branch->is_late |= clock_s() > branch->deadline_s;
    return branch->is_late || branch->node_count >= branch->node_limit;
}

static enum pack_answer solve(struct pack_branch *branch, int from, int to);

static enum pack_answer try_at_low(struct pack_branch *branch, int buffer, int from, int to)
{
    if (pack_state_place(branch->state, buffer)) return solve(branch, from, to);
    branch->weight[branch->state->conflict]++;
    return PACK_NO;
}

// One branch for each candidate of `section`.
static enum pack_answer try_candidates(struct pack_branch *branch, int section, int from, int to)
{
    struct pack_state *state = branch->state;
    enum pack_answer answer = PACK_NO;
    int mark = state->trail_count, frame = branch->frame_count;
    int count = take_candidates(branch, section);
    for (int i = 0; i < count && answer == PACK_NO; i++) {
        answer = try_at_low(branch, branch->frames[frame + i], from, to);
        if (answer != PACK_YES) pack_state_undo(state, mark);
    }
    branch->frame_count = frame;
    return answer;
}

// A section's lowest buffer starts at the floor, or it waits: *may_wait is false where it must not.
static enum pack_answer branch_on_section(struct pack_branch *branch, int from, int to,
                                          bool *may_wait)
{
    int section = choose_section(branch, from, to);
    assert(section >= 0);  // the lowest floor of a part is a valley
    enum pack_answer answer = try_candidates(branch, section, from, to);
    if (answer != PACK_NO) return answer;
    *may_wait = pack_state_leave_empty(branch->state, section, branch->has_rules ? 0 : 1);
    branch->weight[section] += !*may_wait;
    return answer;
}

// The same for the lowest buffer of all, so that offsets never decrease along a path.
static enum pack_answer branch_on_buffer(struct pack_branch *branch, int from, int to,
                                         bool *may_wait)
{
    struct pack_state *state = branch->state;
    int buffer = choose_buffer(branch, from, to), mark = state->trail_count;
    enum pack_answer answer = try_at_low(branch, buffer, from, to);
    if (answer != PACK_YES) pack_state_undo(state, mark);
    if (answer != PACK_NO) return answer;
    *may_wait = pack_state_wait(state, buffer, branch->has_rules ? 0 : 1);
    if (!*may_wait) branch->weight[state->conflict]++;
    return answer;
}

static enum pack_answer solve_part(struct pack_branch *branch, int from, int to)
{
    struct pack_state *state = branch->state;
    uint64_t key = branch->has_rules ? key_of(state, from, to) : 0;
    uint64_t *slot = &branch->memo[key & branch->memo_mask];
    // A part with another key may have taken the slot since, which costs time and nothing else. Two
    // parts of one key would be mistaken for each other: once in 2^63 questions.
    if (branch->has_rules && *slot == key) return PACK_NO;
    int mark = state->trail_count;
    enum pack_answer answer = PACK_NO;
    while (answer == PACK_NO) {
        if (is_over(branch)) {
            answer = PACK_UNKNOWN;
            break;
        }
        bool may_wait = true;
        if (branch->member.choice == CHOOSE_BUFFER)
            answer = branch_on_buffer(branch, from, to, &may_wait);
        else
            answer = branch_on_section(branch, from, to, &may_wait);
        if (!may_wait) break;
    }
    if (answer != PACK_YES) pack_state_undo(state, mark);
    // Only what was searched to the end: an attempt that ran into its limit has refuted nothing.
    if (answer == PACK_NO && branch->has_rules) *slot = key;
    return answer;
}

// Parts between instants that no unplaced buffer crosses do not know of each other.
static enum pack_answer solve(struct pack_branch *branch, int from, int to)
{
    const struct pack_state *state = branch->state;
    for (int start = from, end; start < to; start = end) {
        end = start + 1;
        if (!state->sections[start].candidates) continue;
        while (end < to && state->crossing[end])
            end++;
        // What is placed in one part stays while the next is solved: a solution is the path itself.
        enum pack_answer answer = solve_part(branch, start, end);
        if (answer != PACK_YES) return answer;
    }
    return PACK_YES;
}

static double load_of(const struct pack_state *state, int buffer)
{
    double most = 0;
    for (int s = state->first[buffer]; s < state->last[buffer]; s++) {
        double load = 0;
        for (int i = state->first_cover[s]; i < state->first_cover[s + 1]; i++)
            load += (double)state->size[state->cover[i]];
        if (load > most) most = load;
    }
    return most;
}

struct branch_ranked {
    double keys[3];
    int buffer;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct branch_ranked *a = left, *b = right;
    for (int k = 0; k < 3; k++)
        if (a->keys[k] != b->keys[k]) return a->keys[k] > b->keys[k] ? 1 : -1;
    return 0;
}

// Lexicographic orders as numbers: how many come after each buffer.
static void rank_buffers(struct pack_branch *branch)
{
    const struct pack_state *state = branch->state;
    int count = state->buffer_count;
    struct branch_ranked *ranked = ARENA_NEW(branch->arena, struct branch_ranked, count);
    double *loads = ARENA_NEW(branch->arena, double, count);
    for (int b = 0; b < count; b++)
        loads[b] = load_of(state, b);
    for (int v = VALUE_WAT; v < PACK_VALUE_COUNT; v++) {
        for (int b = 0; b < count; b++) {
            double life = (double)(state->buffers[b].upper - state->buffers[b].lower);
            double area = life * (double)state->size[b], load = loads[b];
            ranked[b] = v == VALUE_WAT   ? (struct branch_ranked){{life, area, load}, b}
                        : v == VALUE_TAW ? (struct branch_ranked){{load, area, life}, b}
                                         : (struct branch_ranked){{load, life, area}, b};
        }
        qsort(ranked, (size_t)count, sizeof *ranked, compare_ranked);
        double *rank = branch->rank[v] = ARENA_NEW(branch->arena, double, count);
        for (int i = 0; i < count; i++) {
            bool is_same = i > 0 && compare_ranked(&ranked[i - 1], &ranked[i]) == 0;
            rank[ranked[i].buffer] = is_same ? rank[ranked[i - 1].buffer] : i;
        }
    }
}

struct pack_branch *pack_branch_make(struct arena *arena, struct pack_state *state,
                                     const struct pack_options *options)
{
    struct pack_branch *branch = ARENA_NEW(arena, struct pack_branch, 1);
    branch->arena = arena;
    branch->state = state;
    branch->has_rules = !options->every_rule_off;
    branch->deadline_s = options->deadline_s;
    branch->weight = ARENA_NEW(arena, double, state->section_count);
    branch->value = ARENA_NEW(arena, double, state->buffer_count);
    rank_buffers(branch);
    branch->frame_room = 4 * state->buffer_count;
    branch->frames = ARENA_NEW(arena, int, branch->frame_room);
    int bits = MEMO_BITS_LEAST;
    while (bits < MEMO_BITS_MOST && 1 << bits < 1024 * state->buffer_count)
        bits++;
    branch->memo_mask = ((uint64_t)1 << bits) - 1;
    branch->memo = ARENA_NEW(arena, uint64_t, branch->memo_mask + 1);
    return branch;
}

static void set_values(struct pack_branch *branch, double noise, uint64_t seed)
{
    const struct pack_state *state = branch->state;
    for (int b = 0; b < state->buffer_count; b++) {
        double life = (double)(state->buffers[b].upper - state->buffers[b].lower);
        double size = (double)state->buffers[b].size;
        double value = branch->member.value == VALUE_AREA   ? life * size
                       : branch->member.value == VALUE_LIFE ? life
                       : branch->member.value == VALUE_SIZE
                           ? size
                           : (double)branch->rank[branch->member.value][b];
        double random = (double)(hash_mix(seed += HASH_STEP) >> 11) * 0x1p-53;
        branch->value[b] = value * (1 + noise * random);
    }
}

enum pack_answer pack_branch_attempt(struct pack_branch *branch, const struct pack_member *member,
                                     const struct pack_attempt *attempt)
{
    branch->member = *member;
    branch->is_flush = attempt->is_flush;
    assert(branch->frame_count == 0 && attempt->node_limit > 0);
    branch->node_count = 0;
    branch->node_limit = attempt->node_limit;
    set_values(branch, attempt->noise, attempt->seed);
    return solve(branch, 0, branch->state->section_count);
}
