#pragma once
#include "cost_models/communicators.h"
#include "cost_models/stack.h"

// What failures leave of a run: how often the job is interrupted, how often it should write a
// checkpoint, the share of time that makes progress, and when the run ends.
//
// Failures come as a Poisson process, while the job restarts too. A segment of work and the
// checkpoint behind it, L seconds, then takes M e^((R+P)/M) (e^(L/M) - 1) in the mean, with M the
// mean time between interruptions and R that of a restart: Daly (2006), "A higher order estimate
// of the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22,
// equation 20. P is how long a checkpoint is on its way to storage after the job went on: until
// then a failure goes back one checkpoint more, which costs as much as a longer restart. The best
// interval is his equation 37, in whole steps.
//
// Nodes that a failure takes are replaced by spares and come back repaired (cost_models/spares.h).
// A run starts with all of them free, so that a short one waits less than a run without an end.
//
// Unknown in the cluster, and then assumed, which is said: a restart takes 10 minutes ("less than
// 10 minutes" to detect and diagnose: MegaScale, NSDI 2024, section 6.3); every host adds 625 MB/s
// to the storage (20 GB/s for a unit of 32 nodes, the "better" row of writes in NVIDIA's DGX
// SuperPOD reference architecture for H100, table 6).
static const double GOODPUT_RESTART_S = 600;
static const double GOODPUT_HOST_BYTES_PER_S = 20e9 / 32;
// Below this share of progress a run has no end that is worth a number: its length is infinite.
static const double GOODPUT_LEAST_RATIO = 1e-6;

struct goodput_request {
    const struct cluster *cluster;  // its failures, and how many ranks
    double step_s;                  // without interruptions, > 0
    int64_t checkpoint_bytes;       // of the whole job: weights, master weights and moments, once
    double steps;                   // of the whole run; 0: no finish is asked for
    struct communicators communicators;  // that a restart makes anew; none: not asked about
};

enum { GOODPUT_QUANTILE_COUNT = 3 };  // 10, 50 and 90 %

struct goodput {
    bool is_known;  // false: the cluster's failures are not known, and all else is 0
    double cause_per_s[FAILURE_CAUSE_COUNT];  // interruptions
    double mtbf_s;                            // of the job, 1 / their sum
    int64_t checkpoint_bytes;                 // of one
    double storage_bytes_per_s;               // at which it is written and read
    bool storage_is_assumed, restart_is_assumed;
    double write_s;       // of a checkpoint, until it is stored
    double checkpoint_s;  // the same, or where it is written beside training how long that stands
    double interval_s;    // of work between two checkpoints, whole steps
    bool interval_is_best;
    double restart_s;  // from a failure to the first step after it, the wait for a node included
    double wait_s;     // of it that wait, in the mean over all interruptions
    double communicators_s;  // of it, until the communicators are there
    // Of the run, or where no finish is asked for of one without an end; these four sum to 1.
    double goodput_ratio;  // progress over wall clock
    double checkpoint_ratio, lost_ratio, restart_ratio;
    double expected_s;  // of the whole run; 0: not asked; INFINITY: it does not end
    double finish_s[GOODPUT_QUANTILE_COUNT];
    double interruptions;  // expected, over the whole run
};

// Equal requests give equal bytes: where quantiles are drawn, it is from a fixed seed.
struct goodput goodput_of(const struct goodput_request *request);
// The same but for `finish_s`, which stays 0 where the run ends: much faster.
struct goodput goodput_mean_of(const struct goodput_request *request);

// Of a checkpoint alone, whether or not the failures are known: checkpoint_bytes, checkpoint_s,
// write_s and the storage; all else is 0.
struct goodput goodput_checkpoint_of(const struct goodput_request *request);

// Daly's equation 37 for checkpoints that take `checkpoint_s` and interruptions every `mtbf_s`:
// seconds of work between two.
double goodput_interval_s(double checkpoint_s, double mtbf_s);

// What a checkpoint of this program holds: every parameter as weight (where the stack keeps one
// beside the master copy), master weight and moments, each once however often ranks repeat it.
int64_t goodput_checkpoint_bytes(const struct program *program, const struct graph *graph,
                                 const struct stack *stack);
// Of a cluster whose file, or command line, says more of failures than the default rate.
bool goodput_is_told(const struct failures *failures);
