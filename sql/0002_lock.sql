-- The locks of lock/: one row per lock that was ever taken, and values with versions.
-- Every statement may be run again. Rows are never deleted in normal work, because deleting and
-- inserting the same keys dead-locks. To purge what has been idle for a week (fences go on growing:
-- they begin at the time of day in us):
--   DELETE FROM distributed_lock WHERE expires_at < NOW() - INTERVAL 7 DAY;
-- A business transaction that must not be done by a former holder begins with
--   SELECT fence FROM distributed_lock WHERE name = ... FOR SHARE;
-- (LOCK IN SHARE MODE on MariaDB) and goes on only if that is its own: nobody can then take the lock
-- before the commit.

CREATE TABLE IF NOT EXISTS distributed_lock (
  name       VARBINARY(128)  NOT NULL COMMENT 'prefix and name',
  owner      VARBINARY(80)   NULL     COMMENT 'who holds it; NULL: given back',
  hold_count INT UNSIGNED    NOT NULL DEFAULT 0 COMMENT 'how often the owner has taken it',
  fence      BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'grows with every acquisition, never set back',
  expires_at DATETIME(6)     NOT NULL COMMENT 'UTC; whoever comes later may take it',
  renewals   BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'of all holders together',
  request_id VARBINARY(80)   NULL     COMMENT 'of the last acquisition, which a repeat finds done',
  release_id VARBINARY(80)   NULL     COMMENT 'of the last release, which a repeat finds done',
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='Locks with leases by the time of this server';

CREATE TABLE IF NOT EXISTS lock_value (
  name       VARBINARY(128)  NOT NULL COMMENT 'prefix and name',
  version    BIGINT UNSIGNED NOT NULL COMMENT 'grows with every change',
  value      MEDIUMBLOB      NOT NULL,
  change_id  VARBINARY(32)   NOT NULL COMMENT 'of the last change, which a repeat finds done',
  changed_at DATETIME(6)     NOT NULL COMMENT 'UTC',
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='Values that change only for who has seen their present version';
