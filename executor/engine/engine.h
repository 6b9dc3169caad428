#pragma once
#include "executor/engine/held.h"
#include "executor/run.h"
#include "executor/spikes.h"
#include "executor/straggler.h"

// The engine of one rank: what executor/engine/*.c share; nobody else includes this.

// Of a flat buffer.
struct part {
    int64_t first, count;
};

// In device memory, but for what the plan moves: weights as kernels read them (ELEMENT_COMPUTE),
// the others reals. Masters, of which the optimizer keeps as much as of moments, are there where
// reals are wider than what kernels read (backend->round); else weights are the masters.
struct state {
    char *weights, *gradients, *masters, *first_moments, *second_moments;
    char *
        away_weights;  // those that are only fetched, in memory of the host; NULL: none, or on NVMe
    int64_t weight_count, gradient_count, moment_count;  // elements
    int64_t away_weight_count, away_count;               // of weights and moments off the device
    int64_t *weight_at, *gradient_at, *moment_at;        // [unit] elements into those, weights and
                                                         // moments into the device's or the others
    double *trust;                                       // [parameter]: LAMB and LARS
};

struct member_group {
    unsigned axes;
    int *ranks;  // ascending, or as shard_members has them
    int count, index;
    bool is_shard, is_ascending;
    struct group *group;
};

// What the engine knows of a task before it runs.
struct prepared {
    int owner;       // of an exchange inside an operator: the task of the operator; else -1
    int source;      // of a reader of streamed keys: see engine_ring.c
    int rows;        // of a task on rows of experts: see engine_experts.c; -1
    int enters;      // 1 + the bucket whose gradients begin to use their room here; 0
    int joined;      // tasks that run as one with this, the first of them; 0
    int *members;    // those, this one among them
    bool is_joined;  // with one before it
    char *host;      // of what it copies from or to the host without waiting; NULL: not yet
};

// Of the loss's gradient, and with it of all others: see engine_scale.c.
struct scale {
    double now, of_step;  // of the next step, and of the gradients that there are
    bool skips;           // the gradients of this step had no room: nothing is updated
    int good_steps;
    enum run_skip skip;  // why `skips`
};

struct value_end {  // a value of the arena: made by the one task, dead behind the other
    int first, task;
    int64_t offset, bytes;
};

struct engine {
    const struct run_request *request;
    const struct backend *backend;
    struct device *device;
    const struct transport *transport;
    const struct script *script;
    const struct program *program;
    struct arena *arena;
    struct arena *scratch;  // of one task
    int64_t real_bytes, compute_bytes;
    int64_t plan_bytes;  // of an element in the plan's precision
    int64_t widen;       // bytes here for a byte of the plan
    int rank, stage;
    char *memory;                    // the arena; between guards
    char *staging[STREAM_COUNT][2];  // see engine_staging
    int64_t staging_bytes;           // of all
    int64_t beside_bytes;            // of arrays that no plan places: staging, tokens, guards
    struct streams *streams;
    struct segments *segments;
    bool is_capturing;
    struct host_memory *host_memory;
    struct host_state *host_state;   // engine_host_state.h; NULL: states are on the device
    int64_t host_bytes, nvme_bytes;  // of what the plan moves to the host and its drives
    struct nvme *drives[3];          // files there: states, weights, activations
    int drive_count;
    struct state state;
    struct weight_casts *weight_casts;  // executor/engine/weight_casts.c
    struct member_group **groups;
    int group_count;
    struct group *world;
    struct member_group *tied;  // [tie of the program]: this rank and those in its place on the
                                // other stages; without a group: not yet
    struct prepared *prepared;
    struct data *data;
    struct sent_bytes *traffic;
    struct offloaded *offloaded;
    struct away *away;    // executor/engine/away.h; NULL: no parameters are on NVMe
    struct moved *moved;  // executor/engine/moved.h; NULL: no activations go to NVMe
    struct routed_experts *experts;
    int step;                     // of the whole run, from 0
    int first_step;               // that is run here: behind the checkpoint it goes on from
    struct save *save;            // engine/checkpoint.h; NULL: none are written
    double loss_sum;              // of this rank's tokens
    double norm, gradient_scale;  // gradient_scale: what updates take out and clip
    struct scale scale;
    struct spikes spikes;
    int spikes_in_row;
    int rolled_updates;    // update_count when it was rolled back; -1: it was not
    double learning_rate;  // of the step
    bool is_validating;    // see engine/validate.c
    int update_count;      // steps that were not left out, this one among them
    struct value_end *ends;
    int end_count, next_end;
    struct measure *measure;
    int64_t work_ns;        // of the last step that was measured, without waiting; 0: none was
    double moving_began_s;  // by moving_begin
    double moved_s, moved_sum_s;  // of this step; of all that count
    double step_over_s;  // when the step before was over, and what behind it is counted elsewhere
    double slow_began_s, slow_owed_s;  // of a rank that is made slow
    struct stragglers *stragglers;     // of the rank that speaks for all; NULL: of another
    int *ran;                          // [task] of this step; see engine/tasks.c
    int64_t *plain_bytes;              // [task] of what may be replayed
    double *sums;                      // by number of the step graph's tasks
    struct err *err;
};

