-- The ledger: the source of truth for sales, units sold per segment, and orders.
-- Every statement may be run again, so a migration that died half-way is simply repeated.

CREATE TABLE IF NOT EXISTS sale (
  sku              VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round            INT UNSIGNED NOT NULL COMMENT 'counts the resets; orders of different rounds never mix',
  total            INT UNSIGNED NOT NULL COMMENT 'units of this round',
  segments         INT UNSIGNED NOT NULL COMMENT 'segments the stock is split into, numbered from 0',
  starts_at        DATETIME(3)  NULL     COMMENT 'UTC; NULL: open from the beginning',
  ends_at          DATETIME(3)  NULL     COMMENT 'UTC; NULL: open until sold out',
  per_user_limit   INT UNSIGNED NULL     COMMENT 'units one user may buy in a round; NULL: no limit',
  pay_within_s     INT UNSIGNED NULL     COMMENT 'seconds after which an unpaid order expires; NULL: never',
  paused           TINYINT      NOT NULL DEFAULT 0 COMMENT '1: the sale takes no orders for now',
  settings_version INT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'counts the changes of window, limit, time to pay, pause and total',
  PRIMARY KEY (sku)
) ENGINE=InnoDB COMMENT='One row per sku: the present round of its sale';

CREATE TABLE IF NOT EXISTS stock_segment (
  sku              VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  segment          INT UNSIGNED    NOT NULL,
  round            INT UNSIGNED    NOT NULL,
  capacity         INT UNSIGNED    NOT NULL COMMENT 'units of this segment',
  sold             INT UNSIGNED    NOT NULL DEFAULT 0 COMMENT 'units in accepted orders',
  fence            BIGINT UNSIGNED NOT NULL COMMENT 'fencing token of the last change; a change with an older one is refused',
  settings_version INT UNSIGNED    NOT NULL DEFAULT 0 COMMENT 'that of the sale; orders decided by older settings are refused',
  PRIMARY KEY (sku, segment),
  CONSTRAINT never_oversold CHECK (sold <= capacity)
) ENGINE=InnoDB COMMENT='Units sold per segment; a row changes only along the chain of fences';

CREATE TABLE IF NOT EXISTS orders (
  order_id        BIGINT UNSIGNED NOT NULL COMMENT 'snowflake: time, node, sequence',
  sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round           INT UNSIGNED NOT NULL,
  user_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  qty             INT UNSIGNED NOT NULL,
  segment         INT UNSIGNED NULL COMMENT 'the first one that its units were taken from; NULL: written by a former version',
  status          ENUM('reserved','paid','cancelled','expired') NOT NULL DEFAULT 'reserved',
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  created_at      DATETIME(3)  NOT NULL COMMENT 'UTC',
  expires_at      DATETIME(3)  NULL     COMMENT 'UTC; NULL: never',
  PRIMARY KEY (order_id)
) ENGINE=InnoDB COMMENT='Accepted orders, one row each; the ids grow, so rows are appended';

-- A table of its own, not an index on orders, so that only orders with a key pay for it.
CREATE TABLE IF NOT EXISTS order_key (
  user_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_id        BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (user_id, idempotency_key)
) ENGINE=InnoDB COMMENT='Idempotency keys: a retry finds its first order, and a second one cannot be written';

CREATE TABLE IF NOT EXISTS user_quota (
  sku       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round     INT UNSIGNED NOT NULL,
  user_id   VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  units     INT UNSIGNED NOT NULL COMMENT 'in orders of this user that are reserved or paid',
  allowed   INT UNSIGNED NOT NULL COMMENT 'the limit per user when the last of these orders was accepted',
  order_ids VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'the last ten of these orders, newest first',
  PRIMARY KEY (sku, round, user_id),
  CONSTRAINT never_above_limit CHECK (units <= allowed)
) ENGINE=InnoDB COMMENT='Units per user, only in sales with a limit per user';

CREATE TABLE IF NOT EXISTS order_expiry (
  expires_at DATETIME(3)     NOT NULL COMMENT 'UTC',
  first_id   BIGINT UNSIGNED NOT NULL COMMENT 'smallest id of the orders of one commit that expire at this time',
  last_id    BIGINT UNSIGNED NOT NULL COMMENT 'greatest of these ids',
  PRIMARY KEY (expires_at, first_id)
) ENGINE=InnoDB COMMENT='Where unpaid orders are looked for; a row is deleted when none of its orders is reserved any more';

-- Finding a user's orders. An index on orders would cost every order 70 % more of the server's time
-- (2.6 us); these two tables together cost a fifth of that.
CREATE TABLE IF NOT EXISTS order_batch (
  first_id BIGINT UNSIGNED NOT NULL COMMENT 'smallest order id of one commit',
  last_id  BIGINT UNSIGNED NOT NULL COMMENT 'greatest order id of that commit',
  orders   INT UNSIGNED    NOT NULL COMMENT 'number of its orders',
  PRIMARY KEY (first_id)
) ENGINE=InnoDB COMMENT='Commits whose orders are not indexed yet, each written in its own transaction, so that no order is ever missed';

CREATE TABLE IF NOT EXISTS order_index (
  bucket  SMALLINT UNSIGNED NOT NULL COMMENT 'CRC32(user_id) % 1024',
  run     BIGINT UNSIGNED   NOT NULL COMMENT 'first_id of the first commit that this row indexes',
  last_id BIGINT UNSIGNED   NOT NULL COMMENT 'greatest order id in the row',
  orders  MEDIUMBLOB        NOT NULL COMMENT 'CRC32(user_id):order_id, comma-separated; an order may be in several rows',
  PRIMARY KEY (bucket, run)
) ENGINE=InnoDB COMMENT='Order ids by user: one row per bucket of users and run of the indexer, instead of one per order';

CREATE TABLE IF NOT EXISTS restock (
  sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  units           INT UNSIGNED NOT NULL COMMENT 'added to the running sale',
  round           INT UNSIGNED NOT NULL COMMENT 'of the sale when the units were added',
  PRIMARY KEY (sku, idempotency_key)
) ENGINE=InnoDB COMMENT='Restocks that came with an idempotency key: a repeat after an unclear answer adds nothing';

CREATE TABLE IF NOT EXISTS node (
  number     BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  started_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (number)
) ENGINE=InnoDB COMMENT='One row per start of a daemon; number modulo 1024 is the node in its order ids';
