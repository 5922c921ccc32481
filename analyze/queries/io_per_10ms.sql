-- How much arrived in each 10 ms?
--
-- layer [text]: the layer whose clock the rows show
-- bin [number]: which 10 ms, counted from the recording's start
-- device_id [id]: row of devices; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- io_count [I/Os]: I/Os issued, failed ones included
-- size_bytes [bytes]: bytes they asked for
-- measured_count [I/Os]: those that succeeded, with a latency
-- latency_sum_ns [ns]: sum of the latencies of the measured ones
SELECT
  io.layer,
  -- Integer division rounds towards zero; the recording's start may lie after an I/O's.
  (io.issued_ns - (io.issued_ns % 10000000 + 10000000) % 10000000) // 10000000 AS bin,
  io.device_id,
  coalesce(files.role, 'unattributed') AS role,
  io.op,
  count(*) AS io_count,
  sum(io.size_bytes)::BIGINT AS size_bytes,
  count(io.completed_ns) FILTER (WHERE io.error = 0) AS measured_count,
  coalesce(sum(io.completed_ns - io.issued_ns) FILTER (WHERE io.error = 0), 0)::BIGINT AS latency_sum_ns
FROM io
LEFT JOIN files USING (file_id)
GROUP BY ALL
ORDER BY io.layer, bin, io.device_id, role, io.op
