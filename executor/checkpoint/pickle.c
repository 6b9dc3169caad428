#include "executor/checkpoint/pickle.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

struct reading {
    struct arena *arena;
    const char *path;
    const unsigned char *bytes;
    int64_t size, at;
    struct pickle **stack, **memo;
    int stack_count, stack_capacity, memo_count, memo_capacity;
    int *marks;
    int mark_count, mark_capacity;
    struct err *err;
};

static void fail(struct reading *reading, const char *what)
{
    err_set(reading->err, ERR_INPUT, "%s: byte %" PRId64 ": %s", reading->path, reading->at, what);
}

// The next so many bytes; NULL and `err` set where it ends before.
static const unsigned char *take(struct reading *reading, uint64_t count)
{
    assert(reading->at >= 0 && reading->at <= reading->size);
    if (count > (uint64_t)(reading->size - reading->at)) {
        fail(reading, "a pickle that is cut off");
        return NULL;
    }
    const unsigned char *bytes = reading->bytes + reading->at;
    reading->at += (int64_t)count;
    return bytes;
}

// Little-endian, of at most 8 bytes.
static uint64_t take_number(struct reading *reading, int count)
{
    assert(count >= 0 && count <= (int)sizeof(uint64_t));
    uint64_t number = 0;
    const unsigned char *bytes = take(reading, (uint64_t)count);
    for (int i = 0; bytes && i < count; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

static int64_t take_signed(struct reading *reading, int count)
{
    enum { WIDE_BYTES = 8 };
    uint64_t number = take_number(reading, count);
    bool is_negative = count > 0 && number >> (8 * count - 1) & 1;
    if (is_negative && count < WIDE_BYTES) number |= UINT64_MAX << 8 * count;
    return (int64_t)number;
}

static struct pickle *push(struct reading *reading, enum pickle_kind kind)
{
    struct pickle *value = ARENA_NEW(reading->arena, struct pickle, 1);
    value->kind = kind;
    ARENA_GROW(reading->arena, reading->stack, reading->stack_count, reading->stack_capacity);
    reading->stack[reading->stack_count++] = value;
    return value;
}

static void push_number(struct reading *reading, int64_t number)
{
    push(reading, PICKLE_NUMBER)->number = number;
}

static void push_text(struct reading *reading, uint64_t count)
{
    const unsigned char *bytes = take(reading, count);
    if (!bytes) return;
    push(reading, PICKLE_TEXT)->text =
        arena_print(reading->arena, "%.*s", (int)count, (const char *)bytes);
}

// What is on the stack is not below its last mark.
static int floor_of(const struct reading *reading)
{
    return reading->mark_count > 0 ? reading->marks[reading->mark_count - 1] : 0;
}

static struct pickle *pop(struct reading *reading)
{
    if (reading->stack_count > floor_of(reading)) return reading->stack[--reading->stack_count];
    fail(reading, "nothing is left to take");
    return ARENA_NEW(reading->arena, struct pickle, 1);
}

static void append(struct reading *reading, struct pickle *to, struct pickle *value)
{
    ARENA_GROW(reading->arena, to->items, to->count, to->capacity);
    to->items[to->count++] = value;
}

// Values from `first` on of the stack become a list's.
static void gather(struct reading *reading, int first)
{
    assert(first >= 0 && first <= reading->stack_count);
    int end = reading->stack_count;
    struct pickle *list = ARENA_NEW(reading->arena, struct pickle, 1);
    list->kind = PICKLE_LIST;
    for (int i = first; i < end; i++)
        append(reading, list, reading->stack[i]);
    reading->stack_count = first;
    ARENA_GROW(reading->arena, reading->stack, reading->stack_count, reading->stack_capacity);
    reading->stack[reading->stack_count++] = list;
}

static void gather_last(struct reading *reading, int count)
{
    if (reading->stack_count - floor_of(reading) < count) return fail(reading, "too few values");
    gather(reading, reading->stack_count - count);
}

// The place behind the last mark, which is taken away; -1 and `err` set: there is none.
static int take_mark(struct reading *reading)
{
    if (reading->mark_count > 0) return reading->marks[--reading->mark_count];
    fail(reading, "no mark to go back to");
    return -1;
}

static void add_items(struct reading *reading, enum pickle_kind kind, int first)
{
    assert(kind == PICKLE_LIST || kind == PICKLE_DICT);
    int end = reading->stack_count;
    if (first - 1 < floor_of(reading)) return fail(reading, "items of nothing");
    struct pickle *to = reading->stack[first - 1];
    if (to->kind != kind || (kind == PICKLE_DICT && (end - first) % 2 != 0))
        return fail(reading, "items of what has none such");
    for (int i = first; i < end; i++)
        append(reading, to, reading->stack[i]);
    reading->stack_count = first;
}

static void make(struct reading *reading)
{
    struct pickle *with = pop(reading), *called = pop(reading);
    struct pickle *made = push(reading, PICKLE_MADE);
    append(reading, made, called);
    append(reading, made, with);
}

static void fill(struct reading *reading)
{
    const struct pickle *state = pop(reading);
    struct pickle *made = pop(reading);
    if (reading->err->kind) return;
    made->state = state;
    reading->stack_count++;
}

static void name(struct reading *reading)
{
    const struct pickle *last = pop(reading), *module = pop(reading);
    if (last->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT)
        return fail(reading, "a name that is no text");
    push(reading, PICKLE_NAME)->text =
        arena_print(reading->arena, "%s.%s", module->text, last->text);
}

// "module\nname\n"
static void name_lines(struct reading *reading)
{
    for (int i = 0; i < 2 && !reading->err->kind; i++) {
        const void *from = reading->bytes + reading->at;
        const char *end = memchr(from, '\n', (size_t)(reading->size - reading->at));
        if (!end) return fail(reading, "a name that is cut off");
        push_text(reading, (uint64_t)(end - (const char *)from));
        reading->at++;
    }
    if (!reading->err->kind) name(reading);
}

static void keep(struct reading *reading, uint64_t at)
{
    // Each was on the stack once, so that there are no more of them than bytes.
    if (reading->stack_count == 0 || at > (uint64_t)reading->size)
        return fail(reading, "nothing to keep");
    while ((uint64_t)reading->memo_count <= at) {
        ARENA_GROW(reading->arena, reading->memo, reading->memo_count, reading->memo_capacity);
        reading->memo[reading->memo_count++] = NULL;
    }
    reading->memo[at] = reading->stack[reading->stack_count - 1];
}

static void recall(struct reading *reading, uint64_t at)
{
    if (at >= (uint64_t)reading->memo_count || !reading->memo[at])
        return fail(reading, "nothing was kept there");
    ARENA_GROW(reading->arena, reading->stack, reading->stack_count, reading->stack_capacity);
    reading->stack[reading->stack_count++] = reading->memo[at];
}

// Values. False: it is none of these.
static bool read_value(struct reading *reading, unsigned char code)
{
    switch (code) {
    case 'N':
        return push(reading, PICKLE_NONE), true;
    case 0x88:
        return push_number(reading, 1), true;
    case 0x89:
        return push_number(reading, 0), true;
    case 'K':
        return push_number(reading, (int64_t)take_number(reading, 1)), true;
    case 'M':
        return push_number(reading, (int64_t)take_number(reading, 2)), true;
    case 'J':
        return push_number(reading, take_signed(reading, 4)), true;
    case 0x8a: {
        int count = (int)take_number(reading, 1);
        if (count > 8) return fail(reading, "a number that is too long"), true;
        return push_number(reading, take_signed(reading, count)), true;
    }
    case 'G':
        return (void)take(reading, 8), push(reading, PICKLE_OTHER), true;
    case 'C':
        return (void)take(reading, take_number(reading, 1)), push(reading, PICKLE_OTHER), true;
    case 'B':
        return (void)take(reading, take_number(reading, 4)), push(reading, PICKLE_OTHER), true;
    case 0x8c:
        return push_text(reading, take_number(reading, 1)), true;
    case 'X':
        return push_text(reading, take_number(reading, 4)), true;
    case ')':
    case ']':
    case 0x8f:
        return push(reading, PICKLE_LIST), true;
    case '}':
        return push(reading, PICKLE_DICT), true;
    default:
        return false;
    }
}

static void mark(struct reading *reading)
{
    ARENA_GROW(reading->arena, reading->marks, reading->mark_count, reading->mark_capacity);
    reading->marks[reading->mark_count++] = reading->stack_count;
}

static void gather_marked(struct reading *reading)
{
    int first = take_mark(reading);
    if (first >= 0) gather(reading, first);
}

static void add_marked(struct reading *reading, enum pickle_kind kind)
{
    int first = take_mark(reading);
    if (first >= 0) add_items(reading, kind, first);
}

static void add_last(struct reading *reading, enum pickle_kind kind, int count)
{
    add_items(reading, kind, reading->stack_count - count);
}

// What makes something of values. False: it is none of these.
static bool read_step(struct reading *reading, unsigned char code)
{
    switch (code) {
    case 0x80:
        return (void)take(reading, 1), true;
    case 0x95:
        return (void)take(reading, 8), true;
    case '(':
        return mark(reading), true;
    case 't':
        return gather_marked(reading), true;
    case 0x85:
    case 0x86:
    case 0x87:
        return gather_last(reading, code - 0x84), true;
    case 'a':
        return add_last(reading, PICKLE_LIST, 1), true;
    case 'e':
    case 0x90:
        return add_marked(reading, PICKLE_LIST), true;
    case 's':
        return add_last(reading, PICKLE_DICT, 2), true;
    case 'u':
        return add_marked(reading, PICKLE_DICT), true;
    case 'c':
        return name_lines(reading), true;
    case 0x93:
        return name(reading), true;
    case 'R':
    case 0x81:
        return make(reading), true;
    case 'b':
        return fill(reading), true;
    // An object that is elsewhere, by what it is called there.
    case 'Q':
        return true;
    case 0x94:
        return keep(reading, (uint64_t)reading->memo_count), true;
    case 'q':
        return keep(reading, take_number(reading, 1)), true;
    case 'r':
        return keep(reading, take_number(reading, 4)), true;
    case 'h':
        return recall(reading, take_number(reading, 1)), true;
    case 'j':
        return recall(reading, take_number(reading, 4)), true;
    default:
        return false;
    }
}

const struct pickle *pickle_read(struct arena *arena, const char *path, const char *bytes,
                                 int64_t size, struct err *err)
{
    assert(size >= 0 && !err->kind);
    enum { ROOM = 64 };
    struct reading reading = {.arena = arena,
                              .stack = ARENA_NEW(arena, struct pickle *, ROOM),
                              .stack_capacity = ROOM,
                              .path = path,
                              .bytes = (const unsigned char *)bytes,
                              .size = size,
                              .err = err};
    while (!err->kind) {
        const unsigned char *code = take(&reading, 1);
        if (!code) return NULL;
        if (*code == '.') break;
        if (read_value(&reading, *code) || read_step(&reading, *code)) continue;
        reading.at--;
        err_set(err, ERR_INPUT, "%s: byte %" PRId64 ": instruction 0x%02x of pickles is not read",
                path, reading.at, *code);
    }
    const struct pickle *top = err->kind ? NULL : pop(&reading);
    return err->kind ? NULL : top;
}

const struct pickle *pickle_find(const struct pickle *of, const char *key)
{
    if (of && of->kind == PICKLE_MADE) of = of->state;
    if (!of || of->kind != PICKLE_DICT) return NULL;
    for (int i = 0; i < of->count; i += 2) {
        const struct pickle *found = of->items[i];
        if (found->kind == PICKLE_TEXT && strcmp(found->text, key) == 0) return of->items[i + 1];
    }
    return NULL;
}

int pickle_numbers(const struct pickle *of, int64_t *numbers, int most)
{
    assert(most > 0);
    // torch.Size is made of a tuple that holds one tuple.
    if (of && of->kind == PICKLE_MADE) of = of->items[1];
    if (of && of->kind == PICKLE_LIST && of->count == 1 && of->items[0]->kind == PICKLE_LIST)
        of = of->items[0];
    if (!of || of->kind != PICKLE_LIST || of->count > most) return -1;
    for (int i = 0; i < of->count; i++) {
        if (of->items[i]->kind != PICKLE_NUMBER) return -1;
        numbers[i] = of->items[i]->number;
    }
    return of->count;
}
