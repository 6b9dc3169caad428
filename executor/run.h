#pragma once
#include "executor/communicators/communicator.h"
#include "executor/data/corpus.h"
#include "executor/launcher/launch.h"
#include "executor/rate.h"
#include "executor/straggler.h"
#include "plan/readers.h"
#include "plan/script/script.h"

// Runs the script of this rank's stage for a number of steps: trains, measures. Losses, weights and
// gradients do not depend on the plan beyond rounding: weights, data order and dropout are drawn by
// (seed, name, step, index in the whole).

enum run_data {
    DATA_SYNTHETIC,  // random tokens
    DATA_TEXT,       // bytes of executor/text.c
    DATA_CORPUS,     // files of tokens
};
// Labels look so many tokens past the end of a sequence.
enum { RUN_IDS_AHEAD = READERS_IDS_AHEAD };

// Checkpoints of a run (executor/checkpoint/store.h): what the command line says of them, alike on
// all ranks.
enum run_resume {
    RESUME_NONE,
    RESUME_MUST,
    RESUME_AUTO
};  // AUTO: from the beginning if there is
    // nothing to resume
struct run_checkpoint {
    const char *folder;
    int every;  // steps; 0: as `interval` says
    int keep;   // the last so many; 0: all
    enum run_resume resume;
    const char *plan_hash, *model, *family, *optimizer;
    // Steps between two, from how long one makes ranks pause and takes until it is stored, and how
    // long a step takes; 0 for what is not measured yet.
    int (*interval)(void *context, double pause_s, double write_s, double step_s);
    // A line for the user.
    void (*say)(void *context, const char *line);
    // Whether the run is asked to end with a checkpoint.
    bool (*is_stop_asked)(void *context);
    void *context;
};
struct run_saved {            // what became of them, alike on all ranks
    int count;                // that were stored
    int64_t bytes;            // of one, all ranks together
    double pause_s, write_s;  // of one, of the slowest rank, mean: copying; until it was stored
    int every;                // steps, at the end
    int64_t step;             // of the last one; 0: none
    int64_t resumed_step;     // that the run went on from; 0: the beginning
    bool is_stopped;          // the run was asked to end
};

struct run_options {
    int steps;  // of the whole run, those before its checkpoint included
    uint64_t seed;
    enum run_data data;
    const struct corpus *corpus;  // of DATA_CORPUS, open
    enum readers readers;         // of its files
    int validate_every;           // steps from one validation to the next, and one at the end; 0:
                                  // none. Of a corpus alone
    int validate_batches;         // that the loss is the mean of
    struct rate_course rate;      // the learning rate
    double beta1, beta2, epsilon, weight_decay, momentum;
    double spike_deviations;  // updates so far out of line are left out, and those that are not
                              // finite (executor/spikes.h); 0: none is
    int roll_back;         // after so many of them in a row to the last good checkpoint; 0: never
    double clip_norm;      // 0 = gradients are not clipped
    double loss_scale;     // of the first step, in fp16 alone; 0 = 65536
    bool operators_apart;  // no operator runs as one with the next (comparisons)
    bool launches_each;    // no operators are recorded and replayed as one (comparisons)
    bool poison;           // fills what is not alive with NaN and checks guards round the arena;
                           // NaN of gradients without room in fp16 is taken for it
    const struct run_checkpoint *checkpoint;  // NULL: none are written
    // [stage]: what a rank of it is predicted to work in a step; NULL: that is not of this machine.
    const double *stage_work_s;
    int slow_rank;  // its own work takes `slow_ratio` as long as it does; a ratio of 0 or 1: none.
                    // On a
    double slow_ratio;            // back end that works beside the host none is made slow
    int64_t device_memory_bytes;  // that a rank's device has at most; 0: as much as it has
    const char *nvme;             // folder for what the plan moves to NVMe; NULL: not said
    const char *logits_path;      // NULL, or the scores behind the last step are written there, in
                                  // safetensors
    const char *dump_path;  // NULL, or weights and gradients of the last step, by name and whole,
                            // are written there (tests)
};

struct run_result;
struct run_request {
    const struct backend *backend;
    struct device *device;
    const struct transport *transport;
    struct communicator *communicator;
    int rank;
    const struct script *script;  // of the rank's stage, checked
    const struct graph *graph;
    const struct run_options *options;
    struct heartbeat *heartbeat;  // NULL: nobody watches
    // Called after every step, on every rank; NULL: nobody listens.
    void (*report)(void *context, const struct run_result *result);
    void *report_context;
};

