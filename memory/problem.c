#include "core/divisor.h"
#include "memory/graph_edges.h"

#include <assert.h>
#include <string.h>

// Buffers in the order of their tensors, workspaces last. `buffer_of[tensor]`: -1 where none.
static struct memory_buffer *make_buffers(struct arena *arena, const struct memory_graph *graph,
                                          int64_t alignment, struct memory_problem *problem,
                                          int *buffer_of)
{
    struct memory_buffer *buffers =
        ARENA_NEW(arena, struct memory_buffer, graph->tensor_count + graph->operator_count);
    int count = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        buffer_of[i] = -1;
        if (tensor->storage != i || tensor->bytes == 0) continue;
        int64_t bytes = round_up(tensor->bytes, alignment);
        if (tensor->persistent) {
            problem->persistent_bytes += bytes;
            continue;
        }
        buffers[count] =
            (struct memory_buffer){.bytes = bytes, .producer = tensor->producer, .tensor = i};
        buffer_of[i] = count++;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        buffer_of[i] = buffer_of[tensor->storage];
        if (buffer_of[i] >= 0 && tensor->kept) buffers[buffer_of[i]].kept = true;
    }
    for (int i = 0; i < graph->operator_count; i++) {
        int64_t bytes = round_up(graph->operators[i].workspace_bytes, alignment);
        if (bytes == 0) continue;
        buffers[count++] = (struct memory_buffer){.bytes = bytes, .producer = i, .tensor = -1};
    }
    problem->buffers = buffers;
    problem->buffer_count = count;
    return buffers;
}

// Lists of operators a buffer and of buffers an operator are filled in two rounds, which count and
// then write; operators come in ascending order, so the lists do too.
struct filling {
    struct memory_buffer *buffers;
    int *last;   // operator + 1 that touched a buffer last
    int *users;  // NULL in the round that counts
};

static void use(struct filling *filling, int buffer, int op)
{
    if (buffer < 0 || filling->last[buffer] == op + 1) return;
    struct memory_buffer *at = &filling->buffers[buffer];
    filling->last[buffer] = op + 1;
    if (at->producer == op) return;
    if (filling->users) filling->users[at->first_user + at->user_count] = op;
    at->user_count++;
}

static void use_all(struct filling *filling, const struct memory_graph *graph, const int *buffer_of)
{
    for (int i = 0; i < graph->operator_count; i++) {
        const struct memory_operator *op = &graph->operators[i];
        for (int j = 0; j < op->input_count; j++) {
            use(filling, buffer_of[op->inputs[j]], i);
        }
        for (int j = 0; j < op->output_count; j++) {
            use(filling, buffer_of[op->outputs[j]], i);
        }
    }
}

static void make_users(struct arena *arena, const struct memory_graph *graph, const int *buffer_of,
                       struct memory_buffer *buffers, struct memory_problem *problem)
{
    size_t count = (size_t)problem->buffer_count;
    struct filling filling = {buffers, ARENA_NEW(arena, int, count), NULL};
    use_all(&filling, graph, buffer_of);
    int total = 0;
    for (size_t i = 0; i < count; i++) {
        buffers[i].first_user = total;
        total += buffers[i].user_count;
        buffers[i].user_count = 0;
    }
    memset(filling.last, 0, count * sizeof *filling.last);
    filling.users = ARENA_NEW(arena, int, total);
    use_all(&filling, graph, buffer_of);
    problem->users = filling.users;
}

static void touch(int *first, int *touched, int op, int buffer)
{
    if (touched) touched[first[op + 1]] = buffer;
    first[op + (touched ? 1 : 2)]++;
}

static void touch_all(const struct memory_problem *problem, int *first, int *touched)
{
    for (int i = 0; i < problem->buffer_count; i++) {
        const struct memory_buffer *buffer = &problem->buffers[i];
        if (buffer->producer >= 0) touch(first, touched, buffer->producer, i);
        for (int j = 0; j < buffer->user_count; j++) {
            touch(first, touched, problem->users[buffer->first_user + j], i);
        }
    }
}

static void make_touched(struct arena *arena, struct memory_problem *problem)
{
    int *first = ARENA_NEW(arena, int, problem->operator_count + 2);
    touch_all(problem, first, NULL);
    for (int i = 0; i < problem->operator_count; i++) {
        first[i + 2] += first[i + 1];
    }
    int *touched = ARENA_NEW(arena, int, first[problem->operator_count + 1]);
    touch_all(problem, first, touched);
    problem->first_touched = first;
    problem->touched = touched;
}

