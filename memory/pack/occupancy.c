#include "memory/pack/occupancy.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

struct byte_range {
    int64_t lower, upper;
};

// Arrays of ranges that sets have grown out of, for others to grow into: by the power of two that
// is their size. Sets are many, and what they left behind would be as much again as what they hold.
enum { ROOMS_MOST = 31 };
struct range_pool {
    struct arena *arena;
    struct byte_range *left[ROOMS_MOST];  // the first of each names the next
};

// Ascending and apart: no two touch.
struct range_set {
    struct byte_range *ranges;
    int count, room;
};

enum { APART = 4 };  // levels of small nodes, of which there are too many to keep joined sets of
enum { SETS_MOST = 2 * (32 + APART + 1) };  // two a level, and what covers them on either side

// What is in use throughout a node or one above it, joined: of one section that is nearly one
// range, whatever the nodes in which its buffers stand.
struct covered {
    struct range_set own;
    const struct range_set *all;  // `own`, or that of the node above where this one adds nothing
    int64_t changed, joined;      // when its `whole` was added to, and when this was made
};

struct occupancy {
    struct range_pool pool;
    int leaf_count;           // a power of two; node 1 is the root, leaves are leaf_count + section
    struct range_set *any;    // in use somewhere in the node
    struct range_set *whole;  // in use throughout the node; of inner nodes only
    struct covered *covered;  // of large inner nodes, made when it is asked for
    int64_t now;              // buffers that were added
    // What a question has to look at, and how far it has looked.
    const struct range_set *asked[SETS_MOST];
    int place[SETS_MOST];
    int asked_count;
};

struct occupancy *occupancy_new(struct arena *arena, int section_count)
{
    struct occupancy *occupancy = ARENA_NEW(arena, struct occupancy, 1);
    occupancy->pool.arena = arena;
    occupancy->leaf_count = 1;
    while (occupancy->leaf_count < section_count)
        occupancy->leaf_count *= 2;
    occupancy->any = ARENA_NEW(arena, struct range_set, 2 * occupancy->leaf_count);
    occupancy->whole = ARENA_NEW(arena, struct range_set, occupancy->leaf_count);
    occupancy->covered = ARENA_NEW(arena, struct covered, (occupancy->leaf_count >> APART) + 1);
    return occupancy;
}

