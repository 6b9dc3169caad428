#pragma once
#include "executor/checkpoint/disk.h"

// A file system in memory that loses what a real one may lose: at a crash, of what was written and
// not synced any part is there, torn anywhere and in any order, and of what was done to a folder
// since it was synced the first so many operations. All by a seed.

struct fake_disk;
struct fake_disk *fake_disk_new(struct arena *arena, uint64_t seed);
struct disk fake_disk_table(struct fake_disk *fake);
// From the n-th operation on every one fails, as they do for a process that was killed; 0: none.
void fake_disk_kill_at(struct fake_disk *fake, int operation);
int fake_disk_operations(const struct fake_disk *fake);  // so far
// One operation in so many fails with an error and does nothing, or a write but half; 0: none.
void fake_disk_fail_one_in(struct fake_disk *fake, int many);
// Power is lost, and comes back: what is there from now on is what lasted.
void fake_disk_crash(struct fake_disk *fake);
uint64_t fake_disk_draw(struct fake_disk *fake, uint64_t below);
