#include "core/units.h"
#include "executor/launcher/parts.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// Memory that ran out is told as that: a request that failed, the killer of the kernel, a library
// that waits for what never comes.

// What the back ends say, and the system where it is asked.
static const char NO_MEMORY[] = "no memory left on this host";
static const char RAN_OUT[] = " ran out of memory";
// A process with less than this left to map may be waiting for it: OpenBLAS maps 128 MiB at once.
static const int64_t ROOM_BYTES = (int64_t)256 << 20;

// A number of bytes behind `key` in a file of lines "KEY N kB"; -1 where there is none.
static int64_t read_line(const char *path, const char *key, int64_t unit_bytes)
{
    char line[256];
    int64_t found = -1;
    FILE *file = fopen(path, "re");
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        bool is_it = strncmp(line, key, length) == 0 && strchr(": \t", line[length]);
        if (is_it) found = strtoll(line + length + 1, NULL, 10) * unit_bytes;
    }
    if (file) fclose(file);
    return found;
}

// A file that holds one number; -1 for "max" and for none.
static int64_t read_number(const char *path)
{
    char line[64] = "";
    FILE *file = fopen(path, "re");
    bool is_read = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    char *end = line;
    int64_t number = is_read ? strtoll(line, &end, 10) : -1;
    return end == line ? -1 : number;
}

static void take_lower(int64_t *least, int64_t bytes)
{
    if (bytes >= 0 && bytes < *least) *least = bytes;
}

