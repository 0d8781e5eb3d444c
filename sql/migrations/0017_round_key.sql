-- The purge of an ended round finds its restocks and resets without reading those of all rounds.

SET @alter=IF((SELECT COUNT(*)FROM information_schema.statistics WHERE table_schema=DATABASE() AND table_name='restock' AND index_name='round')>0, 'DO 0',
  'ALTER TABLE restock ADD KEY round (sku,round)');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;
SET @alter=IF((SELECT COUNT(*)FROM information_schema.statistics WHERE table_schema=DATABASE() AND table_name='sale_reset' AND index_name='round')>0, 'DO 0',
  'ALTER TABLE sale_reset ADD KEY round (sku,round)');
PREPARE alter_table FROM @alter;
EXECUTE alter_table;
DEALLOCATE PREPARE alter_table;
