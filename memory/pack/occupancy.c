#include "memory/pack/occupancy.h"
#include "core/divisor.h"

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

// Sections of a block: a life shorter than one is asked of its own sections and of what covers the
// block or two that it is in.
enum { BLOCK = 8 };
enum { SETS_MOST = 2 * (32 + BLOCK + 1) };  // two a level, in blocks, and what covers either side

// What is in use throughout a node or one above it, joined: of one section that is nearly one
// range, whatever the nodes in which its buffers stand.
struct covered {
    struct range_set own;
    const struct range_set *all;  // `own`, or that of the node above where this one adds nothing
    int64_t changed, joined;      // when its `whole` was added to, and when this was made
};

// A set that a question has to look at: the ranges that are left of it.
struct asked {
    const struct byte_range *next, *end, *first;
};

struct occupancy {
    struct range_pool pool;
    int block_count;          // a power of two; node 1 is the root, blocks are block_count + block
    struct range_set *part;   // of sections: in use, by what does not cover the section's block
    struct range_set *any;    // of nodes from `any_from` on: in use somewhere in it
    int any_from;             // first node of the highest level that questions still ask
    struct range_set *whole;  // in use throughout it
    struct covered *covered;  // of nodes, made when it is asked for
    int64_t now;              // buffers that were added
    struct asked asked[SETS_MOST];
    int asked_count;
};

struct occupancy *occupancy_new(struct arena *arena, int section_count)
{
    struct occupancy *occupancy = ARENA_NEW(arena, struct occupancy, 1);
    occupancy->pool.arena = arena;
    occupancy->block_count = 1;
    while (occupancy->block_count * BLOCK < section_count)
        occupancy->block_count *= 2;
    int node_count = 2 * occupancy->block_count;
    occupancy->part = ARENA_NEW(arena, struct range_set, occupancy->block_count * BLOCK);
    occupancy->any = ARENA_NEW(arena, struct range_set, node_count);
    occupancy->any_from = 1;
    occupancy->whole = ARENA_NEW(arena, struct range_set, node_count);
    occupancy->covered = ARENA_NEW(arena, struct covered, node_count);
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

static int power_of(int room)
{
    int power = 0;
    while (1 << power < room)
        power++;
    return power;
}

static void leave_ranges(struct range_pool *pool, const struct range_set *set)
{
    if (set->room == 0) return;
    struct byte_range *ranges = set->ranges;
    int power = power_of(set->room);
    static_assert(sizeof(struct byte_range *) <= sizeof(struct byte_range), "a range names one");
    memcpy(ranges, &pool->left[power], sizeof(void *));
    pool->left[power] = ranges;
}

// Room for so many.
static void grow(struct range_pool *pool, struct range_set *set, int count)
{
    int power = power_of(count);
    assert(power < ROOMS_MOST);
    struct byte_range *wider = take_ranges(pool, power);
    if (set->count) memcpy(wider, set->ranges, (size_t)set->count * sizeof *wider);
    leave_ranges(pool, set);
    set->ranges = wider;
    set->room = 1 << power;
}

// Returns whether that changed anything.
static bool set_add(struct range_pool *pool, struct range_set *set, int64_t lower, int64_t upper)
{
    int first = seek(set, 0, lower), end = first;
    // Ranges that touch are joined as well, or a stack of buffers would be as many ranges.
    while (end < set->count && set->ranges[end].lower <= upper)
        end++;
    if (end > first) {
        struct byte_range *kept = &set->ranges[first];
        if (kept->lower <= lower && kept->upper >= upper) return false;
        if (kept->lower > lower) kept->lower = lower;
        if (upper < set->ranges[end - 1].upper) upper = set->ranges[end - 1].upper;
        kept->upper = upper;
        int dropped = end - first - 1;
        if (dropped == 0) return true;
        memmove(kept + 1, kept + 1 + dropped, (size_t)(set->count - end) * sizeof *kept);
        set->count -= dropped;
        return true;
    }
    if (set->count == set->room) grow(pool, set, set->count + 1);
    struct byte_range *here = &set->ranges[first];
    memmove(here + 1, here, (size_t)(set->count - first) * sizeof *here);
    *here = (struct byte_range){lower, upper};
    set->count++;
    return true;
}

// Sections of which no block is covered.
static void add_part(struct occupancy *occupancy, int first, int end, struct byte_range range)
{
    for (int section = first; section < end; section++)
        set_add(&occupancy->pool, &occupancy->part[section], range.lower, range.upper);
    // What a node has in use the nodes above it have.
    bool is_new = true;
    for (int node = occupancy->block_count + first / BLOCK; is_new && node >= occupancy->any_from;
         node /= 2)
        is_new = set_add(&occupancy->pool, &occupancy->any[node], range.lower, range.upper);
}

static void add_whole(struct occupancy *occupancy, int node, struct byte_range range)
{
    set_add(&occupancy->pool, &occupancy->whole[node], range.lower, range.upper);
    occupancy->covered[node].changed = occupancy->now;
    bool is_new = true;
    for (; is_new && node >= occupancy->any_from; node /= 2)
        is_new = set_add(&occupancy->pool, &occupancy->any[node], range.lower, range.upper);
}

// The blocks that a life covers are first .. end - 1; first > end where it is within one block.
struct blocks {
    int first, end;
};
static struct blocks blocks_of(int first, int end)
{
    return (struct blocks){(first + BLOCK - 1) / BLOCK, end / BLOCK};
}

void occupancy_add(struct occupancy *occupancy, int first, int end, int64_t lower, int64_t upper)
{
    int block_count = occupancy->block_count;
    assert(0 <= first && first < end && end <= block_count * BLOCK && lower < upper);
    occupancy->now++;
    const struct byte_range range = {lower, upper};
    struct blocks blocks = blocks_of(first, end);
    if (blocks.first > blocks.end) {
        add_part(occupancy, first, end, range);
        return;
    }
    if (first < blocks.first * BLOCK) add_part(occupancy, first, blocks.first * BLOCK, range);
    if (blocks.end * BLOCK < end) add_part(occupancy, blocks.end * BLOCK, end, range);
    int low = blocks.first + block_count, high = blocks.end + block_count;
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2) add_whole(occupancy, low++, range);
        if (high % 2) add_whole(occupancy, --high, range);
    }
}

