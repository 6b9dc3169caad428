#include "executor/launcher/parts.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// mpirun gets so long to tidy up behind itself, and all that is left so long to die.
enum { POLLS_A_SECOND = 50, MPIRUN_POLLS = 4 * POLLS_A_SECOND, KILL_POLLS = 8 * POLLS_A_SECOND };

struct stat_line {
    int parent;
    int64_t ticks;  // of the processor
};

// State of a process and more, from "pid (name) state parent ...": the name may hold anything.
static char read_stat(pid_t pid, struct stat_line *line)
{
    assert(pid >= 0 && "less are whole groups");
    char path[32], text[512], state = '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    const char *end = strrchr(text, ')');
    long long user = 0, system = 0;
    *line = (struct stat_line){0};
    int found = end ? sscanf(end, ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %lld %lld", &state,
                             &line->parent, &user, &system)
                    : 0;
    line->ticks = user + system;
    return found == 4 ? state : '\0';
}

char launch_process_state(pid_t pid)
{
    struct stat_line line;
    return read_stat(pid, &line);
}

int64_t launch_process_ticks(pid_t pid)
{
    struct stat_line line;
    return read_stat(pid, &line) ? line.ticks : 0;
}

static bool descends_from_us(pid_t pid)
{
    pid_t us = getpid();
    struct stat_line line;
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        if (!read_stat(pid, &line)) return false;
        if (line.parent == us) return true;
        pid = line.parent;
    }
    return false;
}

static void kill_descendants(void)
{
    DIR *folder = opendir("/proc");
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 1 && descends_from_us(pid)) kill(pid, SIGKILL);
    }
    closedir(folder);
}

// Reaps what has ended, children and what was left behind to us (PR_SET_CHILD_SUBREAPER); false
// when there is nothing left.
static bool reap(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    return pid == 0;
}

static void pause_poll(void)
{
    struct timespec pause = {0, 1000000000 / POLLS_A_SECOND};
    nanosleep(&pause, NULL);
}

void launch_end(const struct launch_started *started, struct heartbeat_page *page)
{
    assert(started->child_count >= 0 && started->first_rank >= 0);
    // The guards see this and end well, and mpirun has nothing to say about it.
    heartbeat_page_end_job(page);
    for (int i = 0; i < started->child_count; i++) {
        const struct heartbeat *heartbeat = heartbeat_of(page, started->first_rank + i);
        // Believed only of a process of this job: the rank may have ended, and the kernel may have
        // given its number to somebody else.
        int pid = atomic_load(&heartbeat->pid);
        if (pid > 1 && !atomic_load(&heartbeat->has_ended) && descends_from_us(pid))
            kill(pid, SIGKILL);
    }
    if (started->mpirun <= 0 && started->group > 0) kill(-started->group, SIGKILL);
    for (int i = 0; started->mpirun > 0 && i < MPIRUN_POLLS && reap(); i++)
        pause_poll();
    for (int i = 0; i < KILL_POLLS && reap(); i++) {
        kill_descendants();
        pause_poll();
    }
}
