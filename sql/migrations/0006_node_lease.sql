-- Node numbers are leased: a start takes a free one and a clean stop gives it back. Before, each
-- start used up the next number of the table `node`, so that the 1025th met the first again.

CREATE TABLE IF NOT EXISTS node_lease (
  number       SMALLINT UNSIGNED NOT NULL COMMENT 'the node in order ids, 0 to 1023, one row each',
  holder       VARCHAR(64)       CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'host, process and a random part; NULL: nobody',
  leased_until DATETIME(6)       NOT NULL COMMENT 'UTC; from then on anybody may take the number',
  ids_before   BIGINT UNSIGNED   NOT NULL DEFAULT 0 COMMENT 'ms since 1970: all ids of this number carry an earlier time, and the ids of its next holder none',
  PRIMARY KEY (number)
) ENGINE=InnoDB COMMENT='Leases of node numbers, by the time of this server';

INSERT IGNORE INTO node_lease(number,leased_until)
  WITH d AS (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3)
  SELECT a.n*256+b.n*64+c.n*16+e.n*4+f.n, '2025-01-01' FROM d a, d b, d c, d e, d f;

-- For a rolling upgrade. Daemons of the former version took their numbers from the counter in
-- `node`, and do so when they start again. For a day the leases leave out the numbers of the
-- counter's last 512 starts and of its next 256.
UPDATE node_lease, (SELECT MAX(number) AS newest FROM node) counter
   SET holder='former-version', leased_until=UTC_TIMESTAMP(6)+INTERVAL 1 DAY
 WHERE holder IS NULL AND newest IS NOT NULL
   AND (node_lease.number+1024-newest%1024+511)%1024 < 768
   AND (newest >= 512 OR (node_lease.number > 0 AND node_lease.number <= newest+256));
