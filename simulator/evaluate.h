#pragma once
#include "cost_models/band.h"
#include "cost_models/hosts.h"
#include "cost_models/measured.h"
#include "cost_models/memory.h"
#include "cost_models/money.h"
#include "models/import.h"
#include "simulator/engine.h"

// From choices to an answer: graph, program, prices, events, memory, and the figures that people
// read. The one path that `plan`, `simulate` and later commands share.

struct evaluation_request {
    const struct model_config *model;
    const struct cluster *cluster;
    const struct stack *stack;
    const struct fabrics *fabrics;
    const struct bands *bands;  // NULL: no band
    struct workload workload;
    struct parallel parallel;
    struct engine_options engine;
    double document_tokens;  // attention stays within documents of so many (models/attended.h);
                             // 0: it sees the whole sequence
    double selected_count;   // plans that this one was selected among; 0 or 1: it was pinned
};

// plan.json's "prediction"; ratios and rates are per GPU where they say so.
struct prediction {
    double step_s;
    // 90 % of the measured runs fell between; 0 without bands. The band also says what the
    // prediction rests on (cost_models/band.h).
    double step_s_low, step_s_high;
    const struct band *band;
    const struct bands *bands;  // that it was taken from
    double selected_count;      // the band is widened for a selection among so many; else 0 or 1
    const struct memory_band *memory_band;  // of peak_bytes; NULL: not known
    // Of the smallest device of the stage with least room: what reserved_bytes has to fit in.
    int64_t device_bytes;
    bool is_own_memory_band;  // of this stack; else the widest of those that were measured
    double tokens_per_s, tokens_per_s_per_gpu;
    double model_flop_per_s_per_gpu;     // graph_model_flop: recompute never counted
    double hardware_flop_per_s_per_gpu;  // what the matrix units really do, recompute included
    double mfu_ratio;  // model flop over the dense peak of the run's precision, or of what stays
                       // wide in it where that is higher: 1 at the most (asserted)
    struct cost cost;
    // Time and money of the run with interruptions; the latter two at the ends of the band.
    struct money money, money_low, money_high;
    int64_t peak_bytes, reserved_bytes;  // worst rank: allocated, and with the stack's reserve
    struct goodput goodput;              // with interruptions; not known of CPUs
    int64_t planned_bytes;  // of peak_bytes: the arena of a memory schedule; 0 = none was planned
};

// A prediction that outlives the arena of its evaluation: its band, which may be made for its
// software, is copied into `arena`.
struct prediction prediction_keep(struct arena *arena, const struct prediction *prediction);

// Narrow: the head-room is smaller than what measured peaks of memory were above predicted ones.
enum memory_fit { MEMORY_FITS, MEMORY_FITS_NARROWLY, MEMORY_LACKS };
enum memory_fit memory_fit(const struct prediction *prediction);
const char *memory_fit_name(enum memory_fit fit);  // "fits", "fits narrowly", "does not fit"

struct evaluation {
    const struct graph *graph;
    const struct program *program;
    const struct step_price *price;
    const struct simulation *simulation;
    struct memory_parts *stage_memory;  // one a stage
    int worst_stage;                    // of the largest reserved_bytes
    struct host_need hosts;             // of a plan that moves nothing 0
    struct measured_use measured;       // kernels that were measured, of the slowest device in use
    struct prediction prediction;
};

// The graph as these choices and this stack train it: attention as the chain of its steps, which
// the attention pass fuses (models/match.h), vocabulary padded to a multiple of 128 * tp, dropout
// only where the stack trains with it.
struct graph *evaluation_graph(struct arena *arena, const struct model_config *model,
                               const struct stack *stack, const struct parallel *parallel);

// The run of the plan as a question of time and money (cost_models/money.h), at a step of `step_s`
// that is the prediction's or, where something was injected, another.
struct money_request evaluation_money(const struct evaluation_request *request,
                                      const struct evaluation *evaluation, double step_s);

// The context in which the step of this request is priced.
struct price_context evaluation_context(const struct evaluation_request *request);

// ERR_INPUT where a step takes the cluster's slowest device more than 115 days at its peak, which
// is a slip of a file, and what times in nanoseconds (simulator/walk.h) may not hold. The device
// has units for the precision (cluster_check_precision).
MUST_CHECK bool evaluate_check_pace(const struct graph *graph, const struct cluster *cluster,
                                    const struct workload *workload, struct err *err);

// ERR_USAGE when the choices do not divide or the stack cannot run them. Everything returned lives
// in `arena`; `scratch` is reset.
MUST_CHECK bool evaluate(struct arena *arena, struct arena *scratch,
                         const struct evaluation_request *request, struct evaluation *evaluation,
                         struct err *err);
