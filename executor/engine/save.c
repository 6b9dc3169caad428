#include "executor/engine/checkpoint.h"

#include "core/progress.h"
#include "executor/checkpoint/commit.h"
#include "executor/engine/host_state.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct save {
    const struct run_checkpoint *options;
    struct checkpoint_store store;
    struct checkpoint_pieces pieces;   // of this rank
    struct checkpoint_entry *entries;  // kind by kind of each piece
    int kind_count, entry_count;
    char *copy;  // of the arrays, as the file has them
    int64_t bytes;
    bool is_under_way, has_thread;
    pthread_t thread;
    _Atomic int phase;
    struct err fault;  // of the thread, when it has ended
    struct checkpoint_facts facts;
    double began_s;                   // copying
    int64_t pause_ns, write_ns;       // of the last one, on this rank
    double pause_sum_s, write_sum_s;  // of all that were stored, of the slowest rank
    int64_t last_step;                // that a checkpoint was begun of
    bool is_asked;                    // to end
    struct run_saved saved;
};

static int rank_count(const struct engine *engine)
{
    return engine->program->mesh.rank_count;
}

static enum checkpoint_number number_here(const struct engine *engine)
{
    return engine->real_bytes == 8 ? CHECKPOINT_F64 : CHECKPOINT_F32;
}

static void say(const struct engine *engine, const char *line)
{
    const struct run_checkpoint *options = engine->request->options->checkpoint;
    options->say(options->context, line);
}

static int steps_between(const struct save *save, double pause_s, double write_s, double step_s)
{
    const struct run_checkpoint *options = save->options;
    int steps = options->every;
    if (!steps) steps = options->interval(options->context, pause_s, write_s, step_s);
    return steps > 0 ? steps : 1;
}

// The engine's own account of what a rank updates is that of the layouts.
static void check_pieces(struct engine *engine, const struct checkpoint_pieces *pieces)
{
    for (int i = 0; i < pieces->count; i++) {
        const struct checkpoint_piece *piece = &pieces->items[i];
        struct state_part own = state_part_of(engine, piece->parameter, STATE_MOMENTS);
        assert(own.first == piece->from && own.count >= piece->elements);
        (void)own;
    }
}

static void make_entries(struct engine *engine, struct save *save)
{
    int kinds = save->kind_count;
    save->entries =
        ARENA_NEW(engine->arena, struct checkpoint_entry, save->pieces.count * kinds + 1);
    for (int i = 0; i < save->pieces.count; i++) {
        for (int k = 0; k < kinds; k++)
            save->entries[save->entry_count++] =
                (struct checkpoint_entry){.piece = save->pieces.items[i],
                                          .kind = (enum checkpoint_kind)k,
                                          .number = number_here(engine)};
    }
    save->bytes = checkpoint_place(save->entries, save->entry_count);
}

bool save_open(struct engine *engine)
{
    const struct run_checkpoint *options = engine->request->options->checkpoint;
    if (!options) return true;
    struct save *save = engine->save = ARENA_NEW(engine->arena, struct save, 1);
    save->options = options;
    save->store = (struct checkpoint_store){&DISK_REAL, options->folder};
    save->pieces = checkpoint_pieces_written(engine->arena, engine->script, engine->rank);
    save->kind_count = 1 + optimizer_moment_count(engine->program->workload.optimizer);
    save->last_step = engine->first_step;
    save->saved.every = steps_between(save, 0, 0, 0);
    check_pieces(engine, &save->pieces);
    make_entries(engine, save);
    save->copy = host_memory(engine, save->bytes + 1);
    if (engine->err->kind) return false;
    // Pages that are touched now hold up no step.
    memset(save->copy, 0, (size_t)save->bytes + 1);
    double bytes = (double)save->bytes;
    if (!engine_ok(engine, -1, engine->transport->host_sum(engine->world, &bytes, 1))) return false;
    save->saved.bytes = (int64_t)bytes;
    return true;
}

// Waits for the thread, which is about to end.
static void join(struct save *save)
{
    if (save->has_thread) pthread_join(save->thread, NULL);
    save->has_thread = false;
}

void save_close(struct engine *engine)
{
    if (engine->save) join(engine->save);
}

// Where a piece of this kind is, in memory of the device.
static const char *place_of(struct engine *engine, const struct checkpoint_entry *entry)
{
    const struct state *state = &engine->state;
    int p = entry->piece.parameter;
    struct state_part own = state_part_of(engine, p, STATE_MOMENTS);
    if (entry->kind == CHECKPOINT_FIRST) return state->first_moments + own.at * engine->real_bytes;
    if (entry->kind == CHECKPOINT_SECOND)
        return state->second_moments + own.at * engine->real_bytes;
    if (state->masters) return state->masters + own.at * engine->real_bytes;
    struct state_part kept = state_part_of(engine, p, STATE_WEIGHTS);
    assert(engine->compute_bytes == engine->real_bytes && own.first >= kept.first);
    return state->weights + (kept.at + own.first - kept.first) * engine->real_bytes;
}