// False with the engine's err set when `fault`, a text of a back end or transport, is not NULL.
bool engine_ok(struct engine *engine, int task, const char *fault);
const struct block_program *engine_block(const struct engine *engine,
                                         const struct script_task *task);
// Memory of an operand; for state the parameter's first element here.
char *engine_address(struct engine *engine, const struct script_task *task,
                     const struct script_operand *operand);
// Bytes here of an element kind.
int64_t engine_element_bytes(const struct engine *engine, enum element element);
// What an operand's elements are here, and those of a flat one.
enum element engine_element(const struct engine *engine, const struct script_task *task,
                            const struct script_operand *operand);
// engine_numbers.c: numbers of the device as doubles on the host; both wait. On the task's stream,
// of task -1 on that of compute.
MUST_CHECK bool numbers_read(struct engine *engine, int task, enum element element,
                             const void *from, int64_t count, double *to);
MUST_CHECK bool numbers_write(struct engine *engine, int task, enum element element, void *to,
                              int64_t count, const double *from);
// The ranks with this one's coordinates on all axes but these. Made once.
struct member_group *engine_group(struct engine *engine, unsigned axes, const char *purpose);
// The same in the order of what they store in shards over these axes.
struct member_group *engine_shard_group(struct engine *engine, unsigned axes, const char *purpose);
const char *engine_rank_group(struct engine *engine, const int *ranks, int count,
                              const char *purpose, struct group **group);
// Room for what an exchange on this stream packs and unpacks, one for what leaves (0) and one for
// what comes (1).
char *engine_staging(const struct engine *engine, enum stream stream, int which);
int engine_rank_at_stage(const struct engine *engine, int stage);
// Position in the graph's sequence of a task's block.
int engine_sequence(const struct engine *engine, const struct script_task *task);

// Tells who watches that a task begins.
void engine_beat(const struct engine *engine, int task);
double engine_step_tokens(const struct engine *engine);
// engine_streams.c: what a task waits for on other streams, and what it tells them. Nothing where
// calls of the back end return when all is done.
MUST_CHECK bool streams_open(struct engine *engine);
void streams_close(struct engine *engine);
MUST_CHECK bool streams_begin(struct engine *engine, int task);
MUST_CHECK bool streams_end(struct engine *engine, int task);
bool streams_is_awaited(const struct engine *engine, int task);
// Inside a task that works on two streams: a mark on one, and what another goes on behind. `join`:
// what is put on `behind` from now on comes behind what is on `stream`.
enum stream_mark { MARK_JOIN, MARK_RING, MARK_RING_NEXT, MARK_COUNT };
MUST_CHECK bool streams_mark(struct engine *engine, int task, enum stream_mark mark,
                             enum stream stream);
MUST_CHECK bool streams_follow(struct engine *engine, int task, enum stream_mark mark,
                               enum stream stream);
MUST_CHECK bool streams_join(struct engine *engine, int task, enum stream behind,
                             enum stream stream);
