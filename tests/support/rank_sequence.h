#pragma once
#include "tests/support/ranks.h"

// A random sequence of operations over groups that overlap: all ranks draw the same, take part
// where they are, and compare what comes with sums that they make by themselves, bit for bit.

enum { SEQUENCE_RANK_MAX = 8 };

struct sequence {
    int real_bytes, rank_count, group_count, operation_count;
    enum precision compute;  // of ELEMENT_COMPUTE: 16 bits, or PRECISION_FP32: as wide as reals
    int longest;             // part of a member
    uint64_t seed;
    bool is_whole;  // small whole numbers, whose sums are the same in any order
};

// A body of struct rank_job; the context is the sequence.
bool sequence_run(const struct transport *transport, struct communicator *communicator, int rank,
                  void *context);
