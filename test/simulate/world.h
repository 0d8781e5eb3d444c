/* One schedule's world: the sale, the processes, and who does what in them. */
#ifndef SIMULATE_WORLD_H
#define SIMULATE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/scene.h"

struct world {
    bool retires;
    uint32_t segments, total; /* of the first sale */
    uint32_t per_user_limit, pay_within_s, hold_max_s, grace_s;
    bool refund_late;
    int processes, workers;
    bool ending;   /* daemons end, and start no more */
    bool settling; /* no fault strikes any more, and no actor begins anything new */
    char events;   /* its address is signalled when there are new events */
    uint64_t order_id;
    uint32_t restock_keys, reset_keys;
    struct veteran {
        struct stock *stock;
        uint32_t incarnation;
    } veterans[PROCESSES_MAX]; /* the last worker of each process that came to its end */
};

extern struct world world;

struct stock_reset;

/* A sale as it is at first, and as it is made anew. */
void world_first(const char *sku, struct stock_reset *reset_out);

/* Any of the sales. */
const char *world_sku(struct chance *chance);

/* Opens the stock of the present task, with its own seed. */
struct stock *world_stock(struct chance *chance);

/* Leaves the stock of a worker at its end, for world_veteran. */
void world_leave_stock(struct stock *stock);

/* The stock of a worker of the present process that went through the schedule; a new one where
 * there is none, and sometimes else. What it remembers must not keep it from selling. */
struct stock *world_veteran(struct chance *chance);

/* The actors, as bodies of tasks. Each takes a number of steps, and ends. */
void actor_orders(void *argument);  /* the worker's number */
void actor_calls(void *argument);   /* pay, cancel, refund, extend, expire */
void actor_clients(void *argument); /* the process of their daemon */
void actor_admin(void *argument);   /* restock, settings, reset, reconcile, retire */

/* They last until the schedule ends, and take no steps. */
void actor_events_begin(void);
void actor_publisher(void *argument); /* its number */
void actor_reader(void *argument);

/* After the last fault, for each sale: opens it, ends what is overdue, sells what is left at once,
 * and finds it sold out. */
void actor_closing(void *argument);

/* After that: waits until all events are told. With an argument it publishes them, too. */
void actor_events_closing(void *argument);

/* Runs one schedule. NULL: every promise was kept; else the one that was broken. */
const char *world_run(uint64_t seed, const struct mask *mask);

#endif
