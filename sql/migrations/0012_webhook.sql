-- Webhooks: receivers that the feed of events is sent to.

CREATE TABLE IF NOT EXISTS webhook (
  name             VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  url              VARCHAR(512)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  types            VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'names of events, with commas between; empty: all',
  skus             VARCHAR(2112) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'with commas between; empty: all',
  batch            INT UNSIGNED  NOT NULL COMMENT 'events of one request at most',
  concurrency      INT UNSIGNED  NOT NULL COMMENT 'requests at a time at most',
  secret           VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'base64 of the key that signs',
  old_secret       VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'the one before, which also signs for a while',
  old_secret_until DATETIME(3)   NULL COMMENT 'UTC',
  generation       BIGINT UNSIGNED NOT NULL COMMENT 'grows with each change; a sender that knows an older one is refused',
  position         BIGINT UNSIGNED NOT NULL COMMENT 'of the next event to be delivered; all before are delivered',
  state            VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'active, paused or disabled',
  reason           VARCHAR(32)   CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'why it is disabled',
  failures         INT UNSIGNED  NOT NULL DEFAULT 0 COMMENT 'failed requests since the last success',
  failing_since    DATETIME(3)   NULL COMMENT 'UTC',
  next_try_at      DATETIME(3)   NULL COMMENT 'UTC',
  last_at          DATETIME(3)   NULL COMMENT 'UTC; of the last answer or failure',
  last_status      INT UNSIGNED  NOT NULL DEFAULT 0 COMMENT 'of HTTP; 0: there was no answer',
  last_answer      VARCHAR(200)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'the beginning of the answer, or why there was none',
  delivered        BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'events that were answered with success',
  created_at       DATETIME(3)   NOT NULL COMMENT 'UTC',
  PRIMARY KEY (name)
) ENGINE=InnoDB COMMENT='Receivers of events, and how far each has got';
