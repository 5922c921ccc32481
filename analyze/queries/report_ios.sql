-- Which reads and writes began in a stretch of time, if they are few?
--
-- begun_ns [ns]: when it was wanted, in time of the recording
-- latency_ns [ns]: how long it took from then on
-- op [text]: read or write
-- offset_bytes [bytes]: where on its device or file
-- size_bytes [bytes]: how much it asked for
-- path [text]: its file; null where none is known
--
-- $layer [text]: the layer to look at
-- $start_ns [ns]: where to begin
-- $end_ns [ns]: where to end, not included
-- $row_limit [number]: how many rows at most
SELECT
  coalesce(io.intended_ns, io.issued_ns) AS begun_ns,
  io.completed_ns - coalesce(io.intended_ns, io.issued_ns) AS latency_ns,
  io.op,
  io.offset_bytes,
  io.size_bytes,
  files.path
FROM io
LEFT JOIN files USING (file_id)
WHERE
  io.layer = $layer
  AND io.op IN ('read', 'write')
  AND io.error = 0
  AND io.completed_ns >= $start_ns
  AND coalesce(io.intended_ns, io.issued_ns) >= $start_ns
  AND coalesce(io.intended_ns, io.issued_ns) < $end_ns
ORDER BY begun_ns, io.offset_bytes
LIMIT $row_limit
