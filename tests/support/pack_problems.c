#include "tests/support/pack_problems.h"

#include <string.h>

struct pack_piece {
    int64_t left, right, low, high;  // times, addresses in quanta
};

struct pieces {
    struct pack_piece *items;
    int count;
};

static int64_t draw_between(struct draw *draw, int64_t low, int64_t high)
{
    return low + (int64_t)(draw_bits(draw) % (uint64_t)(high - low + 1));
}

static void shuffle(struct draw *draw, struct pack_buffer *buffers, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = draw_int(draw, 0, i);
        struct pack_buffer kept = buffers[i];
        buffers[i] = buffers[j];
        buffers[j] = kept;
    }
}

// Five pieces around a middle one.
static void cut_pinwheel(struct draw *draw, struct pieces *pieces, int at)
{
    struct pack_piece whole = pieces->items[at];
    int64_t x1 = draw_between(draw, whole.left + 1, whole.right - 2);
    int64_t x2 = draw_between(draw, x1 + 1, whole.right - 1);
    int64_t y1 = draw_between(draw, whole.low + 1, whole.high - 2);
    int64_t y2 = draw_between(draw, y1 + 1, whole.high - 1);
    pieces->items[at] = (struct pack_piece){x1, x2, y1, y2};
    pieces->items[pieces->count++] = (struct pack_piece){whole.left, x2, whole.low, y1};
    pieces->items[pieces->count++] = (struct pack_piece){x2, whole.right, whole.low, y2};
    pieces->items[pieces->count++] = (struct pack_piece){x1, whole.right, y2, whole.high};
    pieces->items[pieces->count++] = (struct pack_piece){whole.left, x1, y1, whole.high};
}

static bool cut_straight(struct draw *draw, struct pieces *pieces, int at, bool in_time)
{
    struct pack_piece *piece = &pieces->items[at], other = *piece;
    if (in_time) {
        if (piece->right - piece->left < 2) return false;
        piece->right = other.left = draw_between(draw, piece->left + 1, piece->right - 1);
    } else {
        if (piece->high - piece->low < 2) return false;
        piece->high = other.low = draw_between(draw, piece->low + 1, piece->high - 1);
    }
    pieces->items[pieces->count++] = other;
    return true;
}

// The largest of a few: sizes differ, but no piece stays that dwarfs the others.
static int draw_piece(struct draw *draw, const struct pieces *pieces)
{
    int best = -1;
    double best_area = 0;
    for (int i = 0; i < 4; i++) {
        int at = draw_int(draw, 0, pieces->count - 1);
        const struct pack_piece *piece = &pieces->items[at];
        double area = (double)(piece->right - piece->left) * (double)(piece->high - piece->low);
        if (best >= 0 && area <= best_area) continue;
        best = at;
        best_area = area;
    }
    return best;
}

static struct pack_buffer buffer_of(struct draw *draw, const struct cut *cut,
                                    struct pack_piece piece)
{
    if (draw_int(draw, 1, 100) <= cut->loose_percent) {
        bool in_time = draw_int(draw, 0, 1);
        if (in_time && piece.right - piece.left > 1) piece.right--;
        if (!in_time && piece.high - piece.low > 1)
            piece.high -= draw_between(draw, 1, (piece.high - piece.low + 3) / 4);
    }
    return (struct pack_buffer){piece.left, piece.right, (piece.high - piece.low) * cut->quantum, 1,
                                -1};
}

