-- What a cursor behind which all is kept is compared with. `fence` is not used any more: `next` alone
-- refuses a second publisher. Daemons of the version before write it.

SET @alter=IF((SELECT COUNT(*)FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='event_feed' AND column_name='before_at')>0, 'DO 0',
  'ALTER TABLE event_feed
     ADD before_at DATETIME(3) NULL COMMENT ''UTC; when the batch in front of the oldest event was written; NULL: not known'',
     MODIFY fence BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT ''not used''');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;
DEALLOCATE PREPARE alter_table;
