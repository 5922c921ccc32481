-- Which files asked for the most I/O?
--
-- file_id [id]: row of files; null for I/O of unknown files
-- path [text]: path as the recorded system shows it
-- role [text]: what the file is to the database; unattributed where no file is known
-- read_count [I/Os]: reads asked for
-- write_count [I/Os]: writes asked for
-- read_bytes [bytes]: bytes asked to read
-- written_bytes [bytes]: bytes asked to write
-- read_latency_mean_ns [ns]: mean latency of the reads that succeeded
-- write_latency_mean_ns [ns]: mean latency of the writes that succeeded
--
-- $layer [text]: the layer to count at
-- $row_limit [number]: how many files
--
-- Reads: io_rollup
WITH

per_file AS (
  SELECT
    file_id,
    coalesce(sum(io_count) FILTER (WHERE op = 'read'), 0)::BIGINT AS read_count,
    coalesce(sum(io_count) FILTER (WHERE op = 'write'), 0)::BIGINT AS write_count,
    coalesce(sum(size_bytes * io_count) FILTER (WHERE op = 'read'), 0)::BIGINT AS read_bytes,
    coalesce(sum(size_bytes * io_count) FILTER (WHERE op = 'write'), 0)::BIGINT AS written_bytes,
    sum(latency_sum_ns) FILTER (WHERE op = 'read')
    / nullif(sum(measured_count) FILTER (WHERE op = 'read'), 0) AS read_latency_mean_ns,
    sum(latency_sum_ns) FILTER (WHERE op = 'write')
    / nullif(sum(measured_count) FILTER (WHERE op = 'write'), 0) AS write_latency_mean_ns
  FROM io_rollup
  WHERE layer = $layer
  GROUP BY file_id
)

SELECT
  per_file.file_id,
  files.path,
  coalesce(files.role, 'unattributed') AS role,
  per_file.read_count,
  per_file.write_count,
  per_file.read_bytes,
  per_file.written_bytes,
  per_file.read_latency_mean_ns,
  per_file.write_latency_mean_ns
FROM per_file
LEFT JOIN files USING (file_id)
ORDER BY per_file.read_bytes + per_file.written_bytes DESC, per_file.file_id
LIMIT $row_limit