struct pack_problem problem_cut(struct arena *arena, struct draw *draw, const struct cut *cut)
{
    struct pieces pieces = {ARENA_NEW(arena, struct pack_piece, cut->count + 4), 1};
    pieces.items[0] = (struct pack_piece){0, cut->sections, 0, cut->height / cut->quantum};
    // A few cuts through all of time leave long-lived buffers.
    for (int i = 0; i < 3; i++)
        cut_straight(draw, &pieces, draw_int(draw, 0, pieces.count - 1), false);
    for (int tries = 0; pieces.count < cut->count && tries < 100 * cut->count; tries++) {
        int at = draw_piece(draw, &pieces);
        const struct pack_piece *piece = &pieces.items[at];
        bool is_wide = piece->right - piece->left > 2 && piece->high - piece->low > 2;
        if (is_wide && draw_int(draw, 1, 100) <= cut->pinwheel_percent)
            cut_pinwheel(draw, &pieces, at);
        else
            cut_straight(draw, &pieces, at, draw_int(draw, 0, 1));
    }
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, pieces.count);
    for (int i = 0; i < pieces.count; i++)
        buffers[i] = buffer_of(draw, cut, pieces.items[i]);
    shuffle(draw, buffers, pieces.count);
    return (struct pack_problem){buffers, pieces.count, 0};
}

static struct pack_buffer *copy_buffers(struct arena *arena, const struct pack_problem *problem,
                                        int room)
{
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, problem->count + room);
    memcpy(buffers, problem->buffers, (size_t)problem->count * sizeof *buffers);
    return buffers;
}

struct pack_problem problem_mirrored(struct arena *arena, struct draw *draw,
                                     const struct pack_problem *problem)
{
    struct pack_buffer *buffers = copy_buffers(arena, problem, 0);
    for (int b = 0; b < problem->count; b++) {
        buffers[b].lower = -problem->buffers[b].upper;
        buffers[b].upper = -problem->buffers[b].lower;
    }
    shuffle(draw, buffers, problem->count);
    return (struct pack_problem){buffers, problem->count, problem->capacity};
}

// A birth or death of some buffer inside the life of this one; its lower where there is none.
static int64_t draw_instant(struct draw *draw, const struct pack_buffer *buffers, int count,
                            const struct pack_buffer *of)
{
    for (int tries = 0; tries < 50; tries++) {
        const struct pack_buffer *other = &buffers[draw_int(draw, 0, count - 1)];
        int64_t instant = draw_int(draw, 0, 1) ? other->lower : other->upper;
        if (instant > of->lower && instant < of->upper) return instant;
    }
    return of->lower;
}

struct pack_problem problem_split(struct arena *arena, struct draw *draw,
                                  const struct pack_problem *problem, int count, int64_t quantum)
{
    struct pack_buffer *buffers = copy_buffers(arena, problem, count);
    int made = problem->count;
    for (int i = 0; i < 20 * count && made < problem->count + count; i++) {
        struct pack_buffer *buffer = &buffers[draw_int(draw, 0, made - 1)], other = *buffer;
        if (draw_int(draw, 0, 1)) {
            int64_t instant = draw_instant(draw, buffers, made, buffer);
            if (instant == buffer->lower) continue;
            buffer->upper = other.lower = instant;
        } else {
            int64_t quanta = buffer->size / quantum;
            if (quanta < 2) continue;
            other.size = draw_between(draw, 1, quanta - 1) * quantum;
            buffer->size -= other.size;
        }
        buffers[made++] = other;
    }
    shuffle(draw, buffers, made);
    return (struct pack_problem){buffers, made, problem->capacity};
}

static bool collides(const struct pack_buffer *buffers, int count, const int64_t *offsets, int at,
                     int64_t lower, int64_t upper)
{
    for (int i = 0; i < count; i++)
        if (i != at && buffers[i].lower < upper && lower < buffers[i].upper &&
            offsets[i] < offsets[at] + buffers[at].size &&
            offsets[at] < offsets[i] + buffers[i].size)
            return true;
    return false;
}

