"""A ledger of a great shop: a million orders, keys, quotas, payments and batches of events beside
the sales that a test works on, written by bulk statements in less than a minute."""

GUEST = "guest"  # the user of 100,000 of the orders
ENDED = 100_000  # rounds; and as many resets and restocks that came with a key, of one sku each
FIRST_ID = 1 << 40  # below every id that a daemon makes
SERVER = ("--performance-schema=ON", "--innodb-buffer-pool-size=1G",
          "--loose-innodb-log-file-size=512M",
          "--loose-innodb-redo-log-capacity=512M",
          # A row that the engine leaves out by itself would not be counted.
          "--optimizer-switch=index_condition_pushdown=off")

# The table n: the numbers below a million.
NUMBERS = """
CREATE TABLE n1000(n INT PRIMARY KEY);
INSERT INTO n1000 WITH RECURSIVE r AS(SELECT 0 n UNION ALL SELECT n+1 FROM r WHERE n<999)
  SELECT n FROM r;
CREATE TABLE n(n INT PRIMARY KEY);
INSERT INTO n SELECT a.n*1000+b.n FROM n1000 a JOIN n1000 b
"""
USER = f"IF(n%10=0,'{GUEST}',CONCAT('user-',n%100000))"
# Of the sale `past`, which goes on: four of five orders are paid, the others have expired.
ORDERS = f"""
INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,idempotency_key,created_at)
  SELECT {FIRST_ID}+n,'past',1,{USER},1,0,IF(n%5=4,'expired','paid'),LEFT(SHA2(n,256),32),
         UTC_TIMESTAMP(3)-INTERVAL 1 DAY FROM n;
INSERT INTO order_key(user_id,idempotency_key,order_id)
  SELECT {USER},LEFT(SHA2(n,256),32),{FIRST_ID}+n FROM n;
UPDATE stock_segment SET sold=(SELECT COUNT(*)FROM n WHERE n%5<>4 AND n%20=segment),capacity=60000
 WHERE sku='past';
UPDATE sale SET total=1200000 WHERE sku='past';
INSERT INTO order_expiry(expires_at,first_id,last_id)
  SELECT UTC_TIMESTAMP(3)+INTERVAL 30 DAY+INTERVAL n SECOND,{FIRST_ID}+n,{FIRST_ID}+n FROM n
"""
# Those of the expired orders came too late, and are due.
PAYMENTS = f"""
INSERT INTO payment(order_id,payment_ref,state,outcome,told_at)
  SELECT {FIRST_ID}+n,CONCAT('pay-',n),IF(n%5=4,'refund_due','taken'),
         IF(n%5=4,'too_late','in_time'),UTC_TIMESTAMP(3)-INTERVAL 1 DAY FROM n;
INSERT INTO refund_due(order_id,payment_ref,sku,due_at)
  SELECT {FIRST_ID}+n,CONCAT('pay-',n),'past',UTC_TIMESTAMP(3)-INTERVAL 1 DAY FROM n WHERE n%5=4
"""
EVENTS = f"""
INSERT INTO event_batch(id,position,events,written_at,body)
  SELECT n+1,n+1,1,UTC_TIMESTAMP(3)-INTERVAL 1 HOUR,CONCAT('= past 1 0\\na ',{FIRST_ID}+n,' 1 u')
    FROM n;
UPDATE event_feed SET next=1000001,oldest=1
"""
ROUNDS = f"""
INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)
  SELECT 'limited',0,CONCAT('user-',n),1,2,n FROM n;
INSERT INTO sale_round(sku,round,segments,retired,ended_at,last_id,step)
  SELECT CONCAT('gone-',n),1,0,1,UTC_TIMESTAMP(3)-INTERVAL 90 DAY,{FIRST_ID}+n,'done'
    FROM n WHERE n<{ENDED};
INSERT INTO restock(sku,idempotency_key,units,round)
  SELECT 'past',CONCAT('key-',n),1,1 FROM n WHERE n<{ENDED};
INSERT INTO sale_reset(sku,idempotency_key,request,round,total,segments,paused)
  SELECT 'limited',CONCAT('key-',n),'',1,1,1,0 FROM n WHERE n<{ENDED}
"""


def fill(ledger):
    """Writes the rows. The sales `past` and `limited` are there; no daemon runs."""
    for rows in (NUMBERS, ORDERS, PAYMENTS, EVENTS, ROUNDS):
        ledger.run("SET unique_checks=0;SET GLOBAL innodb_flush_log_at_trx_commit=0;" + rows,
                   timeout=600)
    ledger.run("DROP TABLE n,n1000;SET GLOBAL innodb_flush_log_at_trx_commit=1;"
               "ANALYZE TABLE event_batch,order_expiry,order_key,orders,payment,refund_due,restock,"
               "sale_reset,sale_round,user_quota", timeout=600)
