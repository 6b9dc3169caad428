#include "executor/engine/expert_rows.h"

#include <assert.h>
#include <string.h>

static bool is_within(const struct held *box, int dim, int64_t index)
{
    return index >= box->first[dim] && index < box->first[dim] + box->count[dim];
}

static bool has_token(const struct expert_rows *rows, const struct held *box, int64_t token)
{
    int64_t seqs = rows->count[ROWS_SEQ];
    return is_within(box, ROWS_BATCH, rows->first[ROWS_BATCH] + token / seqs) &&
           is_within(box, ROWS_SEQ, rows->first[ROWS_SEQ] + token % seqs);
}

static bool has_expert(const struct expert_rows *rows, const struct held *box, int64_t expert)
{
    return is_within(box, ROWS_EXPERT, rows->first[ROWS_EXPERT] + expert);
}

bool expert_rows_know(const struct expert_rows *rows, const struct held *box)
{
    for (int d = 0; d < ROWS_COLUMN; d++) {
        if (box->count[d] == 0) return true;
    }
    for (int d = 0; d < ROWS_COLUMN; d++) {
        int64_t end = rows->first[d] + rows->count[d];
        if (box->first[d] < rows->first[d] || box->first[d] + box->count[d] > end) return false;
    }
    return true;
}

static int64_t *grown(struct arena *arena, int64_t *array, int64_t wanted, int64_t *capacity)
{
    if (array && wanted <= *capacity) return array;
    int64_t room = 1;
    while (room < wanted)
        room *= 2;
    *capacity = room;
    return ARENA_NEW(arena, int64_t, room);
}

void expert_rows_make(struct arena *arena, struct expert_rows *rows, const bool *chosen)
{
    int64_t tokens = rows->count[ROWS_BATCH] * rows->count[ROWS_SEQ];
    int64_t experts = rows->count[ROWS_EXPERT], count = 0;
    for (int64_t i = 0; i < tokens * experts; i++)
        count += chosen[i];
    rows->rows_of = grown(arena, rows->rows_of, experts + 1, &rows->expert_capacity);
    rows->token_of = grown(arena, rows->token_of, count, &rows->row_capacity);
    count = 0;
    for (int64_t e = 0; e < experts; e++) {
        rows->rows_of[e] = count;
        for (int64_t t = 0; t < tokens; t++) {
            if (chosen[t * experts + e]) rows->token_of[count++] = t;
        }
    }
    rows->rows_of[experts] = count;
}

void expert_rows_drop(struct expert_rows *rows, int64_t capacity)
{
    int64_t kept = 0, first = 0;
    for (int64_t e = 0; e < rows->count[ROWS_EXPERT]; e++) {
        int64_t end = rows->rows_of[e + 1], sequence = -1, count = 0;
        for (int64_t i = first; i < end; i++) {
            int64_t token = rows->token_of[i], of = token / rows->count[ROWS_SEQ];
            count = of == sequence ? count + 1 : 1;
            sequence = of;
            if (count <= capacity) rows->token_of[kept++] = token;
        }
        first = end;
        rows->rows_of[e + 1] = kept;
    }
}

// Goes through the rows in a box by expert and token; begins with zero.
struct cursor {
    int64_t expert, row;
};

static bool next_in(const struct expert_rows *rows, const struct held *box, struct cursor *at)
{
    for (; at->expert < rows->count[ROWS_EXPERT]; at->expert++, at->row = 0) {
        if (!has_expert(rows, box, at->expert)) continue;
        int64_t first = rows->rows_of[at->expert], count = rows->rows_of[at->expert + 1] - first;
        while (at->row < count) {
            if (has_token(rows, box, rows->token_of[first + at->row++])) return true;
        }
    }
    return false;
}

// The token of the row that next_in found, counted in the box.
static int64_t token_in(const struct expert_rows *rows, const struct held *box,
                        const struct cursor *at)
{
    int64_t token = rows->token_of[rows->rows_of[at->expert] + at->row - 1];
    int64_t seqs = rows->count[ROWS_SEQ];
    int64_t batch = rows->first[ROWS_BATCH] + token / seqs - box->first[ROWS_BATCH];
    int64_t seq = rows->first[ROWS_SEQ] + token % seqs - box->first[ROWS_SEQ];
    return batch * box->count[ROWS_SEQ] + seq;
}

static int64_t expert_in(const struct expert_rows *rows, const struct held *box, int64_t expert)
{
    return rows->first[ROWS_EXPERT] + expert - box->first[ROWS_EXPERT];
}

void expert_rows_read(const struct expert_rows *rows, const struct held *box, bool *chosen)
{
    int64_t experts = box->count[ROWS_EXPERT];
    int64_t tokens = box->count[ROWS_BATCH] * box->count[ROWS_SEQ];
    assert(expert_rows_know(rows, box));
    memset(chosen, 0, (size_t)(tokens * experts) * sizeof *chosen);
    for (struct cursor at = {0}; next_in(rows, box, &at);)
        chosen[token_in(rows, box, &at) * experts + expert_in(rows, box, at.expert)] = true;
}

int64_t expert_rows_count(const struct expert_rows *rows, const struct held *box)
{
    int64_t count = 0;
    assert(expert_rows_know(rows, box));
    for (struct cursor at = {0}; next_in(rows, box, &at);)
        count++;
    return count;
}

struct kernel_routing *expert_rows_routing(struct arena *arena, const struct expert_rows *rows,
                                           const struct held *box)
{
    struct kernel_routing *routing = ARENA_NEW(arena, struct kernel_routing, 1);
    int64_t experts = box->count[ROWS_EXPERT], row = 0;
    *routing = (struct kernel_routing){
        .expert_count = experts,
        .first_expert = box->first[ROWS_EXPERT],
        .rows_of = ARENA_NEW(arena, int64_t, experts + 1),
        .token_of = ARENA_NEW(arena, int64_t, expert_rows_count(rows, box) + 1),
    };
    for (struct cursor at = {0}; next_in(rows, box, &at);) {
        routing->token_of[row++] = token_in(rows, box, &at);
        routing->rows_of[expert_in(rows, box, at.expert) + 1] = row;
    }
    // Experts without rows end where those before them do.
    for (int64_t e = 0; e < experts; e++) {
        if (routing->rows_of[e + 1] < routing->rows_of[e])
            routing->rows_of[e + 1] = routing->rows_of[e];
    }
    return routing;
}

bool expert_rows_next(struct expert_walk *walk, struct expert_run *run)
{
    const struct expert_rows *rows = walk->rows;
    *run = (struct expert_run){0};
    for (; walk->expert < rows->count[ROWS_EXPERT]; walk->expert++, walk->row = 0) {
        bool is_source = has_expert(rows, walk->source_box, walk->expert);
        bool is_target = has_expert(rows, walk->target_box, walk->expert);
        int64_t first = rows->rows_of[walk->expert];
        int64_t count = rows->rows_of[walk->expert + 1] - first;
        while ((is_source || is_target) && walk->row < count) {
            int64_t token = rows->token_of[first + walk->row];
            bool from = is_source && has_token(rows, walk->source_box, token);
            bool to = is_target && has_token(rows, walk->target_box, token);
            if (run->count > 0 && from != to) return true;
            if (from && to && run->count++ == 0) {
                run->source = walk->source;
                run->target = walk->target;
            }
            walk->source += from;
            walk->target += to;
            walk->row++;
        }
    }
    return run->count > 0;
}
