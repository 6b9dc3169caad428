#include "memory/order/order_cursor.h"

#include <assert.h>
#include <string.h>

// A chain of units that is looked at for a forced move.
enum { CHAIN_MAX = 24 };

struct order_cursor order_cursor_make(struct arena *arena, const struct order_local *local)
{
    assert(local->unit_count >= 0 && local->buffer_count >= 0);
    struct order_cursor cursor = {.local = local, .word_count = (local->unit_count + 63) / 64};
    cursor.done = ARENA_NEW(arena, uint64_t, cursor.word_count);
    cursor.ready = ARENA_NEW(arena, uint64_t, cursor.word_count);
    cursor.waits = ARENA_NEW(arena, int, local->unit_count);
    cursor.uses = ARENA_NEW(arena, int, local->buffer_count);
    order_cursor_load(&cursor, NULL);
    assert(cursor.mandatory_left == local->mandatory_count);
    return cursor;
}

static void set(uint64_t *bits, int unit)
{
    bits[unit >> 6] |= UINT64_C(1) << (unit & 63);
}

static void clear(uint64_t *bits, int unit)
{
    bits[unit >> 6] &= ~(UINT64_C(1) << (unit & 63));
}

void order_cursor_run(struct order_cursor *cursor, int unit)
{
    const struct order_local *local = cursor->local;
    set(cursor->done, unit);
    clear(cursor->ready, unit);
    cursor->level_bytes += local->outcome_bytes[unit];
    for (int t = local->first_touch[unit]; t < local->first_touch[unit + 1]; t++) {
        int buffer = local->touches[t].buffer;
        bool is_last = --cursor->uses[buffer] == 0;
        if (is_last && !local->stays[buffer]) cursor->level_bytes -= local->buffer_bytes[buffer];
    }
    for (int s = local->first_successor[unit]; s < local->first_successor[unit + 1]; s++) {
        int next = local->successors[s];
        if (--cursor->waits[next] == 0) set(cursor->ready, next);
    }
    if (unit < local->mandatory_count) cursor->mandatory_left--;
}

void order_cursor_undo(struct order_cursor *cursor, int unit)
{
    const struct order_local *local = cursor->local;
    clear(cursor->done, unit);
    set(cursor->ready, unit);
    cursor->level_bytes -= local->outcome_bytes[unit];
    for (int t = local->first_touch[unit]; t < local->first_touch[unit + 1]; t++) {
        int buffer = local->touches[t].buffer;
        bool was_last = cursor->uses[buffer]++ == 0;
        if (was_last && !local->stays[buffer]) cursor->level_bytes += local->buffer_bytes[buffer];
    }
    for (int s = local->first_successor[unit]; s < local->first_successor[unit + 1]; s++) {
        int next = local->successors[s];
        if (cursor->waits[next]++ == 0) clear(cursor->ready, next);
    }
    if (unit < local->mandatory_count) cursor->mandatory_left++;
}

void order_cursor_load(struct order_cursor *cursor, const uint64_t *done)
{
    const struct order_local *local = cursor->local;
    size_t set_bytes = (size_t)cursor->word_count * sizeof *cursor->done;
    memset(cursor->done, 0, set_bytes);
    memset(cursor->ready, 0, set_bytes);
    memcpy(cursor->waits, local->indegree, (size_t)local->unit_count * sizeof *cursor->waits);
    memcpy(cursor->uses, local->user_count, (size_t)local->buffer_count * sizeof *cursor->uses);
    cursor->level_bytes = local->entry_bytes;
    cursor->mandatory_left = local->mandatory_count;
    for (int word = 0; done && word < cursor->word_count; word++) {
        for (uint64_t bits = done[word]; bits; bits &= bits - 1)
            order_cursor_run(cursor, word * 64 + __builtin_ctzll(bits));
    }
    for (int unit = 0; unit < local->unit_count; unit++) {
        bool is_done = done && done[unit >> 6] >> (unit & 63) & 1;
        if (is_done) {
            clear(cursor->ready, unit);
        } else if (cursor->waits[unit] == 0) {
            set(cursor->ready, unit);
        }
    }
}

// Both are of one local problem: the arrays are as long.
void order_cursor_copy(struct order_cursor *to, const struct order_cursor *from)
{
    assert(to->local == from->local && to->word_count == from->word_count);
    const struct order_local *local = from->local;
    size_t set_bytes = (size_t)from->word_count * sizeof *from->done;
    memcpy(to->done, from->done, set_bytes);
    memcpy(to->ready, from->ready, set_bytes);
    memcpy(to->waits, from->waits, (size_t)local->unit_count * sizeof *to->waits);
    memcpy(to->uses, from->uses, (size_t)local->buffer_count * sizeof *to->uses);
    to->level_bytes = from->level_bytes, to->mandatory_left = from->mandatory_left;
}

static bool is_freed(const struct order_cursor *cursor, int buffer)
{
    return cursor->uses[buffer] == 1 && !cursor->local->stays[buffer];
}

