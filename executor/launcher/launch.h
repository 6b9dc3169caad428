#pragma once
#include "core/err.h"

#include <stdatomic.h>
#include <stdint.h>

// Starting the ranks of a job and ending them together. `meshwright run` under no launcher starts
// `mpirun` with itself and watches over it; under mpirun or srun it is one of the ranks, and a
// guard of its own says what became of it. Without mpirun it starts the ranks of its host by
// itself, and launchers on several nodes meet by files (executor/rendezvous.h). Nothing listens on
// the network.

struct launch_place {
    bool is_launched;  // one of several ranks: ours, mpirun's (OMPI_COMM_WORLD_*, PMI_*), srun's
    int rank, rank_count;
    const char *memory_name;  // shared with our launcher: the heartbeats, and for the transport
                              // `host` (all ranks are on this host); NULL under a foreign launcher
    bool is_spawned;          // a child of our launcher, with no mpirun between
    int local_rank;           // among those of its host; `rank` where nobody says
    const char *meeting;      // folder of the ranks of several nodes, whose launchers have met
                              // there; NULL else
    int home;       // the rank that works where this one does in a job that leaves out no place
    bool is_moved;  // places are left out: this job goes on where another was left
};
struct launch_place launch_place_find(void);

// The page that ranks of one host and their launcher share: what each does now, so that whoever
// ends the job can say who was stuck and where. Written without locks by its rank alone. Whoever
// starts for long, or has long tasks, lets the beat count on in between.
enum heartbeat_state {
    HEARTBEAT_STARTING,
    HEARTBEAT_WORKING,
    HEARTBEAT_WAITING,
    HEARTBEAT_DONE,
    HEARTBEAT_FAILED
};
struct heartbeat {
    _Atomic int64_t beat;  // counts up with every task begun or ended
    _Atomic int state;     // enum heartbeat_state
    _Atomic int pid, step, task;
    _Atomic int saves;  // on SIGTERM it writes a checkpoint and ends by itself
    char task_name[96];
    char reason[512];                      // HEARTBEAT_FAILED: what it said
    _Atomic int fail_kind, fail_standing;  // enum err_kind, launch_standing
    // Events are numbered over all ranks, so that the first is known: the rank failed (says so
    // itself), or its process ended otherwise than well (says who waited for it).
    _Atomic int fail_event, end_event;
    _Atomic int has_ended, end_status;  // as waitpid gives it
};
// A rank that stays slow, as the first rank tells the launcher, and what a move would cost.
struct launch_slow {
    int rank;
    double ratio;     // its own work by that of the others of its stage
    int64_t step;     // that has been run
    double step_s;    // mean of the slow ones
    double stored_s;  // what a checkpoint took until it was stored; 0: none was measured
    double start_s;   // from the start of the ranks to their first step: the launcher's
};
struct heartbeat_page;
MUST_CHECK struct heartbeat_page *heartbeat_page_create(int rank_count, struct err *err);
MUST_CHECK struct heartbeat_page *heartbeat_page_open(const char *name, int rank_count,
                                                      struct err *err);
const char *heartbeat_page_name(const struct heartbeat_page *page);  // of one that was created
struct heartbeat *heartbeat_of(struct heartbeat_page *page, int rank);
void heartbeat_page_close(struct heartbeat_page *page);  // opened or created; NULL is fine
// Marks the rank as failed for this reason. The launcher reports the first that does, and ends the
// job: a rank that has said it may end without a word of its own.
void heartbeat_fail(struct heartbeat_page *page, int rank, const char *reason);
// What a rank says of its failure, before it aborts anything: its launcher or guard says it once,
// and `err` is cleared. Where ranks have not met yet (ALONE) all may have found the same; one that
// was TOLD ends because of another, which says why.
enum launch_standing { LAUNCH_ALONE, LAUNCH_FIRST, LAUNCH_TOLD };
void launch_tell(struct heartbeat_page *page, int rank, enum launch_standing standing,
                 struct err *err);
