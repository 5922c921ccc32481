-- Which reads and writes began in a stretch of time, if they are few?
--
-- begun_ns [ns]: when it was wanted, in time of the recording
-- latency_ns [ns]: from when it was wanted to its completion
-- op [text]: read or write
-- offset_bytes [bytes]: where on its device or file
-- size_bytes [bytes]: how much it asked for
-- path [text]: its file; null where none is known
--
-- $layer [text]: the layer to look at
-- $start_ns [ns]: start of the stretch
-- $end_ns [ns]: end of the stretch, not included
-- $row_limit [number]: how many rows at most
WITH

chosen AS (
  SELECT
    *,
    coalesce(intended_ns, issued_ns) AS begun_ns
  FROM io
  WHERE
    layer = $layer
    AND op IN ('read', 'write')
    AND error = 0
    AND completed_ns >= $start_ns
    AND coalesce(intended_ns, issued_ns) >= $start_ns
    AND coalesce(intended_ns, issued_ns) < $end_ns
)

SELECT
  chosen.begun_ns,
  chosen.completed_ns - chosen.begun_ns AS latency_ns,
  chosen.op,
  chosen.offset_bytes,
  chosen.size_bytes,
  files.path
FROM chosen
LEFT JOIN files USING (file_id)
ORDER BY chosen.begun_ns, chosen.offset_bytes
LIMIT $row_limit
