#pragma once
#include "core/err.h"

#include <stdint.h>

// Starting the ranks of a job and ending them together. `meshwright run` under no launcher starts
// `mpirun` with itself and watches over it; under mpirun or srun it is one of the ranks.

struct launch_place {
    bool is_launched;  // under mpirun (OMPI_COMM_WORLD_*, PMI_*) or srun (SLURM_PROCID)
    int rank, rank_count;
    bool is_one_host;  // all ranks
};
struct launch_place launch_place_find(void);

// The page that ranks of one host and their launcher share: what each does now, so that whoever
// ends the job can say who was stuck and where. Written without locks by its rank alone.
enum pulse_state { PULSE_STARTING, PULSE_WORKING, PULSE_WAITING, PULSE_DONE, PULSE_FAILED };
struct pulse {
    _Atomic int64_t beat;  // counts up with every task begun or ended
    _Atomic int state;     // enum pulse_state
    _Atomic int pid, step, task;
    char task_name[96];
    char reason[160];  // PULSE_FAILED: what it said
};
struct pulse_page;
MUST_CHECK struct pulse_page *pulse_page_open(const char *name, int rank_count, bool creates,
                                              struct err *err);
struct pulse *pulse_of(struct pulse_page *page, int rank);
void pulse_page_close(struct pulse_page *page);  // and unlinks it if it was created here

struct launch_request {
    int rank_count;
    char *const *argv;  // of this command; the ranks run it again with the page's name added
    int argc;
    bool spawns;     // without mpirun: forked on this host
    double stuck_s;  // a rank that stands still so long while others wait for it has failed
};
// Runs the job and returns its exit code: that of rank 0 when all end well. When a rank dies, says
// no more, or fails: ends every process of the job within 30 s, removes shared memory, and sets
// ERR_MACHINE with one line: rank, operator and step ("rank 3 was killed (signal 9) in step 7, at
// B2.0 1 attn.out"). Ends the job likewise on SIGINT and SIGTERM.
MUST_CHECK bool launch_job(const struct launch_request *request, int *exit_code, struct err *err);
