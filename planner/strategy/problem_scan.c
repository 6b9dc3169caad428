#include "planner/strategy/problem_scan.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool strategy_scan_fail(struct strategy_scan *scan, const char *format, ...)
{
    int line = 1;
    size_t start = 0;
    for (size_t i = 0; i < scan->at && i < scan->bytes; i++) {
        if (scan->text[i] != '\n') continue;
        line++;
        start = i + 1;
    }
    va_list arguments;
    va_start(arguments, format);
    const char *what = arena_vprint(scan->arena, format, arguments);
    va_end(arguments);
    return err_set(scan->err, ERR_INPUT, "%s:%d:%zu: %s", scan->path, line, scan->at - start + 1,
                   what);
}

// The next character that is no blank; NUL at the end.
static char peek(struct strategy_scan *scan)
{
    while (scan->at < scan->bytes && strchr(" \t\r\n", scan->text[scan->at]))
        scan->at += scan->text[scan->at] ? 1 : scan->bytes;
    return scan->at < scan->bytes ? scan->text[scan->at] : '\0';
}

static const char *found(struct strategy_scan *scan)
{
    char at = peek(scan);
    if (!at) return "the end of the file";
    return arena_print(scan->arena, "\"%c\"", isprint((unsigned char)at) ? at : '?');
}

static bool take(struct strategy_scan *scan, char wanted, const char *where)
{
    if (peek(scan) != wanted) {
        const char *what =
            wanted == '"' ? "a text in quotes" : arena_print(scan->arena, "\"%c\"", wanted);
        return strategy_scan_fail(scan, "%s: expected %s, found %s", where, what, found(scan));
    }
    scan->at++;
    return true;
}

// Whether a container goes on: a comma, or its first member.
static bool goes_on(struct strategy_scan *scan, char end, int done, bool *ok, const char *where)
{
    if (peek(scan) == end) return scan->at++, false;
    if (done > 0 && !take(scan, ',', where)) return *ok = false;
    return true;
}

static const char *read_text(struct strategy_scan *scan, const char *where)
{
    if (!take(scan, '"', where)) return NULL;
    size_t start = scan->at;
    while (scan->at < scan->bytes && scan->text[scan->at] != '"') {
        unsigned char at = (unsigned char)scan->text[scan->at];
        if (at < ' ' || at == '\\' || at >= 0x7f || scan->at - start > 200) break;
        scan->at++;
    }
    if (scan->at >= scan->bytes || scan->text[scan->at] != '"') {
        strategy_scan_fail(scan, "%s: expected a plain text of at most 200 bytes", where);
        return NULL;
    }
    char *text = ARENA_NEW(scan->arena, char, scan->at - start + 1);
    memcpy(text, scan->text + start, scan->at - start);
    scan->at++;
    return text;
}

// Whole numbers from 0, as digits or as 1e18. False where there is none or it is too large.
static bool read_number(struct strategy_scan *scan, int64_t *value)
{
    if (!isdigit((unsigned char)peek(scan))) return false;
    const char *start = scan->text + scan->at, *end = start;
    int64_t sum = 0;
    bool fits = *start != '0' || !isdigit((unsigned char)start[1]);
    for (; isdigit((unsigned char)*end); end++)
        fits = fits && sum < INT64_MAX / 10, sum = fits ? 10 * sum + (*end - '0') : sum;
    if (*end == '.' || *end == 'e' || *end == 'E') {
        char *after = NULL;
        double real = strtod(start, &after);
        fits = real <= (double)INT64_MAX / 2 && real == floor(real);
        sum = fits ? (int64_t)real : 0;
        end = after;
    }
    *value = sum;
    if (fits) scan->at += (size_t)(end - start);
    return fits;
}

struct growing {
    struct strategy_lists lists;
    int64_t value_count, value_room;
    int room;
};

static void *doubled(struct arena *arena, const void *items, int64_t count, size_t size)
{
    assert(count > 0);
    void *more = arena_alloc(arena, (size_t)(2 * count), size);
    memcpy(more, items, (size_t)count * size);
    return more;
}

static void start_list(struct strategy_scan *scan, struct growing *growing)
{
    struct strategy_lists *lists = &growing->lists;
    if (lists->count + 1 >= growing->room) {
        lists->starts = doubled(scan->arena, lists->starts, growing->room, sizeof(int64_t));
        lists->places = doubled(scan->arena, lists->places, growing->room, sizeof(int64_t));
        growing->room *= 2;
    }
    lists->places[lists->count] = (int64_t)scan->at;
}

// A number of a list: what no cost, usage, time or node can be is an error.
static bool read_item(struct strategy_scan *scan, const char *key, struct growing *growing)
{
    struct strategy_lists *lists = &growing->lists;
    int64_t value = 0, at = growing->value_count - lists->starts[lists->count];
    (void)peek(scan);
    size_t start = scan->at;
    if (!read_number(scan, &value) || (value > STRATEGY_MOST && value < STRATEGY_FORBIDDEN)) {
        scan->at = start;
        return strategy_scan_fail(
            scan,
            "$.problem.%s[%d][%lld]: expected a whole number from 0 to 1e14, or 1e18 and more for "
            "what is forbidden",
            key, lists->count, (long long)at);
    }
    if (growing->value_count == growing->value_room) {
        lists->values = doubled(scan->arena, lists->values, growing->value_room, sizeof(int64_t));
        growing->value_room *= 2;
    }
    lists->values[growing->value_count++] = value;
    return true;
}

