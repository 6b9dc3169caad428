#pragma once

// The process behind goodput: a job that runs, fails, restarts from its last stored checkpoint and
// waits for nodes. Times in seconds.

struct renewal {
    double mtbf_s;           // of interruptions while the job runs or restarts
    double interval_s;       // of work between checkpoints
    double checkpoint_s;     // that the job stands for each
    double storing_s;        // from then until a failure can go back to it, <= interval_s
    double restart_s;        // before work goes on; may be interrupted
    double node_loss_ratio;  // of interruptions, those that take a node
    double repair_s;         // mean, of a node; 0: another is there at once
    int spare_nodes;
};

// Share of the time that a job without an end waits for a node (Erlang's loss formula).
double renewal_wait_ratio(const struct renewal *renewal);
// Of `work_s` of progress, in the mean: the time at work, restarting or writing checkpoints, and
// the wait for nodes of a run that begins with all spares free; and their sum, the wall clock, with
// its standard deviation.
double renewal_busy_s(const struct renewal *renewal, double work_s);
double renewal_wait_s(const struct renewal *renewal, double work_s);
double renewal_mean_s(const struct renewal *renewal, double work_s);
double renewal_deviation_s(const struct renewal *renewal, double work_s);
// The wall clocks of `count` runs, ascending, drawn from this seed. Interruptions and repairs are
// exponential. The work grows with the number of interruptions.
void renewal_draw(const struct renewal *renewal, double work_s, unsigned seed, double *wall_s,
                  int count);
// Of `count` equally likely quantiles `ratios` the wall clocks: drawn where interruptions are few,
// else those of the normal distribution, to which the sum of many independent delays tends.
void renewal_quantiles(const struct renewal *renewal, double work_s, const double *ratios,
                       double *wall_s, int count);
