#include "memory/order/order_certify.h"

#include "core/progress.h"
#include "memory/certify.h"

#include <assert.h>
#include <stdio.h>

// A segment of 30 operators takes GLPK less than a second, mostly.
static const double CERTIFY_S = 10;

struct certify_piece {
    const struct order_division *division;
    const struct order_local *local;
    int segment;
    int *place_of;  // [operator of the whole] its place in the piece + 1
    int *operators;
    int operator_count;
};

// Edges that leave the segment are dropped: they hold in any order of its own.
static void copy_edges(struct arena *arena, const struct certify_piece *piece,
                       struct memory_problem *problem)
{
    const struct memory_problem *whole = piece->division->problem;
    int count = piece->operator_count, before = 0, behind = 0;
    for (int i = 0; i < count; i++) {
        int op = piece->operators[i];
        before += whole->first_predecessor[op + 1] - whole->first_predecessor[op];
        behind += whole->first_successor[op + 1] - whole->first_successor[op];
    }
    int *first_before = ARENA_NEW(arena, int, count + 1),
        *first_behind = ARENA_NEW(arena, int, count + 1);
    int *befores = ARENA_NEW(arena, int, before), *behinds = ARENA_NEW(arena, int, behind);
    before = behind = 0;
    for (int i = 0; i < count; i++) {
        int op = piece->operators[i];
        for (int p = whole->first_predecessor[op]; p < whole->first_predecessor[op + 1]; p++) {
            int place = piece->place_of[whole->predecessors[p]];
            if (place) befores[before++] = place - 1;
        }
        for (int s = whole->first_successor[op]; s < whole->first_successor[op + 1]; s++) {
            int place = piece->place_of[whole->successors[s]];
            if (place) behinds[behind++] = place - 1;
        }
        first_before[i + 1] = before, first_behind[i + 1] = behind;
    }
    assert(first_before[count] == before && first_behind[count] == behind);
    problem->first_predecessor = first_before, problem->predecessors = befores;
    problem->first_successor = first_behind, problem->successors = behinds;
}

static void copy_buffers(struct arena *arena, const struct certify_piece *piece,
                         struct memory_problem *problem)
{
    const struct memory_problem *whole = piece->division->problem;
    const struct order_local *local = piece->local;
    int touch_count = 0, user_count = 0;
    for (int i = 0; i < piece->operator_count; i++) {
        int op = piece->operators[i];
        touch_count += whole->first_touched[op + 1] - whole->first_touched[op];
    }
    struct memory_buffer *buffers = ARENA_NEW(arena, struct memory_buffer, local->buffer_count);
    int *users = ARENA_NEW(arena, int, touch_count);
    int *first_touched = ARENA_NEW(arena, int, piece->operator_count + 1);
    int *touched = ARENA_NEW(arena, int, touch_count);
    for (int b = 0; b < local->buffer_count; b++) {
        const struct memory_buffer *from = &whole->buffers[local->buffer[b]];
        int place = from->producer < 0 ? 0 : piece->place_of[from->producer];
        buffers[b] = (struct memory_buffer){from->bytes, place - 1,       user_count,
                                            0,           local->stays[b], local->buffer[b]};
        for (int u = 0; u < from->user_count; u++) {
            int user = piece->place_of[whole->users[from->first_user + u]];
            if (user) users[user_count++] = user - 1, buffers[b].user_count++;
        }
    }
    touch_count = 0;
    for (int i = 0; i < piece->operator_count; i++) {
        for (int b = 0; b < local->buffer_count; b++) {
            bool touches = buffers[b].producer == i;
            for (int u = 0; u < buffers[b].user_count; u++)
                touches = touches || users[buffers[b].first_user + u] == i;
            if (touches) touched[touch_count++] = b;
        }
        first_touched[i + 1] = touch_count;
    }
    problem->buffers = buffers, problem->buffer_count = local->buffer_count;
    problem->users = users;
    problem->first_touched = first_touched, problem->touched = touched;
}

