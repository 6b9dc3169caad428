#pragma once
#include "executor/launch.h"

#include <signal.h>
#include <sys/types.h>

// Inside of the launcher: starting (launch_start.c), judging (launch_watch.c), ending
// (launch_end.c).

// What ranks find in their environment.
#define LAUNCH_MEMORY "MESHWRIGHT_MEMORY"
#define LAUNCH_RANK "MESHWRIGHT_RANK"
#define LAUNCH_RANK_COUNT "MESHWRIGHT_RANK_COUNT"

// Those that the launcher and the guards of ranks wait for instead of being interrupted.
void launch_signals(sigset_t *signals);

struct launch_started {
    pid_t mpirun;     // -1: spawned
    pid_t *children;  // of each rank, where spawned
    pid_t group;
};
// The caller frees started->children. What has been started before a failure is still there.
MUST_CHECK bool launch_start(const struct launch_request *request, const char *memory_name,
                             const sigset_t *mask, struct launch_started *started, struct err *err);
// Path of mpirun on PATH; the caller frees it. NULL where there is none.
char *launch_mpirun_path(void);

// How long each rank has stood still.
struct launch_watch {
    struct pulse_page *page;
    int rank_count;
    double stuck_s;
    double looked_s;
    int64_t *beats;
    double *still_s;
};
void launch_watch_begin(struct launch_watch *watch, const struct launch_request *request,
                        struct pulse_page *page, double now_s);
void launch_watch_free(struct launch_watch *watch);
// False, and the line in `err`, when a rank has died, failed or is stuck.
bool launch_watch_look(struct launch_watch *watch, double now_s, struct err *err);
bool launch_watch_all_ended(struct launch_watch *watch);

// Ends all processes of the job: the ranks, then what else descends from this process.
void launch_end(const struct launch_started *started, struct pulse_page *page, int rank_count);
// State letter of a process (proc(5)), '\0' when it is gone.
char launch_process_state(pid_t pid);
// Of the processor that it has used; 0 when it is gone.
int64_t launch_process_ticks(pid_t pid);
