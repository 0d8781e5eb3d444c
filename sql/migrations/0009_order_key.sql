-- A user's orders are listed by order_key, which now has a row of every order: '#' and its id stand
-- for the key of an order that came without one. No client's key begins with '#'. The index by user,
-- which the daemons built in the background, is needed no more.

INSERT IGNORE INTO order_key(user_id,idempotency_key,order_id)
  SELECT user_id, CONCAT('#',order_id), order_id FROM orders o
   WHERE idempotency_key IS NULL
     AND NOT EXISTS(SELECT 1 FROM sale_round r WHERE r.sku=o.sku AND r.round=o.round
                    AND (r.step<>'keys' OR o.order_id<=r.purged_to));

UPDATE sale_round SET step='done' WHERE step NOT IN('keys','users','done');
ALTER TABLE sale_round
  MODIFY step ENUM('keys','users','done') NOT NULL COMMENT 'what is to be purged next',
  MODIFY purged_to BIGINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'the keys of orders up to this id are deleted';

ALTER TABLE order_key COMMENT='Orders by user and idempotency key: a retry finds its first order, a second one cannot be written, and a user finds every order';

DROP TABLE IF EXISTS order_batch;
DROP TABLE IF EXISTS order_index;
