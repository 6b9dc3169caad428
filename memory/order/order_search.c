#include "memory/order/order_search.h"
#include "core/hash.h"

#include "core/progress.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_STATES = 256 };

struct set_state {
    int place;  // in the path
};

struct later {
    int64_t need_bytes;  // lowest threshold at which the state has a move that it has not now
    int state;
};

struct move {
    int64_t level_bytes;
    int unit;
};

struct search {
    struct arena *arena;
    const struct order_local *local;
    const struct order_search_options *options;
    struct order_search_result result;
    struct order_cursor cursor;
    struct move *moves;  // of the state at hand
    int word_count;
    // States: sets of units, in a table of places + 1 by hash.
    uint64_t *sets;
    struct set_state *states;
    int count, room;
    int *table, table_room;
    int *stack, stack_count, stack_room;
    struct later *heap;
    int heap_count, heap_room;
};

static void *grow(struct arena *arena, void *old, int count, int *room, size_t size)
{
    *room = *room * 2 + 64;
    char *larger = arena_alloc(arena, (size_t)*room, size);
    if (count) memcpy(larger, old, (size_t)count * size);
    return larger;
}

static uint64_t hash_set(const uint64_t *set, int word_count)
{
    uint64_t hash = 0;
    for (int i = 0; i < word_count; i++)
        hash = hash_word(hash, set[i]);
    return hash;
}

static int *find_slot(const struct search *search, const uint64_t *set)
{
    uint64_t mask = (uint64_t)search->table_room - 1, at = hash_set(set, search->word_count);
    size_t words = (size_t)search->word_count;
    for (at &= mask; search->table[at]; at = (at + 1) & mask) {
        assert(search->sets);  // what the table names is there
        const uint64_t *other = &search->sets[(size_t)(search->table[at] - 1) * words];
        if (memcmp(other, set, words * sizeof *set) == 0) break;
    }
    return &search->table[at];
}

static void widen_table(struct search *search)
{
    search->table_room = search->table_room ? search->table_room * 4 : 256;
    search->table = ARENA_NEW(search->arena, int, search->table_room);
    for (int i = 0; i < search->count; i++) {
        *find_slot(search, &search->sets[(size_t)i * (size_t)search->word_count]) = i + 1;
    }
}

static void push(struct search *search, int state)
{
    if (search->stack_count == search->stack_room) {
        search->stack = grow(search->arena, search->stack, search->stack_count, &search->stack_room,
                             sizeof *search->stack);
    }
    search->stack[search->stack_count++] = state;
}

// The cursor's set as a state; false when it is known already.
static bool add_state(struct search *search, int place)
{
    if (search->count * 2 >= search->table_room) widen_table(search);
    int *slot = find_slot(search, search->cursor.done);
    if (*slot) return false;
    if (search->count == search->room) {
        int room = search->room;
        size_t set_bytes = (size_t)search->word_count * sizeof *search->sets;
        search->sets = grow(search->arena, search->sets, search->count, &room, set_bytes);
        search->states = grow(search->arena, search->states, search->count, &search->room,
                              sizeof *search->states);
    }
    size_t words = (size_t)search->word_count;
    memcpy(&search->sets[(size_t)search->count * words], search->cursor.done,
           words * sizeof *search->sets);
    search->states[search->count] = (struct set_state){place};
    *slot = ++search->count;
    return true;
}

static bool is_before(const struct later *a, const struct later *b)
{
    if (a->need_bytes != b->need_bytes) return a->need_bytes < b->need_bytes;
    return a->state > b->state;  // the newest is likely the deepest
}

