#include "reports/training/metrics.h"

#include "core/json_write.h"

#include <assert.h>

// Every line has every key, so that who reads them needs no names.
char *metrics_line(struct arena *arena, const struct step_metrics *metrics)
{
    assert(metrics->step > 0);
    struct json_writer writer = {.arena = arena};
    json_open_flat(&writer, NULL, '{');
    json_put_i64(&writer, "step", metrics->step);
    json_put_known(&writer, "loss", metrics->loss);
    json_put_known(&writer, "validation_loss", metrics->validation_loss);
    json_put_known(&writer, "gradient_norm", metrics->gradient_norm);
    json_put_known(&writer, "learning_rate", metrics->learning_rate);
    json_put_known(&writer, "loss_scale", metrics->loss_scale);
    json_put_known(&writer, "step_s", metrics->step_s);
    json_put_known(&writer, "predicted_step_s", metrics->predicted_step_s);
    json_put_known(&writer, "data_wait_s", metrics->data_wait_s);
    json_put_known(&writer, "between_s", metrics->between_s);
    json_put_known(&writer, "tokens", metrics->tokens);
    json_put_known(&writer, "tokens_per_s", metrics->tokens_per_s);
    json_put_known(&writer, "mfu_ratio", metrics->mfu_ratio);
    json_put_known(&writer, "left_s", metrics->left_s);
    json_put_i64(&writer, "peak_bytes", metrics->peak_bytes);
    json_put_text(&writer, "skipped", metrics->skipped);
    json_close(&writer, '}');
    return writer.text;
}
