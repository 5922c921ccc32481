-- What did a window of time carry?
--
-- io_count [I/Os]: reads and writes issued in it
-- size_bytes [bytes]: bytes these reads and writes asked for
-- read_count [I/Os]: reads among them
-- latency_mean_ns [ns]: mean latency of those that succeeded
--
-- $layer [text]: the layer to count at
-- $from_ns [ns]: start of the window
-- $until_ns [ns]: end of the window, not included
SELECT
  count(*) AS io_count,
  coalesce(sum(size_bytes), 0)::BIGINT AS size_bytes,
  count(*) FILTER (WHERE op = 'read') AS read_count,
  avg(greatest(completed_ns - issued_ns, 0)) FILTER (WHERE error = 0 AND completed_ns IS NOT NULL) AS latency_mean_ns
FROM io
WHERE
  layer = $layer AND op IN ('read', 'write')
  AND issued_ns >= $from_ns AND issued_ns < $until_ns
