-- Money that is paid back elsewhere, because its sale was retired so: it stays listed as due, and is
-- counted no more.
ALTER TABLE refund_due
  MODIFY due_at DATETIME(3) NULL COMMENT 'UTC; NULL: its sale was retired, with its refunds made elsewhere';
