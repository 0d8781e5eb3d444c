-- Several ledgers side by side, the shards: each sale is on one of them.

CREATE TABLE IF NOT EXISTS ledger_shard (
  one    TINYINT          NOT NULL DEFAULT 1 COMMENT 'there is one row at most',
  number TINYINT UNSIGNED NOT NULL COMMENT 'which shard this ledger is: its place in SECKILL_MYSQL_URL, from 0 on',
  PRIMARY KEY (one)
) ENGINE=InnoDB COMMENT='What this ledger is among the shards';

CREATE TABLE IF NOT EXISTS sale_shard (
  sku   VARCHAR(64)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  shard TINYINT UNSIGNED NOT NULL COMMENT 'where the sale of this sku is or will be, for ever',
  asked INT UNSIGNED     NOT NULL DEFAULT 1 COMMENT 'grows with each question, so that the answer is on the disk',
  PRIMARY KEY (sku),
  KEY by_shard (shard)
) ENGINE=InnoDB COMMENT='In the ledger of shard 0: on which shard each sku is; a sku without a row is on shard 0, or nowhere';
