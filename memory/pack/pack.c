#include "memory/pack/pack.h"

#include "core/divisor.h"
#include "core/progress.h"
#include "memory/sections.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Problems above LARGE_BUFFERS are not searched: the search keeps every pair that lives at once.
enum { LARGE_BUFFERS = 3000, NODE_CAP = 4000000 };

const char *pack_mode_name(enum pack_mode mode)
{
    static const char *const NAMES[PACK_MODE_COUNT] = {"greedy", "search", "repair"};
    assert(mode < PACK_MODE_COUNT);
    return NAMES[mode];
}

int64_t pack_bound(struct arena *scratch, const struct pack_problem *problem)
{
    struct arena_mark mark = arena_mark(scratch);
    int64_t bound = pack_sections_make(scratch, problem)->load_most;
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        bool lives = buffer->lower < buffer->upper && buffer->fixed_offset >= 0;
        if (lives && buffer->fixed_offset + buffer->size > bound)
            bound = buffer->fixed_offset + buffer->size;
    }
    arena_reset(scratch, mark);
    return bound;
}

// Buffers that live, of times between two instants where nothing is alive.
struct pack_part {
    struct pack_problem problem;
    const int *origin;  // index in the whole problem
    int64_t bound;
};

struct solver {
    struct arena *scratch;
    const struct pack_options *options;
    struct pack_result *result;
    int64_t unit;   // divides all sizes, alignments and fixed offsets, so every height worth a try
    int64_t nodes;  // left
};

static int64_t unit_of(const struct pack_problem *problem)
{
    int64_t unit = 0;
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        if (buffer->lower >= buffer->upper) continue;
        // The divisor of 0 and a number is that number: the first buffer sets it.
        unit = common_divisor(common_divisor(unit, buffer->size), buffer->alignment);
        if (buffer->fixed_offset > 0) unit = common_divisor(unit, buffer->fixed_offset);
    }
    return unit ? unit : 1;
}

static int64_t height_of(const struct pack_problem *problem, const int64_t *offsets)
{
    int64_t height = 0;
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        if (buffer->lower < buffer->upper && offsets[b] + buffer->size > height)
            height = offsets[b] + buffer->size;
    }
    return height;
}

// One question to the exact search, with part of the nodes that are left. Late ones are not asked:
// each would go on until it next reads the clock.
static enum pack_answer ask(struct solver *solver, const struct pack_part *part, int64_t height,
                            int64_t nodes, int64_t *offsets)
{
    struct pack_options options = *solver->options;
    options.node_cap = nodes < solver->nodes ? nodes : solver->nodes;
    bool is_late = options.deadline_s > 0 && clock_s() > options.deadline_s;
    if (options.node_cap <= 0 || is_late) return PACK_UNKNOWN;
    int64_t before = solver->result->node_count;
    enum pack_answer answer =
        pack_search(solver->scratch, &part->problem, height, &options, offsets, solver->result);
    solver->nodes -= solver->result->node_count - before;
    if (answer == PACK_YES) solver->result->mode = PACK_SEARCH;
    return answer;
}

// Between what is refuted and what is found, in halves. A height that the search gave up on is left
// to be unknown, and those above it are tried.
static int64_t narrow(struct solver *solver, struct pack_part *part, int64_t low, int64_t best,
                      int64_t *offsets)
{
    int64_t *trial = ARENA_NEW(solver->scratch, int64_t, part->problem.count);
    while (low < best) {
        int64_t middle = low + (best - low) / 2 / solver->unit * solver->unit;
        enum pack_answer answer = ask(solver, part, middle, solver->nodes / 8 + 1, trial);
        if (answer == PACK_YES) {
            memcpy(offsets, trial, (size_t)part->problem.count * sizeof *offsets);
            best = height_of(&part->problem, offsets);
        } else {
            low = middle + solver->unit;
        }
        // Unknown heights raise `low` but not the bound, so this one may lie above a gap that
        // nobody has refuted: what is refuted at `middle` holds for all below it too.
        if (answer == PACK_NO && middle >= part->bound) part->bound = middle + solver->unit;
    }
    return best;
}

// Fills offsets with a packing of the part, as low as `goal` where that can be found; returns its
// height.
static int64_t solve_part(struct solver *solver, struct pack_part *part, int64_t goal,
                          int64_t *offsets)
{
    const struct pack_options *options = solver->options;
    if (part->problem.count > LARGE_BUFFERS && !options->no_search) {
        // It stops at the capacity, here what alignment and fixed places leave possible.
        part->problem.capacity = goal;
        return pack_large(solver->scratch, &part->problem, options, offsets, solver->result);
    }
    int64_t best = pack_greedy(solver->scratch, &part->problem, offsets);
    if (best <= goal || options->no_search) return best;
    int64_t *trial = ARENA_NEW(solver->scratch, int64_t, part->problem.count);
    enum pack_answer answer = ask(solver, part, goal, solver->nodes / 2 + 1, trial);
    if (answer == PACK_YES) {
        memcpy(offsets, trial, (size_t)part->problem.count * sizeof *offsets);
        return height_of(&part->problem, offsets);
    }
    int64_t next = goal / solver->unit * solver->unit + solver->unit;
    if (answer == PACK_NO && next > part->bound) part->bound = next;
    return narrow(solver, part, next, best, offsets);
}

int pack_compare_births(const void *left, const void *right)
{
    const struct pack_buffer *a = *(const struct pack_buffer *const *)left;
    const struct pack_buffer *b = *(const struct pack_buffer *const *)right;
    if (a->lower != b->lower) return a->lower < b->lower ? -1 : 1;
    return a < b ? -1 : a > b;
}

