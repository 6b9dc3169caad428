#include "memory/pack/pack_order.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// Ejection chains against plain loops over all buffers that play the same rules.

enum { MOST = 12 };

// Reference: every buffer is asked at every step, and costs are summed by who overlaps.
struct played {
    const struct pack_problem *problem;
    const struct pack_sections *sections;
    int64_t target, offsets[MOST], weights[MOST], costs[MOST], moves;
    int placed[MOST], placed_count;  // by offset, of equal ones the latest first
    int pending[MOST], pending_count;
};

static const int64_t FIXED = (int64_t)1 << 44;

static int64_t top_of(const struct played *played, int b)
{
    return played->offsets[b] + played->problem->buffers[b].size;
}

static bool lives_with(const struct played *played, int a, int b)
{
    const struct pack_buffer *one = &played->problem->buffers[a];
    const struct pack_buffer *other = &played->problem->buffers[b];
    return one->lower < other->upper && other->lower < one->upper;
}

static void place(struct played *played, int b, int64_t offset)
{
    int at = 0;
    played->offsets[b] = offset;
    while (at < played->placed_count && played->offsets[played->placed[at]] < offset)
        at++;
    for (int i = played->placed_count++; i > at; i--)
        played->placed[i] = played->placed[i - 1];
    played->placed[at] = b;
    played->moves++;
}

static void take_out(struct played *played, int b)
{
    int kept = 0;
    for (int i = 0; i < played->placed_count; i++) {
        if (played->placed[i] != b) played->placed[kept++] = played->placed[i];
    }
    played->placed_count = kept;
    played->moves++;
}

// Behind all from `from` on that weigh no more.
static void queue(struct played *played, int b, int from)
{
    int at = from;
    while (at < played->pending_count && played->weights[played->pending[at]] <= played->weights[b])
        at++;
    for (int i = played->pending_count++; i > at; i--)
        played->pending[i] = played->pending[i - 1];
    played->pending[at] = b;
}

// What lies there now, for as long as this one lives; INT64_MAX: it is no place.
static int64_t cost_at(const struct played *played, int b, int64_t offset)
{
    int64_t top = offset + played->problem->buffers[b].size, cost = 0;
    if (offset < 0 || top > played->target) return INT64_MAX;
    for (int i = 0; i < played->placed_count; i++) {
        int other = played->placed[i];
        bool lies = played->offsets[other] < top && top_of(played, other) > offset;
        cost += lies && lives_with(played, b, other) ? played->costs[other] : 0;
    }
    return cost;
}

// Free room above an end, up to what is next above it or the target; -1: none that is enough.
static int64_t gap_above(const struct played *played, int b, int64_t floor, int64_t *offset)
{
    const struct pack_buffer *buffer = &played->problem->buffers[b];
    int64_t ceiling = played->target;
    for (int i = 0; i < played->placed_count; i++) {
        int other = played->placed[i];
        if (!lives_with(played, b, other) || top_of(played, other) <= floor) continue;
        if (played->offsets[other] < floor) return -1;
        if (played->offsets[other] < ceiling) ceiling = played->offsets[other];
    }
    *offset = (floor + buffer->alignment - 1) / buffer->alignment * buffer->alignment;
    return *offset + buffer->size <= ceiling ? ceiling - floor : -1;
}

static int64_t free_place(const struct played *played, int b)
{
    int64_t best = -1, best_gap = INT64_MAX;
    for (int i = -1; i < played->placed_count; i++) {
        if (i >= 0 && !lives_with(played, b, played->placed[i])) continue;
        int64_t offset, floor = i < 0 ? 0 : top_of(played, played->placed[i]);
        int64_t gap = gap_above(played, b, floor, &offset);
        if (gap < 0 || gap > best_gap || (gap == best_gap && offset > best)) continue;
        best = offset;
        best_gap = gap;
    }
    return best;
}

// Of equal ones a place above another before one below, and the lowest of either.
static int64_t cheapest_place(const struct played *played, int b, int64_t *cost)
{
    int64_t alignment = played->problem->buffers[b].alignment, best = -1;
    int64_t size = played->problem->buffers[b].size;
    *cost = INT64_MAX;
    for (int below = 0; below < 2; below++) {
        int64_t best_here = INT64_MAX, cost_here = INT64_MAX;
        for (int i = -1; i < played->placed_count; i++) {
            if (i >= 0 && !lives_with(played, b, played->placed[i])) continue;
            int64_t end = below ? played->target : 0;
            if (i >= 0)
                end =
                    below ? played->offsets[played->placed[i]] : top_of(played, played->placed[i]);
            if (below && end - size < 0) continue;
            int64_t offset = below ? (end - size) / alignment * alignment
                                   : (end + alignment - 1) / alignment * alignment;
            int64_t asked = cost_at(played, b, offset);
            if (asked > cost_here || (asked == cost_here && offset >= best_here)) continue;
            cost_here = asked;
            best_here = offset;
        }
        if (cost_here >= *cost) continue;
        *cost = cost_here;
        best = best_here;
    }
    return best;
}

