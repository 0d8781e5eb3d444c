-- Requests that a receiver keeps refusing, and further settings of webhooks. Webhooks that exist
-- already keep the content type that their receivers know.
--
-- MySQL has no ADD COLUMN IF NOT EXISTS, so the ALTER is prepared only when they are not there.

CREATE TABLE IF NOT EXISTS webhook_undelivered (
  webhook       VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  id            VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'webhook-id of the request',
  events        INT UNSIGNED  NOT NULL,
  body          MEDIUMBLOB    NOT NULL,
  failing_since DATETIME(3)   NOT NULL COMMENT 'UTC',
  given_up_at   DATETIME(3)   NULL COMMENT 'UTC; NULL: the sender still tries it',
  answer        VARCHAR(200)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'the last one: its status, 0 for none, and its beginning or why there was none',
  PRIMARY KEY (webhook, id)
) ENGINE=InnoDB COMMENT='Requests that webhooks have not delivered, which their positions have passed';

SET @alter=IF((SELECT COUNT(*)FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='webhook' AND column_name='wait_reason')>0, 'DO 0',
  'ALTER TABLE webhook
     ADD COLUMN timeout_s   INT UNSIGNED NOT NULL DEFAULT 10 COMMENT ''for which a request may last'',
     ADD COLUMN retry_max_s INT UNSIGNED NOT NULL DEFAULT 3600 COMMENT ''the longest wait between tries'',
     ADD COLUMN give_up_s   INT UNSIGNED NOT NULL DEFAULT 259200 COMMENT ''for which a request is tried'',
     ADD COLUMN cloudevents TINYINT      NOT NULL DEFAULT 1 COMMENT ''1: the content type is that of CloudEvents; 0: application/json'',
     ADD COLUMN headers     VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '''' COMMENT ''lines NAME: VALUE, sent with each request'',
     ADD COLUMN wait_reason VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT ''why next_try_at''');
PREPARE alter_webhook FROM @alter;
EXECUTE alter_webhook;
DEALLOCATE PREPARE alter_webhook;

ALTER TABLE webhook ALTER COLUMN cloudevents SET DEFAULT 0;
