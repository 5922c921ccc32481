-- How many reads and writes began in each stretch of time, by how long they took?
--
-- slot [index]: stretch of time
-- band [index]: tenth of a decade of latency: floor(10 x log10 of nanoseconds)
-- io_count [I/Os]: how many
--
-- $layer [text]: the layer to look at
-- $start_ns [ns]: where slot 0 begins
-- $slot_ns [ns]: length of a slot
SELECT
  (coalesce(intended_ns, issued_ns) - $start_ns) // $slot_ns AS slot,
  floor(10 * log10(greatest(completed_ns - coalesce(intended_ns, issued_ns), 1)))::INTEGER AS band,
  count(*) AS io_count
FROM io
WHERE layer = $layer AND completed_ns IS NOT NULL AND error = 0 AND op IN ('read', 'write')
GROUP BY ALL
ORDER BY ALL
