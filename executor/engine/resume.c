#include "executor/checkpoint/source.h"
#include "executor/engine/checkpoint.h"
#include "executor/engine/host_state.h"
#include "executor/number.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

// Going on from a checkpoint, whatever plan it was made with: each rank reads the pieces that its
// own layout wants. Before, ranks share its files between them and read all of each; where one is
// damaged all take the checkpoint before it.

static const struct run_checkpoint *options_of(const struct engine *engine)
{
    return engine->request->options->checkpoint;
}

static void say(const struct engine *engine, const char *line)
{
    options_of(engine)->say(options_of(engine)->context, line);
}

// A number of every rank.
static bool gather(struct engine *engine, int64_t mine, int64_t *all)
{
    const char *fault = engine->transport->host_gather(engine->world, &mine, all, 1);
    return engine_ok(engine, -1, fault);
}

// The rank's share of the files of a checkpoint. Long, so that it counts on.
static bool verify_share(struct engine *engine, const char *path,
                         const struct checkpoint_index *index, struct err *fault)
{
    int ranks = engine->program->mesh.rank_count;
    for (int f = engine->rank; f < index->file_count; f += ranks) {
        struct heartbeat *heartbeat = engine->request->heartbeat;
        if (heartbeat) atomic_fetch_add(&heartbeat->beat, 1);
        if (!checkpoint_verify(&DISK_REAL, path, index, f, fault)) return false;
    }
    return true;
}

// The first rank that finds a fault in it; -1: none does. A rank that cannot read its share knows
// of none, and ends the run: what cannot be read now may be read later.
static bool find_faulty(struct engine *engine, const char *path, struct err *fault, int *faulty)
{
    assert(!fault->kind);
    struct checkpoint_index index;
    int ranks = engine->program->mesh.rank_count;
    int64_t *all = ARENA_NEW(engine->scratch, int64_t, ranks);
    bool is_good = checkpoint_load(&DISK_REAL, engine->scratch, path, &index, fault) &&
                   verify_share(engine, path, &index, fault);
    if (fault->kind == ERR_SYSTEM) return err_set(engine->err, fault->kind, "%s", fault->text);
    if (!gather(engine, !is_good, all)) return false;
    *faulty = -1;
    for (int r = ranks - 1; r >= 0; r--)
        if (all[r]) *faulty = r;
    return true;
}

// The last step of which the first rank sees a checkpoint; -1: there is none, or no folder.
static bool last_step(struct engine *engine, const struct checkpoint_store *store, int64_t *step)
{
    int64_t *all = ARENA_NEW(engine->scratch, int64_t, engine->program->mesh.rank_count);
    int64_t *steps = NULL, own = -1;
    int count = 0;
    if (engine->rank == 0 &&
        !checkpoint_store_steps(store, engine->scratch, &steps, &count, engine->err))
        return false;
    if (count > 0) own = steps[0];
    if (!gather(engine, own, all)) return false;
    *step = all[0];
    return true;
}

// The last good checkpoint, in `path`; NULL: there is none.
static bool find_good(struct engine *engine, const struct checkpoint_store *store,
                      const char **path)
{
    int64_t *all = ARENA_NEW(engine->scratch, int64_t, engine->program->mesh.rank_count);
    for (*path = NULL;; *path = NULL) {
        int64_t step;
        int faulty = -1;
        struct err fault = {0};
        if (!last_step(engine, store, &step)) return false;
        if (step < 0) return true;
        *path = checkpoint_store_path(engine->arena, store, step);
        if (!find_faulty(engine, *path, &fault, &faulty)) return false;
        if (faulty < 0) return true;
        if (engine->rank == faulty)
            say(engine,
                arena_print(engine->scratch,
                            "the checkpoint of step %" PRId64 " is damaged and not used: %s", step,
                            fault.text));
        if (engine->rank == 0 && !checkpoint_store_set_aside(store, step, engine->err))
            return false;
        if (!gather(engine, 0, all)) return false;
    }
}

// Elements of a part of the state as the checkpoint has them.
static bool put_moments(struct engine *engine, const struct checkpoint_piece *piece,
                        enum checkpoint_kind kind, int64_t first, int64_t count,
                        const double *values)
{
    assert(kind == CHECKPOINT_FIRST || kind == CHECKPOINT_SECOND);
    struct state_part own = state_part_of(engine, piece->parameter, STATE_MOMENTS);
    char *array =
        kind == CHECKPOINT_FIRST ? engine->state.first_moments : engine->state.second_moments;
    char *to = array + (own.at + first) * engine->real_bytes;
    return numbers_write(engine, -1, ELEMENT_FP32, to, count, values);
}

struct loading {
    struct engine *engine;
    struct checkpoint_source *source;
    char *reals;
    double *values;
};

