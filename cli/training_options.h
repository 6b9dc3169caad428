#pragma once
#include "cli/options.h"
#include "executor/run.h"

// What `run` trains on, how its learning rate goes, and what it leaves of every step.

struct training_arguments {
    struct text_list data;  // none: synthetic
    const char *validation_data;
    const char *mask_documents;  // "ends" or a token; NULL: they are joined
    const char *readers;         // a word of READERS_WORDS
    double held_out_ratio;
    int validate_every, validate_batches;
    const char *rate_kind;
    double learning_rate, least_rate;
    int warmup_steps, cooldown_steps;  // cooldown -1: a fifth of the steps
    double weight_decay, clip_norm;    // clip_norm -1: as planned
    double spike_deviations;
    int roll_back;  // 0: never
    const char *metrics, *tensorboard, *plot;
};

extern const struct training_arguments TRAINING_DEFAULTS;

enum { TRAINING_OPTION_COUNT = 22 };

// The rows of the table, without the end row. Returns how many were written.
int training_options(struct training_arguments *arguments,
                     struct option options[TRAINING_OPTION_COUNT]);

// What the options say of each other, before a plan is read. ERR_USAGE.
MUST_CHECK bool training_check(const struct training_arguments *arguments, struct err *err);
enum run_data training_data(const struct training_arguments *arguments);
enum readers training_readers(const struct training_arguments *arguments);
struct rate_course training_rate(const struct training_arguments *arguments, int64_t steps);
// Opens what is trained on: of DATA_CORPUS alone. `corpus` lives in `arena` until corpus_close.
// Where another rank `reads` it for this one no file is opened (corpus_shape).
MUST_CHECK bool training_open(struct arena *arena, const struct training_arguments *arguments,
                              const struct graph *graph, const struct workload *workload,
                              int64_t seed, bool reads, struct corpus *corpus, struct err *err);
// All that has to be alike on every node, as a text.
const char *training_key(struct arena *arena, const struct training_arguments *arguments);
