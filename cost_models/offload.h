#pragma once
#include "cost_models/memory.h"
#include "cost_models/step.h"

// What moving state off the device takes. Two engines copy beside compute, one each way, at the
// slowest of the device's link, its share of the host's memory and, for NVMe, its share of the
// host's drives.
//
// Activations: while a layer runs forward the copies of the layer before go down, while it runs
// backward those of the layer behind come up (two layers are in transit each way), so that of the
// copies of a layer as much is hidden as it computes, and the rest is waited for.
//
// Gradients that are kept on the host go down behind each bucket in every micro-batch, and come up
// before the next one adds to them, beside backward on the two copy engines (up beside activations
// that come back); an update finds them there.
//
// Optimizer states: gradients go down, the host updates, parameters come up, bucket by bucket
// (ZeRO-Offload, Ren et al. 2021, section 4.1); on NVMe the states are read and written as well
// (ZeRO-Infinity, Rajbhandari et al. 2021, section 5), those of one bucket while others are updated
// and written: at once, where the drive does both (nvme_duplex_ratio of the cluster), no way faster
// than alone. A row of buckets takes as long as the
// slowest of these and, to fill and drain, one bucket of each of the others. Nothing of it is
// counted to run beside backward, because the norm of all gradients comes first. A host is never
// counted faster than the device, so that moving never shortens a step. Where the device is the
// host's processor it updates as fast and copies, updates and copies in turn, beside which a thread
// reads and writes NVMe.

// Bytes a second of one rank, one direction, between the device and that tier.
double offload_bytes_per_s(const struct price_context *context, enum tier tier);
// Of it, of NVMe, what reads and writes that are asked for at once get together: 1 to 2.
double offload_duplex_ratio(const struct price_context *context);

// `count` copies of so many bytes together, each given as a kernel is: arrays that are moved one by
// one, a fetch, units of gradients and of an update (of other software's one a bucket), at least.
double copies_s(const struct price_context *context, enum tier tier, double bytes, double count);

// Of copies that run beside compute, what is waited for.
double copy_exposed_s(double copy_s, double compute_s);

// Parameters: the copies of a block run beside what the block in front of it computes where the
// plan gathers ahead (overlap param-gather), else they are waited for (cost_models/block.c); in
// backward, where they take the same way as activations that come back, those have what they leave.
// From NVMe a thread reads the next block's into a room of the host in any case, beside what this
// one computes: of a fetch that is waited for, that is hidden, and the copy out of the room is not.

// Compute of one micro-batch through a block, beside which its copies run. Where W is a task of its
// own it runs before the next B all the same.
struct copy_window {
    double forward_s, backward_s;
};
// Where the device is the host's processor it copies between its kernels, to and from NVMe alike:
// there a thread reads and writes beside them.
struct copy_window copy_window(const struct price_context *context, enum tier tier,
                               const struct block_price *price);

// One layer and micro-batch of a block of which these classes are moved.
struct copy_price {
    double bytes, copy_s;          // one direction
    double forward_s, backward_s;  // of them, what no compute hides
};
struct copy_price copy_price(const struct price_context *context, enum tier tier,
                             const struct block_program *block, const struct block_price *price,
                             unsigned moved);
// Adds the copies of a use of a block to its chunk, and writes them into the context's ledger.
void copy_add(const struct price_context *context, const struct program *program,
              const struct block_use *use, const struct block_price *price,
              struct chunk_price *chunk);

// Of a chunk's gradients what passes over the link: adds what of it in a micro-batch no compute
// hides, of the uses of the chunk's blocks `window_s` in all, and writes it into the ledger.
void gradient_copies_add(const struct price_context *context, const struct program *program,
                         const struct program_chunk *chunk, double window_s,
                         struct chunk_price *price);

// One update on the host of `elements` parameters.
struct host_update {
    double down_s, host_s, up_s, nvme_s;  // alone
    double s;                             // of the row of buckets
    int bucket_count;
};
struct host_share {
    double elements;
    double away;            // of them, those whose gradients are on the host already
    double fetched;         // those whose weights stay off the device, where blocks fetch them
    int units, away_units;  // arrays that our executor copies one by one (struct step_group)
};
struct host_update host_update(const struct price_context *context, const struct program *program,
                               const struct host_share *share);
// No update of so many is shorter: what the host's memory takes for it.
double host_update_least_s(const struct price_context *context, enum optimizer optimizer,
                           double elements);
// Adds it to a chunk, and its parts to the context's ledger.
void host_update_add(const struct price_context *context, const struct program *program,
                     const struct host_share *share, struct chunk_price *chunk);
