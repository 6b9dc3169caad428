#pragma once
#include "core/json.h"
#include "plan/parallel.h"

// The choices of a plan: the rows of plan/choices.inc. Readers and writers of plans, pins,
// forbidden values, `--why KEY=VALUE` and the order that breaks ties all walk this table.

enum choice {
#define CHOICE_DEGREE(id, ...) CHOICE_##id,
#define CHOICE_NUMBER CHOICE_DEGREE
#define CHOICE_SIZE CHOICE_DEGREE
#define CHOICE_SWITCH CHOICE_DEGREE
#define CHOICE_WORD CHOICE_DEGREE
#define CHOICE_WORDS CHOICE_DEGREE
#include "plan/choices.inc"
    CHOICE_COUNT
};

// How its values are written.
enum choice_kind {
    CHOICE_KIND_DEGREE,
    CHOICE_KIND_NUMBER,
    CHOICE_KIND_SIZE,
    CHOICE_KIND_SWITCH,
    CHOICE_KIND_WORD,
    CHOICE_KIND_WORDS
};
enum choice_kind choice_kind(enum choice choice);
bool choice_is_number(enum choice choice);  // a degree, number or size
bool choice_is_searched(enum choice choice);

// Of a number: what a plan may hold, and the least that a pin asks for.
struct choice_range {
    int low, asked, high;
};
struct choice_range choice_range(enum choice choice);

const char *choice_name(enum choice choice);  // "micro_batch", as in plan.json
const char *choice_help(enum choice choice);
// The name as an option of the command line: "--micro-batch".
const char *choice_option(struct arena *arena, enum choice choice);
// Takes the name with '_' or '-', also with leading "--".
bool choice_find(const char *name, enum choice *choice);
// The same; false with ERR_USAGE and the nearest name.
MUST_CHECK bool choice_from_name(const char *name, enum choice *choice, struct err *err);

int64_t choice_value(const struct parallel *parallel, enum choice choice);
void choice_put(struct parallel *parallel, enum choice choice, int64_t value);
// Recompute with its classes is one value.
int recompute_value(enum recompute recompute, unsigned classes);
enum recompute recompute_of_value(int value, unsigned *classes);

// A value as people write it ("full", "on", "8"), in the arena or static.
const char *choice_text(struct arena *arena, enum choice choice, int64_t value);
// The value of such a text. False with ERR_USAGE that names the choice.
MUST_CHECK bool choice_parse(enum choice choice, const char *text, int64_t *value, struct err *err);
// Both, of "KEY=VALUE"; `word` says whose it is in an error ("--why: ").
MUST_CHECK bool choice_parse_pair(struct arena *arena, const char *word, const char *text,
                                  enum choice *choice, int64_t *value, struct err *err);

// Of what is no number: the words that it may be or be made of, "none|selective|full", or NULL
// where they have parts of their own; how many of the first of them stand alone, where the others
// are joined by commas (0: always one word).
const char *choice_words(struct arena *arena, enum choice choice);
int choice_words_alone(enum choice choice);
// The word by which a command line leaves it to the search or to the stack, or NULL.
const char *choice_open_word(enum choice choice);
// How the help writes words that have parts of their own, or NULL where they are just that.
const char *choice_written(enum choice choice);
// What a command line says of a list that is none, behind the option; NULL where every word is
// checked by itself.
const char *choice_fault(enum choice choice);

// Plans that are older than the key have it not; it is then the value 0.
bool choice_may_be_absent(enum choice choice);
// The same of an axis; one that is absent has one rank.
bool choice_axis_may_be_absent(enum axis axis);

// The members of an object "parallel" that are choices: the rows that json_read needs for them, as
// many as there are choices, and their values. Reading is behind json_read, which has put numbers
// and switches. `order` and `stages` are plan/plan.c's.
void choice_fields(struct json_field fields[CHOICE_COUNT]);
void choices_write(struct json_writer *writer, const struct parallel *parallel);
void choices_read(struct arena *arena, const struct json *object, struct parallel *parallel,
                  struct err *err);
