#pragma once
#include "executor/data/corpus.h"

// Rows of a step for one rank: while a step runs a thread reads those of the next.

struct feed;

// `is_wanted` [batch]: of a step's sequences those that this rank looks at. Failing to start the
// thread is ERR_SYSTEM. All of it lives in `arena`, the thread until feed_close.
MUST_CHECK struct feed *feed_open(struct arena *arena, const struct corpus *corpus, int64_t batch,
                                  const bool *is_wanted, struct err *err);
void feed_close(struct feed *feed);

// The rows of a step, [batch][row_stride] with those that are wanted filled, good until the next
// call of either. *waited_s: for how long they were not there yet. NULL and `err` set where a file
// is wrong.
MUST_CHECK const int64_t *feed_step(struct feed *feed, int64_t step, double *waited_s,
                                    struct err *err);
// What reading the rows of the last feed_step took, beside the step before or not.
struct feed_read {
    int64_t bytes;  // of ids
    double s;
};
struct feed_read feed_read_of_step(struct feed *feed);
// The same of the held-out part, batch by batch, read as they are asked for.
MUST_CHECK const int64_t *feed_held_out(struct feed *feed, int64_t batch, struct err *err);
