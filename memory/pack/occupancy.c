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

enum { SETS_MOST = 4 * 32 };  // four a level

struct occupancy {
    struct range_pool pool;
    int leaf_count;           // a power of two; node 1 is the root, leaves are leaf_count + section
    struct range_set *any;    // in use somewhere in the node
    struct range_set *whole;  // in use throughout the node; of inner nodes only
    // What a question has to look at, and how far it has looked.
    struct range_set *asked[SETS_MOST];
    int place[SETS_MOST];
    int asked_count;
    // Where what the question has to look at is joined: sums of two rows of sets, in turns.
    struct byte_range *joined[2];
    int joined_room;
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
    int low = first + leaf_count, high = end + leaf_count;
    for (; low < high; low /= 2, high /= 2) {
        int nodes[2], node_count = 0;
        if (low % 2) nodes[node_count++] = low++;
        if (high % 2) nodes[node_count++] = --high;
        for (int i = 0; i < node_count; i++) {
            set_add(&occupancy->pool, &occupancy->any[nodes[i]], lower, upper);
            if (nodes[i] >= leaf_count) continue;
            set_add(&occupancy->pool, &occupancy->whole[nodes[i]], lower, upper);
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

static void ask_set(struct occupancy *occupancy, struct range_set *set)
{
    if (set->count == 0) return;
    occupancy->place[occupancy->asked_count] = 0;
    occupancy->asked[occupancy->asked_count++] = set;
}

// What covers a node above those that make up the lifetime, and all that is in use below.
static void ask(struct occupancy *occupancy, int first, int end)
{
    int leaf_count = occupancy->leaf_count;
    assert(0 <= first && first < end && end <= leaf_count);
    occupancy->asked_count = 0;
    int low = first + leaf_count, high = end + leaf_count;
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2) ask_set(occupancy, &occupancy->any[low++]);
        if (high % 2) ask_set(occupancy, &occupancy->any[--high]);
    }
    low = first + leaf_count, high = end + leaf_count;
    for (int i = 1; leaf_count >> i; i++) {
        int left = low >> i, right = (high - 1) >> i;
        bool part_left = left << i != low, part_right = high >> i << i != high;
        if (part_left) ask_set(occupancy, &occupancy->whole[left]);
        if (part_right && !(part_left && right == left)) {
            ask_set(occupancy, &occupancy->whole[right]);
        }
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

// The bytes of both; returns how many ranges that are.
static int join(const struct range_set *a, const struct range_set *b, struct byte_range *joined)
{
    const struct byte_range *next[] = {a->ranges, b->ranges};
    const struct byte_range *end[] = {a->ranges + a->count, b->ranges + b->count};
    int count = 0;
    while (next[0] < end[0] || next[1] < end[1]) {
        bool second = next[0] == end[0] || (next[1] < end[1] && next[1]->lower < next[0]->lower);
        struct byte_range range = *next[second]++;
        if (count > 0 && joined[count - 1].upper >= range.lower) {
            struct byte_range *last = &joined[count - 1];
            if (last->upper < range.upper) last->upper = range.upper;
        } else {
            joined[count++] = range;
        }
    }
    return count;
}

static void make_room(struct occupancy *occupancy)
{
    int wanted = 0;
    for (int i = 0; i < occupancy->asked_count; i++)
        wanted += occupancy->asked[i]->count;
    if (wanted <= occupancy->joined_room) return;
    occupancy->joined_room = 2 * wanted;
    for (int i = 0; i < 2; i++) {
        occupancy->joined[i] = arena_alloc(occupancy->pool.arena, (size_t)occupancy->joined_room,
                                           sizeof(struct byte_range));
    }
}

// All that the question has to look at, as one set: neighbours are joined until one is left.
static struct range_set join_all(struct occupancy *occupancy)
{
    struct range_set sets[SETS_MOST] = {{0}};
    int count = occupancy->asked_count;
    make_room(occupancy);
    for (int i = 0; i < count; i++)
        sets[i] = *occupancy->asked[i];
    for (int turn = 0; count > 1; turn = 1 - turn) {
        struct byte_range *joined = occupancy->joined[turn];
        int kept = 0;
        for (int i = 0; i < count; i += 2) {
            struct range_set none = {0}, *other = i + 1 < count ? &sets[i + 1] : &none;
            int joined_count = join(&sets[i], other, joined);
            sets[kept++] = (struct range_set){joined, joined_count, joined_count};
            joined += joined_count;
        }
        count = kept;
    }
    return sets[0];
}

int64_t occupancy_best_fit(struct occupancy *occupancy, int first, int end, int64_t size,
                           int64_t alignment)
{
    ask(occupancy, first, end);
    struct range_set used = join_all(occupancy);
    int64_t best = -1, best_gap = INT64_MAX, floor = 0;
    for (int i = 0; i < used.count; i++) {
        int64_t start = round_up(floor, alignment), ceiling = used.ranges[i].lower;
        if (start + size <= ceiling && ceiling - floor < best_gap) {
            best = start;
            best_gap = ceiling - floor;
        }
        floor = used.ranges[i].upper;
    }
    return best >= 0 ? best : round_up(floor, alignment);
}
