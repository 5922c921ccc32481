-- Which processes and files had which I/O at one layer in the whole recording?
--
-- device_id [id]: row of devices; null where the layer does not know it
-- file_id [id]: row of files; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- process_id [id]: row of processes; null where the layer does not know it
-- op [text]: what was asked of the storage
-- size_class_bytes [bytes]: largest size in the class, a power of two from 4 KiB to 1 MiB; null for larger I/Os
-- io_count [I/Os]: I/Os issued, failed ones included
-- size_bytes [bytes]: bytes they asked for
-- measured_count [I/Os]: those that succeeded, with a latency
-- latency_sum_ns [ns]: sum of the latencies of the measured ones
--
-- $layer [text]: the layer to look at
--
-- Reads: io_rollup
SELECT
  device_id,
  file_id,
  role,
  process_id,
  op,
  CASE
    WHEN size_bytes <= 1048576 THEN greatest(1::BIGINT << ceil(log2(greatest(size_bytes, 1)))::BIGINT, 4096)
  END AS size_class_bytes,
  sum(io_count)::BIGINT AS io_count,
  sum(size_bytes::BIGINT * io_count)::BIGINT AS size_bytes,
  sum(measured_count)::BIGINT AS measured_count,
  sum(latency_sum_ns)::BIGINT AS latency_sum_ns
FROM io_rollup
WHERE layer = $layer
GROUP BY ALL
ORDER BY ALL