static void heap_add(struct search *search, int64_t need_bytes, int state)
{
    if (search->heap_count == search->heap_room) {
        search->heap = grow(search->arena, search->heap, search->heap_count, &search->heap_room,
                            sizeof *search->heap);
    }
    struct later *heap = search->heap, item = {need_bytes, state};
    int at = search->heap_count++;
    for (; at > 0 && is_before(&item, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

static struct later heap_take(struct search *search)
{
    assert(search->heap_count > 0);
    struct later *heap = search->heap, least = heap[0], item = heap[--search->heap_count];
    int at = 0;
    for (int child; (child = 2 * at + 1) < search->heap_count; at = child) {
        if (child + 1 < search->heap_count && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &item)) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
    return least;
}

static int settle(struct search *search, int place)
{
    if (search->options->no_forced_moves) return place;
    return order_cursor_settle(&search->cursor, search->arena, &search->result.path, place,
                               search->result.threshold_bytes);
}

static int compare_moves(const void *left, const void *right)
{
    const struct move *a = left, *b = right;
    if (a->level_bytes != b->level_bytes) return a->level_bytes > b->level_bytes ? -1 : 1;
    return b->unit - a->unit;
}

static void take_back(struct order_cursor *cursor, const struct order_path *path, int from, int to)
{
    for (int at = from; at != to; at = path->before[at])
        order_cursor_undo(cursor, path->unit[at]);
}

// The move that leaves least alive is pushed last and so tried first.
static void expand(struct search *search, int state)
{
    struct order_cursor *cursor = &search->cursor;
    int place = search->states[state].place, end = search->local->unit_count, count = 0;
    int64_t need_bytes = INT64_MAX;
    struct move *moves = search->moves;
    for (int unit = order_cursor_next(cursor, 0); unit < end;
         unit = order_cursor_next(cursor, unit + 1)) {
        int64_t peak_bytes = order_cursor_peak(cursor, unit);
        if (peak_bytes > search->result.threshold_bytes) {
            if (peak_bytes < need_bytes) need_bytes = peak_bytes;
        } else {
            moves[count++] = (struct move){order_cursor_net(cursor, unit), unit};
        }
    }
    qsort(moves, (size_t)count, sizeof *moves, compare_moves);
    for (int i = 0; i < count; i++) {
        struct order_path *path = &search->result.path;
        int path_count = path->count;
        order_cursor_run(cursor, moves[i].unit);
        int to = settle(search, order_path_add(search->arena, path, moves[i].unit, place));
        bool is_new = add_state(search, to);
        take_back(cursor, path, to, place);
        if (is_new) {
            push(search, search->count - 1);
        } else {
            // The set was reached before: this way to it is forgotten.
            path->count = path_count;
        }
    }
    if (need_bytes == INT64_MAX) return;
    heap_add(search, need_bytes, state);
    if (need_bytes < search->result.blocked_bytes) search->result.blocked_bytes = need_bytes;
}

static bool is_exhausted(struct search *search)
{
    const struct order_search_options *options = search->options;
    if (search->count >= options->state_cap) return true;
    bool is_due = search->count % CLOCK_STATES == 0 && options->deadline_s > 0;
    return is_due && clock_s() > options->deadline_s;
}

// All mandatory units have run. True when no better exit can follow.
static bool add_exit(struct search *search, int state)
{
    struct order_search_result *result = &search->result;
    const uint64_t *done = &search->sets[(size_t)state * (size_t)search->word_count];
    uint64_t *copy = ARENA_COPY(search->arena, uint64_t, done, search->word_count);
    result->exits[result->exit_count++] =
        (struct order_exit){copy, search->states[state].place, search->cursor.level_bytes};
    int run = 0;
    for (int word = 0; word < search->word_count; word++)
        run += __builtin_popcountll(done[word]);
    return !search->options->all_exits || run == search->local->unit_count ||
           result->exit_count == ORDER_EXITS_MAX;
}

// Forced moves that the threshold of today allows; -1 when that leads to a known state.
static int settle_state(struct search *search, int state)
{
    order_cursor_load(&search->cursor, &search->sets[(size_t)state * (size_t)search->word_count]);
    int place = search->states[state].place, to = settle(search, place);
    if (to == place) return state;
    return add_state(search, to) ? search->count - 1 : -1;
}

static void run_search(struct search *search)
{
    struct order_search_result *result = &search->result;
    for (;;) {
        if (search->stack_count == 0) {
            if (search->heap_count == 0) return;
            struct later later = heap_take(search);
            if (result->exit_count > 0) return;
            // Thresholds only rise: all that could be reached under the last one has been.
            assert(later.need_bytes >= result->threshold_bytes);
            result->threshold_bytes = later.need_bytes;
            if (later.need_bytes > search->options->limit_bytes) return;
            push(search, later.state);
        }
        if (is_exhausted(search)) {
            result->capped = true;
            return;
        }
        int state = settle_state(search, search->stack[--search->stack_count]);
        if (state < 0) continue;
        if (search->cursor.mandatory_left > 0) {
            expand(search, state);
        } else if (add_exit(search, state)) {
            return;
        }
    }
}

struct order_search_result order_search(struct arena *arena, const struct order_local *local,
                                        const struct order_search_options *options)
{
    struct search search = {.arena = arena, .local = local, .options = options};
    assert(options->start_bytes <= options->limit_bytes && options->state_cap > 0);
    search.cursor = order_cursor_make(arena, local);
    search.word_count = search.cursor.word_count;
    search.moves = ARENA_NEW(arena, struct move, local->unit_count);
    search.result.threshold_bytes = options->start_bytes;
    search.result.blocked_bytes = INT64_MAX;
    search.result.exits = ARENA_NEW(arena, struct order_exit, ORDER_EXITS_MAX);
    add_state(&search, -1);
    push(&search, 0);
    run_search(&search);
    search.result.state_count = search.count;
    return search.result;
}

int64_t order_local_peak(struct arena *scratch, const struct order_local *local, const int *units)
{
    struct arena_mark mark = arena_mark(scratch);
    struct order_cursor cursor = order_cursor_make(scratch, local);
    int64_t peak_bytes = local->entry_bytes;
    for (int i = 0; i < local->unit_count; i++) {
        int64_t bytes = order_cursor_peak(&cursor, units[i]);
        if (bytes > peak_bytes) peak_bytes = bytes;
        order_cursor_run(&cursor, units[i]);
    }
    arena_reset(scratch, mark);
    return peak_bytes;
}