// The first range from `place` on that ends at `address` or above: doubling steps, then halves.
static int seek(const struct range_set *set, int place, int64_t address)
{
    int low = place, step = 1;
    while (low + step <= set->count && set->ranges[low + step - 1].upper < address) {
        low += step;
        step *= 2;
    }
    int high = low + step < set->count ? low + step : set->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (set->ranges[middle].upper < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct byte_range *take_ranges(struct range_pool *pool, int power)
{
    struct byte_range *ranges = pool->left[power];
    if (!ranges) return arena_alloc(pool->arena, (size_t)1 << power, sizeof *ranges);
    memcpy(&pool->left[power], ranges, sizeof(void *));
    return ranges;
}

static void leave_ranges(struct range_pool *pool, struct byte_range *ranges, int power)
{
    static_assert(sizeof(struct byte_range *) <= sizeof(struct byte_range), "a range names one");
    memcpy(ranges, &pool->left[power], sizeof(void *));
    pool->left[power] = ranges;
}

// Twice the room.
static void grow(struct range_pool *pool, struct range_set *set)
{
    int power = 0;
    while (1 << power <= set->count)
        power++;
    assert(power < ROOMS_MOST);
    struct byte_range *wider = take_ranges(pool, power);
    if (set->count) {
        memcpy(wider, set->ranges, (size_t)set->count * sizeof *wider);
        leave_ranges(pool, set->ranges, power - 1);
    }
    set->ranges = wider;
    set->room = 1 << power;
}

static void set_add(struct range_pool *pool, struct range_set *set, int64_t lower, int64_t upper)
{
    int first = seek(set, 0, lower), end = first;
    // Ranges that touch are joined as well, or a stack of buffers would be as many ranges.
    while (end < set->count && set->ranges[end].lower <= upper)
        end++;
    if (end > first) {
        struct byte_range *kept = &set->ranges[first];
        if (kept->lower > lower) kept->lower = lower;
        if (upper < set->ranges[end - 1].upper) upper = set->ranges[end - 1].upper;
        kept->upper = upper;
        int dropped = end - first - 1;
        if (dropped == 0) return;
        memmove(kept + 1, kept + 1 + dropped, (size_t)(set->count - end) * sizeof *kept);
        set->count -= dropped;
        return;
    }
    if (set->count == set->room) grow(pool, set);
    struct byte_range *here = &set->ranges[first];
    memmove(here + 1, here, (size_t)(set->count - first) * sizeof *here);
    *here = (struct byte_range){lower, upper};
    set->count++;
}

void occupancy_add(struct occupancy *occupancy, int first, int end, int64_t lower, int64_t upper)
{
    int leaf_count = occupancy->leaf_count;
    assert(0 <= first && first < end && end <= leaf_count && lower < upper);
    occupancy->now++;
    int low = first + leaf_count, high = end + leaf_count;
    for (; low < high; low /= 2, high /= 2) {
        int nodes[2], node_count = 0;
        if (low % 2) nodes[node_count++] = low++;
        if (high % 2) nodes[node_count++] = --high;
        for (int i = 0; i < node_count; i++) {
            set_add(&occupancy->pool, &occupancy->any[nodes[i]], lower, upper);
            if (nodes[i] >= leaf_count) continue;
            set_add(&occupancy->pool, &occupancy->whole[nodes[i]], lower, upper);
            if (nodes[i] < leaf_count >> APART)
                occupancy->covered[nodes[i]].changed = occupancy->now;
        }
    }
    // Nodes above that the lifetime covers in part.
    low = first + leaf_count, high = end + leaf_count;
    for (int i = 1; leaf_count >> i; i++) {
        int left = low >> i, right = (high - 1) >> i;
        bool part_left = left << i != low, part_right = high >> i << i != high;
        if (part_left) set_add(&occupancy->pool, &occupancy->any[left], lower, upper);
        if (part_right && !(part_left && right == left)) {
            set_add(&occupancy->pool, &occupancy->any[right], lower, upper);
        }
    }
}

// The bytes of both.
static void join(struct range_pool *pool, const struct range_set *a, const struct range_set *b,
                 struct range_set *joined)
{
    const struct byte_range *next[] = {a->ranges, b->ranges};
    const struct byte_range *end[] = {a->ranges + a->count, b->ranges + b->count};
    joined->count = 0;
    while (next[0] < end[0] || next[1] < end[1]) {
        bool second = next[0] == end[0] || (next[1] < end[1] && next[1]->lower < next[0]->lower);
        struct byte_range range = *next[second]++;
        struct byte_range *last = joined->count ? &joined->ranges[joined->count - 1] : NULL;
        if (last && last->upper >= range.lower) {
            if (last->upper < range.upper) last->upper = range.upper;
            continue;
        }
        if (joined->count == joined->room) grow(pool, joined);
        joined->ranges[joined->count++] = range;
    }
}

// Made anew from the root on where a node on the way has changed since.
static const struct range_set *covered_at(struct occupancy *occupancy, int node)
{
    static const struct range_set NOTHING = {0};
    const struct range_set *above = &NOTHING;
    int64_t changed = 0;
    int depth = 0;
    while (node >> (depth + 1))
        depth++;
    for (; depth >= 0; depth--) {
        struct covered *covered = &occupancy->covered[node >> depth];
        const struct range_set *whole = &occupancy->whole[node >> depth];
        if (changed < covered->changed) changed = covered->changed;
        if (!covered->all || covered->joined < changed) {
            covered->all = whole->count ? &covered->own : above;
            if (whole->count) join(&occupancy->pool, above, whole, &covered->own);
            covered->joined = occupancy->now;
        }
        above = covered->all;
    }
    return above;
}

static void ask_set(struct occupancy *occupancy, const struct range_set *set)
{
    if (set->count == 0) return;
    occupancy->place[occupancy->asked_count] = 0;
    occupancy->asked[occupancy->asked_count++] = set;
}

// What covers a node: level by level up to the one that is returned, which is large; 0: none is.
static int ask_small(struct occupancy *occupancy, int node)
{
    for (; node > 0 && node >= occupancy->leaf_count >> APART; node /= 2)
        ask_set(occupancy, &occupancy->whole[node]);
    return node;
}

// What covers the nodes above those that make up the lifetime, on its left and its right, and all
// that is in use below.
static void ask(struct occupancy *occupancy, int first, int end)
{
    int leaf_count = occupancy->leaf_count;
    assert(0 <= first && first < end && end <= leaf_count);
    occupancy->asked_count = 0;
    int low = first + leaf_count, high = end + leaf_count;
    int left = low, right = high - 1;
    while (left && left % 2 == 0)
        left /= 2;
    while (right % 2)
        right /= 2;
    left /= 2, right /= 2;
    left = ask_small(occupancy, left);
    right = ask_small(occupancy, right);
    if (left) ask_set(occupancy, covered_at(occupancy, left));
    if (right && right != left) ask_set(occupancy, covered_at(occupancy, right));
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2) ask_set(occupancy, &occupancy->any[low++]);
        if (high % 2) ask_set(occupancy, &occupancy->any[--high]);
    }
}

