#include "memory/pack/allocator.h"
#include "core/divisor.h"

#include <assert.h>
#include <string.h>

// Names and values as in c10/cuda/CUDACachingAllocator.cpp and CUDAAllocatorConfig.h.
static const int64_t MIN_BLOCK_BYTES = 512;
static const int64_t SMALL_BYTES = 1 << 20;           // the largest request of the small pool
static const int64_t SMALL_SEGMENT_BYTES = 2 << 20;   // its segments
static const int64_t LARGE_SEGMENT_BYTES = 20 << 20;  // segments of requests below the next
static const int64_t MIN_LARGE_BYTES = 10 << 20;
static const int64_t ROUND_LARGE_BYTES = 2 << 20;  // to which larger ones round up

enum pool { POOL_SMALL, POOL_LARGE, POOL_COUNT };

// Blocks of a segment form a list by address.
struct heap_block {
    int64_t address, bytes;
    int below, above;  // -1: the edge of the segment
    enum pool pool;
    bool is_free;
};

// Free blocks by size, then by address.
struct free_list {
    int *blocks;
    int count;
};

struct allocator {
    struct heap_block *blocks;
    int block_count, block_room;
    struct free_list free[POOL_COUNT];
    int64_t next_address, reserved_bytes, allocated_bytes, device_bytes;
    struct allocator_result *result;
};

