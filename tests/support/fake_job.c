#include "tests/support/fake_job.h"

#include "executor/checkpoint/commit.h"
#include "executor/launcher/parts.h"
#include "executor/launcher/restart.h"
#include "tests/support/fake_checkpoint.h"
#include "tests/support/fake_disk.h"
#include "tests/support/test.h"

#include <math.h>
#include <signal.h>

enum { RANKS_MOST = 3, STEPS_MOST = 12, KEEP = 2, TICKS_MOST = 100000 };
enum { STOP_TICKS_MOST = 90 };  // less than what counts as stuck
enum { NOBODY = 0x40000000 };   // no process has so large a number
static const double STUCK_S = 10, NOTICED_S = 30;

enum rank_mode { STARTS, COMPUTES, WAITS, FINISHES, STANDS, IS_OVER };

struct sim_rank {
    enum rank_mode mode;
    int ticks;     // until it has computed
    int64_t step;  // that it has run
    enum commit_phase phase;
    int64_t saved_step;
    int writes;  // ticks until the thread is done
    double fault_s;
    double continues_s;   // stopped until then; 0: it is not, INFINITY: for good
    int64_t ticks_taken;  // of the processor, while it starts
};

struct sim {
    struct arena *arena;
    struct fake_disk *fake;
    struct disk disk;
    struct checkpoint_store store;
    enum planted planted;
    const struct fake_pace *pace;  // NULL: all is drawn
    double kill_s;                 // the next
    struct heartbeat_page *page;
    struct launch_watch watch;
    struct sim_rank ranks[RANKS_MOST];
    int count, slow_rank, bad_rank;  // -1: none; the bad one is killed soon after every start
    int64_t steps, every;
    double now_s, fault_s;
    int64_t committed, begun;
    bool is_under_way, is_asked, stops, disk_fails, has_begun;
    int64_t last_begun;
    const char *wrong;
};

static uint64_t draw(struct sim *sim, uint64_t below)
{
    return fake_disk_draw(sim->fake, below);
}

static bool commit(struct sim *sim)
{
    struct err err = {0};
    int64_t step = sim->ranks[0].saved_step;
    if (!fake_checkpoint_commit(&sim->store, step, sim->count, &err)) return false;
    sim->committed = step;
    return checkpoint_store_keep(&sim->store, KEEP, &err);
}

// What the rank's thread does; the rank is killed within it where `dies`.
static bool work(struct sim *sim, int rank, bool dies)
{
    int now = fake_disk_operations(sim->fake);
    if (dies) fake_disk_kill_at(sim->fake, now + 1 + (int)draw(sim, 8));
    const struct sim_rank *of = &sim->ranks[rank];
    struct err err = {0};
    bool done = of->phase == COMMIT_WRITING
                    ? fake_checkpoint_write(&sim->store, of->saved_step, rank, sim->count, &err)
                    : commit(sim);
    if (dies) fake_disk_kill_at(sim->fake, 0);
    return done;
}

static bool is_at_work(const struct sim_rank *of)
{
    return of->phase == COMMIT_WRITING || of->phase == COMMIT_COMMITTING;
}

// Threads go on beside everything that their rank does.
static void tick_thread(struct sim *sim, int rank)
{
    struct sim_rank *of = &sim->ranks[rank];
    if (!is_at_work(of) || of->mode == IS_OVER || of->mode == STANDS || of->writes-- > 0) return;
    bool done = work(sim, rank, false);
    if (!done && sim->planted == IGNORES_FAILURE) done = true;
    of->phase = !done                         ? COMMIT_FAILED
                : of->phase == COMMIT_WRITING ? COMMIT_WRITTEN
                                              : COMMIT_COMMITTED;
}

static void set_state(struct sim *sim, int rank, enum heartbeat_state state)
{
    struct heartbeat *heartbeat = heartbeat_of(sim->page, rank);
    atomic_store(&heartbeat->state, (int)state);
    atomic_store(&heartbeat->step, (int)sim->ranks[rank].step + 1);
    atomic_fetch_add(&heartbeat->beat, 1);
}

