/* Private to lock/: the table lock on MySQL. */
#ifndef LOCK_MYSQL_TABLE_H
#define LOCK_MYSQL_TABLE_H

#include "lock/mysql/pool.h"

/* The connections of the driver, for other tables on its server. */
struct mysql_pool *mysql_table_pool(void *table);

#endif
