-- Payments with names: money that came too late, twice or in time, and what is to be paid back.
--
-- MySQL has no ADD COLUMN IF NOT EXISTS, so each ALTER that adds columns is prepared only when they
-- are not there. Both servers add such columns, and a value at the end of an ENUM, in the table's
-- description alone.

CREATE TABLE IF NOT EXISTS payment (
  order_id    BIGINT UNSIGNED NOT NULL,
  payment_ref VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'what the shop calls the payment',
  state       ENUM('taken','refund_due','refunded') NOT NULL COMMENT 'taken: it pays the order; refund_due: the shop owes it back',
  outcome     ENUM('in_time','retaken','too_late','already_paid') NOT NULL COMMENT 'what the call was answered; never changes',
  told_at     DATETIME(3) NOT NULL COMMENT 'UTC; of the first call',
  refunded_at DATETIME(3) NULL     COMMENT 'UTC; when the shop said that it has paid the money back',
  PRIMARY KEY (order_id, payment_ref)
) ENGINE=InnoDB COMMENT='Every payment that was told with a name; a row is written and changed only under the lock of its order, but for refund_due to refunded';

-- A table of its own, not an index on payment, so that only money that is due back pays for it.
CREATE TABLE IF NOT EXISTS refund_due (
  order_id    BIGINT UNSIGNED NOT NULL,
  payment_ref VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sku         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  due_at      DATETIME(3)  NOT NULL COMMENT 'UTC',
  PRIMARY KEY (order_id, payment_ref),
  KEY sku (sku),
  KEY due_at (due_at)
) ENGINE=InnoDB COMMENT='The payments in the state refund_due, one row each, written and deleted with that state';

SET @alter=IF((SELECT COUNT(*)FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='orders' AND column_name='grace_s')>0, 'DO 0',
  'ALTER TABLE orders
     MODIFY status ENUM(''reserved'',''paid'',''cancelled'',''expired'',''refunded'') NOT NULL DEFAULT ''reserved'',
     ADD ordered    INT UNSIGNED NULL COMMENT ''units at first; NULL: qty'',
     ADD unreturned INT UNSIGNED NULL COMMENT ''units that were refunded and not put back on sale: they stay sold; NULL: 0'',
     ADD grace_s    INT UNSIGNED NULL COMMENT ''seconds after expires_at in which it can still be paid; NULL: 0''');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;

SET @alter=IF((SELECT COUNT(*)FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='sale' AND column_name='grace_s')>0, 'DO 0',
  'ALTER TABLE sale
     ADD refund_late TINYINT      NOT NULL DEFAULT 0 COMMENT ''1: a late payment is refunded; 0: its order gets its units again, if it can'',
     ADD hold_max_s  INT UNSIGNED NULL COMMENT ''seconds after created_at to which a reservation may be extended; NULL: no extension'',
     ADD grace_s     INT UNSIGNED NULL COMMENT ''seconds after expires_at in which new orders can still be paid; NULL: 0''');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;

SET @alter=IF((SELECT COUNT(*)FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='sale_reset' AND column_name='grace_s')>0, 'DO 0',
  'ALTER TABLE sale_reset
     ADD refund_late TINYINT      NOT NULL DEFAULT 0,
     ADD hold_max_s  INT UNSIGNED NULL,
     ADD grace_s     INT UNSIGNED NULL');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;
DEALLOCATE PREPARE alter_table;