static void begin_save(struct sim *sim, int rank)
{
    struct sim_rank *of = &sim->ranks[rank];
    of->saved_step = of->step;
    of->phase = COMMIT_WRITING;
    of->writes = sim->pace ? sim->pace->write_ticks : (int)draw(sim, 12);
    sim->begun = of->step;
}

static enum commit_next decide(struct sim *sim, const int64_t *phases, int rank, int *failed)
{
    enum commit_next next = commit_next(phases, 1, sim->count, rank, failed);
    bool is_early = sim->planted == COMMITS_EARLY && next == COMMIT_WAIT && rank == 0 &&
                    phases[0] == COMMIT_WRITTEN;
    return is_early ? COMMIT_START : next;
}

// As `follow` of engine/save.c, on every rank by the same numbers.
static void follow(struct sim *sim, const int64_t *phases)
{
    bool is_over = false;
    for (int r = 0; r < sim->count && sim->is_under_way; r++) {
        struct sim_rank *of = &sim->ranks[r];
        int failed;
        switch (decide(sim, phases, r, &failed)) {
        case COMMIT_GIVE_UP:
            if (is_at_work(of)) (void)work(sim, r, false);
            checkpoint_store_discard(&sim->store, of->saved_step, r);
            of->phase = COMMIT_NOTHING;
            is_over = true;
            break;
        case COMMIT_STORED:
            of->phase = COMMIT_NOTHING;
            is_over = true;
            break;
        case COMMIT_START:
            of->phase = COMMIT_COMMITTING;
            of->writes = sim->pace ? 0 : (int)draw(sim, 6);
            break;
        case COMMIT_WAIT:
            break;
        }
    }
    if (is_over) sim->is_under_way = false;
}

static void begin_all(struct sim *sim)
{
    for (int r = 0; r < sim->count; r++)
        begin_save(sim, r);
    sim->is_under_way = true;
    sim->last_begun = sim->ranks[0].step;
}

static int compute_ticks(struct sim *sim, int rank)
{
    if (sim->pace) return sim->pace->step_ticks - 1;
    int ticks = 2 + (int)draw(sim, 6);
    return rank == sim->slow_rank ? 20 * ticks : ticks;
}

// All have run the step. Behind the last one, or when asked to end, the last checkpoint is waited
// for.
static void exchange(struct sim *sim)
{
    int64_t phases[RANKS_MOST];
    for (int r = 0; r < sim->count; r++)
        phases[r] = sim->ranks[r].phase;
    follow(sim, phases);
    int64_t step = sim->ranks[0].step;
    bool ends = sim->stops || step >= sim->steps;
    if (sim->is_asked) sim->stops = true;
    bool is_due = step - sim->last_begun >= (ends || sim->stops ? 1 : sim->every);
    if (!sim->is_under_way && is_due) begin_all(sim);
    ends = sim->stops || step >= sim->steps;
    for (int r = 0; r < sim->count; r++) {
        struct sim_rank *of = &sim->ranks[r];
        if (ends && !sim->is_under_way) {
            of->mode = IS_OVER;
            set_state(sim, r, HEARTBEAT_DONE);
            heartbeat_end(sim->page, r, 0, false);
            continue;
        }
        of->mode = ends ? WAITS : COMPUTES;
        of->ticks = compute_ticks(sim, r);
        set_state(sim, r, ends ? HEARTBEAT_WAITING : HEARTBEAT_WORKING);
    }
}

static void kill_rank(struct sim *sim, int rank, bool is_fault)
{
    struct sim_rank *of = &sim->ranks[rank];
    if (of->mode == IS_OVER) return;
    if (is_at_work(of) && draw(sim, 2)) (void)work(sim, rank, true);
    of->mode = IS_OVER;
    of->phase = COMMIT_NOTHING;
    if (!is_fault) return;
    of->fault_s = sim->now_s;
    heartbeat_end(sim->page, rank, SIGKILL, false);
}

