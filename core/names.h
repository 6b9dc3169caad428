#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// Where a name stands in a list of `count`, the first if several times; -1: nowhere.
static inline int name_index(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) return (int)i;
    }
    return -1;
}

// The same of an array of names, as in `static const char *const NAMES[]`.
#define NAME_INDEX(names, name) name_index((names), sizeof(names) / sizeof *(names), (name))

// Whether `name` is one of the words of a text, which blanks join.
static inline bool names_hold(const char *words, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, name, length) == 0) return true;
        at += word;
    }
    return false;
}
