#include "tests/gpu/emulate_shadow.h"

#include "tests/gpu/emulate.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Who came to a byte: block 0 is nobody, the first block is 1.
struct visit {
    uint32_t block, phase;
    uint16_t thread;
    bool of_threads, of_blocks;  // and others of the block since the last barrier; and other blocks
};

struct cell {
    struct visit write, read;
};

enum { LINE = 32 };
struct line {
    uintptr_t at;  // in lines; 0: none
    uint64_t use;  // of a launch, or of a block where memory is the block's own
    struct cell cells[LINE];
};

static struct {
    struct line *lines;
    size_t capacity, count;  // capacity: a power of two
    uint64_t launches, uses;
    uint64_t block_use;  // of the memory that each block has
    uint32_t phase;
    const struct shadow_launch *launch;  // NULL: none runs
    uintptr_t stack_end;                 // of who launches
} shadow;

struct memory {
    uintptr_t begin, end;
    uint32_t serial;
};
static struct memory *memories, last_memory;
static size_t memory_count, memory_capacity;

// What kernels call shared, and the indices of threads; the linker knows where sections lie.
extern char shared_begin[] __asm__("__start_emulated_shared") __attribute__((visibility("hidden")));
extern char shared_end[] __asm__("__stop_emulated_shared") __attribute__((visibility("hidden")));
extern char indices[] __asm__("__start_emulated_indices") __attribute__((visibility("hidden")));
extern char indices_end[] __asm__("__stop_emulated_indices") __attribute__((visibility("hidden")));

void shadow_add_memory(const void *memory, size_t bytes)
{
    if (memory_count == memory_capacity) {
        memory_capacity = memory_capacity ? 2 * memory_capacity : 64;
        memories = realloc(memories, memory_capacity * sizeof *memories);
        assert(memories);
    }
    static uint32_t serial;
    memories[memory_count++] =
        (struct memory){(uintptr_t)memory, (uintptr_t)memory + bytes, ++serial};
}

void shadow_remove_memory(const void *memory)
{
    last_memory = (struct memory){0};
    for (size_t i = 0; i < memory_count; i++) {
        if (memories[i].begin == (uintptr_t)memory) memories[i--] = memories[--memory_count];
    }
}

// Each kernel once, for the test that all of them are watched.
static void tell_kernel(const char *kernel)
{
    enum { KERNELS_MAX = 256 };
    static const char *told[KERNELS_MAX];
    const char *path = getenv("MESHWRIGHT_EMULATED_KERNELS");
    int at = 0;
    while (at < KERNELS_MAX && told[at] && told[at] != kernel)
        at++;
    if (!path || at == KERNELS_MAX || told[at]) return;
    told[at] = kernel;
    FILE *file = fopen(path, "a");
    assert(file);
    fprintf(file, "%s\n", kernel);
    fclose(file);
}

void shadow_begin_launch(const struct shadow_launch *launch)
{
    tell_kernel(launch->kernel);
    shadow.launch = launch;
    shadow.stack_end = (uintptr_t)__builtin_frame_address(0);
    shadow.launches = ++shadow.uses;
}

void shadow_end_launch(void)
{
    shadow.launch = NULL;
}

void shadow_begin_block(void)
{
    shadow.block_use = ++shadow.uses;
    shadow.phase = 0;
}

void shadow_barrier(void)
{
    shadow.phase++;
}

static bool is_within(uintptr_t at, size_t bytes, const void *begin, size_t size)
{
    return at >= (uintptr_t)begin && at + bytes <= (uintptr_t)begin + size;
}

static bool is_allocated(uintptr_t at, size_t bytes)
{
    if (at >= last_memory.begin && at + bytes <= last_memory.end) return true;
    for (size_t i = 0; i < memory_count; i++) {
        if (at < memories[i].begin || at + bytes > memories[i].end) continue;
        last_memory = memories[i];
        return true;
    }
    return false;
}

static struct line *slot_of(struct line *lines, size_t capacity, uintptr_t at)
{
    size_t i = (size_t)((uint64_t)at * 0x9E3779B97F4A7C15u >> 32) & (capacity - 1);
    while (lines[i].at && lines[i].at != at)
        i = (i + 1) & (capacity - 1);
    return &lines[i];
}

// A kernel that touches much makes the table larger; what older launches touched is dropped then.
static void make_room(void)
{
    size_t capacity = shadow.capacity ? 2 * shadow.capacity : 1024;
    struct line *lines = calloc(capacity, sizeof *lines);
    assert(lines);
    shadow.count = 0;
    for (size_t i = 0; i < shadow.capacity; i++) {
        if (shadow.lines[i].use < shadow.launches) continue;
        *slot_of(lines, capacity, shadow.lines[i].at) = shadow.lines[i];
        shadow.count++;
    }
    free(shadow.lines);
    shadow.lines = lines;
    shadow.capacity = capacity;
}