// A piece in parts that memory has room for.
static bool load_piece(struct loading *loading, const struct checkpoint_piece *piece,
                       enum checkpoint_kind kind)
{
    assert(piece->parameter >= 0 && piece->elements >= 0);
    struct engine *engine = loading->engine;
    for (int64_t first = 0; first < piece->elements; first += INITIAL_PIECE) {
        struct checkpoint_piece part = *piece;
        int64_t rest = piece->elements - first;
        part.from += first;
        part.elements = rest < INITIAL_PIECE ? rest : INITIAL_PIECE;
        if (!checkpoint_source_read(loading->source, &part, kind, loading->values, engine->err))
            return false;
        bool done = kind == CHECKPOINT_WEIGHT
                        ? initial_put(engine, piece->parameter, first, part.elements,
                                      loading->values, loading->reals)
                        : put_moments(engine, piece, kind, first, part.elements, loading->values);
        if (!done) return false;
    }
    return true;
}

// Moments on the host, whole: they are kept as reals.
static bool load_host_moments(struct loading *loading, const struct checkpoint_piece *piece,
                              enum checkpoint_kind kind)
{
    assert(kind == CHECKPOINT_FIRST || kind == CHECKPOINT_SECOND);
    struct engine *engine = loading->engine;
    struct arena scratch = {0};
    double *values = ARENA_NEW(&scratch, double, piece->elements + 1);
    struct state_part own = state_part_of(engine, piece->parameter, STATE_MOMENTS);
    enum number number = number_of(engine->backend, ELEMENT_FP32);
    char *reals = ARENA_NEW(&scratch, char, own.count * engine->real_bytes + 1);
    bool done = checkpoint_source_read(loading->source, piece, kind, values, engine->err);
    for (int64_t i = 0; i < piece->elements && done; i++)
        number_put(number, reals, i, values[i]);
    done = done && host_state_copy(engine, piece->parameter, (int)kind, false, reals);
    arena_free(&scratch);
    return done;
}

static bool load_moments(struct loading *loading)
{
    struct engine *engine = loading->engine;
    int moments = optimizer_moment_count(engine->program->workload.optimizer);
    struct checkpoint_pieces pieces =
        checkpoint_pieces_read(engine->scratch, engine->script, engine->rank, false);
    for (int i = 0; i < pieces.count; i++) {
        for (int k = CHECKPOINT_FIRST; k <= moments; k++) {
            enum checkpoint_kind kind = (enum checkpoint_kind)k;
            bool is_away = host_state_is_of(engine, pieces.items[i].parameter);
            bool done = is_away ? load_host_moments(loading, &pieces.items[i], kind)
                                : load_piece(loading, &pieces.items[i], kind);
            if (!done) return false;
        }
    }
    return true;
}

static bool load_all(struct engine *engine, struct checkpoint_source *source)
{
    struct loading loading = {engine, source, NULL, NULL};
    loading.values = ARENA_NEW(engine->scratch, double, INITIAL_PIECE);
    struct checkpoint_pieces kept =
        checkpoint_pieces_read(engine->scratch, engine->script, engine->rank, true);
    bool done = initial_reals(engine, &loading.reals);
    for (int i = 0; i < kept.count && done; i++)
        done = load_piece(&loading, &kept.items[i], CHECKPOINT_WEIGHT);
    if (done && checkpoint_source_has(source, CHECKPOINT_FIRST)) done = load_moments(&loading);
    if (loading.reals) engine->backend->release(engine->device, loading.reals);
    return done;
}

// What the options of this run say against those of the one that it goes on from.
static bool check_facts(struct engine *engine, const char *path,
                        const struct checkpoint_facts *facts)
{
    const struct run_options *options = engine->request->options;
    const char *own = options->checkpoint->optimizer;
    bool has_moments = strcmp(facts->optimizer, "none") != 0;
    if (facts->seed != options->seed && facts->step > 0)
        return err_set(engine->err, ERR_USAGE,
                       "--seed %" PRIu64 ": %s was made with --seed %" PRIu64, options->seed, path,
                       facts->seed);
    if (has_moments && strcmp(facts->optimizer, own) != 0)
        return err_set(engine->err, ERR_USAGE, "%s has the state of %.40s, the plan updates by %s",
                       path, facts->optimizer, own);
    if (facts->vocab != engine->request->graph->vocab)
        return err_set(engine->err, ERR_USAGE,
                       "%s has a vocabulary of %" PRId64 ", the plan's model one of %" PRId64, path,
                       facts->vocab, engine->request->graph->vocab);
    if (facts->step >= options->steps)
        return err_set(engine->err, ERR_USAGE,
                       "--steps %d: %s is behind step %" PRId64 ", nothing is left to do",
                       options->steps, path, facts->step);
    return true;
}

