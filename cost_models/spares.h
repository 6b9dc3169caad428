#pragma once

// Nodes that wait to replace failed ones, and how long a job stands because none is left. Lost
// nodes are repaired side by side, each for an exponential time; nodes are lost as a Poisson
// process, only while the job runs.
//
// In the time that the job runs, the number of nodes in repair is a birth and death process on
// 0 .. count: up at `loss_per_s`, down at one over `repair_s` for each. A node that is lost with
// `count` in repair makes the job wait for the first of count + 1 repairs, after which `count` are
// in repair again.

struct spares {
    double loss_per_s;  // nodes, while the job runs
    double repair_s;    // mean, of one; 0: another is there at once
    int count;
};

// Share of the wall clock that a job without an end waits: Erlang's loss formula for count + 1
// servers, whatever the distribution of repair times.
double spares_wait_ratio(const struct spares *spares);

// The waits in the first `busy_s` seconds of running, of a job that starts with no node in repair:
// mean and variance of their sum, by numerical inversion of their Laplace transforms. Exact where
// the job runs for `busy_s` whatever fails. Where that is the mean, and each lost node makes it run
// `cost_s` longer, a job that is short of nodes is one that runs on: the mean has that to the first
// order of the cost.
struct spares_wait {
    double mean_s, variance;
};
struct spares_wait spares_wait(const struct spares *spares, double busy_s, double cost_s);
