#include "reports/table/input_text.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

static const char *readers_text(struct arena *arena, const struct input_price *price)
{
    assert(price->reader_count > 0);
    const char *count = units_count(arena, price->reader_count);
    switch (price->readers) {
    case READERS_RANK:
        return arena_print(arena, "each of %s rank%s reads", count,
                           price->reader_count == 1 ? "" : "s");
    case READERS_HOST:
        return arena_print(arena, "one rank on each of %s host%s reads", count,
                           price->reader_count == 1 ? "" : "s");
    default:
        return "rank 0 reads for all";
    }
}

static const char *reading_text(struct arena *arena, const struct input_price *price)
{
    const char *read = units_bytes(arena, price->read_bytes);
    const char *drives = units_bytes(arena, price->drive_bytes);
    if (isnan(price->read_s))
        return arena_print(
            arena,
            "%s a step in all; how long that takes is not known: the cluster gives no "
            "nvme_bytes_per_s",
            read);
    return arena_print(arena, "%s a step in all, %s off a host's drives in %s", read, drives,
                       units_seconds(arena, price->read_s));
}

static const char *broadcast_text(struct arena *arena, const struct input_price *price)
{
    const char *bytes = units_bytes(arena, price->broadcast_bytes);
    if (price->broadcast_bytes <= 0) return "";
    if (isnan(price->broadcast_s))
        return arena_print(arena,
                           ";\n       %s are broadcast, in a time that is not known: a speed of "
                           "the cluster's links or memory is not given",
                           bytes);
    return arena_print(arena, ";\n       %s are broadcast in %s, which all wait for", bytes,
                       units_seconds(arena, price->broadcast_s));
}

// The next step's data are read while this one runs.
static const char *hidden_text(struct arena *arena, const struct input_price *price)
{
    assert(price->step_s > 0);
    if (isnan(price->wait_s)) return "";
    bool is_hidden = price->read_s <= price->step_s;
    return arena_print(arena, "\n       the step of %s hides %s reading",
                       units_seconds(arena, price->step_s), is_hidden ? "all" : "some of the");
}

const char *input_text(struct arena *arena, const struct input_price *price)
{
    return arena_print(arena, "Input: %s %s%s%s\n", readers_text(arena, price),
                       reading_text(arena, price), broadcast_text(arena, price),
                       hidden_text(arena, price));
}

const char *input_warning(struct arena *arena, const struct input_price *price)
{
    if (!input_is_bottleneck(price)) return NULL;
    const char *handed =
        price->broadcast_s <= 0
            ? ""
            : arena_print(arena, ", handing it on %s", units_seconds(arena, price->broadcast_s));
    return arena_print(
        arena, "%s: reading a step's data takes %s%s, the step %s: ranks wait %s in each",
        price->read_s > price->step_s ? "the input is the bottleneck" : "the input holds ranks up",
        units_seconds(arena, price->read_s), handed, units_seconds(arena, price->step_s),
        units_seconds(arena, price->wait_s));
}

void input_write(struct json_writer *writer, const struct input_price *price)
{
    json_open(writer, "input", '{');
    json_put_text(writer, "readers", readers_name(price->readers));
    json_put_i64(writer, "reader_count", price->reader_count);
    json_put_f64(writer, "read_bytes", price->read_bytes);
    json_put_f64(writer, "host_read_bytes", price->host_read_bytes);
    json_put_f64(writer, "drive_bytes", price->drive_bytes);
    json_put_known(writer, "read_s", price->read_s);
    json_put_f64(writer, "broadcast_bytes", price->broadcast_bytes);
    json_put_known(writer, "broadcast_s", price->broadcast_s);
    json_put_known(writer, "wait_s", price->wait_s);
    json_put_bool(writer, "is_bottleneck", input_is_bottleneck(price));
    json_close(writer, '}');
}