static bool play_step(struct played *played)
{
    int b = played->pending[--played->pending_count];
    int64_t offset = free_place(played, b), cost;
    if (offset < 0) {
        offset = cheapest_place(played, b, &cost);
        if (cost >= FIXED) return false;
        played->costs[b] += played->weights[b];
        int from = played->pending_count, out[MOST], out_count = 0;
        for (int i = 0; i < played->placed_count; i++) {
            int other = played->placed[i];
            bool lies = played->offsets[other] < offset + played->problem->buffers[b].size &&
                        top_of(played, other) > offset;
            if (lies && lives_with(played, b, other)) out[out_count++] = other;
        }
        for (int i = 0; i < out_count; i++) {
            take_out(played, out[i]);
            queue(played, out[i], from);
        }
    }
    place(played, b, offset);
    return true;
}

static void play_start(struct played *played, const int64_t *offsets)
{
    double most = 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int b = 0; b < played->problem->count; b++) {
            const struct pack_buffer *buffer = &played->problem->buffers[b];
            int life = played->sections->end[b] - played->sections->first[b];
            double weight = sqrt((double)life * (double)buffer->size);
            most = fmax(most, weight);
            played->weights[b] =
                buffer->fixed_offset >= 0 ? FIXED : 1 + (int64_t)(10000 * weight / most);
            played->costs[b] = played->weights[b];
        }
    }
    for (int b = played->problem->count - 1; b >= 0; b--) {
        if (played->problem->buffers[b].lower >= played->problem->buffers[b].upper) continue;
        played->offsets[b] = offsets[b];
        if (top_of(played, b) <= played->target) place(played, b, offsets[b]);
    }
    for (int b = 0; b < played->problem->count; b++) {
        bool lives = played->problem->buffers[b].lower < played->problem->buffers[b].upper;
        if (lives && top_of(played, b) > played->target) queue(played, b, 0);
    }
    played->moves = 0;
}

static bool play(struct played *played, int64_t move_cap, int64_t *offsets)
{
    bool goes_on = true;
    play_start(played, offsets);
    while (goes_on && played->pending_count > 0 && played->moves < move_cap)
        goes_on = play_step(played);
    if (!goes_on || played->pending_count > 0) return false;
    for (int i = 0; i < played->placed_count; i++)
        offsets[played->placed[i]] = played->offsets[played->placed[i]];
    return true;
}

// Some are fixed where they fit beside those fixed before, below the target.
static void draw_problem(struct draw *draw, struct pack_buffer *buffers, int count, int64_t target,
                         struct pack_problem *problem)
{
    *problem = (struct pack_problem){.buffers = buffers, .count = count};
    for (int b = 0; b < count; b++) {
        int64_t lower = draw_int(draw, 0, 9), upper = draw_int(draw, (int)lower, 12);
        int64_t size = draw_int(draw, 1, 9), alignment = 1 << draw_int(draw, 0, 2);
        buffers[b] = (struct pack_buffer){lower, upper, size, alignment, -1};
        if (draw_int(draw, 0, 5) > 0) continue;
        int64_t at = draw_int(draw, 0, (int)(target - 9));
        bool is_free = true;
        for (int k = 0; k < b; k++) {
            const struct pack_buffer *other = &buffers[k];
            bool meets = other->lower < upper && lower < other->upper;
            is_free &= !(meets && other->fixed_offset >= 0 && other->fixed_offset < at + size &&
                         at < other->fixed_offset + other->size);
        }
        if (is_free) buffers[b].fixed_offset = at;
    }
}

static void chains_are_those_that_are_played(void **state)
{
    struct draw draw = draw_start("chains", 5);
    int done = 0, given_up = 0, cut = 0, fixed = 0;
    for (int i = 0; i < 1500; i++) {
        struct arena_mark mark = arena_mark(*state);
        struct pack_buffer buffers[MOST];
        struct pack_problem problem;
        int64_t target = draw_int(&draw, 14, 32), cap = draw_int(&draw, 0, 3) ? 400 : 6;
        draw_problem(&draw, buffers, draw_int(&draw, 2, MOST), target, &problem);
        struct pack_sections *sections = pack_sections_make(*state, &problem);
        int order[MOST];
        int64_t offsets[MOST] = {0}, wanted[MOST], moves = 7;
        for (int b = 0; b < problem.count; b++)
            order[b] = b;
        pack_in_order(*state, &problem, sections, order, problem.count, FIT_FIRST, INT64_MAX,
                      offsets);
        // Of every third all but the fixed ones lie above each other, higher than they may.
        for (int b = 0; i % 3 == 0 && b < problem.count; b++)
            offsets[b] = buffers[b].fixed_offset >= 0 ? offsets[b] : 40 + 9 * b;
        memcpy(wanted, offsets, sizeof wanted);
        struct played played = {.problem = &problem, .sections = sections, .target = target};
        bool can = play(&played, cap, wanted);
        assert_true(pack_repair(*state, &problem, sections, target, cap, 0, offsets, &moves) ==
                    can);
        assert_memory_equal(offsets, wanted, sizeof offsets);
        assert_int_equal(moves, 7 + played.moves);
        for (int b = 0; b < problem.count; b++)
            fixed += buffers[b].fixed_offset >= 0 && played.moves > 2;
        done += can && played.moves > 2;
        cut += !can && played.moves >= cap;
        given_up += !can && played.moves < cap;
        arena_reset(*state, mark);
    }
    print_message("# %d are repaired, %d given up, %d cut short\n", done, given_up, cut);
    assert_true(done > 100 && given_up > 50 && cut > 50 && fixed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_those_that_are_played),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
