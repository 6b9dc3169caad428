#pragma once
#include <stdint.h>

// Popularity after Zipf: of `count` things the k-th most popular is asked for with the probability
// k^-exponent / H(count, exponent), H the generalised harmonic number. Sums over billions of things
// are closed: the first ZIPF_HEAD terms one by one, the rest by Euler and Maclaurin,
//   H(n) - H(N) = (n^(1-s) - N^(1-s)) / (1-s) + (n^-s - N^-s) / 2 + s (N^(-s-1) - n^(-s-1)) / 12,
// the logarithm in place of the first term for s = 1,
// or over blocks whose width is a hundredth of their first rank.

enum { ZIPF_HEAD = 1000 };

struct zipf {
    int64_t count;
    double exponent;             // >= 0; 0: all alike
    double head[ZIPF_HEAD + 1];  // H of the first ranks
    double total;                // H(count)
};

struct zipf zipf_make(int64_t count, double exponent);  // count >= 1
// H(rank) / H(count): the share of requests that go to the `rank` most popular. This is the hit
// rate of a cache that holds just these (static: filled once, by popularity).
double zipf_share(const struct zipf *zipf, double rank);
// Hit rate of a cache of `places` that drops what was not asked for longest (LRU), by the
// approximation of Che, Tung and Wang (2002): t with sum (1 - e^(-p_k t)) = places, then
// sum p_k (1 - e^(-p_k t)).
double zipf_lru_share(const struct zipf *zipf, double places);
// Different things among so many requests, expected: sum 1 - (1 - p_k)^requests.
double zipf_unique(const struct zipf *zipf, double requests);
// The rank, from 1, under which a uniform number of [0, 1) falls: drawn so, requests have this
// popularity.
int64_t zipf_rank(const struct zipf *zipf, double uniform);
