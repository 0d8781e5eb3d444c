-- The settings of a sale, numbered: a change of them is seen by every order that is accepted after it.
-- Columns are added only where they are missing, so that every statement may be run again.

SET @missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'sale' AND column_name = 'settings_version');
SET @change = IF(@missing, 'ALTER TABLE sale
  ADD COLUMN paused TINYINT NOT NULL DEFAULT 0 COMMENT ''1: no orders are taken for now'',
  ADD COLUMN settings_version INT UNSIGNED NOT NULL DEFAULT 0 COMMENT ''counts the changes of window, limit, time to pay and pause''',
  'DO 0');
PREPARE change_sale FROM @change;
EXECUTE change_sale;
DEALLOCATE PREPARE change_sale;

SET @missing = (SELECT COUNT(*) = 0 FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = 'stock_segment' AND column_name = 'settings_version');
SET @change = IF(@missing, 'ALTER TABLE stock_segment
  ADD COLUMN settings_version INT UNSIGNED NOT NULL DEFAULT 0 COMMENT ''the sale''''s; orders decided by older settings are refused''',
  'DO 0');
PREPARE change_segment FROM @change;
EXECUTE change_segment;
DEALLOCATE PREPARE change_segment;

CREATE TABLE IF NOT EXISTS user_quota (
  sku     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round   INT UNSIGNED NOT NULL,
  user_id VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  units   INT UNSIGNED NOT NULL COMMENT 'in orders of this user that are reserved or paid',
  allowed INT UNSIGNED NOT NULL COMMENT 'the limit per user when the last one was accepted',
  order_ids VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'of these orders, the last ten, newest first',
  PRIMARY KEY (sku, round, user_id),
  CONSTRAINT never_above_limit CHECK (units <= allowed)
) ENGINE=InnoDB COMMENT='Units per user, only in sales with a limit per user';

CREATE TABLE IF NOT EXISTS order_expiry (
  expires_at DATETIME(3)     NOT NULL COMMENT 'UTC',
  first_id   BIGINT UNSIGNED NOT NULL COMMENT 'of the orders of one commit with that time, the smallest id',
  last_id    BIGINT UNSIGNED NOT NULL COMMENT 'the greatest',
  PRIMARY KEY (expires_at, first_id)
) ENGINE=InnoDB COMMENT='Where to look for orders that were not paid in time; the row goes when all of them are decided by then';
