-- An owner's holds and the last releases, each by its request: a repeated request is then
-- recognised whatever the same owner asked for in between. Every statement may be run again.

ALTER TABLE distributed_lock
  MODIFY request_id BLOB NULL COMMENT 'of the holds, each with a comma behind it',
  MODIFY release_id VARBINARY(640) NULL COMMENT 'of the last releases, the latest first, likewise';
