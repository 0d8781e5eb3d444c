-- The tables of lock/, in a file of their own because the lock library creates them without a ledger.
-- Every statement may be run again. Rows are never deleted in normal work, because deleting and
-- inserting the same keys causes deadlocks. To purge locks that nobody used for a week (their fences
-- go on growing, because a new one begins at the time of day in us):
--   DELETE FROM distributed_lock WHERE expires_at < NOW() - INTERVAL 7 DAY;
-- A business transaction that a former holder must not commit has, as its last statement before COMMIT,
--   SELECT fence FROM distributed_lock WHERE name = ... LOCK IN SHARE MODE;
-- and commits only if that fence is its own: until then nobody else can take the lock. Earlier in the
-- transaction the statement would also keep out the holder's own renewals, and so lose the lock.

CREATE TABLE IF NOT EXISTS distributed_lock (
  name       VARBINARY(128)  NOT NULL COMMENT 'prefix and name',
  owner      VARBINARY(80)   NULL     COMMENT 'the holder; NULL: nobody holds the lock',
  hold_count INT UNSIGNED    NOT NULL DEFAULT 0 COMMENT 'how often the owner has taken the lock',
  fence      BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'grows with every acquisition, never set back',
  expires_at DATETIME(6)     NOT NULL COMMENT 'UTC; from then on anybody may take the lock',
  renewals   BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'of all holders together',
  request_id BLOB            NULL     COMMENT 'of the present holds, each followed by a comma, so that a repeated request is recognised',
  release_id VARBINARY(640)  NULL     COMMENT 'of the last releases, latest first, likewise',
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='Locks with leases by the time of this server';

CREATE TABLE IF NOT EXISTS lock_value (
  name       VARBINARY(128)  NOT NULL COMMENT 'prefix and name',
  version    BIGINT UNSIGNED NOT NULL COMMENT 'grows with every change',
  value      MEDIUMBLOB      NOT NULL,
  change_id  VARBINARY(32)   NOT NULL COMMENT 'of the last change, by which a repeat finds it done',
  changed_at DATETIME(6)     NOT NULL COMMENT 'UTC',
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='Values that change only for a caller who has seen their present version';