int64_t order_cursor_peak(const struct order_cursor *cursor, int unit)
{
    const struct order_local *local = cursor->local;
    int first = local->first_step[unit], end = local->first_step[unit + 1];
    if (end - first == 1) {
        return cursor->level_bytes + local->made_bytes[first] + local->inside_bytes[first];
    }
    // Of several steps each frees what it is the last to touch before the next one begins.
    int64_t level_bytes = cursor->level_bytes, peak_bytes = level_bytes;
    for (int step = first; step < end; step++) {
        level_bytes += local->made_bytes[step];
        int64_t bytes = level_bytes + local->inside_bytes[step];
        if (bytes > peak_bytes) peak_bytes = bytes;
        for (int t = local->first_touch[unit]; t < local->first_touch[unit + 1]; t++) {
            int buffer = local->touches[t].buffer;
            bool is_here = local->touches[t].step == step - first;
            if (is_here && is_freed(cursor, buffer)) level_bytes -= local->buffer_bytes[buffer];
        }
    }
    return peak_bytes;
}

// Below 0: the unit leaves less alive than it found.
int64_t order_cursor_net(const struct order_cursor *cursor, int unit)
{
    const struct order_local *local = cursor->local;
    int64_t net_bytes = local->outcome_bytes[unit];
    for (int t = local->first_touch[unit]; t < local->first_touch[unit + 1]; t++) {
        int buffer = local->touches[t].buffer;
        if (is_freed(cursor, buffer)) net_bytes -= local->buffer_bytes[buffer];
    }
    return net_bytes;
}

// Paths share their beginnings: each place knows the one before it.
int order_path_add(struct arena *arena, struct order_path *path, int unit, int before)
{
    assert(before >= -1 && before < path->count);
    assert(before < path->count);
    if (path->count == path->room) {
        struct order_path larger = {.count = path->count, .room = path->room * 2 + 256};
        larger.unit = ARENA_NEW(arena, int, larger.room);
        larger.before = ARENA_NEW(arena, int, larger.room);
        if (path->count) {
            memcpy(larger.unit, path->unit, (size_t)path->count * sizeof *path->unit);
            memcpy(larger.before, path->before, (size_t)path->count * sizeof *path->before);
        }
        *path = larger;
    }
    path->unit[path->count] = unit, path->before[path->count] = before;
    return path->count++;
}

int order_path_read(const struct order_path *path, int place, int *units)
{
    assert(place < path->count);
    int count = 0;
    for (int at = place; at >= 0; at = path->before[at])
        count++;
    int left = count;
    for (int at = place; at >= 0; at = path->before[at])
        units[--left] = path->unit[at];
    return count;
}

struct chain {
    int units[CHAIN_MAX];
    int count;
};

// The successor of `unit` that it made ready and that leaves least more alive; with `sinking` only
// one that leaves no more alive. -1: none.
static int lowest_successor(const struct order_cursor *cursor, int unit, int64_t limit_bytes,
                            bool sinking)
{
    const struct order_local *local = cursor->local;
    int best = -1;
    int64_t best_bytes = sinking ? 1 : INT64_MAX;
    for (int s = local->first_successor[unit]; s < local->first_successor[unit + 1]; s++) {
        int next = local->successors[s];
        bool is_ready = cursor->ready[next >> 6] >> (next & 63) & 1;
        if (!is_ready || order_cursor_peak(cursor, next) > limit_bytes) continue;
        int64_t net_bytes = order_cursor_net(cursor, next);
        if (net_bytes < best_bytes) best = next, best_bytes = net_bytes;
    }
    return best;
}

// Runs what the units from `from` on have made ready and leaves no more alive.
static void sink(struct order_cursor *cursor, struct chain *chain, int from, int64_t limit_bytes)
{
    for (int i = from; i < chain->count; i++) {
        int next = 0;
        while (chain->count < CHAIN_MAX && next >= 0) {
            next = lowest_successor(cursor, chain->units[i], limit_bytes, true);
            if (next < 0) break;
            order_cursor_run(cursor, next);
            chain->units[chain->count++] = next;
        }
    }
}

// Each link of the chain became ready by the link before or by what sank after it: whatever of the
// chain has run in another order is then one of the sets that this one goes through, but for units
// that only lower the level.
static bool follow_chain(struct order_cursor *cursor, struct chain *chain, int unit,
                         int64_t limit_bytes)
{
    int64_t start_bytes = cursor->level_bytes;
    chain->count = 0;
    while (unit >= 0 && chain->count < CHAIN_MAX) {
        int link = chain->count;
        order_cursor_run(cursor, unit);
        chain->units[chain->count++] = unit;
        if (cursor->level_bytes <= start_bytes) return true;
        sink(cursor, chain, link, limit_bytes);
        if (cursor->level_bytes <= start_bytes) return true;
        unit = -1;
        for (int i = link; i < chain->count && unit < 0; i++)
            unit = lowest_successor(cursor, chain->units[i], limit_bytes, false);
    }
    while (chain->count > 0)
        order_cursor_undo(cursor, chain->units[--chain->count]);
    return false;
}

int order_cursor_settle(struct order_cursor *cursor, struct arena *arena, struct order_path *path,
                        int place, int64_t limit_bytes)
{
    struct chain chain;
    int end = cursor->local->unit_count;
    for (int unit = order_cursor_next(cursor, 0); unit < end;) {
        bool fits = order_cursor_peak(cursor, unit) <= limit_bytes;
        if (!fits || !follow_chain(cursor, &chain, unit, limit_bytes)) {
            unit = order_cursor_next(cursor, unit + 1);
            continue;
        }
        for (int i = 0; i < chain.count; i++)
            place = order_path_add(arena, path, chain.units[i], place);
        // What has run may have made others ready, or freed what they lacked: from the start.
        unit = order_cursor_next(cursor, 0);
    }
    return place;
}
