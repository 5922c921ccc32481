-- How are latencies of a span of time distributed, by role, operation and size class?
--
-- role [text]: what the file is to the database; unattributed where no file is known, or all where roles are left aside
-- op [text]: what was asked of the storage
-- size_class_bytes [bytes]: largest size in the class, a power of two from 4 KiB to 1 MiB; 0 for larger I/Os
-- bucket_ns [ns]: latency that stands for the bucket, within 0.05 %
-- io_count [I/Os]: I/Os in the bucket; failed and unfinished ones are left out
-- latency_sum_ns [ns]: exact sum of their latencies
--
-- $layer [text]: the layer to look at
-- $metric [text]: service (completed - issued) or response (completed - intended)
-- $with_roles [yes/no]: whether to tell roles apart
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
WITH

roles AS (
  SELECT
    file_id,
    role
  FROM files
  WHERE $with_roles
),

timed AS (
  SELECT
    file_id,
    op,
    CASE
      WHEN size_bytes > 1048576 THEN 0
      ELSE greatest(1::BIGINT << ceil(log2(greatest(size_bytes, 1)))::BIGINT, 4096)
    END AS size_class_bytes,
    greatest(completed_ns - CASE $metric WHEN 'response' THEN intended_ns ELSE issued_ns END, 0) AS latency_ns
  FROM io
  WHERE
    layer = $layer AND error = 0 AND completed_ns IS NOT NULL
    AND issued_ns >= $from_ns AND issued_ns < $until_ns
    AND ($metric = 'service' OR intended_ns IS NOT NULL)
)

SELECT
  coalesce(roles.role, 'unattributed') AS role,
  timed.op,
  timed.size_class_bytes,
  latency_bucket_ns(timed.latency_ns) AS bucket_ns,
  count(*) AS io_count,
  sum(timed.latency_ns)::BIGINT AS latency_sum_ns
FROM timed
LEFT JOIN roles USING (file_id)
GROUP BY ALL
ORDER BY ALL