// The next group that holds the memory of this process: where its hierarchy is mounted below
// `root`. NULL behind the last; the group's name lies in `line`.
static char *next_group(FILE *file, char *line, size_t bytes, bool *is_unified)
{
    while (file && fgets(line, (int)bytes, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *kind = strchr(line, ':'), *group = kind ? strchr(kind + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        *is_unified = kind[1] == '\0';
        if (*is_unified || strstr(kind, ":memory")) return group;
    }
    return NULL;
}

int64_t launch_memory_group_limit(const char *groups_path, const char *root)
{
    char line[PATH_MAX], path[3 * PATH_MAX], *group;
    int64_t least = INT64_MAX;
    bool is_unified = false;
    FILE *file = fopen(groups_path, "re");
    while ((group = next_group(file, line, sizeof line, &is_unified))) {
        const char *folder = is_unified ? "" : "/memory";
        // A group is held to the limits of all groups above it as well.
        const char *name = is_unified ? "memory.max" : "memory.limit_in_bytes";
        for (;;) {
            snprintf(path, sizeof path, "%s%s%s/%s", root, folder, group, name);
            take_lower(&least, read_number(path));
            char *slash = strrchr(group, '/');
            if (!slash) break;
            *slash = '\0';
        }
    }
    if (file) fclose(file);
    assert(least >= 0);
    return least;
}

int64_t launch_memory_group_kills(const char *groups_path, const char *root)
{
    char line[PATH_MAX], path[3 * PATH_MAX], *group;
    int64_t kills = -1;
    bool is_unified = false;
    FILE *file = fopen(groups_path, "re");
    while ((group = next_group(file, line, sizeof line, &is_unified))) {
        const char *folder = is_unified ? "" : "/memory";
        const char *name = is_unified ? "memory.events" : "memory.oom_control";
        // In a container the names may be those outside: then its own group is the root.
        for (int64_t found = -1; found < 0;) {
            snprintf(path, sizeof path, "%s%s%s/%s", root, folder, group, name);
            found = read_line(path, "oom_kill", 1);
            if (found > kills) kills = found;
            char *slash = strrchr(group, '/');
            if (!slash) break;
            *slash = '\0';
        }
    }
    if (file) fclose(file);
    return kills;
}

struct memory_state {
    int64_t held_bytes, limit_bytes;
    const char *of;
};

// Of a process of this host, with its tightest limit. `address_bytes`: of its address space.
static struct memory_state state_of(pid_t pid)
{
    char path[64];
    struct rlimit address = {RLIM_INFINITY, RLIM_INFINITY};
    struct memory_state state = {.of = "all of this host"};
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (prlimit(pid, RLIMIT_AS, NULL, &address) == 0 && address.rlim_cur != RLIM_INFINITY) {
        // The most that was mapped, not what is mapped now: the request that failed has been
        // undone.
        state.held_bytes = read_line(path, "VmPeak", 1024);
        state.limit_bytes = (int64_t)address.rlim_cur;
        state.of = "its limit of address space";
        return state;
    }
    // What is swapped out still counts as held: it comes back into memory when it is used.
    int64_t swapped = read_line(path, "VmSwap", 1024);
    state.held_bytes = read_line(path, "VmRSS", 1024) + (swapped > 0 ? swapped : 0);
    state.limit_bytes = read_line("/proc/meminfo", "MemTotal", 1024);
    int64_t group_bytes = launch_memory_group_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (group_bytes < state.limit_bytes) {
        state.limit_bytes = group_bytes;
        state.of = "its control group";
    }
    return state;
}

// " (0.41 GiB allocated of 1.14 GiB, its limit of address space)"
static void describe(const struct memory_state *state, char *text, size_t bytes)
{
    assert(bytes > 0 && state->of && "a limit is somebody's");
    struct arena arena = {0};
    const char *held = state->held_bytes > 0 ? units_bytes(&arena, (double)state->held_bytes) : "";
    const char *limit = units_bytes(&arena, (double)state->limit_bytes);
    snprintf(text, bytes, " (%s%sof %s, %s)", held, *held ? " allocated " : "", limit, state->of);
    if (state->limit_bytes <= 0) text[0] = '\0';
    arena_free(&arena);
}

int64_t launch_memory_kills(void)
{
    // The host counts the processes of strangers too: a rank that a user kills beside one of them
    // would be told as out of memory.
    int64_t kills = launch_memory_group_kills("/proc/self/cgroup", "/sys/fs/cgroup");
    if (kills < 0) kills = read_line("/proc/vmstat", "oom_kill", 1);
    return kills > 0 ? kills : 0;
}

bool launch_memory_is_told(const char *reason)
{
    return strncmp(reason, "rank ", 5) == 0 && strstr(reason, RAN_OUT);
}

void launch_memory_explain(int rank, struct err *err)
{
    const char *fault = strstr(err->text, NO_MEMORY);
    if (!fault) fault = strstr(err->text, strerror(ENOMEM));
    if (err->kind != ERR_SYSTEM || !fault || launch_memory_is_told(err->text)) return;
    char place[256] = "", held[96];
    // "rank 1, step 1, at starting: no memory ...": what stands between is kept.
    int said = rank;
    bool has_place = sscanf(err->text, "rank %d, %255[^:]", &said, place) == 2;
    if (!has_place && rank < 0) return;
    if (has_place) rank = said;
    if (!has_place) place[0] = '\0';
    struct memory_state state = state_of(getpid());
    describe(&state, held, sizeof held);
    struct err told = {0};
    err_set(&told, ERR_SYSTEM, "rank %d%s%s%s%s", rank, RAN_OUT, held, *place ? " in " : "", place);
    *err = told;
}

bool launch_memory_is_full(pid_t pid, int rank, char *text, size_t bytes)
{
    struct memory_state state = pid > 0 ? state_of(pid) : (struct memory_state){0};
    if (state.held_bytes <= 0 || state.held_bytes + ROOM_BYTES < state.limit_bytes) return false;
    char held[96];
    describe(&state, held, sizeof held);
    snprintf(text, bytes, "rank %d%s%s", rank, RAN_OUT, held);
    return true;
}

void launch_memory_note_end(struct heartbeat *heartbeat, int rank, int status,
                            const struct rusage *used, int64_t kills_before)
{
    assert(used->ru_maxrss >= 0 && rank >= 0);
    // Its heartbeat says how far it came: only a rank that was at work asks for memory.
    int state = atomic_load(&heartbeat->state);
    bool is_silent =
        state != HEARTBEAT_FAILED && state != HEARTBEAT_DONE && atomic_load(&heartbeat->pid) > 0;
    // core/arena.c ends a process so that finds no memory.
    bool gave_up = is_silent && WIFEXITED(status) && WEXITSTATUS(status) == ERR_SYSTEM;
    bool was_killed =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && launch_memory_kills() > kills_before;
    if (!gave_up && !was_killed) return;
    char held[96];
    struct memory_state state_then = state_of(getpid());  // children have our limits
    state_then.held_bytes = (int64_t)used->ru_maxrss * 1024;
    describe(&state_then, held, sizeof held);
    snprintf(heartbeat->reason, sizeof heartbeat->reason, "rank %d%s%s", rank, RAN_OUT, held);
}
