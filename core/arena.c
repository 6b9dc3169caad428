#include "core/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Blocks come zeroed from calloc. `dirty_bytes` is how far a block was ever handed out: what lies
// past it is still zero, so a fresh block is never cleared twice.
struct arena_block {
    struct arena_block *older;
    struct arena_block *spare;  // empty, for when this one is full: what a reset kept; NULL
    size_t size_bytes, used_bytes, dirty_bytes;
    alignas(max_align_t) unsigned char data[];
};

// The first is small: many arenas live for one object of a file or one question of a search.
enum { BLOCK_BYTES_LEAST = 1 << 12, BLOCK_BYTES_MOST = 1 << 24 };

// _exit, not exit: buffered output and half-written files must not be completed by accident. The
// first thread that comes here ends the process: what others lack is no second line.
_Noreturn static void out_of_memory(size_t bytes)
{
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&ending))
        pause();

    char line[96];
    int length =
        snprintf(line, sizeof line, "meshwright: out of memory, %zu bytes wanted\n", bytes);
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
    _exit(4);
}

void *memory_get(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) out_of_memory(bytes);
    return memory;
}

// Blocks double, so that a large run needs few of them and a small one little memory.
static struct arena_block *block_new(const struct arena *arena, size_t bytes)
{
    size_t size_bytes = arena->last ? 2 * arena->last->size_bytes : BLOCK_BYTES_LEAST;
    if (size_bytes > BLOCK_BYTES_MOST) size_bytes = BLOCK_BYTES_MOST;
    if (size_bytes < bytes) size_bytes = bytes;
    if (size_bytes > PTRDIFF_MAX - sizeof(struct arena_block)) out_of_memory(bytes);

    struct arena_block *block = calloc(1, sizeof *block + size_bytes);
    if (!block) out_of_memory(bytes);
    block->older = arena->last;
    block->size_bytes = size_bytes;
    return block;
}

// On top of the others.
static struct arena_block *block_take(struct arena *arena, size_t bytes)
{
    struct arena_block *spare = arena->last ? arena->last->spare : NULL;
    if (!spare || spare->size_bytes < bytes) return arena->last = block_new(arena, bytes);
    arena->last->spare = NULL;
    spare->older = arena->last;
    return arena->last = spare;
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    assert(arena);
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) out_of_memory(SIZE_MAX);
    if (bytes > PTRDIFF_MAX - alignof(max_align_t)) out_of_memory(bytes);
    bytes = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (bytes == 0) bytes = alignof(max_align_t);

    struct arena_block *block = arena->last;
    if (!block || block->size_bytes - block->used_bytes < bytes) {
        block = block_take(arena, bytes);
    }
    unsigned char *memory = block->data + block->used_bytes;
    block->used_bytes += bytes;
    arena->used_bytes += bytes;
    size_t start = block->used_bytes - bytes;
    if (block->dirty_bytes > start) {
        size_t stale_bytes = block->dirty_bytes - start;
        memset(memory, 0, stale_bytes < bytes ? stale_bytes : bytes);
    }
    if (block->dirty_bytes < block->used_bytes) block->dirty_bytes = block->used_bytes;
    return memory;
}

void *arena_copied(struct arena *arena, const void *items, size_t count, size_t size)
{
    assert(size > 0 && (items || count == 0));
    void *copy = arena_alloc(arena, count, size);
    if (count) memcpy(copy, items, count * size);
    return copy;
}

void *arena_grown(struct arena *arena, void *items, int count, int *capacity, size_t size)
{
    assert(0 <= count && count <= *capacity && size > 0);
    enum { FIRST = 16 };
    assert(count >= 0 && *capacity >= count);
    if (count < *capacity) return items;
    *capacity = *capacity ? 2 * *capacity : FIRST;
    void *grown = arena_alloc(arena, (size_t)*capacity, size);
    if (count) memcpy(grown, items, (size_t)count * size);
    return grown;
}

char *arena_text_room(struct arena *arena, char *text, size_t length, size_t count,
                      size_t *capacity)
{
    assert(length <= *capacity && (text || length == 0));
    enum { LEAST = 256 };
    if (*capacity > length && *capacity - length > count) return text;
    *capacity = 2 * (length + count) + LEAST;
    char *grown = ARENA_NEW(arena, char, *capacity);
    if (length) memcpy(grown, text, length);
    return grown;
}

char *arena_copy(struct arena *arena, const char *text)
{
    assert(text);
    size_t bytes = strlen(text) + 1;
    return memcpy(arena_alloc(arena, bytes, 1), text, bytes);
}

char *arena_vprint(struct arena *arena, const char *format, va_list args)
{
    assert(arena && format);
    // Most texts are short: these are written once.
    char line[256];
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(line, sizeof line, format, args);
    assert(length >= 0);
    size_t bytes = (size_t)length + 1;
    char *text = arena_alloc(arena, bytes, 1);
    if (bytes <= sizeof line) {
        memcpy(text, line, bytes);
    } else {
        vsnprintf(text, bytes, format, again);
    }
    va_end(again);
    return text;
}

char *arena_print(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = arena_vprint(arena, format, args);
    va_end(args);
    return text;
}

struct arena_mark arena_mark(const struct arena *arena)
{
    size_t block_used_bytes = arena->last ? arena->last->used_bytes : 0;
    return (struct arena_mark){arena->last, block_used_bytes, arena->used_bytes};
}

// The larger of two, either NULL; the other is freed.
static struct arena_block *keep_larger(struct arena_block *a, struct arena_block *b)
{
    bool is_first = !b || (a && a->size_bytes >= b->size_bytes);
    free(is_first ? b : a);
    return is_first ? a : b;
}

// The largest block past the mark is kept, empty: a search that resets after each candidate then
// allocates nothing from the system. It is the spare of the mark's block, which may be empty too:
// were it put on top, every reset to an empty block would leave one more.
void arena_reset(struct arena *arena, struct arena_mark mark)
{
    assert(mark.used_bytes <= arena->used_bytes && "a mark is of what is still there");
    struct arena_block *spare = NULL;
    while (arena->last != mark.block) {
        struct arena_block *block = arena->last;
        assert(block && "the mark is of another arena or older than a reset");
        arena->last = block->older;
        spare = keep_larger(spare, block->spare);
        block->spare = NULL;
        spare = keep_larger(block, spare);
    }
    if (spare) spare->used_bytes = 0;
    if (mark.block) {
        mark.block->used_bytes = mark.block_used_bytes;
        mark.block->spare = keep_larger(mark.block->spare, spare);
    } else if (spare) {
        spare->older = NULL;
        arena->last = spare;
    }
    arena->used_bytes = mark.used_bytes;
}

void arena_free(struct arena *arena)
{
    while (arena->last) {
        struct arena_block *older = arena->last->older;
        free(arena->last->spare);
        free(arena->last);
        arena->last = older;
    }
    arena->used_bytes = 0;
}