static void tick_rank(struct sim *sim, int rank)
{
    struct sim_rank *of = &sim->ranks[rank];
    if (of->continues_s > 0 && sim->now_s < of->continues_s) return;
    of->continues_s = 0;
    tick_thread(sim, rank);
    bool moves = of->mode == STARTS || of->mode == COMPUTES;
    if (!moves) return;
    // Who starts is seen to work by the processor that it takes.
    if (of->mode == STARTS)
        of->ticks_taken++;
    else
        set_state(sim, rank, HEARTBEAT_WORKING);
    if (of->ticks-- > 0) return;
    if (of->mode == COMPUTES) of->step++;
    of->mode = WAITS;
    set_state(sim, rank, HEARTBEAT_WAITING);
}

static int64_t last_step(struct sim *sim)
{
    struct err err = {0};
    int64_t *steps;
    int count;
    bool done = checkpoint_store_steps(&sim->store, sim->arena, &steps, &count, &err);
    return done && count > 0 ? steps[0] : 0;
}

// The first rank opens the folder, and all go on from the last checkpoint.
static bool open_job(struct sim *sim)
{
    struct err err = {0};
    int64_t found = last_step(sim);
    if (sim->disk_fails) fake_disk_fail_one_in(sim->fake, 25);
    bool is_open = checkpoint_store_open(&sim->store, &err);
    // What looks at it here is no part of the job.
    fake_disk_fail_one_in(sim->fake, 0);
    if (!is_open) return false;
    if (found < sim->committed) sim->wrong = "a checkpoint that was committed is gone";
    if (found > sim->begun) sim->wrong = "a checkpoint from nowhere";
    if (found > 0 && !fake_checkpoint_is_whole(&sim->store, sim->arena, found, &err))
        sim->wrong = "a checkpoint is not whole";
    sim->committed = found;
    sim->last_begun = found;
    sim->is_under_way = false;
    for (int r = 0; r < sim->count; r++)
        sim->ranks[r] =
            (struct sim_rank){.mode = STARTS,
                              .step = found,
                              .ticks = sim->pace ? sim->pace->start_ticks : 1 + (int)draw(sim, 20)};
    return true;
}

static void draw_kill(struct sim *sim)
{
    double uniform = ((double)draw(sim, 1000000) + 0.5) / 1000000;
    sim->kill_s = sim->now_s - sim->pace->mtbf_s * log(uniform);
}

// By SIGSTOP, in whatever it does, and its thread with it; SIGCONT may come in time.
static void stop_rank(struct sim *sim, int rank, bool is_for_good, bool *is_sick)
{
    struct sim_rank *of = &sim->ranks[rank];
    if (of->mode == IS_OVER || of->mode == STANDS || of->continues_s > 0) return;
    of->continues_s = sim->now_s + FAKE_TICK_S * (1 + (double)draw(sim, STOP_TICKS_MOST));
    if (!is_for_good) return;
    of->continues_s = INFINITY;
    of->fault_s = sim->now_s;
    *is_sick = true;
}

// What befalls ranks while they run.
static void befall(struct sim *sim, bool *is_sick)
{
    if (*is_sick) return;
    int rank = (int)draw(sim, (uint64_t)sim->count);
    if (sim->pace) {
        if (sim->now_s < sim->kill_s) return;
        kill_rank(sim, rank, true);
        draw_kill(sim);
        *is_sick = true;
        return;
    }
    bool is_bad = sim->bad_rank >= 0 && sim->bad_rank < sim->count;
    if (is_bad && draw(sim, 20) == 0) {
        kill_rank(sim, sim->bad_rank, true);
        *is_sick = true;
    } else if (draw(sim, 400) == 0) {
        kill_rank(sim, rank, true);
        *is_sick = true;
    } else if (draw(sim, 600) == 0 && sim->ranks[rank].mode == COMPUTES) {
        sim->ranks[rank].mode = STANDS;
        sim->ranks[rank].fault_s = sim->now_s;
        *is_sick = true;
    } else if (draw(sim, 300) == 0) {
        stop_rank(sim, rank, draw(sim, 2), is_sick);
    } else if (draw(sim, 500) == 0) {
        sim->is_asked = true;
    }
}