// All of the state but the number of the step: that is the checkpoint's, *step.
static bool load(struct engine *engine, const char *path, int64_t *step)
{
    struct checkpoint_source source;
    if (!checkpoint_source_open(engine->arena, &DISK_REAL, path, &source, engine->err))
        return false;
    const struct checkpoint_facts *facts = &source.index.facts;
    bool done = check_facts(engine, path, facts) && load_all(engine, &source);
    checkpoint_source_close(&source);
    if (!done) return false;
    *step = facts->step;
    // Moments that are not there begin anew, and what corrects their bias with them.
    bool has_moments = checkpoint_source_has(&source, CHECKPOINT_FIRST);
    engine->update_count = has_moments ? (int)facts->updates : 0;
    if (facts->step > 0 && scale_is_on(engine)) engine->scale.now = facts->loss_scale;
    engine->scale.good_steps = facts->good_steps;
    engine->spikes = facts->norms;
    return true;
}

static bool go_on(struct engine *engine, const char *path)
{
    int64_t step;
    if (!load(engine, path, &step)) return false;
    engine->step = engine->first_step = (int)step;
    if (engine->rank == 0)
        say(engine,
            arena_print(engine->scratch, "goes on behind step %" PRId64 ", from %s", step, path));
    return true;
}

static void say_back(const struct engine *engine, int64_t step)
{
    assert(step < 0 || step <= engine->step);
    if (engine->rank != 0) return;
    int last = engine->step + 1, first = last - engine->request->options->roll_back + 1;
    const char *line =
        step < 0
            ? arena_print(engine->scratch,
                          "steps %d to %d were spikes, and there is no checkpoint to roll "
                          "back to",
                          first, last)
            : arena_print(engine->scratch,
                          "steps %d to %d were spikes: weights and moments are again those "
                          "of the checkpoint of step %" PRId64 ", and the data go on with step %d",
                          first, last, step, last + 1);
    say(engine, line);
}

// All ranks see the same spikes, so that all of them come here in the same step.
static bool roll_back(struct engine *engine)
{
    const struct checkpoint_store store = {&DISK_REAL, options_of(engine)->folder};
    struct arena_mark mark = arena_mark(engine->scratch);
    const char *path = NULL;
    int64_t step = -1;
    bool done = save_settle(engine) && streams_settle(engine) && find_good(engine, &store, &path);
    if (done && path) done = load(engine, path, &step);
    if (done) say_back(engine, step);
    engine->rolled_updates = engine->update_count;
    arena_reset(engine->scratch, mark);
    return done;
}

bool resume_after_spikes(struct engine *engine)
{
    int most = engine->request->options->roll_back;
    bool is_spike = engine->scale.skip == RUN_SKIP_SPIKE;
    engine->spikes_in_row = is_spike ? engine->spikes_in_row + 1 : 0;
    if (most == 0 || engine->spikes_in_row < most) return true;
    engine->spikes_in_row = 0;
    // What has not been updated since is what it was rolled back to.
    return engine->rolled_updates == engine->update_count || roll_back(engine);
}

// A new run keeps off the checkpoints of another.
static bool refuse_others(struct engine *engine, const struct checkpoint_store *store)
{
    int64_t step;
    if (!last_step(engine, store, &step)) return false;
    if (step < 0) return true;
    return err_set(engine->err, ERR_USAGE,
                   "--checkpoint %s: holds a checkpoint of step %" PRId64
                   " already: --resume goes on from it",
                   store->folder, step);
}

static bool open_store(struct engine *engine, const struct checkpoint_store *store)
{
    int64_t *all = ARENA_NEW(engine->scratch, int64_t, engine->program->mesh.rank_count);
    if (engine->rank == 0 && !checkpoint_store_open(store, engine->err)) return false;
    return gather(engine, 0, all);
}

bool resume_open(struct engine *engine, bool *resumed)
{
    const struct run_checkpoint *options = options_of(engine);
    *resumed = false;
    engine->rolled_updates = -1;
    if (!options) return true;
    const struct checkpoint_store store = {&DISK_REAL, options->folder};
    struct arena_mark mark = arena_mark(engine->scratch);
    const char *path = NULL;
    bool done = open_store(engine, &store);
    if (done && options->resume == RESUME_NONE) done = refuse_others(engine, &store);
    if (done && options->resume != RESUME_NONE) done = find_good(engine, &store, &path);
    if (done && !path && options->resume == RESUME_MUST)
        done = err_set(engine->err, ERR_INPUT, "--resume: no checkpoint in %s", options->folder);
    if (done && path) {
        done = go_on(engine, path);
        *resumed = done;
    }
    arena_reset(engine->scratch, mark);
    return done;
}