void occupancy_expect(struct occupancy *occupancy, int section_count)
{
    while (occupancy->any_from < 2 * occupancy->block_count) {
        int nodes = occupancy->any_from;
        if (occupancy->block_count / nodes * BLOCK <= section_count) return;
        for (int node = nodes; node < 2 * nodes; node++) {
            leave_ranges(&occupancy->pool, &occupancy->any[node]);
            occupancy->any[node] = (struct range_set){0};
        }
        occupancy->any_from *= 2;
    }
}

// The bytes of both, of which the second has few ranges.
static void join(struct range_pool *pool, const struct range_set *a, const struct range_set *b,
                 struct range_set *joined)
{
    joined->count = 0;
    if (joined->room < a->count + b->count) grow(pool, joined, a->count + b->count);
    struct byte_range *ranges = joined->ranges;
    if (a->count + b->count == 0) return;
    assert(ranges);
    int place = 0, count = 0;
    for (int i = 0; i <= b->count; i++) {
        int next = i < b->count ? seek(a, place, b->ranges[i].lower) : a->count;
        assert(next <= a->count && (a->ranges || a->count <= 0));
        if (next > place)
            memcpy(&ranges[count], &a->ranges[place], (size_t)(next - place) * sizeof *ranges);
        count += next - place;
        place = next;
        if (i == b->count) break;
        struct byte_range range = b->ranges[i];
        if (count > 0 && ranges[count - 1].upper >= range.lower) {
            range.lower = ranges[--count].lower;
            if (range.upper < ranges[count].upper) range.upper = ranges[count].upper;
        }
        for (; a->ranges && place < a->count && a->ranges[place].lower <= range.upper; place++) {
            if (range.lower > a->ranges[place].lower) range.lower = a->ranges[place].lower;
            if (range.upper < a->ranges[place].upper) range.upper = a->ranges[place].upper;
        }
        ranges[count++] = range;
    }
    joined->count = count;
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
    assert(occupancy->asked_count < SETS_MOST);
    occupancy->asked[occupancy->asked_count++] =
        (struct asked){set->ranges, set->ranges + set->count, set->ranges};
}

