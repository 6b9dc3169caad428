#pragma once
#include "core/err.h"

// What --threshold says: a share from 0 to 10, as "3%" or "0.03". ERR_USAGE.
MUST_CHECK bool threshold_read(const char *text, double *ratio, struct err *err);
