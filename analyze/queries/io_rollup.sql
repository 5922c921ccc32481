-- How many I/Os were there of each layer, device, file, role, process, operation and size?
--
-- layer [text]: the layer whose clock the rows show
-- device_id [id]: row of devices; null where the layer does not know it
-- file_id [id]: row of files; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- process_id [id]: row of processes; null where the layer does not know it
-- op [text]: what was asked of the storage
-- size_bytes [bytes]: bytes of one transfer
-- io_count [I/Os]: I/Os asked for, failed ones included
-- failed_count [I/Os]: those that ended with an error
-- unfinished_count [I/Os]: those whose end was not seen
-- measured_count [I/Os]: those that succeeded, with a latency
-- latency_sum_ns [ns]: sum of the latencies of the measured ones
-- first_issued_ns [ns]: when the first was issued
-- last_seen_ns [ns]: when the last was issued or completed
WITH

per_file AS (
  SELECT
    layer,
    device_id,
    file_id,
    process_id,
    op,
    size_bytes,
    count(*) AS io_count,
    count(*) FILTER (WHERE error <> 0) AS failed_count,
    count(*) - count(completed_ns) AS unfinished_count,
    count(completed_ns) FILTER (WHERE error = 0) AS measured_count,
    coalesce(sum(greatest(completed_ns - issued_ns, 0)) FILTER (WHERE error = 0), 0)::BIGINT AS latency_sum_ns,
    min(issued_ns) AS first_issued_ns,
    greatest(max(issued_ns), max(completed_ns)) AS last_seen_ns
  FROM io
  GROUP BY ALL
)

SELECT
  per_file.layer,
  per_file.device_id,
  per_file.file_id,
  coalesce(files.role, 'unattributed') AS role,
  per_file.process_id,
  per_file.op,
  per_file.size_bytes,
  per_file.io_count,
  per_file.failed_count,
  per_file.unfinished_count,
  per_file.measured_count,
  per_file.latency_sum_ns,
  per_file.first_issued_ns,
  per_file.last_seen_ns
FROM per_file
LEFT JOIN files USING (file_id)
ORDER BY
  per_file.layer, per_file.device_id, per_file.file_id, per_file.process_id, per_file.op, per_file.size_bytes