static bool copy_all(struct engine *engine)
{
    struct save *save = engine->save;
    const char *fault = NULL;
    for (int e = 0; e < save->entry_count && !fault; e++) {
        const struct checkpoint_entry *entry = &save->entries[e];
        assert(entry->at_bytes >= 0 && entry->at_bytes + entry->bytes <= save->bytes);
        char *to = save->copy + entry->at_bytes;
        int p = entry->piece.parameter;
        if (host_state_is_of(engine, p)) {
            if (!host_state_copy(engine, p, (int)entry->kind, true, to)) return false;
        } else {
            fault = engine->backend->copy(engine->device, STREAM_COMPUTE, COPY_TO_HOST, to,
                                          place_of(engine, entry), entry->bytes);
        }
    }
    if (!fault) fault = engine->backend->synchronize(engine->device, STREAM_COMPUTE);
    return engine_ok(engine, -1, fault);
}

static const void *get_copy(void *context, int entry, struct err *err)
{
    const struct save *save = context;
    (void)err;
    return save->copy + save->entries[entry].at_bytes;
}

struct writing {
    struct save *save;
    int rank, rank_count;
};

static void *write_copy(void *context)
{
    const struct writing *writing = context;
    struct save *save = writing->save;
    bool done = checkpoint_store_write(&save->store, save->facts.step, writing->rank, save->entries,
                                       save->entry_count, get_copy, save, &save->fault);
    save->write_ns = (int64_t)((clock_s() - save->began_s) * 1e9);
    atomic_store(&save->phase, done ? COMMIT_WRITTEN : COMMIT_FAILED);
    return NULL;
}

static void *commit(void *context)
{
    const struct writing *writing = context;
    struct save *save = writing->save;
    bool done =
        checkpoint_store_commit(&save->store, &save->facts, writing->rank_count, &save->fault);
    save->write_ns = (int64_t)((clock_s() - save->began_s) * 1e9);
    if (done && save->options->keep > 0)
        done = checkpoint_store_keep(&save->store, save->options->keep, &save->fault);
    atomic_store(&save->phase, done ? COMMIT_COMMITTED : COMMIT_FAILED);
    return NULL;
}

static bool start(struct engine *engine, enum commit_phase phase, void *(*work)(void *))
{
    struct save *save = engine->save;
    struct writing *writing = ARENA_NEW(engine->arena, struct writing, 1);
    *writing = (struct writing){save, engine->rank, rank_count(engine)};
    join(save);
    atomic_store(&save->phase, (int)phase);
    int error = pthread_create(&save->thread, NULL, work, writing);
    save->has_thread = error == 0;
    return error == 0 ||
           err_set(engine->err, ERR_SYSTEM, "rank %d: a thread for checkpoints: error %d",
                   engine->rank, error);
}

// Between two steps: nothing changes what is copied.
static bool begin(struct engine *engine)
{
    assert(!engine->save->is_under_way && "one checkpoint at a time");
    struct save *save = engine->save;
    const struct run_checkpoint *options = save->options;
    const struct run_options *run = engine->request->options;
    int64_t step = engine->step + 1;
    save->began_s = clock_s();
    if (!streams_settle(engine) || !copy_all(engine)) return false;
    save->pause_ns = (int64_t)((clock_s() - save->began_s) * 1e9);
    save->facts = (struct checkpoint_facts){
        .step = step,
        .updates = engine->update_count,
        .sequences = step * engine->program->workload.global_batch,
        .seed = run->seed,
        .loss_scale = engine->scale.now,
        .good_steps = engine->scale.good_steps,
        .norms = engine->spikes,
        .model = options->model,
        .family = options->family,
        .optimizer = options->optimizer,
        .plan_hash = options->plan_hash,
        .vocab = engine->request->graph->vocab,
    };
    save->is_under_way = true;
    save->last_step = step;
    return start(engine, COMMIT_WRITING, write_copy);
}

void save_tell(struct engine *engine, int64_t mine[SAVE_COUNT])
{
    struct save *save = engine->save;
    for (int i = 0; i < SAVE_COUNT; i++)
        mine[i] = 0;
    if (!save) return;
    const struct run_checkpoint *options = save->options;
    mine[SAVE_PHASE] = atomic_load(&save->phase);
    mine[SAVE_STOP] = options->is_stop_asked(options->context);
    mine[SAVE_PAUSE_NS] = save->pause_ns;
    mine[SAVE_WRITE_NS] = save->write_ns;
}

// A checkpoint that could not be stored: the run goes on, the ones before are as they were.
static void give_up(struct engine *engine, int rank)
{
    assert(rank >= 0 && rank < rank_count(engine) && engine->save->is_under_way);
    struct save *save = engine->save;
    join(save);
    if (rank == engine->rank) {
        struct arena scratch = {0};
        say(engine, arena_print(&scratch, "no checkpoint of step %" PRId64 ": %s", save->facts.step,
                                save->fault.text));
        arena_free(&scratch);
    }
    checkpoint_store_discard(&save->store, save->facts.step, engine->rank);
    save->fault = (struct err){0};
    save->is_under_way = false;
    atomic_store(&save->phase, COMMIT_NOTHING);
}

