-- Which I/Os took longest?
--
-- issued_ns [ns]: when it began
-- latency_ns [ns]: how long it took
--
-- $layer [text]: the layer whose clock the rows show
-- $from_ns [ns]: start of the span in which they began
-- $until_ns [ns]: end of the span, not included
-- $row_limit [number]: how many to tell
SELECT
  coalesce(intended_ns, issued_ns) AS issued_ns,
  completed_ns - coalesce(intended_ns, issued_ns) AS latency_ns
FROM io
WHERE
  layer = $layer
  AND completed_ns IS NOT NULL
  AND error = 0
  AND coalesce(intended_ns, issued_ns) >= $from_ns::BIGINT
  AND coalesce(intended_ns, issued_ns) < $until_ns::BIGINT
ORDER BY latency_ns DESC, issued_ns
LIMIT $row_limit
