/* Private to lock/: loads the client library of a kind of server when it is first used, so that a
 * program with locks in Redis alone needs neither MariaDB's nor ZooKeeper's library nor libcurl.
 *
 * Only in libseclock: compiled into another program, without LOCK_LOADS, all of them are linked. */
#ifndef LOCK_LIBRARY_LOADED_H
#define LOCK_LIBRARY_LOADED_H

#include <stdbool.h>

/* Loads what the URL scheme's servers need. False: it is not there or too old, with the reason in
 * seclock_error. Call it under process_lock. A library that is loaded stays. */
bool loaded_for(const char *scheme);

#endif
