#pragma once
#include "plan/program.h"
#include "plan/readers.h"

// What a step's sequences take until the ranks have them: reading token files, which goes on beside
// the step before, and handing rows on to ranks that do not read (plan/readers.h), which all wait
// for, between two steps.
//
// Read are the ids of the sequences that the ranks look at, and those behind their ends. Files are
// mapped: what ranks of a host read at once leaves its drives once (drive_bytes), at its
// nvme_bytes_per_s. Not counted: pieces of 64 KiB that are read whole for their checksum when they
// are first touched, what is in the host's memory already, and the processor's time.
//
// A broadcast carries 8 bytes an id. Down the tree each host's reader sends to one other a round,
// over one NIC at its full rate: the network's latency and the bytes over its rate, round after
// round. On a host the reader copies rows into memory that its ranks share, and each copies them
// out: bytes are read and written once by each, at the host's memory bandwidth; no latency is
// known and none is counted.

struct input_request {
    const struct program *program;
    enum readers readers;
    double id_bytes;  // of the files; 0: as `tokenize` writes this vocabulary
    bool are_masked;  // attention looks at where documents begin, on all stages
    double step_s;    // that hides what is read beside it
};

struct input_price {
    enum readers readers;
    int reader_count;
    double read_bytes;       // a step, all ranks together
    double host_read_bytes;  // of the host that reads most
    double drive_bytes;      // of the host whose drives read most
    double read_s;           // of the slowest host; NaN: what its drives reach is not known
    double broadcast_bytes;  // a step, that ranks receive, all together
    double broadcast_s;      // NaN: a link's speed is not known
    double step_s;           // as asked
    double wait_s;           // a step: of reading what the step does not hide, and the broadcast;
                             // NaN: not known
};

// Waits from this share of the time on are spoken of: less is within what a step varies by.
static const double INPUT_WAIT_RATIO = 0.02;

// Whether a model of this program is fed with tokens at all.
bool input_has_ids(const struct program *program);
// `scratch` is used and left as it was.
struct input_price input_price(struct arena *scratch, const struct input_request *request);
// Whether ranks wait for it so long that it is spoken of. What is not known is not.
bool input_is_bottleneck(const struct input_price *price);
