/* SIGHUP: takes over what the sources of the configuration say now. */
#ifndef SECKILL_SERVICE_RELOAD_H
#define SECKILL_SERVICE_RELOAD_H

#include "service/service.h"

/* Reads the configuration again, from the same flags and variables and from the file as it is now,
 * and the files of tokens. Takes over the options that can change while the daemon runs; the log
 * names those that need a restart. If anything in it is wrong, nothing changes, and the log says
 * why. Main thread, between service_open and service_close. */
void reload_config(struct service *service, char **argv, char **envp);

#endif