static int64_t round_up(int64_t address, int64_t alignment)
{
    int64_t over = address % alignment;
    return over ? address + (alignment - over) : address;
}

// Goes on from where the question stands; addresses only rise.
static int64_t next_fit(struct occupancy *occupancy, int64_t address, int64_t size,
                        int64_t alignment)
{
    address = round_up(address, alignment);
    for (int i = 0, still = 0; still < occupancy->asked_count; still++) {
        const struct range_set *set = occupancy->asked[i];
        int place = seek(set, occupancy->place[i], address + 1);
        // Every set has to let the address pass in a row: one that raises it makes all be asked
        // again, each from where it stood.
        if (place < set->count && set->ranges[place].lower < address + size) {
            address = round_up(set->ranges[place].upper, alignment);
            still = -1;
        }
        occupancy->place[i] = place;
        i = i + 1 < occupancy->asked_count ? i + 1 : 0;
    }
    return address;
}

int64_t occupancy_first_fit(struct occupancy *occupancy, int first, int end, int64_t size,
                            int64_t alignment, int64_t low)
{
    ask(occupancy, first, end);
    return next_fit(occupancy, low, size, alignment);
}

// The gap round an address that next_fit found: what is in use before it and behind it.
static struct byte_range gap_at(const struct occupancy *occupancy)
{
    struct byte_range gap = {0, INT64_MAX};
    for (int i = 0; i < occupancy->asked_count; i++) {
        const struct range_set *set = occupancy->asked[i];
        int place = occupancy->place[i];
        if (place > 0 && set->ranges[place - 1].upper > gap.lower)
            gap.lower = set->ranges[place - 1].upper;
        if (place < set->count && set->ranges[place].lower < gap.upper)
            gap.upper = set->ranges[place].lower;
    }
    return gap;
}

// From gap to gap that is large enough; none is tighter than one of just this size.
int64_t occupancy_best_fit(struct occupancy *occupancy, int first, int end, int64_t size,
                           int64_t alignment)
{
    ask(occupancy, first, end);
    int64_t best = -1, best_gap = INT64_MAX, address = 0;
    while (best_gap > size) {
        address = next_fit(occupancy, address, size, alignment);
        struct byte_range gap = gap_at(occupancy);
        if (gap.upper == INT64_MAX) break;
        if (gap.upper - gap.lower < best_gap) {
            best = address;
            best_gap = gap.upper - gap.lower;
        }
        address = gap.upper;
    }
    return best >= 0 ? best : address;
}
