/* The log's output, which never waits for its reader or disk.
 *
 * why_reopened: a pipe or terminal whose reader has stopped would block a worker in write(2), and
 * in the end all of them. O_NONBLOCK belongs to the open file, which other processes share, and
 * which may be the user's terminal: so the sink opens the same pipe or terminal once more for
 * itself.
 *
 * why_a_writer: no flag keeps a write to a file from waiting for its disk, which a database's
 * fsyncs may keep busy for seconds. So a separate thread writes to a file, from a queue of 1 MB
 * that is written out before the process exits or aborts. */
#ifndef SECKILL_SERVICE_LOG_LOG_SINK_H
#define SECKILL_SERVICE_LOG_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>

/* Writes to this descriptor from now on, to a file by a thread; it stays the caller's. The same
 * descriptor again changes nothing. Before the first call the sink is descriptor 2, which may
 * block. A different descriptor: only while no other thread logs. */
void log_sink_open(int fd);

/* True when systemd has connected the descriptor to its journal (JOURNAL_STREAM). */
bool log_sink_is_journal(int fd);

/* Writes a whole line with one system call, so that lines do not mix; length: at most PIPE_BUF.
 * False when the line is lost: the reader has stopped or is gone, or the queue for the disk is
 * full. Any thread; never waits. */
bool log_sink_write(const char *line, size_t length);

/* The number of lines that a file did not take since the last call. Any thread. */
unsigned long log_sink_lost(void);

/* Waits, at most a second, until a file has all lines written before. Any thread, and signal
 * handlers. */
void log_sink_flush(void);

#endif