// Waits until all streams are done.
MUST_CHECK bool streams_settle(struct engine *engine);
// engine_host.c: memory of the host, for the run; NULL and the engine's err set when there is none.
// What is copied from and to it is there when streams_settle returns, if not at once.
char *host_memory(struct engine *engine, int64_t bytes);
void host_memory_close(struct engine *engine);
const char *host_copy(struct engine *engine, enum stream stream, enum copy_kind kind, void *to,
                      const void *from, int64_t bytes);
// engine_segments.c: operators in a row that are recorded and replayed as one. segments_run: how
// many tasks from this one on it ran, 0 if none, -1 on a fault.
MUST_CHECK bool segments_open(struct engine *engine);
void segments_close(struct engine *engine);
MUST_CHECK bool segments_start(struct engine *engine);  // of a step
int segments_run(struct engine *engine, int task);
int64_t segments_replayed(const struct engine *engine);
const uint64_t *segments_key_at(const struct engine *engine, int task);
// Whether a task puts work on the compute stream and no more; and does so right behind the one
// before it, with nothing to wait for or to tell in between.
bool segments_is_plain(const struct engine *engine, int task);
// engine/weight_casts.c: weights in 8 bits, which the first product of a step that reads one casts
// for all others (plan/lower/casts.h).
MUST_CHECK bool weight_casts_open(struct engine *engine);
void weight_casts_close(struct engine *engine);
// Of the casts, which the plan's memory counts; their factors are counted with what stages.
int64_t weight_casts_bytes(const struct engine *engine);
// Shows the call of a task the cast of its weight.
void weight_casts_show(const struct engine *engine, int task, struct kernel_call *call);
// engine_joins.c: operators that the back end runs as one, where the first of them stands, and how
// many waits a task has with those of what it runs.
void joins_prepare(struct engine *engine);
int joins_wait_count(const struct engine *engine, int task);
MUST_CHECK bool joins_run(struct engine *engine, int task);
// engine_task.c
MUST_CHECK bool task_run(struct engine *engine, int task);
void task_add_losses(struct engine *engine);  // of the step, when all streams are done
// Whether of the ranks that hold the same of a value this is the one that counts it.
bool task_counts_tokens(const struct engine *engine, const struct layout *layout);
// engine_offload.c: what leaves for the host and comes back.
MUST_CHECK bool offload_run(struct engine *engine, int task);
// engine_dump.c
MUST_CHECK bool dump_write(struct engine *engine);

// engine_state.c
MUST_CHECK bool state_open(struct engine *engine);
void state_close(struct engine *engine);
// Address of parameter p's part here and how much of it: whole, or where the unit is stored in
// parts the overlap. `first`: element of the parameter.
enum state_array { STATE_WEIGHTS, STATE_GRADIENTS, STATE_MOMENTS };
struct state_part {
    int64_t at;     // elements into the array
    int64_t first;  // element of the parameter
    int64_t count;
};
struct state_part state_part_of(struct engine *engine, int parameter, enum state_array array);
// The part of a unit that is here. Of what is sharded over a group: the part of this rank, and how
// much each member has.
struct part state_unit_part(struct engine *engine, int unit, enum state_array array);
struct part state_shard(const struct engine *engine, unsigned axes, int64_t elements);
int64_t *state_counts(struct engine *engine, int64_t elements, const struct member_group *group);
// Whether the weights of a unit are off the device; where those that are not on NVMe begin.
bool state_unit_leaves(const struct engine *engine, int unit);
char *state_unit_weights(const struct engine *engine, int unit);
// The unit that stores this one.
int state_owner(const struct engine *engine, int unit);
// Elements of this parameter's tensor that this rank's layout holds.
struct held state_held(const struct engine *engine, int parameter, int rank);
const struct parameter *state_parameter(const struct engine *engine, int parameter);

// engine/gradients.c: before a step and before a task that makes gradients. `zero_rest`: what an
// uneven split leaves over behind the part of `operand`'s parameter that was written at `written`.
void gradients_prepare(struct engine *engine);
MUST_CHECK bool gradients_start(struct engine *engine);
MUST_CHECK bool gradients_begin(struct engine *engine, int task);
MUST_CHECK bool gradients_zero_rest(struct engine *engine, int task,
                                    const struct script_operand *operand, char *written);

