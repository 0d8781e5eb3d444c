/* What libmicrohttpd 0.9.75 does not tell of a head. It ends a text at its first NUL, drops the
 * second line of a folded header, and ends a line at a lone CR or LF. Its texts lie in one buffer,
 * with NULs in place of line ends, so each of these cases leaves a gap that differs from that of CR
 * LF. That is its private memory: later versions, which refuse all this, are not looked at. */
#include <stddef.h>
#include <string.h>

#include "service/http/http.h"

enum { LINE_END = 2 }; /* CR LF */

static void note_gap(struct head_gaps *gaps, const char *next, ptrdiff_t wanted)
{
    gaps->broken |= next - gaps->end != wanted;
    for (ptrdiff_t i = 0; !gaps->broken && i < wanted; i++)
        gaps->broken = gaps->end[i] != '\0';
}

void head_gaps_begin(struct head_gaps *gaps, const struct head_line *line)
{
    gaps->end = line->version + strlen(line->version);
    gaps->broken = line->url != line->method + strlen(line->method) + 1 ||
                   line->version != line->url + line->uri_length + 1;
}

void head_gaps_header(struct head_gaps *gaps, const char *name, const char *end)
{
    note_gap(gaps, name, LINE_END);
    gaps->end = end;
}

bool head_gaps_intact(struct head_gaps *gaps, const struct head_line *line, size_t size)
{
    note_gap(gaps, line->method + size, (ptrdiff_t)2 * LINE_END);
    return !gaps->broken;
}
