#include "core/table.h"
#include "core/units.h"
#include "reports/comparison/run_compare.h"
#include "reports/table/model_text.h"

#include <assert.h>

// What has not both sides has no ratio.
static const char *ratio_text(struct arena *arena, double measured, double predicted)
{
    if (!(predicted > 0 && measured > 0)) return "-";
    return arena_print(arena, "%.2f", measured / predicted);
}

static const char *seconds_text(struct arena *arena, double seconds)
{
    return seconds > 0 ? units_seconds(arena, seconds) : "-";
}

static const char *bytes_text(struct arena *arena, double bytes)
{
    return bytes > 0 ? units_bytes(arena, bytes) : "-";
}

static void add_rows(struct table *table, const struct run_compare *compare, enum run_group group,
                     const char *heading)
{
    assert(table->column_count == 8);
    struct arena *arena = table->arena;
    const char *head[] = {heading, "", "", "", "", "", "", ""};
    bool is_first = true;
    for (int i = 0; i < compare->row_count; i++) {
        const struct run_row *row = &compare->rows[i];
        if (row->group != group) continue;
        if (is_first) table_row(table, head);
        is_first = false;
        const char *cells[] = {
            arena_print(arena, "  %s", row->name),
            units_count(arena, row->predicted_count),
            units_count(arena, row->count),
            bytes_text(arena, row->predicted_bytes),
            bytes_text(arena, row->bytes),
            seconds_text(arena, row->predicted_s),
            seconds_text(arena, row->measured_s),
            ratio_text(arena, row->measured_s, row->predicted_s),
        };
        table_row(table, cells);
    }
}

static char *kinds_text(struct arena *arena, const struct run_compare *compare)
{
    static const char *const WHAT[] = {"", "count", "", "bytes", "", "time", "", ""};
    static const char *const HEADER[] = {
        "a step, all ranks", "pred.", "meas.", "pred.", "meas.", "pred.", "meas.", "ratio"};
    struct table table = table_new(arena, "lrrrrrrr");
    table.head_count = 2;
    table_row(&table, WHAT);
    table_row(&table, HEADER);
    add_rows(&table, compare, RUN_TASK, "tasks");
    add_rows(&table, compare, RUN_OPERATOR, "operators");
    add_rows(&table, compare, RUN_COLLECTIVE, "collectives");
    return table_text(&table);
}

static void add_moved(struct arena *arena, struct table *table, const char *what,
                      int64_t predicted_bytes, int64_t measured_bytes)
{
    double predicted = (double)predicted_bytes, measured = (double)measured_bytes;
    const char *cells[] = {what, units_bytes(arena, predicted), units_bytes(arena, measured),
                           ratio_text(arena, measured, predicted)};
    if (measured > 0 || predicted > 0) table_row(table, cells);
}

static void add_waited(struct arena *arena, struct table *table, const struct run_compare *compare)
{
    double predicted = compare->predicted_moved_s, measured = compare->result->moved_s;
    const char *cells[] = {"waited for what is moved", seconds_text(arena, predicted),
                           seconds_text(arena, measured), ratio_text(arena, measured, predicted)};
    if (measured > 0 || predicted > 0) table_row(table, cells);
    double planned = compare->predicted_nvme_bytes_per_s;
    double found = compare->result->nvme_bytes_per_s;
    const char *rate[] = {"rate of NVMe", units_bytes_per_s(arena, planned),
                          units_bytes_per_s(arena, found), ratio_text(arena, found, planned)};
    if (planned > 0 && found > 0) table_row(table, rate);
}

char *run_drive_text(struct arena *arena, const struct run_compare *compare, const char *folder)
{
    assert(compare->predicted_nvme_bytes_per_s >= 0);
    static const double MUCH = 0.5;
    double planned = compare->predicted_nvme_bytes_per_s;
    double found = compare->result->nvme_bytes_per_s;
    if (found <= 0 || found >= MUCH * planned) return NULL;
    return arena_print(arena,
                       "the drive of %.300s gave a rank %s, and the plan counts on %s: `calibrate "
                       "--nvme %.300s` measures it, then plan again",
                       folder, units_bytes_per_s(arena, found), units_bytes_per_s(arena, planned),
                       folder);
}

// What --device-memory gives, and what was taken of it: arrays that the plan places. The rooms that
// kernels and collectives have for themselves are of what a stack reserves.
static const char *limit_text(struct arena *arena, const struct run_result *result)
{
    if (result->device_limit_bytes == 0) return "";
    return arena_print(arena, "Of the %s of device memory that a rank has %s were taken at most.\n",
                       units_bytes(arena, (double)result->device_limit_bytes),
                       units_bytes(arena, (double)result->device_peak_bytes));
}

