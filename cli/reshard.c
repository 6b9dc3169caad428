#include "executor/checkpoint/reshard.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_job.h"
#include "core/console.h"
#include "core/hash.h"
#include "core/table.h"
#include "cost_models/goodput.h"
#include "executor/checkpoint/foreign.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// `meshwright reshard`: a checkpoint of any plan cut for another.

struct reshard_arguments {
    const char *checkpoint, *to, *output, *precision;
    bool dry_run, weights_only;
};

static const char HUGGING_FACE[] = "huggingface";

// A checkpoint, or the last of a folder of them; NULL with `err` set.
static const char *find_checkpoint(struct arena *arena, const char *path, struct err *err)
{
    const struct checkpoint_store store = {&DISK_REAL, path};
    int64_t *steps;
    int count;
    struct err ignored = {0};
    if (checkpoint_store_steps(&store, arena, &steps, &count, &ignored) && count > 0)
        return checkpoint_store_path(arena, &store, steps[0]);
    (void)err;
    return path;
}

static bool open_source(struct arena *arena, const char *given, struct checkpoint_source *source,
                        struct err *err)
{
    const char *path = find_checkpoint(arena, given, err);
    if (!checkpoint_source_open(arena, &DISK_REAL, path, source, err)) return false;
    for (int f = 0; f < source->index.file_count; f++)
        if (!checkpoint_verify(&DISK_REAL, path, &source->index, f, err)) return false;
    return true;
}

// Every array of the plan's model, once a stage.
static struct checkpoint_pieces arrays_of(struct arena *arena, const struct run_job *job)
{
    struct checkpoint_pieces all = {0};
    int capacity = 0;
    for (int s = 0; s < job->stage_count; s++) {
        int rank = 0;
        while (run_job_stage(job, rank) != s)
            rank++;
        struct checkpoint_pieces own = checkpoint_pieces_read(arena, job->scripts[s], rank, true);
        for (int i = 0; i < own.count; i++) {
            bool is_there = false;
            for (int k = 0; k < all.count && !is_there; k++)
                is_there = strcmp(all.items[k].name, own.items[i].name) == 0;
            if (is_there) continue;
            ARENA_GROW(arena, all.items, all.count, capacity);
            all.items[all.count++] = own.items[i];
        }
    }
    return all;
}

// Weights of `transformers`, for a plan of the same model.
static bool open_foreign(struct arena *arena, const char *path, const struct run_job *job,
                         struct checkpoint_source *source, struct err *err)
{
    const struct graph *graph = job->evaluation.graph;
    if (!foreign_knows(graph->model_type))
        return err_set(err, ERR_USAGE, "%s: names of family %s are not known", path,
                       graph->model_type);
    struct checkpoint_pieces arrays = arrays_of(arena, job);
    return foreign_open(arena, &DISK_REAL, path, graph->model_type, &arrays, graph->vocab, source,
                        err);
}

static int bits_of(const struct reshard_arguments *arguments)
{
    if (!arguments->precision) return 0;
    if (strcmp(arguments->precision, "int8") == 0) return 8;
    return strcmp(arguments->precision, "int4") == 0 ? 4 : 0;
}

static enum checkpoint_number numbers_of(const struct reshard_arguments *arguments)
{
    if (!arguments->precision) return CHECKPOINT_NUMBER_COUNT;
    if (bits_of(arguments)) return CHECKPOINT_NUMBER_COUNT;
    if (strcmp(arguments->precision, "fp64") == 0) return CHECKPOINT_F64;
    if (strcmp(arguments->precision, "bf16") == 0) return CHECKPOINT_BF16;
    return strcmp(arguments->precision, "fp16") == 0 ? CHECKPOINT_F16 : CHECKPOINT_F32;
}

