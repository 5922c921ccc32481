-- Which processes asked for the most I/O?
--
-- process_id [id]: row of processes; null for I/O of unknown processes
-- os_process_id [id]: the operating system's number
-- name [text]: image name
-- read_count [I/Os]: reads asked for
-- write_count [I/Os]: writes asked for
-- read_bytes [bytes]: bytes asked to read
-- written_bytes [bytes]: bytes asked to write
--
-- $layer [text]: the layer to count at
-- $row_limit [number]: how many processes
--
-- Reads: io_rollup
WITH

per_process AS (
  SELECT
    process_id,
    coalesce(sum(io_count) FILTER (WHERE op = 'read'), 0)::BIGINT AS read_count,
    coalesce(sum(io_count) FILTER (WHERE op = 'write'), 0)::BIGINT AS write_count,
    coalesce(sum(size_bytes * io_count) FILTER (WHERE op = 'read'), 0)::BIGINT AS read_bytes,
    coalesce(sum(size_bytes * io_count) FILTER (WHERE op = 'write'), 0)::BIGINT AS written_bytes
  FROM io_rollup
  WHERE layer = $layer
  GROUP BY process_id
)

SELECT
  per_process.process_id,
  processes.os_process_id,
  processes.name,
  per_process.read_count,
  per_process.write_count,
  per_process.read_bytes,
  per_process.written_bytes
FROM per_process
LEFT JOIN processes USING (process_id)
ORDER BY per_process.read_bytes + per_process.written_bytes DESC, per_process.process_id
LIMIT $row_limit
