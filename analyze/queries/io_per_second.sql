-- How many I/Os and bytes arrived in each second?
--
-- layer [text]: the layer whose clock the rows show
-- second [number]: which second, counted from the recording's start
-- io_count [I/Os]: I/Os issued, failed ones included
-- size_bytes [bytes]: bytes they asked for
-- read_count [I/Os]: reads among them
-- measured_count [I/Os]: those that succeeded, with a latency
-- latency_sum_ns [ns]: sum of the latencies of the measured ones
SELECT
  layer,
  -- Integer division rounds towards zero; the recording's start may lie after an I/O's.
  (issued_ns - (issued_ns % 1000000000 + 1000000000) % 1000000000) // 1000000000 AS second,
  count(*) AS io_count,
  sum(size_bytes)::BIGINT AS size_bytes,
  count(*) FILTER (WHERE op = 'read') AS read_count,
  count(completed_ns) FILTER (WHERE error = 0) AS measured_count,
  coalesce(sum(greatest(completed_ns - issued_ns, 0)) FILTER (WHERE error = 0), 0)::BIGINT AS latency_sum_ns
FROM io
GROUP BY ALL
ORDER BY layer, second
