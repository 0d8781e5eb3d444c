-- Restocks that were given an idempotency key, so that a repeat after an unclear answer adds nothing.

CREATE TABLE IF NOT EXISTS restock (
  sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  units           INT UNSIGNED NOT NULL,
  round           INT UNSIGNED NOT NULL COMMENT 'of the sale when they were added',
  PRIMARY KEY (sku, idempotency_key)
) ENGINE=InnoDB COMMENT='Units added to running sales by calls with a key';