static bool all_wait(const struct sim *sim)
{
    for (int r = 0; r < sim->count; r++) {
        if (sim->ranks[r].mode != WAITS || sim->ranks[r].continues_s > 0) return false;
    }
    return true;
}

// Whoever is blamed is at fault, soon, and nobody is blamed for nothing.
static void check_blame(struct sim *sim, const struct err *err)
{
    int rank = sim->watch.failed_rank;
    if (rank < 0 || sim->ranks[rank].fault_s == 0)
        sim->wrong = arena_print(sim->arena, "who is not at fault is blamed: %s", err->text);
    else if (sim->now_s - sim->ranks[rank].fault_s > NOTICED_S)
        sim->wrong = "a fault is noticed late";
}

static bool look(struct sim *sim, struct err *err)
{
    for (int r = 0; r < sim->count && sim->planted == COUNTS_NO_STOP; r++)
        if (sim->watch.stopped_s[r] > 0) sim->watch.stopped_s[r] = sim->watch.still_s[r];
    return launch_watch_look(&sim->watch, sim->now_s, err);
}

// One start of the ranks; true when all have ended well.
static bool run_job(struct sim *sim, bool *is_sick)
{
    struct err err = {0};
    bool is_well = true, is_over = false;
    *is_sick = false;
    for (int tick = 0; tick < TICKS_MOST && is_well && !is_over; tick++) {
        sim->now_s += FAKE_TICK_S;
        befall(sim, is_sick);
        for (int r = 0; r < sim->count; r++)
            tick_rank(sim, r);
        if (all_wait(sim)) exchange(sim);
        is_well = look(sim, &err);
        is_over = launch_watch_all_ended(&sim->watch);
    }
    if (!is_well) check_blame(sim, &err);
    if (is_well && !is_over) sim->wrong = "a job that does not end";
    for (int r = 0; r < sim->count; r++)
        kill_rank(sim, r, false);
    return is_well && is_over;
}

static const struct sim_rank *rank_of(const struct sim *sim, pid_t pid)
{
    return &sim->ranks[pid - NOBODY];
}

static char state_of(void *context, pid_t pid)
{
    const struct sim *sim = context;
    bool is_stopped = rank_of(sim, pid)->continues_s > 0;
    return is_stopped && sim->planted != SEES_NO_STOP ? 'T' : 'S';
}

static int64_t ticks_of(void *context, pid_t pid)
{
    return rank_of(context, pid)->ticks_taken;
}

static void open_watch(struct sim *sim)
{
    struct err err = {0};
    const struct launch_request request = {.rank_count = sim->count, .stuck_s = STUCK_S};
    const struct launch_started started = {.child_count = sim->count};
    sim->page = heartbeat_page_create(sim->count, &err);
    assert_non_null(sim->page);
    launch_watch_begin(&sim->watch, &request, &started, sim->page, sim->now_s);
    sim->watch.processes = (struct launch_processes){state_of, ticks_of, sim};
    for (int r = 0; r < sim->count; r++)
        atomic_store(&heartbeat_of(sim->page, r)->pid, NOBODY + r);
}

static bool start_job(struct sim *sim, bool *is_sick)
{
    bool done = false;
    *is_sick = true;
    open_watch(sim);
    bool is_open = open_job(sim);
    if (sim->disk_fails) fake_disk_fail_one_in(sim->fake, 25);
    if (is_open && !sim->wrong) done = run_job(sim, is_sick);
    if (!is_open) sim->watch.failed_rank = 0;
    fake_disk_fail_one_in(sim->fake, 0);
    sim->has_begun = atomic_load(&heartbeat_of(sim->page, 0)->step) > 0;
    launch_watch_free(&sim->watch);
    heartbeat_page_close(sim->page);
    return done;
}

