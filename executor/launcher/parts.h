#pragma once
#include "executor/launcher/launch.h"
#include "executor/rendezvous.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

// Inside of the launcher: starting (launch_start.c), judging (launch_watch.c), ending
// (launch_end.c), other nodes (launch_nodes.c), ranks of other launchers (launch_guard.c).

// What ranks find in their environment.
#define LAUNCH_MEMORY "MESHWRIGHT_MEMORY"
#define LAUNCH_RANK "MESHWRIGHT_RANK"
#define LAUNCH_RANK_COUNT "MESHWRIGHT_RANK_COUNT"
#define LAUNCH_LOCAL_RANK "MESHWRIGHT_LOCAL_RANK"
#define LAUNCH_MEETING "MESHWRIGHT_MEETING"
#define LAUNCH_LEFT_OUT "MESHWRIGHT_LEFT_OUT"

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

// What the system says of processes; a simulation has its own.
struct launch_processes {
    char (*state)(void *context, pid_t pid);
    int64_t (*ticks)(void *context, pid_t pid);
    void *context;
};

// How long each rank here has stood still.
struct launch_watch {
    struct heartbeat_page *page;
    struct launch_processes processes;  // those of this host, as it begins
    int first_rank, rank_count;
    double stuck_s;
    double wait_s;    // the same where all ranks here wait, which may be for those of other nodes
    bool may_follow;  // the line is of a rank that failed, perhaps because another was gone
    int failed_rank;  // that the line in `err` is of; -1: none yet
    double failed_s;  // when the first such rank was seen; 0: none was
    double looked_s;
    int64_t *beats;
    double *still_s;
    double *stopped_s;  // that its process was seen stopped without a break
    int64_t *ticks;     // of the processor that it had used when it was last seen computing
};
void launch_watch_begin(struct launch_watch *watch, const struct launch_request *request,
                        const struct launch_started *started, struct heartbeat_page *page,
                        double now_s);
void launch_watch_free(struct launch_watch *watch);
// False, and the line in `err`, when a rank has died, failed or is stuck.
bool launch_watch_look(struct launch_watch *watch, double now_s, struct err *err);
bool launch_watch_all_ended(struct launch_watch *watch);
// The line of a rank whose process ended otherwise than well, or that failed; always false.
bool launch_watch_report(struct heartbeat *heartbeat, int rank, bool is_end, struct err *err);
bool launch_watch_report_stopped(struct heartbeat *heartbeat, int rank, double still_s,
                                 struct err *err);

// Ends all processes of the job here: the ranks, then what else descends from this process.
void launch_end(const struct launch_started *started, struct heartbeat_page *page);
// State letter of a process (proc(5)), '\0' when it is gone.
char launch_process_state(pid_t pid);
// Of the processor that it has used; 0 when it is gone.
int64_t launch_process_ticks(pid_t pid);

// Memory that ran out (launch_memory.c). How often the kernel has ended a process for want of it:
// of our control group where that is counted, else of the host.
int64_t launch_memory_kills(void);
// The lowest limit of the control groups that a file like /proc/self/cgroup names, of either
// version, and of those above them, whose folders stand in `root`; INT64_MAX for none.
int64_t launch_memory_group_limit(const char *groups_path, const char *root);
// Of the nearest of these groups that counts the processes ended for want of memory; -1: none does.
int64_t launch_memory_group_kills(const char *groups_path, const char *root);
// Whether a reason is one of those below.
bool launch_memory_is_told(const char *reason);
// Before heartbeat_end: where memory was why the rank's process ended, the heartbeat's reason says
// so. `kills_before`: launch_memory_kills when the job began.
void launch_memory_note_end(struct heartbeat *heartbeat, int rank, int status,
                            const struct rusage *used, int64_t kills_before);
// Whether a process that stands still has hardly anything left to allocate, and the words for it.
bool launch_memory_is_full(pid_t pid, int rank, char *text, size_t bytes);

// What launchers of several nodes tell each other, by files in the folder of their meeting.
struct launch_heard;
struct launch_nodes {
    const struct rendezvous_request *request;
    struct rendezvous met;
    double silent_s, looked_s;
    double failed_s;             // when this node knew that the job fails; 0: it does not
    struct launch_heard *heard;  // [node]
    bool is_over;                // all ranks of all nodes have ended well
    int exit_code;               // of rank 0
};
// `open` is `start`, rendezvous_meet and `meet`.
void launch_nodes_start(struct launch_nodes *nodes, const struct rendezvous_request *request,
                        double silent_s);
void launch_nodes_meet(struct launch_nodes *nodes);
MUST_CHECK bool launch_nodes_open(struct launch_nodes *nodes, const struct launch_request *request,
                                  struct err *err);
// `is_done`: all ranks of this node have ended well, rank 0, where it is here, with that code.
// False, with a line in `err`, when another node ends the job or is gone.
MUST_CHECK bool launch_nodes_look(struct launch_nodes *nodes, double now_s, bool is_done,
                                  int exit_code, struct err *err);
// Says to the others why the job ends, and takes their word in `err` where they were first: `err`
// is none where that word is that all ranks have ended well.
// `may_follow`: it may be the consequence of what another node is about to say.
// `fail_look`: what it does between two pauses, until it is true.
bool launch_nodes_fail_look(struct launch_nodes *nodes, bool may_follow, struct err *err);
void launch_nodes_fail(struct launch_nodes *nodes, bool may_follow, struct err *err);
void launch_nodes_close(struct launch_nodes *nodes);