static struct cell *cell_of(uintptr_t at, bool is_shared)
{
    static struct line *last;
    uint64_t use = is_shared ? shadow.block_use : shadow.launches;
    if (!last || last->at != at / LINE || shadow.count * 2 >= shadow.capacity) {
        if (shadow.count * 2 >= shadow.capacity) make_room();
        last = slot_of(shadow.lines, shadow.capacity, at / LINE);
    }
    if (!last->at) {
        last->at = at / LINE;
        shadow.count++;
    }
    if (last->use != use) memset(last->cells, 0, sizeof last->cells);
    last->use = use;
    return &last->cells[at % LINE];
}

static void found(const char *what, uintptr_t at, bool is_shared)
{
    uintptr_t offset = is_shared ? at - (uintptr_t)shared_begin : at;
    fprintf(stderr, "emulation: kernel %s, block %u, thread %u: %s at %s%#lx\n",
            shadow.launch->kernel, blockIdx.x, threadIdx.x, what, is_shared ? "shared " : "",
            (unsigned long)offset);
    abort();
}

// Whether another thread may have made this visit at the same time.
static bool is_beside(const struct visit *visit)
{
    if (visit->block == 0) return false;
    if (visit->of_blocks || visit->block != blockIdx.x + 1) return true;
    return visit->phase == shadow.phase && (visit->of_threads || visit->thread != threadIdx.x);
}

static void add_visit(struct visit *visit)
{
    struct visit made = {blockIdx.x + 1, shadow.phase, (uint16_t)threadIdx.x, false, false};
    bool is_same_block = visit->block == made.block;
    made.of_blocks = visit->of_blocks || (visit->block && !is_same_block);
    made.of_threads = is_same_block && visit->phase == made.phase &&
                      (visit->of_threads || visit->thread != made.thread);
    *visit = made;
}

static void visit_byte(uintptr_t at, bool writes, bool is_shared)
{
    struct cell *cell = cell_of(at, is_shared);
    if (is_beside(&cell->write))
        found(writes ? "writes what another thread writes" : "reads what another thread writes", at,
              is_shared);
    if (writes && is_beside(&cell->read)) found("writes what another thread reads", at, is_shared);
    if (!writes && is_shared && !cell->write.block)
        found("reads what nobody has written", at, is_shared);
    add_visit(writes ? &cell->write : &cell->read);
}

// The last write of a byte and the reads since, of three streams at most, as 1 + stream and the
// number of its work; 0: none.
enum { READS = 3, TIME_BITS = 26 };
struct order {
    uint32_t write, reads[READS];
};
struct order_line {
    uintptr_t at;     // in lines; 0: none
    uint32_t serial;  // of the memory
    struct order bytes[LINE];
};

static struct {
    struct order_line *lines;
    size_t capacity, count;
    bool is_watching;  // kernels tell what they come to
    int stream;
    const struct shadow_clock *clock;  // NULL: nobody works
} order;

void shadow_join(struct shadow_clock *clock, const struct shadow_clock *other)
{
    for (int s = 0; s < SHADOW_STREAMS; s++)
        if (clock->seen[s] < other->seen[s]) clock->seen[s] = other->seen[s];
}

void shadow_begin_work(int stream, const struct shadow_clock *clock)
{
    order.stream = stream;
    order.clock = clock;
}

static struct order_line *order_slot(struct order_line *lines, size_t capacity, uintptr_t at)
{
    size_t i = (size_t)((uint64_t)at * 0x9E3779B97F4A7C15u >> 32) & (capacity - 1);
    while (lines[i].at && lines[i].at != at)
        i = (i + 1) & (capacity - 1);
    return &lines[i];
}

static struct order *order_of(uintptr_t at)
{
    if (order.count * 2 >= order.capacity) {
        size_t capacity = order.capacity ? 2 * order.capacity : 1024;
        struct order_line *lines = calloc(capacity, sizeof *lines);
        assert(lines);
        for (size_t i = 0; i < order.capacity; i++)
            if (order.lines[i].at) *order_slot(lines, capacity, order.lines[i].at) = order.lines[i];
        free(order.lines);
        order.lines = lines, order.capacity = capacity;
    }
    struct order_line *line = order_slot(order.lines, order.capacity, at / LINE);
    order.count += line->at == 0;
    // Other memory was here before.
    if (line->serial != last_memory.serial) memset(line->bytes, 0, sizeof line->bytes);
    line->at = at / LINE, line->serial = last_memory.serial;
    return &line->bytes[at % LINE];
}

static bool is_seen(uint32_t work)
{
    uint32_t stream = work >> TIME_BITS, time = work & ((1u << TIME_BITS) - 1);
    return work == 0 || order.clock->seen[stream - 1] >= time;
}

static void check_order(uint32_t work, bool writes, const char *what, uintptr_t at)
{
    if (is_seen(work)) return;
    fprintf(stderr, "emulation: stream %d%s%s %s what stream %u %s, no event between, at %#lx\n",
            order.stream, shadow.launch ? ", kernel " : "",
            shadow.launch ? shadow.launch->kernel : "", writes ? "writes" : "reads",
            (work >> TIME_BITS) - 1, what, (unsigned long)at);
    abort();
}

