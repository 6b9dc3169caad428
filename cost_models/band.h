#pragma once
#include "core/json_write.h"
#include "topologies/cluster.h"

// How far measured steps lay from predicted ones: the ratios measured / predicted between which 90
// % of the published runs fell, each predicted by constants fitted without its family.
// cost_models/bands.json, written by `meshwright fit`; every row says from which runs it comes.

// What a prediction rests on. Validated: runs of this device with this stack, of this kind, were
// measured (BAND_VALIDATED_ROWS or more). Extrapolated: the device was measured, with another stack
// or kind or in too few runs. Datasheet: no run of this device was ever compared; its constants are
// from documents. Anchored: constants were corrected by runs that its user measured
// (validation/anchor.h); no row of the file says that.
enum confidence {
    CONFIDENCE_VALIDATED,
    CONFIDENCE_EXTRAPOLATED,
    CONFIDENCE_DATASHEET,
    CONFIDENCE_ANCHORED
};
enum { CONFIDENCE_COUNT = 4 };
const char *confidence_name(enum confidence confidence);

enum { BAND_VALIDATED_ROWS = 20 };

// A band holds 1: where a group of runs is off on one side, its band reaches from there to the
// number that is printed.
struct band {
    const char *device, *stack;  // "*" = any
    const char *kind;  // "dense", "dense-low-precision" (fp8, fp4) or "mixture" (of experts)
    enum confidence confidence;  // of predictions that take this row
    double low_ratio, high_ratio;
    int row_count, family_count;  // measured runs of this device, stack and kind, and how many
                                  // sources they came from; both may be 0
    const char *source;
    bool was_datasheet;  // before it was anchored
};

// Plans of one published sweep err alike, so which of two is faster is known better than how fast
// either is: of the pairs predicted up to this far apart (and further than the row before says), so
// many were measured in the predicted order.
struct band_pairs {
    double difference_ratio;  // slower over faster, less 1; 0 = any larger one
    int pair_count;
    double right_ratio;
    const char *source;
};

// How far measured peaks of allocated memory lay from predicted ones, by the stack that ran: the
// ends of measured / predicted between which 90 % of its runs fell. No published run says what the
// allocator had reserved beyond that.
#define MEMORY_OF_ANY "*"  // stack of the band of software that no constant had seen
struct memory_band {
    const char *stack;
    double low_ratio, high_ratio;
    int row_count, family_count;
    const char *source;
};

// The plan predicted best of several is one whose time came out too short as likely as not. How
// much: measured / predicted of the plan of each published sweep that was predicted best, without
// its family, over the mean of its sweep; mean over families, and its standard error.
struct selection_band {
    double mean_ratio;
    double error_ratio;
    int sweep_count, family_count;  // 0: not known
    const char *source;
};

// Of larger runs whose constants the smallest of their series had corrected, or of software that
// no constant had seen (softwares weighing alike), measured / predicted between which 90 % fell.
struct anchored_band {
    double low_ratio, high_ratio;
    int row_count, family_count;  // 0: not known
    const char *source;
};

struct bands {
    struct band *rows;
    int count;
    struct memory_band *memory;
    int memory_count;  // may be 0
    struct anchored_band anchored;
    struct anchored_band unfitted;  // of software whose constants no run was fitted to
    struct selection_band selection;
    struct band *selected;     // rows as they are for a plan that was selected; as many as `rows`
    struct band_pairs *pairs;  // by difference, the unlimited one last
    int pairs_count;
};

// Reads the shipped file. NULL and a set `err` if it is wrong; every kind needs a row for device
// "*", stack "*" and "datasheet". Lives as long as `arena`.
MUST_CHECK const struct bands *bands_load(struct arena *arena, struct err *err);
MUST_CHECK const struct bands *bands_read(struct arena *arena, const struct json *root,
                                          struct err *err);
// The object that `bands_read` reads.
void bands_write(struct json_writer *writer, const struct bands *bands);

// cost_models/band_memory.c: their members "memory", "anchored" and "selection", which may be
// absent.
void bands_read_others(struct arena *arena, const struct json *root, struct bands *bands,
                       struct err *err);
void bands_write_others(struct json_writer *writer, const struct bands *bands);

// The row of this device and stack. Where they were not measured together, the wider one of the
// device's and the stack's. A device that no row names was never measured in a run and takes a
// datasheet row, of its stack or of any; if the constants of its kernels are measured
// (`calibrated`), an extrapolated one of device "*". NULL only if no row is of this kind.
const struct band *bands_find(const struct bands *bands, const char *device, const char *stack,
                              const char *kind, bool calibrated);
// "mixture" for a model with experts, else by the width of the GEMMs.
const char *band_kind(int64_t expert_count, bool narrow);

// Of the pairs predicted this far apart; NULL where bands hold no pairs.
const struct band_pairs *bands_pairs(const struct bands *bands, double difference_ratio);

// The band of this stack's memory; where it was never measured, that of software that no constant
// had seen, or without one the widest of all (`is_own` false). NULL where bands hold none.
const struct memory_band *bands_memory(const struct bands *bands, const char *stack, bool *is_own);
// `bands` have this one of software that no constant had seen, in place of another; row_count 0:
// none.
void bands_put_memory_of_any(struct arena *arena, struct bands *bands,
                             const struct memory_band *band);

// These bands for a stack whose constants no run was fitted to: no row of it is narrower than
// `unfitted`. The same where that is not known. Lives in `arena`.
const struct bands *bands_unfitted(struct arena *arena, const struct bands *bands);

// A row of these bands for a plan that was selected among several: wider by what the measured
// selection, one standard error to either side, does not exclude. The same where it is not known.
const struct band *bands_selected(const struct bands *bands, const struct band *band);

// The same for constants that measured runs have corrected: no row is wider than the anchored band,
// and each is of confidence anchored. The same bands where that is not known. Lives in `arena`.
const struct bands *bands_anchored(struct arena *arena, const struct bands *bands);

// How many published runs of this stack on this device were compared, of every kind; "*": any.
int bands_runs(const struct bands *bands, const char *device, const char *stack);
// How many families these are of, on all devices together.
int bands_families(const struct bands *bands, const char *stack);
// bands_runs on the devices of a cluster.
int bands_cluster_runs(const struct bands *bands, const struct cluster *cluster, const char *stack);
// Whether the row is of devices that no run was measured on.
bool band_is_datasheet(const struct band *band);
// "157 measured runs on a100-sxm4-80g", "no measured run on l40s-48g"
const char *bands_runs_text(struct arena *arena, const struct bands *bands,
                            const struct cluster *cluster, const char *stack);
