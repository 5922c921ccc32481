-- How are service times distributed over the whole step?
--
-- bucket_ns [ns]: middle of the histogram bucket, completed minus issued
-- io_count [I/Os]: reads and writes in the bucket
--
-- $layer [text]: the layer to measure at
SELECT
  latency_bucket_ns(completed_ns - issued_ns) AS bucket_ns,
  count(*) AS io_count
FROM io
WHERE layer = $layer AND completed_ns IS NOT NULL AND error = 0 AND op IN ('read', 'write')
GROUP BY ALL
ORDER BY bucket_ns
