-- Payments that failed after they had paid their orders.
--
-- Both servers add a value at the end of an ENUM in the table's description alone. The statement
-- repeats the column as 0010 made it, and changes nothing when it is repeated.

ALTER TABLE payment
  MODIFY state ENUM('taken','refund_due','refunded','failed') NOT NULL COMMENT 'taken: it pays the order; refund_due: the shop owes it back; failed: the money never came';

-- A retirement counts a sale's reserved orders before it locks the sale. An order that was paid and
-- becomes reserved again behind the count changes no segment, so it is noticed by this number.
CREATE TABLE IF NOT EXISTS unpaid_count (
  sku   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  count BIGINT UNSIGNED NOT NULL COMMENT 'orders whose payment failed',
  PRIMARY KEY (sku)
) ENGINE=InnoDB COMMENT='How often orders of a sale became reserved again';