// The segment as a problem of its own: what is alive before it is there from the start, what is
// needed behind it is kept. What nothing here touches is left out. Operators in program order.
static struct memory_problem *make_problem(struct arena *arena, struct certify_piece *piece)
{
    const struct order_division *division = piece->division;
    struct memory_problem *problem = ARENA_NEW(arena, struct memory_problem, 1);
    int first = division->first_unit[piece->segment];
    int end = division->first_unit[piece->segment + 1];
    int count = division->first_operator[end] - division->first_operator[first];
    assert(count > 0);
    piece->operators = ARENA_NEW(arena, int, count);
    const int *from = &division->operators[division->first_operator[first]];
    for (int i = 0; i < count; i++) {
        int at = piece->operator_count++;
        for (; at > 0 && piece->operators[at - 1] > from[i]; at--)
            piece->operators[at] = piece->operators[at - 1];
        piece->operators[at] = from[i];
    }
    for (int i = 0; i < count; i++)
        piece->place_of[piece->operators[i]] = i + 1;
    assert(count > 0 && piece->operator_count == count);
    problem->operator_count = count;
    copy_edges(arena, piece, problem);
    copy_buffers(arena, piece, problem);
    problem->update = ARENA_NEW(arena, bool, count);
    for (int i = 0; i < count; i++)
        piece->place_of[piece->operators[i]] = 0;
    return problem;
}

static void report(const struct order_options *options, struct arena *scratch, int segment,
                   const struct order_part *part, const struct milp_result *result)
{
    if (!options->log) return;
    const char *line = arena_print(scratch,
                                   "segment %d: the search says %lld to %lld bytes, GLPK %.0f to "
                                   "%.0f",
                                   segment, (long long)part->bound_bytes,
                                   (long long)part->peak_bytes, result->bound, result->objective);
    options->log(options->log_context, line);
}

// The search and GLPK share no code: where they agree both are believed.
static void certify_part(struct arena *scratch, struct certify_piece *piece,
                         const struct order_part *part, const struct order_options *options,
                         struct order_certificate *certificate)
{
    assert(part->bound_bytes <= part->peak_bytes);
    const struct memory_problem *problem = make_problem(scratch, piece);
    int64_t start_bytes = 0;
    for (int b = 0; b < problem->buffer_count; b++) {
        if (problem->buffers[b].producer < 0) start_bytes += problem->buffers[b].bytes;
    }
    assert(start_bytes >= 0 && part->bound_bytes <= part->peak_bytes);
    double peak_bytes = (double)(part->peak_bytes + start_bytes);
    double bound_bytes = (double)(part->bound_bytes + start_bytes);
    struct milp_options milp_options = {
        .time_limit_s = CERTIFY_S, .log = options->log, .log_context = options->log_context};
    double left_s = options->deadline_s > 0 ? options->deadline_s - clock_s() : CERTIFY_S;
    if (left_s <= 0) return;
    if (left_s < CERTIFY_S) milp_options.time_limit_s = left_s;
    struct milp_result result =
        certify_order(scratch, problem, part->peak_bytes + start_bytes, &milp_options, NULL);
    bool found = result.status == MILP_OPTIMAL || result.status == MILP_FEASIBLE;
    bool disputes = result.status == MILP_INFEASIBLE || (found && result.objective < bound_bytes) ||
                    (result.status == MILP_OPTIMAL && result.bound > peak_bytes);
    if (disputes) {
        certificate->disputed_count++;
        report(options, scratch, piece->segment, part, &result);
    } else if (result.status == MILP_OPTIMAL && part->peak_bytes == part->bound_bytes) {
        certificate->certified_count++;
    }
}

// Segments that are alike share a part, which is certified once.
struct order_certificate order_certify(struct arena *scratch, const struct order_division *division,
                                       const struct order_parts *parts,
                                       const struct order_options *options)
{
    struct order_certificate certificate = {0};
    struct arena_mark mark = arena_mark(scratch);
    bool *seen = ARENA_NEW(scratch, bool, parts->count);
    int *place_of = ARENA_NEW(scratch, int, division->problem->operator_count);
    for (int k = 0; k < division->segment_count; k++) {
        int part = parts->of_segment[k];
        const struct order_local *local = parts->parts[part].local;
        int operators = local->first_step[local->unit_count];
        if (seen[part] || operators > options->certify_operators) continue;
        seen[part] = true;
        struct arena_mark before = arena_mark(scratch);
        struct certify_piece piece = {
            .division = division, .local = local, .segment = k, .place_of = place_of};
        certify_part(scratch, &piece, &parts->parts[part], options, &certificate);
        arena_reset(scratch, before);
    }
    arena_reset(scratch, mark);
    return certificate;
}