static bool read_lists(struct strategy_scan *scan, const char *key, struct strategy_lists *lists)
{
    enum { FIRST_ROOM = 64 };
    struct growing growing = {.value_room = FIRST_ROOM, .room = FIRST_ROOM};
    growing.lists = (struct strategy_lists){
        .values = ARENA_NEW(scan->arena, int64_t, FIRST_ROOM),
        .starts = ARENA_NEW(scan->arena, int64_t, FIRST_ROOM),
        .places = ARENA_NEW(scan->arena, int64_t, FIRST_ROOM),
    };
    const char *where = arena_print(scan->arena, "$.problem.%s", key);
    if (lists->starts) return strategy_scan_fail(scan, "%s: twice", where);
    bool ok = take(scan, '[', where);
    while (ok && goes_on(scan, ']', growing.lists.count, &ok, where)) {
        if (growing.lists.count == STRATEGY_NODES_MOST) {
            return strategy_scan_fail(scan, "%s: more than %d lists", where, STRATEGY_NODES_MOST);
        }
        (void)peek(scan);
        start_list(scan, &growing);
        ok = take(scan, '[', where);
        for (int i = 0; ok && goes_on(scan, ']', i, &ok, where); i++)
            ok = read_item(scan, key, &growing);
        growing.lists.starts[++growing.lists.count] = growing.value_count;
    }
    assert(growing.lists.starts[growing.lists.count] == growing.value_count);
    *lists = growing.lists;
    return ok;
}

// The members of an object: each has its reader by name.
struct member {
    const char *key, *path;
    struct strategy_lists *lists;
};

static bool read_group(struct strategy_scan *scan, const char *where, const struct member *members,
                       int count)
{
    bool ok = take(scan, '{', where);
    for (int done = 0; ok && goes_on(scan, '}', done, &ok, where); done++) {
        (void)peek(scan);
        size_t start = scan->at;
        const char *key = read_text(scan, where);
        if (!key || !take(scan, ':', where)) return false;
        int at = 0;
        while (at < count && strcmp(members[at].key, key) != 0)
            at++;
        if (at == count) {
            scan->at = start;
            return strategy_scan_fail(scan, "%s.%s: unknown key", where, key);
        }
        ok = read_lists(scan, members[at].path, members[at].lists);
    }
    for (int i = 0; ok && i < count; i++) {
        if (!members[i].lists->starts)
            ok = strategy_scan_fail(scan, "%s: missing \"%s\"", where, members[i].key);
    }
    return ok;
}

static bool read_limit(struct strategy_scan *scan, struct strategy_problem *problem)
{
    (void)peek(scan);
    problem->has_limit = true;
    if (read_number(scan, &problem->usage_limit)) return true;
    return strategy_scan_fail(scan, "$.problem.usage_limit: expected a whole number from 0");
}

static bool read_member(struct strategy_scan *scan, const char *key, size_t start,
                        struct strategy_problem *problem)
{
    const struct member nodes[] = {{"intervals", "nodes.intervals", &problem->intervals},
                                   {"costs", "nodes.costs", &problem->costs},
                                   {"usages", "nodes.usages", &problem->usages}};
    const struct member edges[] = {{"nodes", "edges.nodes", &problem->ends},
                                   {"costs", "edges.costs", &problem->edge_costs}};
    if (strcmp(key, "nodes") == 0) return read_group(scan, "$.problem.nodes", nodes, 3);
    if (strcmp(key, "edges") == 0) return read_group(scan, "$.problem.edges", edges, 2);
    if (strcmp(key, "usage_limit") == 0) return read_limit(scan, problem);
    if (strcmp(key, "name") == 0) {
        problem->name = read_text(scan, "$.problem.name");
        return problem->name != NULL;
    }
    scan->at = start;
    return strategy_scan_fail(scan, "$.problem.%s: unknown key", key);
}

bool strategy_scan_problem(struct strategy_scan *scan, struct strategy_problem *problem)
{
    bool ok = take(scan, '{', "$");
    const char *key = ok ? read_text(scan, "$") : NULL;
    if (!key) return false;
    if (strcmp(key, "problem") != 0) {
        return strategy_scan_fail(scan, "$: expected \"problem\", found \"%s\"", key);
    }
    ok = take(scan, ':', "$.problem") && take(scan, '{', "$.problem");
    for (int done = 0; ok && goes_on(scan, '}', done, &ok, "$.problem"); done++) {
        (void)peek(scan);
        size_t start = scan->at;
        key = read_text(scan, "$.problem");
        if (!key || !take(scan, ':', "$.problem")) return false;
        ok = read_member(scan, key, start, problem);
    }
    if (!ok || !take(scan, '}', "$")) return false;
    if (!problem->costs.starts || !problem->ends.starts) {
        return strategy_scan_fail(scan, "$.problem: missing \"%s\"",
                                  problem->costs.starts ? "edges" : "nodes");
    }
    if (peek(scan)) return strategy_scan_fail(scan, "$: expected the end, found %s", found(scan));
    return true;
}