static void ask_part(struct occupancy *occupancy, int first, int end)
{
    for (int section = first; section < end; section++)
        ask_set(occupancy, &occupancy->part[section]);
}

// What covers the blocks or nodes at the two ends of the lifetime, and all that is in use below.
static void ask(struct occupancy *occupancy, int first, int end)
{
    int block_count = occupancy->block_count;
    assert(0 <= first && first < end && end <= block_count * BLOCK);
    occupancy->asked_count = 0;
    struct blocks blocks = blocks_of(first, end);
    int low = blocks.first + block_count, high = blocks.end + block_count;
    if (blocks.first > blocks.end) {
        ask_set(occupancy, covered_at(occupancy, high));
        ask_part(occupancy, first, end);
        return;
    }
    bool cut_left = first < blocks.first * BLOCK, cut_right = blocks.end * BLOCK < end;
    // Of a node that is covered what is above it: up to where the life has more or less than it.
    int left = low < high ? low : 0, right = low < high ? high - 1 : 0;
    while (left && left % 2 == 0)
        left /= 2;
    while (right % 2)
        right /= 2;
    left = cut_left ? low - 1 : left / 2;
    right = cut_right ? high : right / 2;
    if (left) ask_set(occupancy, covered_at(occupancy, left));
    if (right && right != left) ask_set(occupancy, covered_at(occupancy, right));
    ask_part(occupancy, first, blocks.first * BLOCK);
    ask_part(occupancy, blocks.end * BLOCK, end);
    for (; low < high; low /= 2, high /= 2) {
        assert(low >= occupancy->any_from);
        if (low % 2) ask_set(occupancy, &occupancy->any[low++]);
        if (high % 2) ask_set(occupancy, &occupancy->any[--high]);
    }
}

// The first range from `next` on that ends behind `address`: a few steps, then halves.
static const struct byte_range *pass(const struct byte_range *next, const struct byte_range *end,
                                     int64_t address)
{
    enum { STEPS = 4 };
    for (int i = 0; i < STEPS; i++, next++) {
        if (next == end || next->upper > address) return next;
    }
    while (next < end) {
        const struct byte_range *middle = next + (end - next) / 2;
        if (middle->upper > address) {
            end = middle;
        } else {
            next = middle + 1;
        }
    }
    return next;
}

// Goes on from where the question stands; addresses only rise.
static int64_t next_fit(struct occupancy *occupancy, int64_t address, int64_t size,
                        int64_t alignment)
{
    address = round_up(address, alignment);
    for (int i = 0, still = 0; still < occupancy->asked_count; still++) {
        struct asked *set = &occupancy->asked[i];
        const struct byte_range *next = set->next = pass(set->next, set->end, address);
        // Every set has to let the address pass in a row: one that raises it makes all be asked
        // again, each from where it stood.
        if (next < set->end && next->lower < address + size) {
            address = round_up(next->upper, alignment);
            still = -1;
        }
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
        const struct asked *set = &occupancy->asked[i];
        if (set->next > set->first && set->next[-1].upper > gap.lower)
            gap.lower = set->next[-1].upper;
        if (set->next < set->end && set->next->lower < gap.upper) gap.upper = set->next->lower;
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