static void finish_one(struct save *save, double pause_s, double write_s, double step_s)
{
    assert(save->is_under_way && pause_s >= 0 && write_s >= 0);
    join(save);
    struct run_saved *saved = &save->saved;
    saved->count++;
    saved->step = save->facts.step;
    save->pause_sum_s += pause_s;
    save->write_sum_s += write_s;
    saved->pause_s = save->pause_sum_s / saved->count;
    saved->write_s = save->write_sum_s / saved->count;
    if (step_s > 0) saved->every = steps_between(save, saved->pause_s, saved->write_s, step_s);
    save->is_under_way = false;
    atomic_store(&save->phase, COMMIT_NOTHING);
}

// What all ranks said of the one under way. The same on all of them.
static bool follow(struct engine *engine, const int64_t *all, double step_s)
{
    struct save *save = engine->save;
    int failed;
    int64_t pause_ns = 0;
    for (int r = 0; r < rank_count(engine); r++) {
        const int64_t *of = all + (int64_t)r * SAVE_COUNT;
        if (of[SAVE_PAUSE_NS] > pause_ns) pause_ns = of[SAVE_PAUSE_NS];
        save->is_asked |= of[SAVE_STOP] != 0;
    }
    if (!save->is_under_way) return true;
    switch (commit_next(all + SAVE_PHASE, SAVE_COUNT, rank_count(engine), engine->rank, &failed)) {
    case COMMIT_GIVE_UP:
        give_up(engine, failed);
        break;
    case COMMIT_STORED:
        finish_one(save, (double)pause_ns * 1e-9, (double)all[SAVE_WRITE_NS] * 1e-9, step_s);
        break;
    case COMMIT_START:
        return start(engine, COMMIT_COMMITTING, commit);
    case COMMIT_WAIT:
        break;
    }
    return true;
}

bool save_step(struct engine *engine, const int64_t *all, double step_s, bool *stops)
{
    struct save *save = engine->save;
    if (!save) return true;
    if (!follow(engine, all, step_s)) return false;
    *stops = save->is_asked;
    int64_t done = engine->step + 1;
    // A step that diverged is none to go back to.
    bool is_fine = isfinite(engine->norm) || engine->scale.skips;
    // Nor is one among spikes, after so many of which the run rolls back.
    is_fine = is_fine &&
              (engine->request->options->roll_back == 0 || engine->scale.skip != RUN_SKIP_SPIKE);
    bool is_due = done - save->last_step >= save->saved.every;
    if (!is_due || save->is_under_way || !is_fine) return true;
    return begin(engine);
}

// Ranks that wait count on, so that nobody takes them for stuck.
bool save_settle(struct engine *engine)
{
    struct save *save = engine->save;
    const struct timespec pause = {0, 1000000};
    int64_t *all = ARENA_NEW(engine->arena, int64_t, SAVE_COUNT * rank_count(engine));
    while (save->is_under_way) {
        int64_t mine[SAVE_COUNT];
        nanosleep(&pause, NULL);
        struct heartbeat *heartbeat = engine->request->heartbeat;
        if (heartbeat) atomic_fetch_add(&heartbeat->beat, 1);
        save_tell(engine, mine);
        const char *fault = engine->transport->host_gather(engine->world, mine, all, SAVE_COUNT);
        if (!engine_ok(engine, -1, fault) || !follow(engine, all, 0)) return false;
    }
    return true;
}

double save_paused_s(const struct engine *engine)
{
    const struct save *save = engine->save;
    bool was_copied = save && save->is_under_way && save->last_step == engine->step + 1;
    return was_copied ? (double)save->pause_ns * 1e-9 : 0;
}

struct run_saved save_account(const struct engine *engine)
{
    struct run_saved saved = {0};
    if (engine->save) saved = engine->save->saved;
    saved.resumed_step = engine->first_step;
    return saved;
}

bool save_finish(struct engine *engine, struct run_result *result)
{
    struct save *save = engine->save;
    if (!save) return true;
    if (!save_settle(engine)) return false;
    int64_t done = engine->step;
    bool is_fine = isfinite(engine->norm) || engine->scale.skips;
    if (save->last_step < done && is_fine) {
        // `begin` counts from the step that was run last.
        engine->step--;
        bool begun = begin(engine);
        engine->step++;
        if (!begun || !save_settle(engine)) return false;
    }
    save->saved.is_stopped = save->is_asked && done < engine->request->options->steps;
    result->saved = save_account(engine);
    if (is_fine && save->saved.step < done && engine->first_step < done)
        return err_set(engine->err, ERR_SYSTEM,
                       "the last checkpoint could not be stored: %s has those before it",
                       save->options->folder);
    return true;
}
