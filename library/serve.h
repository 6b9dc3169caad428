#pragma once
#include "core/arena.h"

// The Model Context Protocol over lines (JSON-RPC 2.0, one message a line; modelcontextprotocol.io,
// revision 2025-06-18), so that an assistant can ask the planner: tools plan, why, what_if, memory
// and compare. Every answer says its band, what proves it, what it rests on and what to ask next.
// Files are read and written only where a request names them. Equal requests give equal bytes.

// The answer to a line, without the line's end; NULL: it asks for none (a notification, an empty
// line). In `arena`.
char *serve_line(struct arena *arena, const char *line);
