#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

// An arena hands out zeroed memory that is freed all at once. There are two in a run: the
// command's, freed at its end, and the search's scratch, reset to a mark after each candidate.
// Running out of host memory prints one line to stderr and ends the process with status 4:
// no caller checks an allocation. A zeroed struct arena is an empty arena.

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

struct arena_block;

struct arena {
    struct arena_block *last;  // blocks form a list from the newest to the oldest
    size_t used_bytes;         // handed out since the arena was empty
};

struct arena_mark {
    struct arena_block *block;
    size_t block_used_bytes;
    size_t used_bytes;
};

// Zeroed memory of `count * size` bytes, aligned for any type. Never NULL, also for count 0.
// Overflow of the product counts as running out of memory.
void *arena_alloc(struct arena *arena, size_t count, size_t size);

#define ARENA_NEW(arena, type, count) ((type *)arena_alloc((arena), (size_t)(count), sizeof(type)))

// Makes room for one more: `items` as they are where `count` of them leave some of `capacity`, else
// in an array of twice the room.
#define ARENA_GROW(arena, items, count, capacity) \
    ((count) < (capacity)                         \
         ? (items)                                \
         : ((items) = arena_grown((arena), (items), (count), &(capacity), sizeof *(items))))
void *arena_grown(struct arena *arena, void *items, int count, int *capacity, size_t size);

// The same for a text of `length` bytes that is to take `count` more and a NUL.
char *arena_text_room(struct arena *arena, char *text, size_t length, size_t count,
                      size_t *capacity);

// A copy of `count` items of a type, which may be none.
#define ARENA_COPY(arena, type, items, count) \
    ((type *)arena_copied((arena), (items), (size_t)(count), sizeof(type)))
void *arena_copied(struct arena *arena, const void *items, size_t count, size_t size);
// A copy of `text`, and a formatted text, in the arena.
char *arena_copy(struct arena *arena, const char *text);
char *arena_print(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprint(struct arena *arena, const char *format, va_list args);

// Everything handed out after `arena_mark` is given back by `arena_reset` to that mark.
struct arena_mark arena_mark(const struct arena *arena);
void arena_reset(struct arena *arena, struct arena_mark mark);

void arena_free(struct arena *arena);

// malloc and realloc that end the process with status 4 instead of returning NULL, for
// libraries that want their own allocation (cJSON's hooks). Free with free().
void *memory_get(size_t bytes);
