-- A limit per user that is set while a sale runs: what each user has must be counted first.

CREATE TABLE IF NOT EXISTS quota_count (
  sku        VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round      INT UNSIGNED    NOT NULL COMMENT 'the round that is counted; a row of an earlier round is void',
  counted_to BIGINT UNSIGNED NULL     COMMENT 'orders up to this id are counted; NULL: what an earlier limit had counted is still being deleted',
  last_id    BIGINT UNSIGNED NOT NULL COMMENT 'greatest id to be counted; all orders of the sale are smaller',
  PRIMARY KEY (sku)
) ENGINE=InnoDB COMMENT='Sales that are closed while the units of their users are counted, one row each; deleted when the sale opens';