// A rank's fault that was want of memory is put as that: "rank 1 ran out of memory (0.4 GiB
// allocated of 0.5 GiB, its limit of address space) in step 1, at starting". With rank -1 only one
// that says itself which rank it is of.
void launch_memory_explain(int rank, struct err *err);
// What the first rank says of a rank that stays slow; whoever reads it gets the last of it, and
// true where that is not the one `*known`, which then is.
void heartbeat_tell_slow(struct heartbeat_page *page, const struct launch_slow *slow);
bool heartbeat_slow(struct heartbeat_page *page, int *known, struct launch_slow *slow);
// Whether the ranks are asked to save and end because the job moves to another plan.
void heartbeat_page_move(struct heartbeat_page *page, bool moves);
bool heartbeat_page_is_moving(const struct heartbeat_page *page);
// Notes how the rank's process ended; `was_told` when whoever waited for it had ended it.
void heartbeat_end(struct heartbeat_page *page, int rank, int status, bool was_told);
// The launcher has begun to end the job.
void heartbeat_page_end_job(struct heartbeat_page *page);
bool heartbeat_page_is_ending(const struct heartbeat_page *page);

// A rank calls this first, before it has threads or output of its own. Under our launcher it opens
// the page; under mpirun and srun the process splits: the child goes on as the rank, the parent
// waits for it and notes how it ended, which mpirun would not tell. Where nobody of ours watches
// the job, the parent is a guard: it says in `err` that its rank died, was stopped or failed, and
// whoever started all ends the others. False when this process is to return *exit_code: the parent,
// at the end, or one that failed (`err` is set). *page is NULL for one rank alone.
MUST_CHECK bool launch_enter(const struct launch_place *place, struct heartbeat_page **page,
                             int *exit_code, struct err *err);

struct rendezvous_request;
// On the launcher's clock (core/progress.h).
struct launch_times {
    double first_step_s;  // when the first rank here was seen in its first step; 0: it never was
    double ended_s;       // when it was seen that the job had ended, or had to
};

struct launch_request {
    int rank_count;     // of the job
    char *const *argv;  // of this command; the ranks run it again, argv[0] replaced by this binary
    int argc;
    double stuck_s;  // a rank that stands still so long while others wait for it has failed
    bool spawns;     // the ranks are children of this process: no mpirun, this host only
    // NULL: one node. Else each node runs a launcher, all with the same plan; each starts and
    // watches its share of the ranks, and the first that has to end them ends those of all. Implies
    // `spawns`.
    const struct rendezvous_request *rendezvous;
    int local_node;      // among the launchers of its host, whose nodes are neighbours
    bool *is_signalled;  // NULL; else set where a signal to this process ended the job, and no rank
    int *failed_rank;    // NULL; else set to the rank whose line `err` is, -1: of none
    struct launch_times *times;  // NULL; else set
    double silent_s;             // a node whose launcher says nothing for so long is gone; 0: 30 s
    // Places of this host that no rank takes, ascending: `local_rank` passes them by. One node.
    const int *left_out;
    int left_out_count;
    // NULL; else asked whenever the first rank names a slow one. Where the answer is true the ranks
    // save and end as on SIGTERM, and *is_moved is set. It may take its time.
    bool (*moves)(void *context, const struct launch_slow *slow);
    void *context;
    bool *is_moved;
};
// Where the rank works: the rank-th place that is not left out.
int launch_home(const int *left_out, int count, int rank);
bool launch_finds_mpirun(void);
// Runs the job and returns its exit code, on every node: that of rank 0 when all end well
// (HEARTBEAT_DONE). When a
// rank dies, says no more, or fails: ends every process of the job within 30 s, and sets ERR_SYSTEM
// with one line: rank, operator and step ("rank 3 was killed (signal 9) in step 7, at B2.0 1
// attn.out"). Ends the job likewise on SIGINT, SIGTERM and SIGHUP; where all ranks save, the first
// SIGTERM is handed on to them, and they end the job. The job dies with this process too. The
// calling process has one thread and no other children. ERR_SYSTEM when there is no mpirun, with
// what to install.
MUST_CHECK bool launch_job(const struct launch_request *request, int *exit_code, struct err *err);
