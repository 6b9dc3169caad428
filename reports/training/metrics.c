#include "reports/training/metrics.h"

#include "core/json_write.h"

#include <math.h>

// JSON has no word for what is not finite.
static void put(struct json_writer *writer, const char *key, double value)
{
    if (isfinite(value))
        json_put_f64(writer, key, value);
    else
        json_put_null(writer, key);
}

char *metrics_line(struct arena *arena, const struct step_metrics *metrics)
{
    struct json_writer writer = {.arena = arena};
    json_open_flat(&writer, NULL, '{');
    json_put_i64(&writer, "step", metrics->step);
    put(&writer, "loss", metrics->loss);
    put(&writer, "validation_loss", metrics->validation_loss);
    put(&writer, "gradient_norm", metrics->gradient_norm);
    put(&writer, "learning_rate", metrics->learning_rate);
    put(&writer, "loss_scale", metrics->loss_scale);
    put(&writer, "step_s", metrics->step_s);
    put(&writer, "predicted_step_s", metrics->predicted_step_s);
    put(&writer, "data_wait_s", metrics->data_wait_s);
    put(&writer, "between_s", metrics->between_s);
    put(&writer, "tokens", metrics->tokens);
    put(&writer, "tokens_per_s", metrics->tokens_per_s);
    put(&writer, "mfu_ratio", metrics->mfu_ratio);
    put(&writer, "left_s", metrics->left_s);
    json_put_i64(&writer, "peak_bytes", metrics->peak_bytes);
    if (metrics->skipped)
        json_put_text(&writer, "skipped", metrics->skipped);
    else
        json_put_null(&writer, "skipped");
    json_close(&writer, '}');
    return writer.text;
}
