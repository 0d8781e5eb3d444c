-- A reset that is sent twice begins one round, and the reserved orders of a round that is over end.

CREATE TABLE IF NOT EXISTS sale_reset (
  sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  idempotency_key VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  request         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'what the call asked for; a repeat must ask for the same',
  round           INT UNSIGNED NOT NULL COMMENT 'that it began, and the sale as it was then',
  total           INT UNSIGNED NOT NULL,
  segments        INT UNSIGNED NOT NULL,
  starts_at       DATETIME(3)  NULL,
  ends_at         DATETIME(3)  NULL,
  per_user_limit  INT UNSIGNED NULL,
  pay_within_s    INT UNSIGNED NULL,
  paused          TINYINT      NOT NULL,
  PRIMARY KEY (sku, idempotency_key)
) ENGINE=InnoDB COMMENT='Resets that came with an idempotency key: a repeat begins no other round';

CREATE TABLE IF NOT EXISTS round_end (
  sku     VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round   INT UNSIGNED    NOT NULL,
  units   INT UNSIGNED    NOT NULL COMMENT 'in reserved and paid orders of the round that were not seen yet',
  next_id BIGINT UNSIGNED NULL     COMMENT 'the orders from this id on were seen; NULL: none yet',
  PRIMARY KEY (sku, round)
) ENGINE=InnoDB COMMENT='Rounds that a reset has ended, until their reserved orders are expired; nobody can pay these meanwhile';
