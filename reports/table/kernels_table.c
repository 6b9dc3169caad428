#include "reports/table/kernels_table.h"

#include "core/table.h"
#include "core/units.h"
#include "reports/table/ledger_text.h"

#include <assert.h>

// What a device does not say is a dash.
static const char *alone_text(struct arena *arena, double alone_s)
{
    return alone_s > 0 ? units_seconds(arena, alone_s) : "-";
}

static void kernel_row(struct table *table, const struct kernel_account *kernel)
{
    struct arena *arena = table->arena;
    const struct ledger_line *price = &kernel->price;
    const char *cells[] = {
        ledger_name_text(arena, price),
        ledger_phase_text(price),
        ledger_shape_text(arena, price),
        arena_print(arena, "%.0f", kernel->launch_count),
        ledger_amount_text(arena, kernel->flop, ""),
        ledger_amount_text(arena, kernel->bytes, "B"),
        units_seconds(arena, kernel->roof_s),
        alone_text(arena, kernel->alone_s),
        units_seconds(arena, price->s),
        units_percent(arena, kernel->roof_s / price->s),
    };
    table_row(table, cells);
}

static void sum_row(struct table *table, const struct layer_account *layer)
{
    assert(layer->s > 0);
    struct arena *arena = table->arena;
    const char *cells[] = {
        "all",
        "",
        "",
        arena_print(arena, "%.0f", layer->launch_count),
        ledger_amount_text(arena, layer->flop, ""),
        "",
        units_seconds(arena, layer->roof_s),
        alone_text(arena, layer->alone_s),
        units_seconds(arena, layer->s),
        units_percent(arena, layer->roof_s / layer->s),
    };
    table_row(table, cells);
}

static const double WAIT_LEAST_S = 1e-6;  // worth a word

// "593 TFLOP/s, 60.0% of 989 TFLOP/s; of the kernels alone 712 TFLOP/s, 72.0%"
static const char *rate_text(struct arena *arena, const struct kernels_account *account,
                             const struct layer_account *layer)
{
    double peak = account->peak_flop_per_s, rate = layer->flop / layer->s;
    const char *text =
        arena_print(arena, "%s, %s of %s", ledger_amount_text(arena, rate, "FLOP/s"),
                    units_percent(arena, rate / peak), ledger_amount_text(arena, peak, "FLOP/s"));
    if (!account->has_alone) return text;
    double alone = layer->flop / layer->alone_s;
    return arena_print(arena, "%s; of the kernels alone %s, %s", text,
                       ledger_amount_text(arena, alone, "FLOP/s"),
                       units_percent(arena, alone / peak));
}

// "; 1.2 ms of communication come on top; the device waits 84 µs for launches"
static const char *beside_text(struct arena *arena, const struct layer_account *layer)
{
    const char *text = "";
    if (layer->communication_s > 0)
        text = arena_print(arena, "; %s of communication come on top",
                           units_seconds(arena, layer->communication_s));
    if (layer->host_s > WAIT_LEAST_S)
        text = arena_print(arena, "%s; the device waits %s for launches", text,
                           units_seconds(arena, layer->host_s));
    return text;
}

static const char *layer_text(struct arena *arena, const struct kernels_account *account,
                              const struct layer_account *layer)
{
    assert(account->peak_flop_per_s > 0 && layer->kernel_count > 0);
    static const char *const HEADER[] = {"kernel", "pass", "shape", "launches", "FLOP",
                                         "bytes",  "roof", "alone", "priced",   "of roof"};
    struct table table = table_new(arena, "lllrrrrrrr");
    table_row(&table, HEADER);
    for (int i = 0; i < layer->kernel_count; i++)
        kernel_row(&table, &layer->kernels[i]);
    sum_row(&table, layer);
    return arena_print(arena,
                       "\nKernels of one %s%s (%d of them) for one micro-batch on %s:\n%s%s%s.\n",
                       layer->name, layer->recomputed ? ", recomputed" : "", layer->layer_count,
                       account->device->name, table_text(&table), rate_text(arena, account, layer),
                       beside_text(arena, layer));
}

static bool is_joined(const struct kernels_account *account)
{
    for (int i = 0; i < account->layer_count; i++)
        for (int k = 0; k < account->layers[i].kernel_count; k++) {
            const struct kernel_account *kernel = &account->layers[i].kernels[k];
            if (kernel->roof_s > 1.001 * kernel->price.s) return true;
        }
    return false;
}

char *kernels_account_text(struct arena *arena, const struct kernels_account *account)
{
    char *text = arena_copy(arena, "");
    for (int i = 0; i < account->layer_count; i++)
        text = arena_print(arena, "%s%s", text, layer_text(arena, account, &account->layers[i]));
    return arena_print(
        arena,
        "%sRoof: the longer of the FLOP at the peak of their precision and the bytes "
        "at the memory's rate, as on the device's sheet.\n%s%s",
        text,
        account->has_alone
            ? "Alone: what a benchmark of this kernel would time, by the device's rates of single "
              "kernels.\nPriced: what a step is made of, at rates fitted to whole steps.\n"
            : "Alone: the device's file has no rates of single kernels (efficiency_alone).\n",
        is_joined(account) ? "Above 100 %: as fitted to its runs, the software joins such kernels "
                             "with their neighbours and moves fewer bytes than these.\n"
                           : "");
}

static void write_kernel(struct json_writer *writer, const struct kernel_account *kernel)
{
    const struct ledger_line *price = &kernel->price;
    json_open(writer, NULL, '{');
    json_put_text(writer, "name", price->what);
    json_put_text(writer, "phase", ledger_phase_text(price));
    json_put_text(writer, "shape", ledger_shape_text(writer->arena, price));
    json_put_i64(writer, "joined", price->joined);
    json_put_f64(writer, "launches", kernel->launch_count);
    json_put_f64(writer, "flop", kernel->flop);
    json_put_f64(writer, "bytes", kernel->bytes);
    json_put_f64(writer, "roof_s", kernel->roof_s);
    if (kernel->alone_s > 0) json_put_f64(writer, "alone_s", kernel->alone_s);
    json_put_f64(writer, "s", price->s);
    json_close(writer, '}');
}

static void write_layer(struct json_writer *writer, const struct layer_account *layer)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "block", layer->name);
    json_put_bool(writer, "recomputed", layer->recomputed);
    json_put_i64(writer, "layers", layer->layer_count);
    json_put_f64(writer, "launches", layer->launch_count);
    json_put_f64(writer, "flop", layer->flop);
    json_put_f64(writer, "roof_s", layer->roof_s);
    if (layer->alone_s > 0) json_put_f64(writer, "alone_s", layer->alone_s);
    json_put_f64(writer, "s", layer->s);
    json_put_f64(writer, "communication_s", layer->communication_s);
    json_put_f64(writer, "host_s", layer->host_s);
    json_open(writer, "kernels", '[');
    for (int i = 0; i < layer->kernel_count; i++)
        write_kernel(writer, &layer->kernels[i]);
    json_close(writer, ']');
    json_close(writer, '}');
}

void kernels_account_write(struct json_writer *writer, const struct kernels_account *account)
{
    json_open(writer, "kernels_account", '{');
    json_put_text(writer, "device", account->device->name);
    json_put_f64(writer, "peak_flop_per_s", account->peak_flop_per_s);
    json_open(writer, "layers", '[');
    for (int i = 0; i < account->layer_count; i++)
        write_layer(writer, &account->layers[i]);
    json_close(writer, ']');
    json_close(writer, '}');
}
