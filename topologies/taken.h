#pragma once
#include "topologies/provenance.h"

// What a file did not say and its reader took instead, so that nothing is guessed silently: a note
// for the person, a provenance of kind `assumed` for whoever uses the constant.

struct taken_fact {
    const char *key;     // in the file: "nodes[0].intra.latency_s"
    const char *value;   // "2e-06"
    const char *source;  // "as nvswitch in cost_models/fabrics.json"
};
struct taken_list {
    struct arena *arena;
    struct taken_fact *items;
    int count;
};

void taken_add(struct taken_list *list, const char *key, const char *value, const char *source);
void taken_add_number(struct taken_list *list, const char *key, double value, const char *source);
// "KEY VALUE, KEY VALUE (SOURCE); KEY VALUE (SOURCE)": what comes from one source together, in the
// order in which they were taken. "" for nothing.
const char *taken_text(const struct taken_list *list);
// Adds an entry of kind `assumed`.
void provenance_assume(struct arena *arena, struct provenance_list *list, const char *key,
                       const char *source);
