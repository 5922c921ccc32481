-- How long did the I/Os of each layer, device, role and operation take, as a mergeable histogram?
--
-- layer [text]: the layer whose clock the latency is by
-- device_id [id]: row of devices; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- bucket_ns [ns]: latency that stands for the bucket, within 0.05 %
-- io_count [I/Os]: I/Os in the bucket; failed and unfinished ones are left out
-- latency_sum_ns [ns]: exact sum of their latencies
-- latency_max_ns [ns]: the longest latency of the bucket, exact
--
-- $metric [text]: service (completed - issued), response (completed - intended) or lateness (issued - intended)
WITH

timed AS (
  SELECT
    layer,
    device_id,
    file_id,
    op,
    greatest(CASE $metric
      WHEN 'service' THEN completed_ns - issued_ns
      WHEN 'response' THEN completed_ns - intended_ns
      WHEN 'lateness' THEN issued_ns - intended_ns
    END, 0) AS latency_ns
  FROM io
  WHERE
    error = 0 AND completed_ns IS NOT NULL
    AND ($metric = 'service' OR intended_ns IS NOT NULL)
)

SELECT
  timed.layer,
  timed.device_id,
  coalesce(files.role, 'unattributed') AS role,
  timed.op,
  latency_bucket_ns(timed.latency_ns) AS bucket_ns,
  count(*) AS io_count,
  sum(timed.latency_ns)::BIGINT AS latency_sum_ns,
  max(timed.latency_ns) AS latency_max_ns
FROM timed
LEFT JOIN files USING (file_id)
GROUP BY ALL
ORDER BY timed.layer, timed.device_id, role, timed.op, bucket_ns
