-- What the leaders of elections proclaim, by locks of the kind "table". A table of its own, so that lock/
-- can create it where distributed_lock exists already. A row counts only while the lock is held with
-- its fence.

CREATE TABLE IF NOT EXISTS lock_leader (
  name   VARBINARY(128)  NOT NULL COMMENT 'of distributed_lock',
  fence  BIGINT UNSIGNED NOT NULL COMMENT 'of the hold that proclaimed the value',
  number BIGINT UNSIGNED NOT NULL COMMENT 'grows with each proclamation of a hold, so that a late one changes nothing',
  holder VARBINARY(80)   NOT NULL,
  value  VARBINARY(255)  NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='What the leaders of elections proclaim';
