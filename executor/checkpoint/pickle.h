#pragma once
#include "core/arena.h"
#include "core/err.h"

#include <stdbool.h>
#include <stdint.h>

// What a pickle of Python says, as a tree: nothing of it is called or looked up. Read are the
// instructions of protocols 2 to 5 that plain values, containers and objects of classes need
// (CPython, Lib/pickletools.py); any other is refused with its place. A value may be in several
// places of the tree, and in itself.

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_NUMBER,  // whole, or false and true
    PICKLE_TEXT,
    PICKLE_LIST,   // a list, tuple or set
    PICKLE_DICT,   // items: key, value, key, value
    PICKLE_NAME,   // of a class or function: "torch.float32"
    PICKLE_MADE,   // items: what is called, and with what; `state`: what it is filled with
    PICKLE_OTHER,  // a float or bytes, whose value nobody asks for
};
struct pickle {
    enum pickle_kind kind;
    int64_t number;
    const char *text;
    struct pickle **items;
    int count, capacity;
    const struct pickle *state;
};

// NULL and ERR_INPUT, naming `path` and the byte. All of it lives in `arena`.
MUST_CHECK const struct pickle *pickle_read(struct arena *arena, const char *path,
                                            const char *bytes, int64_t size, struct err *err);
// Of a dict, or of an object that is filled with one, the value of a key; NULL: it has none.
const struct pickle *pickle_find(const struct pickle *of, const char *key);
// Whole numbers of a list, or of an object that is made of one (torch.Size): how many; -1 where it
// is none of these or has more than `most`.
int pickle_numbers(const struct pickle *of, int64_t *numbers, int most);
