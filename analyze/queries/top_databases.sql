-- Which databases asked for the most I/O?
--
-- database [text]: name of the database; null for I/O of files that belong to none
-- file_count [files]: files of the database that had I/O
-- read_count [I/Os]: reads asked for
-- write_count [I/Os]: writes asked for
-- read_bytes [bytes]: bytes asked to read
-- written_bytes [bytes]: bytes asked to write
-- read_latency_mean_ns [ns]: mean latency of the reads that succeeded
-- write_latency_mean_ns [ns]: mean latency of the writes that succeeded
--
-- $layer [text]: the layer to count at
-- $row_limit [number]: how many databases
--
-- Reads: io_rollup
WITH

of_layer AS (
  SELECT
    file_id,
    op,
    io_count,
    size_bytes * io_count AS moved_bytes,
    latency_sum_ns,
    measured_count
  FROM io_rollup
  WHERE layer = $layer
),

per_database AS (
  SELECT
    files.database,
    count(DISTINCT of_layer.file_id) AS file_count,
    coalesce(sum(of_layer.io_count) FILTER (WHERE of_layer.op = 'read'), 0)::BIGINT AS read_count,
    coalesce(sum(of_layer.io_count) FILTER (WHERE of_layer.op = 'write'), 0)::BIGINT AS write_count,
    coalesce(sum(of_layer.moved_bytes) FILTER (WHERE of_layer.op = 'read'), 0)::BIGINT AS read_bytes,
    coalesce(sum(of_layer.moved_bytes) FILTER (WHERE of_layer.op = 'write'), 0)::BIGINT AS written_bytes,
    sum(of_layer.latency_sum_ns) FILTER (WHERE of_layer.op = 'read')
    / nullif(sum(of_layer.measured_count) FILTER (WHERE of_layer.op = 'read'), 0) AS read_latency_mean_ns,
    sum(of_layer.latency_sum_ns) FILTER (WHERE of_layer.op = 'write')
    / nullif(sum(of_layer.measured_count) FILTER (WHERE of_layer.op = 'write'), 0) AS write_latency_mean_ns
  FROM of_layer
  LEFT JOIN files USING (file_id)
  GROUP BY files.database
)

SELECT
  database,
  file_count,
  read_count,
  write_count,
  read_bytes,
  written_bytes,
  read_latency_mean_ns,
  write_latency_mean_ns
FROM per_database
ORDER BY read_bytes + written_bytes DESC, database
LIMIT $row_limit
