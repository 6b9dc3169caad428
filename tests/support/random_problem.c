#include "tests/support/random_problem.h"

#include <assert.h>
#include <string.h>

enum { BUFFERS_MOST = 64, OPERATORS_MOST = 64 };

struct parts {
    struct memory_buffer buffers[BUFFERS_MOST];
    bool uses[BUFFERS_MOST][OPERATORS_MOST];  // not the producer's
    bool edge[OPERATORS_MOST][OPERATORS_MOST];
    int buffer_count, operator_count;
};

static void draw_buffer(struct parts *parts, struct draw *draw, int producer, int64_t granule_bytes)
{
    int at = parts->buffer_count++;
    assert(at < BUFFERS_MOST);
    parts->buffers[at] = (struct memory_buffer){.bytes = draw_int(draw, 1, 20) * granule_bytes,
                                                .producer = producer,
                                                .kept = draw_int(draw, 0, 9) == 0,
                                                .tensor = at};
    int reach = draw_int(draw, 1, 6);
    for (int u = producer + 1; u < parts->operator_count && u <= producer + reach; u++) {
        if (draw_int(draw, 0, 2) != 0) continue;
        parts->uses[at][u] = true;
        if (producer >= 0) parts->edge[producer][u] = true;
    }
}

static int *fill(struct arena *arena, int row_count, int column_count, const bool *matrix,
                 int stride, int **first)
{
    int *items = ARENA_NEW(arena, int, row_count *column_count + 1);
    *first = ARENA_NEW(arena, int, row_count + 1);
    int count = 0;
    for (int r = 0; r < row_count; r++) {
        (*first)[r] = count;
        for (int c = 0; c < column_count; c++)
            if (matrix[r * stride + c]) items[count++] = c;
    }
    (*first)[row_count] = count;
    return items;
}

static struct memory_problem *assemble(struct arena *arena, struct parts *parts)
{
    bool back[OPERATORS_MOST][OPERATORS_MOST] = {0}, touched[OPERATORS_MOST][BUFFERS_MOST] = {0};
    for (int u = 0; u < parts->operator_count; u++) {
        for (int v = 0; v < parts->operator_count; v++)
            back[v][u] = parts->edge[u][v];
        for (int b = 0; b < parts->buffer_count; b++)
            touched[u][b] = parts->uses[b][u] || parts->buffers[b].producer == u;
    }
    int ops = parts->operator_count, buffers = parts->buffer_count;
    int *first_user = NULL, *first_out = NULL, *first_in = NULL, *first_touched = NULL;
    struct memory_problem *problem = ARENA_NEW(arena, struct memory_problem, 1);
    problem->operator_count = ops;
    problem->buffer_count = buffers;
    problem->users = fill(arena, buffers, ops, &parts->uses[0][0], OPERATORS_MOST, &first_user);
    problem->successors = fill(arena, ops, ops, &parts->edge[0][0], OPERATORS_MOST, &first_out);
    problem->predecessors = fill(arena, ops, ops, &back[0][0], OPERATORS_MOST, &first_in);
    problem->touched = fill(arena, ops, buffers, &touched[0][0], BUFFERS_MOST, &first_touched);
    problem->first_successor = first_out;
    problem->first_predecessor = first_in;
    problem->first_touched = first_touched;
    struct memory_buffer *copy = ARENA_NEW(arena, struct memory_buffer, buffers);
    for (int b = 0; b < buffers; b++) {
        copy[b] = parts->buffers[b];
        copy[b].first_user = first_user[b];
        copy[b].user_count = first_user[b + 1] - first_user[b];
    }
    problem->buffers = copy;
    problem->update = ARENA_NEW(arena, bool, ops);
    return problem;
}

struct memory_problem *random_problem(struct arena *arena, struct draw *draw, int operator_count,
                                      int64_t granule_bytes)
{
    assert(operator_count <= OPERATORS_MOST);
    static const struct parts NONE;
    struct parts *parts = ARENA_NEW(arena, struct parts, 1);
    *parts = NONE;
    parts->operator_count = operator_count;
    for (int i = draw_int(draw, 0, 2); i > 0; i--)
        draw_buffer(parts, draw, -1, granule_bytes);
    for (int v = 0; v < operator_count; v++) {
        for (int i = draw_int(draw, 0, 4) / 2; i > 0 && parts->buffer_count < BUFFERS_MOST; i--)
            draw_buffer(parts, draw, v, granule_bytes);
        if (v > 0 && draw_int(draw, 0, 4) == 0) parts->edge[draw_int(draw, 0, v - 1)][v] = true;
    }
    return assemble(arena, parts);
}

// Bytes alive while `op` runs after the operators of `done`.
static int64_t alive_bytes(const struct memory_problem *problem, unsigned done, int op)
{
    unsigned now = done | 1u << op;
    int64_t bytes = 0;
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        if (buffer->producer >= 0 && !(now >> buffer->producer & 1)) continue;
        bool is_needed = buffer->kept || buffer->producer == op;
        if (buffer->producer < 0 && done == 0) is_needed = true;
        for (int u = 0; u < buffer->user_count; u++)
            is_needed |= !(done >> problem->users[buffer->first_user + u] & 1);
        if (is_needed) bytes += buffer->bytes;
    }
    return bytes;
}

static bool may_run(const struct memory_problem *problem, unsigned done, int op)
{
    if (done >> op & 1) return false;
    for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++)
        if (!(done >> problem->predecessors[p] & 1)) return false;
    return true;
}

int64_t least_peak_bytes(struct arena *scratch, const struct memory_problem *problem)
{
    int count = problem->operator_count;
    assert(count <= 20);
    struct arena_mark mark = arena_mark(scratch);
    int64_t *peaks = ARENA_NEW(scratch, int64_t, 1 << count);
    for (unsigned done = 1; done < 1u << count; done++)
        peaks[done] = INT64_MAX;
    for (unsigned done = 0; done < 1u << count; done++) {
        if (peaks[done] == INT64_MAX) continue;
        for (int v = 0; v < count; v++) {
            if (!may_run(problem, done, v)) continue;
            int64_t bytes = alive_bytes(problem, done, v);
            if (bytes < peaks[done]) bytes = peaks[done];
            if (bytes < peaks[done | 1u << v]) peaks[done | 1u << v] = bytes;
        }
    }
    int64_t least = peaks[(1u << count) - 1];
    arena_reset(scratch, mark);
    return least;
}
