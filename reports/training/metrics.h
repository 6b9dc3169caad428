#pragma once
#include "core/arena.h"

#include <stdint.h>

// What is known of a step of a training when it is over, and the files that are made of it.

struct step_metrics {
    int64_t step;  // from 1
    double loss, gradient_norm, learning_rate;
    double validation_loss;  // NaN: none was taken behind this step
    double loss_scale;       // 1 but in fp16
    double step_s, predicted_step_s, data_wait_s, between_s;
    double tokens;  // of all steps so far
    double tokens_per_s;
    double mfu_ratio;  // NaN: the plan is for another device than it runs on
    double left_s;     // until the run ends; NaN: not known yet
    int64_t peak_bytes;
    const char *skipped;  // why no weight was changed: "room", "spike"; NULL: all were
};

// A line of metrics.jsonl (reports/schema/metrics.schema.json), with its end.
char *metrics_line(struct arena *arena, const struct step_metrics *metrics);

// reports/training/tensorboard.c: what TensorBoard reads is a file of records (TFRecord: u64
// length, u32 masked CRC-32C of it, the bytes, u32 masked CRC-32C of them) of Event messages
// (tensorflow/core/util/event.proto). `time_s`: seconds since 1970. Returned: bytes of *bytes.
char *tensorboard_head(struct arena *arena, double time_s, size_t *bytes);
// One of a scalar a tag: "loss", "validation_loss", "learning_rate", "gradient_norm",
// "tokens_per_s".
char *tensorboard_step(struct arena *arena, const struct step_metrics *metrics, double time_s,
                       size_t *bytes);

// reports/training/loss_plot.c: the gnuplot script of the losses over the steps, an SVG.
char *loss_plot_script(struct arena *arena, const struct step_metrics *steps, int count,
                       const char *title);
