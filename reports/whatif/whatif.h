#pragma once
#include "reports/whatif/sweep.h"

// What a list of scenarios answers: which of them are worth a thought (the Pareto front of time and
// money), and the one that answers the question asked of them.

// The question follows from what is given. Money is what is paid: the credits come off it.
struct whatif_question {
    double tokens;      // of the run; 0: not given
    double deadline_s;  // 0: none
    double budget;      // in the currency of the prices; 0: none
    double credits;     // that are had already, in the same currency
};

enum whatif_goal {
    WHATIF_COMPARE,      // neither deadline nor budget: the front, the fastest of it first
    WHATIF_CHEAPEST,     // tokens and a deadline (and perhaps a budget)
    WHATIF_FASTEST,      // tokens and a budget
    WHATIF_MOST_TOKENS,  // a deadline or a budget, no tokens
};

// Time and money are of the run with its interruptions, or of a billion tokens where none is asked
// for.
struct whatif_row {
    const struct sweep_point *point;
    const struct scenario_outcome *outcome;
    bool fits;
    double time_s;
    double low_s, high_s;  // at the ends of the band; 0: there is none
    double gpu_hours;
    double money;        // what is paid for it, less the credits; 0 where the cluster has no price
    double per_billion;  // money of a billion of its tokens, before credits
    double cost;         // what is compared: money, or GPU-hours where a row has no price
    double tokens;       // that it trains: those asked for or the most within the limits
    double goodput_ratio;
    bool is_on_front;  // no other row is faster and cheaper
    bool is_past;      // its batch is one that nobody named and too large: sweep_batch_is_past
    bool makes_it;     // within deadline and budget, if any, and not past
};

struct whatif {
    struct whatif_question question;
    enum whatif_goal goal;
    const struct sweep *sweep;
    const struct scenario_request *request;
    struct whatif_row *rows;  // in the order of the sweep
    int row_count;
    int *order;  // indices of the rows that fit, the best first
    int fit_count, made_count, front_count, past_count;
    int searched_count;
    bool is_refined;       // sizes between those of the sweep are among the rows, as far as needed
    int between_count;     // of the rows, those between
    int untried_count;     // sizes between that may be better and were too many to be asked
    bool is_priced;        // `cost` is money
    const char *currency;  // NULL: not priced
};

static const double WHATIF_UNIT_TOKENS = 1e9;  // where no count is asked for

// ERR_USAGE where a budget or credits meet a cluster without a price, or where currencies differ;
// asked before anything is searched.
MUST_CHECK bool whatif_check(const struct whatif_question *question,
                             const struct sweep_points *points, struct err *err);

// ERR_USAGE as above. Lives in `arena`, and points at what it was given.
MUST_CHECK bool whatif_make(struct arena *arena, const struct whatif_question *question,
                            const struct sweep *sweep, const struct scenario_request *request,
                            const struct sweep_points *points,
                            const struct scenario_outcome *outcomes, struct whatif *whatif,
                            struct err *err);

// The row that answers; NULL where none does.
const struct whatif_row *whatif_best(const struct whatif *whatif);

// The command line, for the command that is proposed next.
struct whatif_words {
    const char *model;
    const char *command;         // as it was given: "meshwright whatif llama-2-70b ..."
    const char *options;         // that all rows share: " --tp 8"
    const struct price *prices;  // of the clusters as their files have them; NULL: as they are
    const char *folder;          // a cluster that has no name is written there; NULL: nowhere
};

// For people: at most `top` rows.
char *whatif_table_text(struct arena *arena, const struct whatif *whatif, int top,
                        const struct whatif_words *words);
// The text of a file that describes the cluster of the best row where the command line has no name
// for it; NULL where it has, or where no row answers.
char *whatif_cluster_text(struct arena *arena, const struct whatif *whatif);
// reports/whatif/whatif_json.c. Schema: reports/whatif.schema.json
struct scaling;
// `scaling` NULL: none was asked for.
char *whatif_json_text(struct arena *arena, const struct whatif *whatif,
                       const struct scaling *scaling);
char *whatif_csv_text(struct arena *arena, const struct whatif *whatif);
