#pragma once
#include "executor/launch.h"
#include "executor/rendezvous.h"

#include <signal.h>
#include <sys/types.h>

// Inside of the launcher: starting (launch_start.c), judging (launch_watch.c), ending
// (launch_end.c), other nodes (launch_nodes.c).

// What ranks find in their environment.
#define LAUNCH_MEMORY "MESHWRIGHT_MEMORY"
#define LAUNCH_RANK "MESHWRIGHT_RANK"
#define LAUNCH_RANK_COUNT "MESHWRIGHT_RANK_COUNT"
#define LAUNCH_LOCAL_RANK "MESHWRIGHT_LOCAL_RANK"
#define LAUNCH_LISTENER "MESHWRIGHT_LISTENER"

// Those that the launcher and the guards of ranks wait for instead of being interrupted.
void launch_signals(sigset_t *signals);

struct launch_started {
    pid_t mpirun;     // -1: spawned
    pid_t *children;  // of each rank here, where spawned
    int first_rank, child_count;
    pid_t group;
};
// The caller frees started->children. What has been started before a failure is still there.
// `met`: NULL, or the nodes.
MUST_CHECK bool launch_start(const struct launch_request *request, const struct rendezvous *met,
                             const char *memory_name, const sigset_t *mask,
                             struct launch_started *started, struct err *err);
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
bool launch_watch_is_stopped(const struct pulse *pulse);
int64_t launch_watch_movement(const struct pulse *pulse);

// Ends all processes of the job: the ranks, then what else descends from this process.
void launch_end(const struct launch_started *started, struct pulse_page *page, int rank_count);
// State letter of a process (proc(5)), '\0' when it is gone.
char launch_process_state(pid_t pid);
// Of the processor that it has used; 0 when it is gone.
int64_t launch_process_ticks(pid_t pid);

// A pulse as it travels from node to node. Events keep their order, not their numbers.
struct pulse_news {
    int64_t beat;
    int32_t rank, state, step, task, fail_event, end_event, has_ended, end_status, is_stopped;
    char task_name[96], reason[160];
};
void pulse_read(struct pulse_page *page, int rank, struct pulse_news *news);
void pulse_write(struct pulse_page *page, const struct pulse_news *news);

// What launchers of several nodes tell each other. Those of other nodes tell node 0 how their ranks
// fare, which keeps pulses for them as if they were its own; node 0 tells them how the job ended.
struct launch_nodes {
    struct rendezvous met;
    struct pulse_page *page;
    double silent_s, told_s;
    double *heard_s;  // [node]
    void *news;       // room for those of a node
    bool is_over;     // node 0 has said so
    int exit_code;
};
MUST_CHECK bool launch_nodes_open(struct launch_nodes *nodes, const struct launch_request *request,
                                  struct err *err);
// False, with a line in `err`, when another node ends the job or is gone.
MUST_CHECK bool launch_nodes_exchange(struct launch_nodes *nodes, double now_s, struct err *err);
// Says to the others how it ended: `err` NULL for well.
void launch_nodes_end(struct launch_nodes *nodes, int exit_code, const struct err *err);
void launch_nodes_close(struct launch_nodes *nodes);
