#pragma once

// Flows that a hash sends over links of a switch: equal-cost multipath routing. A flow keeps its
// link for as long as its connection lives, and a collective waits for its slowest flow.

// The expected number of flows on the busiest of all links, where each of `switches` hashes `flows`
// of them over its own `links`, every link as likely: balls in bins. All arguments are whole
// numbers >= 1. The distribution of the highest count of a switch is that of independent Poisson
// counts on the condition of their sum (Levin 1981, "A representation for multinomial cumulative
// distribution functions", Annals of Statistics 9(5), equation 1): the sum is multiplied out for up
// to 24 flows, beyond that it is taken as normal with its skewness; the rare highest counts are
// those of one link. From 64 flows a link on, the excess over the mean grows with the root of the
// mean. Within 1 % of the exact value for up to 128 flows on 2 to 64 links of up to 256 switches,
// within 2 % of flows thrown by a seed for up to 9,000 (tests/topologies/test_ecmp.c).
double ecmp_busiest(double flows, double links, double switches);