// What was measured on this rank, and of all ranks where it says so. Lives in the arena.
enum run_group { RUN_TASK, RUN_OPERATOR, RUN_COLLECTIVE };
struct run_kind {  // one kind of task
    enum run_group group;
    int index;          // RUN_TASK: as struct task_id's kind; enum op_kind; enum collective
    enum axis axis;     // RUN_COLLECTIVE
    double count;       // a step, all ranks together
    double measured_s;  // a step, all ranks together, mean over the steps after the first
    double bytes;       // payload a step, of communication
};

struct run_task {  // one task of the step graph, a step, all ranks together
    double count;  // how often it ran
    double bytes;  // that its operands hold, or that it moves
    double s;      // mean over the steps after the first
};

struct run_attention {  // the way that attention of one shape went on so many ranks
    struct attention_path way;
    int rank_count;
};

// What a corpus takes a step, mean over the steps after the first.
struct run_input {
    int reader_count;                    // ranks that read files; 0: no corpus
    double read_bytes, host_read_bytes;  // of ids, all ranks together, and those of the host of
                                         // the plan that reads most
    double read_s;                       // of the slowest reader, beside the step before or not
    double broadcast_bytes;              // that ranks received, all together
    double broadcast_s;                  // of the reader whose rows took longest to be handed on
};

enum run_skip { RUN_UPDATED, RUN_SKIP_ROOM, RUN_SKIP_SPIKE };

struct run_result {
    int step_count;         // that were run, from the one behind saved.resumed_step on
    double *step_s;         // of the slowest rank
    double *loss;           // mean over the tokens of the step
    double *gradient_norm;  // not finite: in fp16 a gradient had no room, and no weight was
                            // changed; 0 where nobody asks for it (step_takes_norm)
    double *learning_rate;
    double *validation_loss;  // behind the step; NaN: none was taken
    double *data_wait_s;      // for how long this rank waited for its data
    double *between_s;  // from the end of the step before, on the slowest rank, to the beginning of
                        // this one, without waits for data, copies of checkpoints and validation;
                        // NaN: there was none before
    struct straggler straggler;  // what the last step showed; on the first rank alone
    enum run_skip *skip;         // why no weight was changed: fp16 had no room, or it was a spike
    double *loss_scale;  // by which gradients were multiplied while they were made; 1 but in fp16
    int64_t peak_bytes;  // arena and state of the rank with most; staging and the back end's
                         // own memory are workspaces
    int64_t arena_bytes, arena_used_bytes, state_bytes, staging_bytes;  // of this rank; used: the
                                                                        // highest byte written
    int64_t host_peak_bytes, nvme_bytes;  // of the ranks with most: what the plan moves there
    double moved_s;  // a step, of the rank with most: waited for what is moved there and back, mean
                     // over the steps after the first; 0 where copies run beside the work
    double nvme_bytes_per_s;  // at which the slowest rank's files were read and written, while they
                              // were; 0: there are none
    int64_t device_limit_bytes, device_peak_bytes;  // where device memory is limited: to how much,
                                                    // and the most that a rank had taken of it
    int64_t replay_count;  // of this rank: runs of operators that were replayed as one launch
    int64_t joined_count;  // operators a step that ran as one with the one before them
    struct run_kind *kinds;
    int kind_count;
    struct run_task *tasks;  // by their numbers (plan/script/graph.h)
    int task_count;
    struct run_attention *attentions;  // none where the back end has one way
    int attention_count;
    int64_t *traffic_bytes;  // [from * ranks + to] a step, as rings and messages pass payloads on
    struct run_input input;
    struct run_saved saved;
    struct trace trace;  // of the fastest step after the first, all ranks
};

// Whether a model of this vocabulary can train on the data. ERR_USAGE.
MUST_CHECK bool run_check_data(const struct graph *graph, enum run_data data, struct err *err);

MUST_CHECK bool run_steps(struct arena *arena, const struct run_request *request,
                          struct run_result *result, struct err *err);

// Whether the model has scores of a vocabulary, to write. ERR_USAGE.
MUST_CHECK bool run_check_logits(const struct graph *graph, struct err *err);

// Of a run whose corpus is not DOCUMENTS_JOINED; ERR_USAGE where attention cannot heed documents.
MUST_CHECK bool run_check_documents(const struct backend *backend, const struct program *program,
                                    struct err *err);
// Whether a folder is given for what the program keeps on NVMe, if it does. ERR_USAGE.
MUST_CHECK bool run_check_nvme(const struct program *program, const char *folder, struct err *err);

// Whether any back end can run the program: nothing of it leaves open what is to be computed.
// ERR_USAGE naming the rule.
MUST_CHECK bool run_check_program(const struct program *program, struct err *err);

// The same, and whether this back end has every kernel of the script, before anything starts;
// ERR_USAGE naming the rule.
MUST_CHECK bool run_check(struct arena *scratch, const struct backend *backend,
                          const struct script *script, const struct graph *graph, int rank,
                          struct err *err);