static bool make_reshard(struct arena *arena, const struct reshard_arguments *arguments,
                         const struct run_job *job, struct checkpoint_source *source,
                         struct reshard *reshard, struct err *err)
{
    const struct checkpoint_facts *facts = &source->index.facts;
    enum optimizer optimizer = job->request.workload.optimizer;
    const struct script **scripts = ARENA_NEW(arena, const struct script *, job->rank_count);
    for (int r = 0; r < job->rank_count; r++)
        scripts[r] = run_job_script(job, r);
    uint64_t hash = hash_bytes(HASH_START, job->text, strlen(job->text));
    *reshard = (struct reshard){
        .source = source,
        .scripts = scripts,
        .rank_count = job->rank_count,
        .kind_count = 1,
        .numbers = numbers_of(arguments),
        .plan_hash = arena_print(arena, "fnv1a64:%016" PRIx64, hash),
    };
    if (facts->vocab != job->evaluation.graph->vocab)
        return err_set(err, ERR_USAGE,
                       "%s has a vocabulary of %" PRId64 ", the plan's model one of %" PRId64,
                       source->path, facts->vocab, job->evaluation.graph->vocab);
    if (arguments->weights_only || strcmp(facts->optimizer, "none") == 0) return true;
    if (strcmp(facts->optimizer, optimizer_name(optimizer)) != 0)
        return err_set(err, ERR_USAGE,
                       "%s has the state of %.40s, the plan updates by %s: --weights-only leaves "
                       "it out",
                       source->path, facts->optimizer, optimizer_name(optimizer));
    reshard->kind_count += optimizer_moment_count(optimizer);
    return true;
}

struct listing {
    struct arena *arena;
    struct table table;
    int64_t bytes, moved_bytes, moves, runs;
    bool prints;
};

static void add_move(void *context, const struct reshard_move *move)
{
    struct listing *listing = context;
    struct arena *arena = listing->arena;
    listing->bytes += move->bytes;
    listing->runs += move->runs;
    listing->moves++;
    if (move->entry->file != move->rank) listing->moved_bytes += move->bytes;
    if (!listing->prints) return;
    const char *cells[] = {
        arena_print(arena, "%s", move->entry->piece.name),
        checkpoint_kind_name(move->entry->kind),
        arena_print(arena, "%d", move->entry->file),
        arena_print(arena, "%" PRId64, move->entry->piece.from + move->from),
        arena_print(arena, "%d", move->rank),
        arena_print(arena, "%" PRId64, move->piece->from + move->to),
        arena_print(arena, "%" PRId64, move->elements),
        arena_print(arena, "%" PRId64, move->runs),
        arena_print(arena, "%" PRId64, move->bytes),
    };
    table_row(&listing->table, cells);
}

// What is to be read and written, at the rate of the cluster's storage.
static const char *price_text(struct arena *arena, const struct run_job *job, int64_t bytes)
{
    const struct goodput_request request = {.cluster = job->request.cluster,
                                            .step_s = job->evaluation.prediction.step_s,
                                            .checkpoint_bytes = bytes};
    struct goodput goodput = goodput_mean_of(&request);
    if (!goodput.is_known) return "";
    return arena_print(arena, ", %s to read and write on the plan's cluster",
                       units_seconds(arena, 2 * goodput.write_s));
}

static bool list_moves(struct arena *arena, const struct reshard_arguments *arguments,
                       const struct run_job *job, const struct reshard *reshard, struct err *err)
{
    static const char *const HEADER[] = {"array", "kind",     "from rank", "at",   "to rank",
                                         "at",    "elements", "runs",      "bytes"};
    struct listing listing = {arena, table_new(arena, "llrrrrrrr"), 0, 0, 0, 0, arguments->dry_run};
    table_row(&listing.table, HEADER);
    if (!reshard_map(reshard, add_move, &listing, err)) return false;
    if (arguments->dry_run) console_printf(stdout, "%s\n", table_text(&listing.table));
    console_printf(stdout,
                   "Step %" PRId64 ": %s in %" PRId64 " slices of %d ranks to %d, %s of them to "
                   "another rank%s.\n",
                   reshard->source->index.facts.step, units_bytes(arena, (double)listing.bytes),
                   listing.moves, reshard->source->index.file_count, reshard->rank_count,
                   units_bytes(arena, (double)listing.moved_bytes),
                   price_text(arena, job, listing.bytes));
    return true;
}

static bool write_all(struct arena *arena, const struct reshard_arguments *arguments,
                      const struct reshard *reshard, struct err *err)
{
    const struct checkpoint_store store = {&DISK_REAL, arguments->output};
    int64_t *steps, step = reshard->source->index.facts.step;
    int count;
    if (!checkpoint_store_open(&store, err) ||
        !checkpoint_store_steps(&store, arena, &steps, &count, err))
        return false;
    for (int i = 0; i < count; i++) {
        if (steps[i] == step)
            return err_set(err, ERR_USAGE, "-o %s: holds a checkpoint of step %" PRId64 " already",
                           arguments->output, step);
    }
    if (!reshard_write(reshard, &store, err)) return false;
    console_printf(stdout, "Wrote %s\n", checkpoint_store_path(arena, &store, step));
    return true;
}

