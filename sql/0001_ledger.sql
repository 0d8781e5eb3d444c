-- The ledger: the source of truth for sales, units sold per segment, and orders.
-- Every statement may be run again: a migration that died half-way is simply repeated.

CREATE TABLE IF NOT EXISTS sale (
  sku            VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round          INT UNSIGNED NOT NULL COMMENT 'counts the resets; orders of different rounds never mix',
  total          INT UNSIGNED NOT NULL COMMENT 'units of this round',
  segments       INT UNSIGNED NOT NULL COMMENT 'slices the stock is split into, numbered from 0',
  starts_at      DATETIME(3)  NULL     COMMENT 'UTC; NULL: open from the beginning',
  ends_at        DATETIME(3)  NULL     COMMENT 'UTC; NULL: open until sold out',
  per_user_limit INT UNSIGNED NULL     COMMENT 'units one user may buy in a round; NULL: no limit',
  pay_within_s   INT UNSIGNED NULL     COMMENT 'seconds after which an unpaid order expires; NULL: never',
  PRIMARY KEY (sku)
) ENGINE=InnoDB COMMENT='One row per sku: the present round of its sale';

CREATE TABLE IF NOT EXISTS stock_segment (
  sku      VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  segment  INT UNSIGNED    NOT NULL,
  round    INT UNSIGNED    NOT NULL,
  capacity INT UNSIGNED    NOT NULL COMMENT 'units of this slice',
  sold     INT UNSIGNED    NOT NULL DEFAULT 0 COMMENT 'units in accepted orders',
  fence    BIGINT UNSIGNED NOT NULL COMMENT 'fencing token of the last change; a change from an older one is refused',
  PRIMARY KEY (sku, segment),
  CONSTRAINT never_oversold CHECK (sold <= capacity)
) ENGINE=InnoDB COMMENT='Units sold per segment; moves only along the chain of fences';

CREATE TABLE IF NOT EXISTS orders (
  order_id        BIGINT UNSIGNED NOT NULL COMMENT 'snowflake: time, node, sequence',
  sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round           INT UNSIGNED NOT NULL,
  user_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  qty             INT UNSIGNED NOT NULL,
  segment         INT UNSIGNED NULL COMMENT 'NULL: several segments filled it, see order_allocation',
  purchase_no     INT UNSIGNED NULL COMMENT 'the user''s n-th unit of this sale, where a per-user limit is set',
  status          ENUM('reserved','paid','cancelled','expired') NOT NULL DEFAULT 'reserved',
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL,
  created_at      DATETIME(3)  NOT NULL COMMENT 'UTC',
  expires_at      DATETIME(3)  NULL     COMMENT 'UTC; NULL: never',
  PRIMARY KEY (order_id)
) ENGINE=InnoDB COMMENT='Accepted orders, one row each; the ids grow, so rows are appended';

-- A table of its own, not an index on orders: only orders that have a key pay for it.
CREATE TABLE IF NOT EXISTS order_key (
  user_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_id        BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (user_id, idempotency_key)
) ENGINE=InnoDB COMMENT='Idempotency keys: a retry finds its first order, and no second one can be written';

CREATE TABLE IF NOT EXISTS order_allocation (
  order_id BIGINT UNSIGNED NOT NULL,
  segment  INT UNSIGNED    NOT NULL,
  qty      INT UNSIGNED    NOT NULL,
  PRIMARY KEY (order_id, segment)
) ENGINE=InnoDB COMMENT='Where the units of an order came from, only for orders that several segments filled';

CREATE TABLE IF NOT EXISTS node (
  number     BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  started_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (number)
) ENGINE=InnoDB COMMENT='One row per start of a daemon; number modulo 1024 is the node in its order ids';