// Started again as often as it may be; what each start was followed by is kept apart, to judge by.
static void live(struct sim *sim, int restarts)
{
    struct restart_rule rule = {restarts, -1, 0, 0};
    int died = -1, starts = 0, lives = 0;
    int64_t died_behind = -1;
    bool is_sick;
    while (!sim->wrong) {
        starts++;
        bool done = start_job(sim, &is_sick);
        if (sim->wrong) return;
        if (draw(sim, 3) == 0 && !done && !sim->pace) fake_disk_crash(sim->fake);
        int64_t last = last_step(sim);
        if (done && !sim->disk_fails && last != (sim->stops ? sim->ranks[0].step : sim->steps))
            sim->wrong = "the last step has no checkpoint";
        if (done) return;
        struct restart_end end = {
            true, sim->watch.failed_rank, sim->count, sim->has_begun, sim->pace, last};
        enum restart_next next = restart_next(&rule, &end);
        bool is_same = died == end.failed_rank && died_behind == last;
        lives = is_same && end.failed_rank >= 0 ? lives + 1 : 0;
        bool is_gone =
            (lives == 2 || (lives == 1 && !sim->has_begun)) && sim->count > 1 && !end.is_fixed;
        if (sim->planted == NEVER_DROPS && next == RESTART_WITHOUT) next = RESTART_AGAIN;
        if (sim->planted == RESTARTS_TWICE && starts % 2) rule.left++;
        if ((starts > restarts) != (next == RESTART_NOT)) sim->wrong = "restarts are not counted";
        if (next == RESTART_NOT) return;
        if ((next == RESTART_WITHOUT) != is_gone) sim->wrong = "a rank is dropped, or is not";
        died = next == RESTART_WITHOUT ? -1 : end.failed_rank;
        died_behind = last;
        if (next == RESTART_WITHOUT && end.failed_rank == sim->bad_rank) sim->bad_rank = -1;
        sim->count -= next == RESTART_WITHOUT;
        sim->is_asked = sim->stops = false;
    }
}

static int no_sync_close(void *context, struct disk_file *file, int is_kept)
{
    (void)context;
    (void)file;
    (void)is_kept;
    return 0;
}

static int no_sync_folder(void *context, const char *path)
{
    (void)context;
    (void)path;
    return 0;
}

const char *fake_job_live(struct arena *arena, uint64_t seed, enum planted planted)
{
    struct sim sim = {.arena = arena, .fake = fake_disk_new(arena, seed), .planted = planted};
    sim.disk = fake_disk_table(sim.fake);
    if (planted == SYNCS_NOTHING) {
        sim.disk.close = no_sync_close;
        sim.disk.sync_folder = no_sync_folder;
    }
    sim.store = (struct checkpoint_store){&sim.disk, "ck"};
    sim.count = 1 + (int)draw(&sim, RANKS_MOST);
    sim.steps = 3 + (int64_t)draw(&sim, STEPS_MOST - 2);
    sim.every = 1 + (int64_t)draw(&sim, 3);
    sim.slow_rank = draw(&sim, 4) ? -1 : (int)draw(&sim, RANKS_MOST);
    sim.bad_rank = draw(&sim, 4) ? -1 : (int)draw(&sim, RANKS_MOST);
    sim.disk_fails = draw(&sim, 3) == 0;
    sim.now_s = 1e6;
    live(&sim, (int)draw(&sim, 5));
    return sim.wrong;
}

const char *fake_job_paced(struct arena *arena, uint64_t seed, const struct fake_pace *pace,
                           int64_t steps, int64_t every, double *took_s)
{
    enum { STARTS_MOST = 100000 };
    static const double BEGIN_S = 1e6;
    struct sim sim = {.arena = arena,
                      .fake = fake_disk_new(arena, seed),
                      .pace = pace,
                      .count = 2,
                      .slow_rank = -1,
                      .bad_rank = -1,
                      .steps = steps,
                      .every = every,
                      .now_s = BEGIN_S};
    sim.disk = fake_disk_table(sim.fake);
    sim.store = (struct checkpoint_store){&sim.disk, "ck"};
    draw_kill(&sim);
    live(&sim, STARTS_MOST);
    *took_s = sim.now_s - BEGIN_S;
    return sim.wrong;
}