// The first free block of at least `bytes`; of exactly so many, at `address` or above.
static int free_place(const struct allocator *allocator, enum pool pool, int64_t bytes,
                      int64_t address)
{
    const struct free_list *list = &allocator->free[pool];
    int low = 0, high = list->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const struct heap_block *block = &allocator->blocks[list->blocks[middle]];
        if (block->bytes < bytes || (block->bytes == bytes && block->address < address)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void free_insert(struct allocator *allocator, int index)
{
    struct heap_block *block = &allocator->blocks[index];
    struct free_list *list = &allocator->free[block->pool];
    assert(list->blocks);  // made with the pool
    int *here = list->blocks + free_place(allocator, block->pool, block->bytes, block->address);
    memmove(here + 1, here, (size_t)(list->blocks + list->count - here) * sizeof *here);
    *here = index;
    list->count++;
    block->is_free = true;
}

static void free_remove(struct allocator *allocator, int index)
{
    struct heap_block *block = &allocator->blocks[index];
    struct free_list *list = &allocator->free[block->pool];
    assert(list->blocks);  // made with the pool
    int *here = list->blocks + free_place(allocator, block->pool, block->bytes, block->address);
    assert(*here == index);
    list->count--;
    memmove(here, here + 1, (size_t)(list->blocks + list->count - here) * sizeof *here);
    block->is_free = false;
}

static int block_new(struct allocator *allocator, enum pool pool, int64_t address, int64_t bytes)
{
    int index = allocator->block_count++;
    assert(index < allocator->block_room);
    allocator->blocks[index] = (struct heap_block){
        .address = address, .bytes = bytes, .below = -1, .above = -1, .pool = pool};
    return index;
}

// Segments no part of which is in use go back to the device. By default (no max_split_size) all of
// them do at once; giving back only as many as needed is for allocators that limit splitting.
static void release_cached(struct allocator *allocator)
{
    for (int pool = 0; pool < POOL_COUNT; pool++) {
        struct free_list *list = &allocator->free[pool];
        int kept = 0;
        for (int i = 0; i < list->count; i++) {
            const struct heap_block *block = &allocator->blocks[list->blocks[i]];
            if (block->below < 0 && block->above < 0) {
                allocator->reserved_bytes -= block->bytes;
            } else {
                list->blocks[kept++] = list->blocks[i];
            }
        }
        list->count = kept;
    }
}

static int64_t segment_bytes(int64_t bytes)
{
    if (bytes <= SMALL_BYTES) return SMALL_SEGMENT_BYTES;
    return bytes < MIN_LARGE_BYTES ? LARGE_SEGMENT_BYTES : round_up(bytes, ROUND_LARGE_BYTES);
}

// A new segment as one block, or -1: the device has no room for it.
static int segment_new(struct allocator *allocator, enum pool pool, int64_t bytes)
{
    int64_t wanted_bytes = segment_bytes(bytes);
    int64_t device_bytes = allocator->device_bytes;
    if (device_bytes > 0 && allocator->reserved_bytes + wanted_bytes > device_bytes) {
        release_cached(allocator);
        if (allocator->reserved_bytes + wanted_bytes > device_bytes) return -1;
    }
    int index = block_new(allocator, pool, allocator->next_address, wanted_bytes);
    allocator->next_address += wanted_bytes;
    allocator->reserved_bytes += wanted_bytes;
    if (allocator->result->reserved_bytes < allocator->reserved_bytes) {
        allocator->result->reserved_bytes = allocator->reserved_bytes;
    }
    return index;
}

// The block keeps its lower part; the rest is free.
static void split(struct allocator *allocator, int index, int64_t bytes)
{
    struct heap_block *block = &allocator->blocks[index];
    int64_t left_bytes = block->bytes - bytes;
    assert(left_bytes >= 0);
    bool worth =
        block->pool == POOL_SMALL ? left_bytes >= MIN_BLOCK_BYTES : left_bytes > SMALL_BYTES;
    if (!worth) return;
    int rest = block_new(allocator, block->pool, block->address + bytes, left_bytes);
    allocator->blocks[rest].below = index;
    allocator->blocks[rest].above = block->above;
    if (block->above >= 0) allocator->blocks[block->above].below = rest;
    block->above = rest;
    block->bytes = bytes;
    free_insert(allocator, rest);
}

// The block, or -1.
static int allocate(struct allocator *allocator, int64_t requested_bytes)
{
    int64_t bytes = round_up(requested_bytes, MIN_BLOCK_BYTES);
    enum pool pool = bytes <= SMALL_BYTES ? POOL_SMALL : POOL_LARGE;
    const struct free_list *list = &allocator->free[pool];
    int place = free_place(allocator, pool, bytes, 0);
    int index;
    if (place < list->count) {
        index = list->blocks[place];
        free_remove(allocator, index);
    } else {
        index = segment_new(allocator, pool, bytes);
        if (index < 0) return -1;
    }
    split(allocator, index, bytes);
    const struct heap_block *block = &allocator->blocks[index];
    struct allocator_result *result = allocator->result;
    allocator->allocated_bytes += block->bytes;
    if (result->allocated_bytes < allocator->allocated_bytes) {
        result->allocated_bytes = allocator->allocated_bytes;
    }
    int64_t high = block->address + block->bytes;
    if (result->addresses_high < high) result->addresses_high = high;
    return index;
}

// `upper` becomes part of `lower`, its neighbour below.
static void merge(struct allocator *allocator, int lower, int upper)
{
    struct heap_block *low = &allocator->blocks[lower], *high = &allocator->blocks[upper];
    assert(low->address + low->bytes == high->address && low->pool == high->pool);
    low->bytes += high->bytes;
    low->above = high->above;
    if (low->above >= 0) allocator->blocks[low->above].below = lower;
}

static void give_back(struct allocator *allocator, int index)
{
    struct heap_block *blocks = allocator->blocks;
    assert(!blocks[index].is_free && allocator->allocated_bytes >= blocks[index].bytes);
    allocator->allocated_bytes -= blocks[index].bytes;
    // A free block never has a free neighbour: one look to each side merges all there is.
    int above = blocks[index].above, below = blocks[index].below;
    if (above >= 0 && blocks[above].is_free) {
        free_remove(allocator, above);
        merge(allocator, index, above);
    }
    if (below >= 0 && blocks[below].is_free) {
        free_remove(allocator, below);
        merge(allocator, below, index);
        index = below;
    }
    free_insert(allocator, index);
}

struct allocator_result allocator_run(struct arena *scratch, const struct allocator_event *events,
                                      int event_count, int buffer_count, int64_t device_bytes,
                                      int64_t *addresses)
{
    struct arena_mark mark = arena_mark(scratch);
    struct allocator_result result = {0};
    struct allocator allocator = {.device_bytes = device_bytes, .result = &result};
    // An allocation makes at most a segment and the rest of its split.
    allocator.block_room = 2 * event_count;
    allocator.blocks = ARENA_NEW(scratch, struct heap_block, allocator.block_room);
    for (int pool = 0; pool < POOL_COUNT; pool++) {
        allocator.free[pool].blocks = ARENA_NEW(scratch, int, allocator.block_room);
    }
    int *block_of = ARENA_NEW(scratch, int, buffer_count);
    for (int b = 0; b < buffer_count; b++)
        block_of[b] = -1;
    for (int i = 0; i < event_count && !result.failed; i++) {
        int b = events[i].buffer;
        assert(0 <= b && b < buffer_count && events[i].bytes >= 0);
        if (!events[i].is_free) {
            assert(block_of[b] < 0 && "a buffer is allocated twice");
            if (events[i].bytes == 0) continue;  // PyTorch does not ask the allocator for nothing
            block_of[b] = allocate(&allocator, events[i].bytes);
            result.failed = block_of[b] < 0;
            if (addresses && !result.failed) addresses[b] = allocator.blocks[block_of[b]].address;
        } else if (block_of[b] >= 0) {
            give_back(&allocator, block_of[b]);
            block_of[b] = -1;
        }
    }
    arena_reset(scratch, mark);
    return result;
}