// Where all have one alignment, every buffer but the topmost takes a multiple of it.
static int64_t bound_of(struct arena *scratch, const struct pack_problem *problem)
{
    int64_t bound = pack_bound(scratch, problem), padding_most = 0;
    int64_t alignment = problem->count ? problem->buffers[0].alignment : 1;
    struct pack_buffer *padded = ARENA_NEW(scratch, struct pack_buffer, problem->count);
    for (int b = 0; b < problem->count; b++) {
        padded[b] = problem->buffers[b];
        if (padded[b].alignment != alignment) return bound;
        int64_t padding = (alignment - padded[b].size % alignment) % alignment;
        padded[b].size += padding;
        if (padding > padding_most) padding_most = padding;
    }
    struct pack_problem all = {.buffers = padded, .count = problem->count};
    int64_t most = pack_sections_make(scratch, &all)->load_most - padding_most;
    return most > bound ? most : bound;
}

static struct pack_part *make_parts(struct arena *scratch, const struct pack_problem *problem,
                                    int *part_count)
{
    const struct pack_buffer **born =
        ARENA_NEW(scratch, const struct pack_buffer *, problem->count);
    int count = 0;
    for (int b = 0; b < problem->count; b++)
        if (problem->buffers[b].lower < problem->buffers[b].upper)
            born[count++] = &problem->buffers[b];
    qsort(born, (size_t)count, sizeof *born, pack_compare_births);
    struct pack_part *parts = ARENA_NEW(scratch, struct pack_part, count);
    struct pack_buffer *buffers = ARENA_NEW(scratch, struct pack_buffer, count);
    int *origin = ARENA_NEW(scratch, int, count);
    int64_t end = 0;
    *part_count = 0;
    for (int i = 0; i < count; i++) {
        if (i == 0 || born[i]->lower >= end) {
            parts[(*part_count)++] = (struct pack_part){{.buffers = &buffers[i]}, &origin[i], 0};
            end = born[i]->upper;
        }
        parts[*part_count - 1].problem.count++;
        buffers[i] = *born[i];
        origin[i] = (int)(born[i] - problem->buffers);
        if (born[i]->upper > end) end = born[i]->upper;
    }
    for (int p = 0; p < *part_count; p++)
        parts[p].bound = bound_of(scratch, &parts[p].problem);
    return parts;
}

// Whether places that are given can be kept: aligned, and apart from each other.
static bool fixed_agree(struct arena *scratch, const struct pack_problem *problem)
{
    const struct pack_buffer **fixed =
        ARENA_NEW(scratch, const struct pack_buffer *, problem->count);
    int count = 0;
    for (int b = 0; b < problem->count; b++) {
        const struct pack_buffer *buffer = &problem->buffers[b];
        if (buffer->fixed_offset < 0 || buffer->lower >= buffer->upper) continue;
        if (buffer->fixed_offset % buffer->alignment) return false;
        fixed[count++] = buffer;
    }
    qsort(fixed, (size_t)count, sizeof *fixed, pack_compare_births);
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count && fixed[j]->lower < fixed[i]->upper; j++)
            if (fixed[i]->fixed_offset < fixed[j]->fixed_offset + fixed[j]->size &&
                fixed[j]->fixed_offset < fixed[i]->fixed_offset + fixed[i]->size)
                return false;
    return true;
}

// The part with the highest bound comes first: it sets how low the others have to be.
static int compare_parts(const void *left, const void *right)
{
    const struct pack_part *a = left, *b = right;
    if (a->bound != b->bound) return a->bound > b->bound ? -1 : 1;
    return a->origin < b->origin ? -1 : a->origin > b->origin;
}

static void solve_parts(struct solver *solver, const struct pack_problem *problem)
{
    struct pack_result *result = solver->result;
    int count;
    struct pack_part *parts = make_parts(solver->scratch, problem, &count);
    qsort(parts, (size_t)count, sizeof *parts, compare_parts);
    int64_t goal = count ? parts[0].bound : 0;
    if (problem->capacity > goal) goal = problem->capacity;
    for (int p = 0; p < count; p++) {
        struct arena_mark mark = arena_mark(solver->scratch);
        int64_t *offsets = ARENA_NEW(solver->scratch, int64_t, parts[p].problem.count);
        int64_t height = solve_part(solver, &parts[p], goal, offsets);
        if (height > result->height) result->height = height;
        // The arena has to be that high now: lower packings of the other parts are of no use.
        if (height > goal) goal = height;
        if (parts[p].bound > result->bound) result->bound = parts[p].bound;
        for (int i = 0; i < parts[p].problem.count; i++)
            result->offsets[parts[p].origin[i]] = offsets[i];
        arena_reset(solver->scratch, mark);
    }
}

struct pack_result pack_solve(struct arena *arena, struct arena *scratch,
                              const struct pack_problem *problem,
                              const struct pack_options *options)
{
    struct arena_mark mark = arena_mark(scratch);
    struct pack_result result = {.offsets = ARENA_NEW(arena, int64_t, problem->count)};
    struct pack_options own = *options;
    bool agree = fixed_agree(scratch, problem);
    own.no_search |= !agree;
    struct solver solver = {
        .scratch = scratch,
        .options = &own,
        .result = &result,
        .unit = unit_of(problem),
        .nodes = own.node_cap ? own.node_cap : NODE_CAP,
    };
    for (int b = 0; b < problem->count; b++)
        if (problem->buffers[b].fixed_offset > 0)
            result.offsets[b] = problem->buffers[b].fixed_offset;
    solve_parts(&solver, problem);
    result.fits = agree && (problem->capacity == 0 || result.height <= problem->capacity);
    result.infeasible = !agree || (problem->capacity > 0 && result.bound > problem->capacity);
    assert(!agree || result.height >= result.bound);
    assert(!(result.fits && result.infeasible));
    arena_reset(scratch, mark);
    return result;
}