// What checkpoints cost: how long ranks stood while one was copied, and until it was stored.
static void add_saved(struct arena *arena, struct table *table, const struct run_compare *compare)
{
    const struct run_saved *saved = &compare->result->saved;
    if (saved->count == 0) return;
    const struct {
        const char *what;
        double predicted_s, measured_s;
    } rows[] = {{"checkpoint: pause", compare->pause_s, saved->pause_s},
                {"checkpoint: stored in", compare->write_s, saved->write_s}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *cells[] = {rows[i].what, seconds_text(arena, rows[i].predicted_s),
                               seconds_text(arena, rows[i].measured_s),
                               ratio_text(arena, rows[i].measured_s, rows[i].predicted_s)};
        table_row(table, cells);
    }
}

// What lies between two steps is no task of the plan: lines of the log, what ranks tell each other.
static void add_between(struct arena *arena, struct table *table, const struct run_compare *compare)
{
    const char *cells[] = {"between two steps", "-", units_seconds(arena, compare->between_s), "-"};
    if (compare->between_s > 0) table_row(table, cells);
}

// What reading the files took, and handing rows on to ranks that read none.
static void add_input(struct arena *arena, struct table *table, const struct run_compare *compare)
{
    const struct input_price *predicted = &compare->input;
    const struct run_input *measured = &compare->result->input;
    if (measured->reader_count == 0) return;
    const char *rows[][4] = {
        {"input: ranks that read", units_count(arena, predicted->reader_count),
         units_count(arena, measured->reader_count),
         ratio_text(arena, measured->reader_count, predicted->reader_count)},
        {"input: read", bytes_text(arena, predicted->read_bytes),
         bytes_text(arena, measured->read_bytes),
         ratio_text(arena, measured->read_bytes, predicted->read_bytes)},
        {"input: a host reads in", seconds_text(arena, predicted->read_s),
         seconds_text(arena, measured->read_s),
         ratio_text(arena, measured->read_s, predicted->read_s)},
        {"input: broadcast", bytes_text(arena, predicted->broadcast_bytes),
         bytes_text(arena, measured->broadcast_bytes),
         ratio_text(arena, measured->broadcast_bytes, predicted->broadcast_bytes)},
        {"input: broadcast in", seconds_text(arena, predicted->broadcast_s),
         seconds_text(arena, measured->broadcast_s),
         ratio_text(arena, measured->broadcast_s, predicted->broadcast_s)},
    };
    size_t count = predicted->readers == READERS_RANK ? 3 : sizeof rows / sizeof *rows;
    for (size_t i = 0; i < count; i++)
        table_row(table, rows[i]);
}

static const char *saved_text(struct arena *arena, const struct run_saved *saved)
{
    if (saved->count == 0) return "";
    return arena_print(arena, "%d checkpoint%s of %s, one in %d steps, the last of step %lld.\n",
                       saved->count, saved->count == 1 ? "" : "s",
                       units_bytes(arena, (double)saved->bytes), saved->every,
                       (long long)saved->step);
}

char *run_table_text(struct arena *arena, const struct run_compare *compare)
{
    assert(compare->result->step_count > 0 && compare->predicted_step_s > 0);
    const struct run_result *result = compare->result;
    int last = result->step_count - 1, before = (int)result->saved.resumed_step;
    double tokens =
        (double)(compare->request->workload.global_batch * compare->request->workload.seq_len);
    struct table table = table_new(arena, "lrrr");
    const char *rows[][4] = {
        {"", "predicted", "measured", "ratio"},
        {"step", units_seconds(arena, compare->predicted_step_s),
         units_seconds(arena, compare->measured_step_s),
         ratio_text(arena, compare->measured_step_s, compare->predicted_step_s)},
        {model_rate_text(compare->evaluation->graph),
         units_count(arena, tokens / compare->predicted_step_s),
         units_count(arena, compare->tokens_per_s),
         ratio_text(arena, compare->tokens_per_s, tokens / compare->predicted_step_s)},
        {"peak memory of a rank", units_bytes(arena, (double)compare->predicted.peak_bytes),
         units_bytes(arena, (double)result->peak_bytes),
         ratio_text(arena, (double)result->peak_bytes, (double)compare->predicted.peak_bytes)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        table_row(&table, rows[i]);
    add_between(arena, &table, compare);
    add_moved(arena, &table, "moved to its host", compare->predicted.host_peak_bytes,
              result->host_peak_bytes);
    add_moved(arena, &table, "moved to NVMe", compare->predicted.nvme_bytes, result->nvme_bytes);
    add_waited(arena, &table, compare);
    add_input(arena, &table, compare);
    add_saved(arena, &table, compare);
    return arena_print(arena, "%s%s%s\n%s\n%s%sLoss %.4f at step %d, %.4f at step %d.\n",
                       kinds_text(arena, compare), run_attention_text(arena, compare),
                       run_join_text(arena, &compare->join), table_text(&table),
                       limit_text(arena, result), saved_text(arena, &result->saved),
                       result->loss[0], before + 1, result->loss[last], before + last + 1);
}
