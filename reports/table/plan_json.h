#pragma once
#include "core/json_write.h"
#include "plan/plan.h"
#include "planner/search.h"
#include "simulator/evaluate.h"

// plan.json of design section 5, and the parts of it that other commands print.

// "prediction": {...}
void prediction_write(struct json_writer *writer, const char *key,
                      const struct prediction *prediction);

// The members of one stage's memory, into an object that is open.
void memory_write(struct json_writer *writer, const struct memory_parts *memory);

struct plan_document {
    const struct evaluation_request *request;
    const struct evaluation *evaluation;
    const struct search_result *search;  // alternatives and what is proven
    const char *version;                 // of meshwright
};

// The whole file as text, in the arena.
char *plan_document_text(struct arena *arena, const struct plan_document *document);

// A candidate of a search by the simulator. Without bands (NULL) its prediction has none.
MUST_CHECK bool plan_found_evaluate(struct arena *arena, const struct search_request *request,
                                    const struct search_result *result,
                                    const struct parallel *parallel, const struct bands *bands,
                                    struct evaluation_request *evaluated,
                                    struct evaluation *evaluation, struct err *err);
// plan.json of that; plan_found_text is both, NULL where it cannot be evaluated.
char *plan_found_document(struct arena *arena, const struct search_result *result,
                          const struct evaluation_request *evaluated,
                          const struct evaluation *evaluation);
MUST_CHECK char *plan_found_text(struct arena *arena, const struct search_request *request,
                                 const struct search_result *result,
                                 const struct parallel *parallel, const struct bands *bands,
                                 struct err *err);
