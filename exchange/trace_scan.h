#pragma once
#include "core/err.h"

#include <stdint.h>

// JSON read as it comes, for files that are too large to hold: a profiler's trace of a few steps
// has hundreds of megabytes. Packed by gzip or not. What is asked for is read, the rest skipped;
// errors are ERR_INPUT at their place ("trace.json:3:55: expected ...") and stick.

enum { SCAN_TEXT_BYTES = 400, SCAN_BUFFER_BYTES = 1 << 16 };

struct trace_scan {
    const char *path;
    struct err *err;
    void *file;  // zlib's
    int line;
    int64_t column;
    int depth;
    int length, at;  // of the buffer
    unsigned char buffer[SCAN_BUFFER_BYTES];
    char text[SCAN_TEXT_BYTES];  // read last; what is longer is cut at a character
};

// Opens a file; false and a set `err` where it cannot be read. To be closed in any case.
MUST_CHECK bool scan_open(struct trace_scan *scan, const char *path, struct err *err);
void scan_close(struct trace_scan *scan);

// The next character that is no blank, which stays; -1 at the end and after an error.
int scan_peek(struct trace_scan *scan);
// Takes this character; any other is an error.
bool scan_take(struct trace_scan *scan, char wanted);
// Members of an object or items of an array: call before each, with `first` true at the start.
// False behind the last, whose bracket is taken, and on error. Of an object the key is in `text`.
bool scan_member(struct trace_scan *scan, bool *first);
bool scan_item(struct trace_scan *scan, bool *first);
// A text into `text`, plain; a number.
bool scan_text(struct trace_scan *scan);
bool scan_number(struct trace_scan *scan, double *value);
// Whatever stands next, with all below it.
bool scan_skip(struct trace_scan *scan);
// False: there is more behind the document than blanks.
bool scan_end(struct trace_scan *scan);
