#pragma once
#include "topologies/cluster.h"

// What can be rented: machines with their prices and how many GPUs of each host are free.
// topologies/offers/NAME.json; schema in topologies/schema/offers.schema.json.

// Hosts that are alike. What is free of a host is all that a job can have of it: no plan may count
// on the fabric reaching the others.
struct offer_hosts {
    int count;  // default 1
    int free, total;
};

struct offer {
    const char *name;
    const struct cluster *cluster;  // what one whole host and the network are like; one node
    double price_per_gpu_hour;
    const char *date, *source;  // of the price; NULL: those of the file
    const char *region;         // "": not said. All hosts of an offer can reach each other
    bool spot;                  // may be taken away
    double preemption_mtbf_h;   // hours until a spot host is; 0: not known
    int cores_per_gpu;          // a job gets for each GPU; 0: its share of the cluster's host
    int64_t host_memory_bytes_per_gpu;
    struct offer_hosts *hosts;
    int host_count;  // entries
};

struct offers {
    const char *name;
    const char *date, *source;  // when the prices were asked, and who says so
    const char *currency;
    double credits;  // coupons: money that need not be paid
    struct offer *items;
    int count;
};

// A path or a shipped name. NULL and a set `err` where it is wrong. Lives in `arena`.
MUST_CHECK struct offers *offers_load(struct arena *arena, const char *name, struct err *err);

// What may be rented of it: of each offer the same number of GPUs of each host, on each number of
// hosts that have so many free; past OFFERS_HOSTS_EACH hosts on twice, four times, ... as many and
// on all. Each is a cluster whose name says so, "h800 1 x 6", with the offer's price and its share
// of host and NICs.
enum { OFFERS_HOSTS_EACH = 64 };
struct offer_cluster {
    const struct offer *offer;
    struct cluster *cluster;
};
struct offer_cluster *offers_clusters(struct arena *arena, const struct offers *offers, int *count);