// Edges sorted by source and then stably by target have their twins side by side; those without
// twins, sorted by source again, are the successors.
static void make_neighbours(struct arena *arena, struct arena *scratch,
                            const struct memory_graph *graph, struct memory_problem *problem)
{
    int count = graph->operator_count;
    struct graph_edges edges = graph_edges_make(scratch, graph);
    const struct graph_edges back = {edges.to, edges.from, edges.why, edges.count};
    struct graph_into out = graph_edges_into(scratch, &back, count);
    struct graph_edges sorted = {ARENA_NEW(scratch, int, edges.count),
                                 ARENA_NEW(scratch, int, edges.count), NULL, edges.count};
    for (int i = 0; i < edges.count; i++) {
        sorted.from[i] = edges.from[out.into[i]];
        sorted.to[i] = edges.to[out.into[i]];
    }
    struct graph_into into = graph_edges_into(scratch, &sorted, count);
    int *first = ARENA_NEW(arena, int, count + 1),
        *predecessors = ARENA_NEW(arena, int, edges.count);
    int *first_out = ARENA_NEW(arena, int, count + 2), *successors = NULL;
    int kept = 0;
    for (int i = 0; i < count; i++) {
        for (int j = into.first[i]; j < into.first[i + 1]; j++) {
            int from = sorted.from[into.into[j]];
            if (kept > first[i] && predecessors[kept - 1] == from) continue;
            predecessors[kept++] = from;
            first_out[from + 2]++;
        }
        first[i + 1] = kept;
    }
    for (int i = 0; i < count; i++) {
        first_out[i + 2] += first_out[i + 1];
    }
    successors = ARENA_NEW(arena, int, kept);
    for (int i = 0; i < count; i++) {
        for (int j = first[i]; j < first[i + 1]; j++) {
            successors[first_out[predecessors[j] + 1]++] = i;
        }
    }
    problem->first_predecessor = first;
    problem->predecessors = predecessors;
    problem->first_successor = first_out;
    problem->successors = successors;
}

struct memory_problem *memory_problem_make(struct arena *arena, const struct memory_graph *graph,
                                           int64_t alignment)
{
    assert(alignment >= 1);
    struct memory_problem *problem = ARENA_NEW(arena, struct memory_problem, 1);
    struct arena scratch = {0};
    problem->operator_count = graph->operator_count;
    int *buffer_of = ARENA_NEW(&scratch, int, graph->tensor_count);
    struct memory_buffer *buffers = make_buffers(arena, graph, alignment, problem, buffer_of);
    make_users(arena, graph, buffer_of, buffers, problem);
    make_touched(arena, problem);
    make_neighbours(arena, &scratch, graph, problem);
    bool *update = ARENA_NEW(arena, bool, graph->operator_count);
    for (int i = 0; i < graph->operator_count; i++) {
        update[i] = graph->operators[i].update;
    }
    problem->update = update;
    arena_free(&scratch);
    return problem;
}

int64_t memory_lifetimes(struct arena *scratch, const struct memory_problem *problem,
                         const int *order, int *birth, int *death)
{
    int count = problem->operator_count;
    struct arena_mark mark = arena_mark(scratch);
    int *step = ARENA_NEW(scratch, int, count);
    int64_t *change = ARENA_NEW(scratch, int64_t, count + 1);
    for (int i = 0; i < count; i++)
        step[i] = -1;
    for (int i = 0; i < count; i++) {
        assert(step[order[i]] == -1);  // an order runs every operator once
        step[order[i]] = i;
    }
    for (int i = 0; i < problem->buffer_count; i++) {
        const struct memory_buffer *buffer = &problem->buffers[i];
        birth[i] = buffer->producer < 0 ? 0 : step[buffer->producer];
        death[i] = count > 0 ? birth[i] + 1 : 0;
        for (int j = 0; j < buffer->user_count; j++) {
            int end = step[problem->users[buffer->first_user + j]] + 1;
            assert(end > birth[i]);  // nobody uses what is not there yet
            if (end > death[i]) death[i] = end;
        }
        if (buffer->kept) death[i] = count;
        change[birth[i]] += buffer->bytes;
        change[death[i]] -= buffer->bytes;
    }
    int64_t live_bytes = 0, peak_bytes = 0;
    for (int i = 0; i < count; i++) {
        live_bytes += change[i];
        if (live_bytes > peak_bytes) peak_bytes = live_bytes;
    }
    arena_reset(scratch, mark);
    return peak_bytes;
}