// engine_initial.c: weights by name and index in the whole.
MUST_CHECK bool initial_weights(struct engine *engine);

// engine_exchange.c: instructions that communicate, and slices.
MUST_CHECK bool exchange_run(struct engine *engine, int task);
int64_t exchange_staging(const struct engine *engine, int task);  // bytes wanted

// executor/engine/message.c: to and from other stages
bool message_run(struct engine *engine, int task);
int64_t message_staging(const struct engine *engine, int task);  // bytes wanted
// engine_experts.c: which rows of ragged tensors there are.
struct expert_rows;
void experts_prepare(struct engine *engine);
bool experts_are_ragged(const struct engine *engine, int task);
// Whether this is the exchange inside a dispatch, and whether others are waited for in a dispatch.
bool experts_gather(const struct engine *engine, int task);
bool experts_wait(const struct engine *engine, int task);
// Before a dispatch: what its tokens chose; then what those of the others did.
MUST_CHECK bool experts_choose(struct engine *engine, int task);
MUST_CHECK bool experts_exchange_choices(struct engine *engine, int task);
// Tells a kernel of the rows, if it works on any.
MUST_CHECK bool experts_show(struct engine *engine, int task, struct kernel_call *call);
struct expert_rows *experts_rows(struct engine *engine, int task);
// Whether there is room for the rows of an output; the engine's err is set if not.
MUST_CHECK bool experts_fit(struct engine *engine, int task, const struct script_operand *operand);
// engine_ring.c: attention whose keys pass by.
void ring_prepare(struct engine *engine);
bool ring_is(const struct engine *engine, int task);
MUST_CHECK bool ring_run(struct engine *engine, int task);
MUST_CHECK bool ring_settle(struct engine *engine, int task);
// engine_call.c
MUST_CHECK bool call_make(struct engine *engine, int task, struct kernel_call *call);
uint64_t call_key(const struct engine *engine, int task);  // of random numbers
MUST_CHECK bool call_run(struct engine *engine, int task);
// On the stream of the exchange that the part belongs to.
MUST_CHECK bool call_part(struct engine *engine, int task, enum stream stream, int part,
                          struct kernel_array *inner);