static void say_error(const struct foreign_written *written)
{
    const struct quantized_error *error = &written->error;
    if (error->elements == 0) return;
    console_printf(stdout,
                   "The error of %" PRId64
                   " weights in whole numbers is %.2f %% of their root mean "
                   "square and at most %.3g; it is largest, %.2f %%, in %s\n"
                   "quantization.json is the \"quantization_config\" of that config.json\n",
                   error->elements, 100 * sqrt(error->lost / error->whole), error->most,
                   100 * written->worst_ratio, written->worst);
}

static bool export_weights(struct arena *arena, const struct reshard_arguments *arguments,
                           struct err *err)
{
    struct checkpoint_source source = {0};
    struct foreign_written written;
    const struct foreign_format format = {numbers_of(arguments), bits_of(arguments)};
    bool done = open_source(arena, arguments->checkpoint, &source, err);
    if (done && !foreign_knows(source.index.facts.family))
        done = err_set(err, ERR_USAGE, "%s: names of family %s are not known", source.path,
                       source.index.facts.family);
    done = done && foreign_write(arena, &source, arguments->output, &format, &written, err);
    checkpoint_source_close(&source);
    if (!done) return false;
    console_printf(stdout,
                   "Wrote %d arrays, %s, to %s/model.safetensors: its config.json belongs "
                   "beside it\n",
                   written.count, units_bytes(arena, (double)written.bytes), arguments->output);
    say_error(&written);
    return true;
}

static bool reshard(struct arena *arena, const struct reshard_arguments *arguments, struct err *err)
{
    const struct run_arguments plan = {.plan = arguments->to, .training = TRAINING_DEFAULTS};
    struct run_job job;
    struct checkpoint_source source = {0};
    struct reshard how;
    if (!arguments->to) return err_set(err, ERR_USAGE, "missing --to PLAN");
    if (!arguments->output && !arguments->dry_run) return err_set(err, ERR_USAGE, "missing -o DIR");
    bool exports = strcmp(arguments->to, HUGGING_FACE) == 0;
    if (exports && arguments->dry_run)
        return err_set(err, ERR_USAGE, "--dry-run: of plans, not of --to %s", HUGGING_FACE);
    if (exports) return export_weights(arena, arguments, err);
    if (bits_of(arguments))
        return err_set(err, ERR_USAGE, "--precision %s: of --to %s, nothing trains in it",
                       arguments->precision, HUGGING_FACE);
    if (!run_job_load(arena, &plan, &job, err)) return false;
    bool is_foreign = foreign_is(&DISK_REAL, arguments->checkpoint);
    bool done = (is_foreign ? open_foreign(arena, arguments->checkpoint, &job, &source, err)
                            : open_source(arena, arguments->checkpoint, &source, err)) &&
                make_reshard(arena, arguments, &job, &source, &how, err) &&
                list_moves(arena, arguments, &job, &how, err) &&
                (arguments->dry_run || write_all(arena, arguments, &how, err));
    checkpoint_source_close(&source);
    return done;
}

int reshard_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct reshard_arguments arguments = {0};
    const struct option options[] = {
        {"CHECKPOINT", OPTION_TEXT, &arguments.checkpoint,
         "a checkpoint of `meshwright run`, or a folder of them: the last; or a folder with "
         "weights of Hugging Face, or a distributed checkpoint of PyTorch with their names",
         NULL, 0, 0},
        {"--to", OPTION_TEXT, &arguments.to,
         "a plan of `meshwright plan`, of the same model; or `huggingface`: model.safetensors",
         "PLAN", 0, 0},
        {"-o", OPTION_TEXT, &arguments.output,
         "folder for the checkpoint: `run PLAN --checkpoint DIR --resume` goes on from it", "DIR",
         0, 0},
        {"--dry-run", OPTION_FLAG, &arguments.dry_run,
         "print which elements of which rank go where, and write nothing", NULL, 0, 0},
        {"--weights-only", OPTION_FLAG, &arguments.weights_only,
         "without the optimizer's state: to go on elsewhere, or for inference", NULL, 0, 0},
        {"--precision", OPTION_CHOICE, &arguments.precision,
         "of weights (default: as they are in the checkpoint); int8, int4: matrices of layers, to "
         "huggingface alone, and how much that loses",
         "fp64|fp32|bf16|fp16|int8|int4", 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    return reshard(arena, &arguments, err) ? 0 : exit_status(err);
}
