#pragma once
#include "core/arena.h"
#include "executor/outside.h"

// A clock and a shared folder in memory for several nodes. What one of them puts, the others see
// late, each at its own time, but never an older file after a newer one; puts fail, if asked for.
// All by a seed.

// What the folder does wrong in a way that no file system may: for tests of the tests.
enum fake_fault {
    FAKE_SOUND,
    FAKE_FIRST_TWICE,  // put_first takes the place of what is there
    FAKE_SAME_NUMBER,  // all numbers that are drawn are alike
    FAKE_TORN,         // a file is seen before all of it is written
    FAKE_LOST,         // one put in twenty is never seen
    FAKE_FAULT_COUNT
};

struct fake_outside;
struct fake_outside *fake_outside_new(struct arena *arena, uint64_t seed, double latest_s);
void fake_outside_set(struct fake_outside *fake, enum fake_fault fault, int fail_one_in);
// The world as this node sees it, from 0 to FAKE_NODES - 1.
enum { FAKE_NODES = 4 };
struct outside fake_outside_of(struct fake_outside *fake, int node);
double fake_outside_now_s(const struct fake_outside *fake);
void fake_outside_to(struct fake_outside *fake, double now_s);
uint64_t fake_outside_draw(struct fake_outside *fake, uint64_t below);
int fake_outside_failed_puts(const struct fake_outside *fake, int node);
// By whoever: bytes that mean nothing, in the folder where nodes meet.
void fake_outside_litter(struct fake_outside *fake, const char *folder, const char *name);
