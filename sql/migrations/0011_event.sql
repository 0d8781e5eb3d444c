-- Events: what happens to orders and sales, for the systems of the shop.

CREATE TABLE IF NOT EXISTS event_batch (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  position   BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'of its first event in the feed; 0: not published yet',
  events     INT UNSIGNED    NOT NULL COMMENT 'number of its lines',
  written_at DATETIME(3)     NOT NULL COMMENT 'UTC',
  body       MEDIUMBLOB      NOT NULL COMMENT 'a line for each event, see sql/events/event_line.h',
  PRIMARY KEY (id),
  KEY position (position)
) ENGINE=InnoDB COMMENT='The events of one transaction, written by that transaction: one row, however many orders it changes';

CREATE TABLE IF NOT EXISTS event_feed (
  one    TINYINT         NOT NULL DEFAULT 1 COMMENT 'there is one row',
  next   BIGINT UNSIGNED NOT NULL COMMENT 'position of the next event to be published',
  oldest BIGINT UNSIGNED NOT NULL COMMENT 'position of the oldest event that is kept, or next',
  fence  BIGINT UNSIGNED NOT NULL COMMENT 'of the publisher that published last; an older one is refused',
  PRIMARY KEY (one)
) ENGINE=InnoDB COMMENT='Where the feed of events begins and ends';

INSERT IGNORE INTO event_feed(one,next,oldest,fence) VALUES(1,1,1,0);

CREATE TABLE IF NOT EXISTS event_sale (
  sku              VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  round            INT UNSIGNED NOT NULL COMMENT '0: retired',
  settings_version INT UNSIGNED NOT NULL,
  sold_out         TINYINT      NOT NULL,
  PRIMARY KEY (sku)
) ENGINE=InnoDB COMMENT='What the feed has last said of each sale';

SET @alter=IF((SELECT COUNT(*)FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='orders' AND column_name='version')>0, 'DO 0',
  'ALTER TABLE orders ADD version INT UNSIGNED NULL COMMENT ''1, and one more for each change; NULL: 1''');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;
DEALLOCATE PREPARE alter_table;
