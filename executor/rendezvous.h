#pragma once
#include "core/err.h"
#include "executor/outside.h"

#include <limits.h>
#include <stdint.h>

// How the launchers of a job that runs on several nodes find each other without mpirun or srun: by
// files in a folder that all nodes share. Node 0 puts a number that it has drawn, each other node
// answers with that number and one of its own, and node 0 puts all of theirs beside the name of a
// folder for this job alone. Each has then seen its own number come back: what an earlier job has
// left is never taken for an answer, whatever its name, nor is that of a job of another name.

enum { RENDEZVOUS_VERSION = 2, NODE_NAME_BYTES = 64, NODE_COUNT_MAX = 4096, JOB_NAME_MAX = 64 };

struct rendezvous_request {
    const char *folder;  // absolute; there, and shared by all nodes
    const char *job;     // keeps jobs apart that meet in one folder; rendezvous_job_is_valid
    int node, node_count, rank_count;
    uint64_t plan_key;     // of the plan; all nodes must have the same
    uint64_t options_key;  // of what else they must agree on
    double timeout_s;
    const struct outside *outside;  // NULL: the machine's own
};

struct rendezvous {
    const struct rendezvous_request *request;
    int node, node_count;            // count 0: they have not met
    int first_rank, own_count;       // ranks of this node
    char (*names)[NODE_NAME_BYTES];  // node 0: of each node's host, for messages
    char folder[PATH_MAX];           // of this meeting alone
    double leaves_s;                 // since when it closes; 0: it does not
};

// 1 to JOB_NAME_MAX letters, digits and "._-", the first no dot.
bool rendezvous_job_is_valid(const char *job);
// Ranks of a node: neighbours stay together, counts differ by one at most.
int rendezvous_first_rank(int rank_count, int node_count, int node);

// ERR_SYSTEM, one line that says who did not come, or who came with what; on all nodes that have
// come. Gives up where a signal is pending that would end the process and that it has blocked. The
// caller closes what is returned, also after a failure; the request has to live as long.
MUST_CHECK bool rendezvous_meet(const struct rendezvous_request *request, struct rendezvous *met,
                                struct err *err);
// Node 0 waits shortly for the others to close, and removes the files of the meeting.
void rendezvous_close(struct rendezvous *met);

// The same look by look, for who has the time in its own hands: `begin` and `look` are what
// rendezvous_meet does between two pauses, rendezvous_leave what rendezvous_close does, until it is
// true. What `begin` returns is ended in any case; NULL with a set `err` where it fails.
enum meeting_state { MEETING_WAITS, MEETING_MET, MEETING_FAILED };
struct meeting;
MUST_CHECK struct meeting *rendezvous_begin(const struct rendezvous_request *request,
                                            struct rendezvous *met, struct err *err);
MUST_CHECK enum meeting_state rendezvous_look(struct meeting *meeting, struct err *err);
void rendezvous_end(struct meeting *meeting);
bool rendezvous_leave(struct rendezvous *met);