static void keep_read(struct order *byte, uint32_t now)
{
    int free_slot = 0;
    for (int r = 0; r < READS; r++)
        if (is_seen(byte->reads[r])) free_slot = r;
    byte->reads[free_slot] = now;
}

// Of memory that was just found to be allocated.
static void visit_in_order(uintptr_t at, size_t bytes, bool writes)
{
    if (!order.clock || !order.is_watching) return;
    uint32_t time = order.clock->seen[order.stream];
    assert(time >> TIME_BITS == 0);
    uint32_t now = (uint32_t)(order.stream + 1) << TIME_BITS | time;
    for (uintptr_t end = at + bytes; at < end; at++) {
        struct order *byte = order_of(at);
        check_order(byte->write, writes, "writes", at);
        for (int r = 0; r < READS && writes; r++)
            check_order(byte->reads[r], writes, "reads", at);
        if (writes) {
            *byte = (struct order){.write = now};
        } else {
            keep_read(byte, now);
        }
    }
}

void shadow_access(const void *memory, size_t bytes, bool writes)
{
    uintptr_t at = (uintptr_t)memory;
    if (order.is_watching && bytes > 0 && is_allocated(at, bytes))
        visit_in_order(at, bytes, writes);
}

static void visit(const void *address, size_t bytes, bool writes)
{
    uintptr_t at = (uintptr_t)address;
    if (!shadow.launch) return;
    const struct shadow_launch *launch = shadow.launch;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    bool is_fiber = is_within(here, 1, launch->stacks, launch->stacks_bytes);
    bool is_own = is_fiber ? is_within(at, bytes, launch->stacks, launch->stacks_bytes)
                           : at > here && at < shadow.stack_end;
    if (is_own || is_within(at, bytes, indices, (size_t)(indices_end - indices))) return;
    if (!writes && is_within(at, bytes, launch->args, launch->args_bytes)) return;
    bool is_shared = is_within(at, bytes, shared_begin, (size_t)(shared_end - shared_begin));
    if (!is_shared && !is_allocated(at, bytes))
        found(writes ? "writes outside of memory" : "reads outside of memory", at, false);
    for (size_t i = 0; i < bytes; i++)
        visit_byte(at + i, writes, is_shared);
    if (!is_shared) visit_in_order(at, bytes, writes);
}

// What compilers call for an access, and beside it for what is of no use here.
#define CALLED(name) __asm__(name) __attribute__((used, visibility("hidden")))
#define ON_ACCESS(bytes)                                                           \
    void on_read_##bytes(void *at) CALLED("__tsan_read" #bytes);                   \
    void on_read_##bytes(void *at)                                                 \
    {                                                                              \
        visit(at, bytes, false);                                                   \
    }                                                                              \
    void on_loose_read_##bytes(void *at) CALLED("__tsan_unaligned_read" #bytes);   \
    void on_loose_read_##bytes(void *at)                                           \
    {                                                                              \
        visit(at, bytes, false);                                                   \
    }                                                                              \
    void on_write_##bytes(void *at) CALLED("__tsan_write" #bytes);                 \
    void on_write_##bytes(void *at)                                                \
    {                                                                              \
        visit(at, bytes, true);                                                    \
    }                                                                              \
    void on_loose_write_##bytes(void *at) CALLED("__tsan_unaligned_write" #bytes); \
    void on_loose_write_##bytes(void *at)                                          \
    {                                                                              \
        visit(at, bytes, true);                                                    \
    }
ON_ACCESS(1)
ON_ACCESS(2)
ON_ACCESS(4)
ON_ACCESS(8)
ON_ACCESS(16)

void on_read_range(void *at, size_t bytes) CALLED("__tsan_read_range");
void on_read_range(void *at, size_t bytes)
{
    visit(at, bytes, false);
}
void on_write_range(void *at, size_t bytes) CALLED("__tsan_write_range");
void on_write_range(void *at, size_t bytes)
{
    visit(at, bytes, true);
}
void on_init(void) CALLED("__tsan_init");
void on_init(void)
{
    order.is_watching = true;
}
void on_entry(void *from) CALLED("__tsan_func_entry");
void on_entry(void *from)
{
    (void)from;
}
void on_exit_of(void) CALLED("__tsan_func_exit");
void on_exit_of(void)
{
}
void *on_copy(void *to, const void *from, size_t bytes) CALLED("__tsan_memcpy");
void *on_copy(void *to, const void *from, size_t bytes)
{
    visit(from, bytes, false);
    visit(to, bytes, true);
    return memcpy(to, from, bytes);
}
void *on_fill(void *to, int byte, size_t bytes) CALLED("__tsan_memset");
void *on_fill(void *to, int byte, size_t bytes)
{
    visit(to, bytes, true);
    return memset(to, byte, bytes);
}
