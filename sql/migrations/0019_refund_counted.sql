-- A retirement finds the refunds of its sale that are counted without reading those that are not: a
-- name may have been sold again after a sale that was retired with its refunds made elsewhere. The
-- key `sku`, which begins this one, stays for daemons of the former version, whose statements name
-- it: a later version may drop it.

SET @alter=IF((SELECT COUNT(*)FROM information_schema.statistics WHERE table_schema=DATABASE() AND table_name='refund_due' AND index_name='counted')>0, 'DO 0',
  'ALTER TABLE refund_due ADD KEY counted (sku,due_at)');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;
DEALLOCATE PREPARE alter_table;
