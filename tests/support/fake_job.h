#pragma once
#include "core/arena.h"

#include <stdint.h>

// A job and its launcher from the first start to the end, in a world made of a seed: ranks compute,
// meet behind every step, write, commit and go on from checkpoints, are slow, stand still for good,
// are stopped at any moment, for good or for a while, or are killed, also within a write; the disk
// is full now and then, power goes between two starts, SIGTERM comes. Heartbeats are judged by
// launcher/watch.c, checkpoints decided on by checkpoint/commit.c and kept by checkpoint/store.c,
// restarts by launcher/restart.c.

// Faults in the protocol, planted to see them found.
enum planted {
    SOUND,
    COMMITS_EARLY,    // the first rank does not wait for the files of the others
    IGNORES_FAILURE,  // a file that could not be written counts as written
    SYNCS_NOTHING,    // files and folders are not synced
    NEVER_DROPS,      // a rank that dies again and again is started again and again
    RESTARTS_TWICE,   // a restart costs half of one
    SEES_NO_STOP,     // who was stopped is not told from who waits
    COUNTS_NO_STOP,   // who waited long counts as stopped for as long
    PLANTED_COUNT
};

// NULL, or what is wrong.
const char *fake_job_live(struct arena *arena, uint64_t seed, enum planted planted);

// Of a run whose times are given, and where nothing happens but kills.
static const double FAKE_TICK_S = 0.1;
struct fake_pace {
    double mtbf_s;  // between kills
    int step_ticks, write_ticks, start_ticks;
};

// The same of two ranks that are started again until the run is over; *took_s of the job's clock.
const char *fake_job_paced(struct arena *arena, uint64_t seed, const struct fake_pace *pace,
                           int64_t steps, int64_t every, double *took_s);