// engine_update.c: once a step.
struct state_part update_part_of(struct engine *engine, int parameter);
// The part of a unit that this rank updates; *at: of its gradients, reals into those of the state.
struct part update_unit_part(struct engine *engine, int unit, int64_t *at);
struct update_call update_call_of(struct engine *engine, int parameter);
void update_measure(struct engine *engine, int task, const struct update_call *call);
MUST_CHECK bool update_run(struct engine *engine, int task);
int64_t update_staging(const struct engine *engine, int task);
// engine_scale.c: at the start; of a step whose norm nobody asks for; and when the norm of the
// scaled gradients is known.
void scale_open(struct engine *engine);
bool scale_is_on(const struct engine *engine);  // gradients are scaled, by 1 too
void scale_start(struct engine *engine);
void scale_settle(struct engine *engine, double scaled_norm);
// engine_data.c
MUST_CHECK bool data_open(struct engine *engine);
void data_close(struct engine *engine);
void *data_ids(const struct engine *engine, const struct script_task *task, int buffer);
// The ids of the step, and of a held-out batch; *waited_s: for how long they were not there.
// Where documents begin, as kernel_call has it; NULL where they are joined. Good for the step.
const int64_t *data_documents(const struct engine *engine, int64_t *stride);
MUST_CHECK bool data_step(struct engine *engine, double *waited_s);
MUST_CHECK bool data_held_out(struct engine *engine, int batch);
// At the end, of all ranks: what the files took.
MUST_CHECK bool data_finish(struct engine *engine, struct run_result *result);
// The ids of a sequence of the step, by its number there.
const int64_t *data_row(struct engine *engine, int64_t sequence);
// engine_validate.c: the mean loss of the held-out batches.
MUST_CHECK bool validate(struct engine *engine, double *loss);
// The forward tasks on what data there is, without dropout; `see` is shown each before it runs.
typedef bool forward_see(struct engine *engine, int task, void *context);
MUST_CHECK bool forward_run(struct engine *engine, forward_see *see, void *context);
// engine/logits.c: to the file that was asked for, behind the last step.
MUST_CHECK bool logits_write(struct engine *engine);
// engine_poison.c
int64_t poison_guard_bytes(const struct engine *engine);
void poison_prepare(struct engine *engine);
MUST_CHECK bool poison_start(struct engine *engine);
MUST_CHECK bool poison_after(struct engine *engine, int task);
MUST_CHECK bool poison_check(struct engine *engine, double loss);  // at the end of a step
// engine_measure.c
MUST_CHECK bool measure_open(struct engine *engine);
void measure_close(struct engine *engine);
MUST_CHECK bool measure_start_step(struct engine *engine);
MUST_CHECK bool measure_begin(struct engine *engine, int task);
MUST_CHECK bool measure_end(struct engine *engine, int task);
// engine/slow.c: what the ranks worked in the step before, and what is new of those that stay slow.
void slow_open(struct engine *engine);
struct straggler slow_take(struct engine *engine, const int64_t *worked_ns, double step_s);
// At both ends of a task: a rank that is made slow takes its time for what it works, and has taken
// it before others hear of it.
void slow_begin(struct engine *engine, int task);
void slow_end(struct engine *engine, int task);
// Whether others have to do their part before the task ends.
bool engine_waits(const struct engine *engine, int task);
bool measure_is_fine(const struct engine *engine);  // every task of this step is timed
void measure_bytes(struct engine *engine, int task, int64_t bytes);
// Between these the rank does nothing but bring something to its host or drive, or from there.
// Where copies run beside it nothing is counted.
void moving_begin(struct engine *engine);
void moving_end(struct engine *engine);
MUST_CHECK bool moving_finish(struct engine *engine, int steps, struct run_result *result);
MUST_CHECK bool measure_step(struct engine *engine, double step_s);
MUST_CHECK bool measure_finish(struct engine *engine, struct run_result *result);
// engine/memory.c: before anything is taken of the device, how much of it there is, which the first
// step tries and every later one is held to: one that takes more ends the run behind the first, so
// that the ranks know how much would do; what this rank holds, as far as it is known; and of all
// ranks, those that hold most.
MUST_CHECK bool memory_limit(struct engine *engine, struct run_result *result);
MUST_CHECK bool memory_hold(struct engine *engine);
void memory_fill(struct engine *engine, struct run_result *result);
MUST_CHECK bool memory_gather(struct engine *engine, struct run_result *result);
// engine/levels.c: what every rank held while its tasks ran, as levels of the trace. `starts`
// [task]: seconds of the step that is shown; `shift_ns` is added to them. None where tasks run
// beside each other.
MUST_CHECK bool levels_gather(struct engine *engine, const double *starts, int64_t shift_ns,
                              int64_t state_bytes, struct trace *trace);
// attentions.c: at the end, of all ranks.
MUST_CHECK bool attentions_gather(struct engine *engine, struct run_result *result);
// tasks.c: `count` tasks from `first` on have run. Of a step that counts each is added up:
// bytes, and the seconds where it was timed; at the end over all steps that counted.
MUST_CHECK bool tasks_open(struct engine *engine);
void tasks_start_step(struct engine *engine);
void tasks_ran(struct engine *engine, int first, int count);
void tasks_add(struct engine *engine, int task, int64_t bytes, bool is_timed, double seconds);
MUST_CHECK bool tasks_finish(struct engine *engine, int steps, struct run_result *result);
// What the operands of a kernel hold.
void tasks_measure_call(struct engine *engine, int task, const struct kernel_call *call);

// engine/traffic.c: payloads by the rank that they go to, in this step: `bytes` to one rank, or
// once round a group as a ring of this collective passes them on. Of all ranks at the end.
MUST_CHECK bool traffic_open(struct engine *engine);
void traffic_start_step(struct engine *engine);
void traffic_to(struct engine *engine, int rank, int64_t bytes);
void traffic_ring(struct engine *engine, const struct member_group *group,
                  enum collective collective, int64_t bytes);
void traffic_end_step(struct engine *engine);
MUST_CHECK bool traffic_finish(struct engine *engine, struct run_result *result);
