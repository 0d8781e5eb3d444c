-- When the rounds of a sale ended: a sku that was retired counts on from its last one, and what only
-- a running round needs is deleted some time after the end.

CREATE TABLE IF NOT EXISTS sale_round (
  sku       VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round     INT UNSIGNED    NOT NULL COMMENT '0: the moment when the sku had its first sale',
  segments  INT UNSIGNED    NOT NULL COMMENT 'that Redis may still have keys of',
  retired   TINYINT         NOT NULL COMMENT '1: the sale ended with this round, no order of it or before is reserved',
  ended_at  DATETIME(3)     NOT NULL COMMENT 'UTC',
  last_id   BIGINT UNSIGNED NOT NULL COMMENT 'no order of the round has a greater id',
  step      ENUM('keys','users','index','done') NOT NULL COMMENT 'what is to be purged next',
  purged_to BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'keys: of orders up to this id; index: bucket and run, see ledger_purge.c',
  PRIMARY KEY (sku, round),
  KEY step (step, ended_at)
) ENGINE=InnoDB COMMENT='Rounds that have ended, one row each';