struct pack_problem problem_grown(struct arena *arena, struct draw *draw,
                                  const struct pack_problem *problem, const int64_t *offsets,
                                  int percent)
{
    struct pack_buffer *buffers = copy_buffers(arena, problem, 0);
    for (int b = 0; b < problem->count; b++) {
        if (draw_int(draw, 1, 100) > percent) continue;
        // The nearest instants that leave it longer.
        int64_t lower = INT64_MIN, upper = INT64_MAX;
        for (int i = 0; i < problem->count; i++) {
            int64_t birth = problem->buffers[i].lower, death = problem->buffers[i].upper;
            if (birth < buffers[b].lower && birth > lower) lower = birth;
            if (death > buffers[b].upper && death < upper) upper = death;
        }
        if (lower != INT64_MIN &&
            !collides(buffers, problem->count, offsets, b, lower, buffers[b].upper))
            buffers[b].lower = lower;
        if (upper != INT64_MAX &&
            !collides(buffers, problem->count, offsets, b, buffers[b].lower, upper))
            buffers[b].upper = upper;
    }
    shuffle(draw, buffers, problem->count);
    return (struct pack_problem){buffers, problem->count, problem->capacity};
}

struct pack_problem problem_loosened(struct arena *arena, struct draw *draw,
                                     const struct pack_problem *problem, int percent,
                                     int64_t quantum)
{
    struct pack_buffer *buffers = copy_buffers(arena, problem, 0);
    for (int b = 0; b < problem->count; b++) {
        int64_t less = buffers[b].size / (10 * quantum) * quantum;
        if (draw_int(draw, 1, 100) <= percent) buffers[b].size -= less;
    }
    shuffle(draw, buffers, problem->count);
    return (struct pack_problem){buffers, problem->count, problem->capacity};
}

// The latest death, or the earliest birth.
static int64_t end_of(const struct pack_problem *problem, bool is_first)
{
    int64_t end = is_first ? INT64_MAX : INT64_MIN;
    for (int b = 0; b < problem->count; b++) {
        int64_t lower = problem->buffers[b].lower, upper = problem->buffers[b].upper;
        if (is_first ? lower < end : upper > end) end = is_first ? lower : upper;
    }
    return end;
}

// Appends `of` with `size`, where that is anything.
static void append(struct pack_buffer *buffers, int *count, struct pack_buffer of, int64_t size)
{
    of.size = size;
    if (size > 0) buffers[(*count)++] = of;
}

// `earlier`, at `low`, ends where `later`, at `later_low`, begins: the addresses they have in
// common become one buffer, and what is over of each stays on its own.
static bool bridge(struct pack_buffer *buffers, int *count, struct pack_buffer *earlier,
                   int64_t low, struct pack_buffer later, int64_t later_low)
{
    int64_t high = low + earlier->size, later_high = later_low + later.size;
    int64_t from = low > later_low ? low : later_low;
    int64_t to = high < later_high ? high : later_high;
    if (from >= to) return false;
    append(buffers, count, *earlier, from - low);
    append(buffers, count, *earlier, high - to);
    append(buffers, count, later, from - later_low);
    append(buffers, count, later, later_high - to);
    earlier->upper = later.upper;
    earlier->size = to - from;
    return true;
}

struct pack_problem problem_joined(struct arena *arena, struct draw *draw,
                                   const struct pack_problem *a, const int64_t *a_offsets,
                                   const struct pack_problem *b, const int64_t *b_offsets)
{
    struct pack_buffer *buffers = copy_buffers(arena, a, 5 * b->count);
    int64_t seam = end_of(a, false), shift = seam - end_of(b, true);
    int count = a->count;
    for (int j = 0; j < b->count; j++) {
        struct pack_buffer later = b->buffers[j];
        later.lower += shift;
        later.upper += shift;
        bool is_joined = false;
        for (int i = 0; i < a->count && later.lower == seam && !is_joined; i++)
            is_joined = buffers[i].upper == seam &&
                        bridge(buffers, &count, &buffers[i], a_offsets[i], later, b_offsets[j]);
        if (!is_joined) buffers[count++] = later;
    }
    shuffle(draw, buffers, count);
    return (struct pack_problem){buffers, count, a->capacity};
}
