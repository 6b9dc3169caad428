#pragma once
#include "plan/parallel.h"

// A mask of passes as the command line writes it: "none" or names joined by commas; "all" is read.
const char *pass_text(struct arena *arena, unsigned passes);
MUST_CHECK bool pass_parse(const char *text, unsigned *passes);
