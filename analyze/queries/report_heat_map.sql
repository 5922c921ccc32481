-- How many reads and writes began in each stretch of time, by how long they took, of those that had not ended before?
--
-- slot [index]: stretch of time; negative before the first
-- band [index]: twentieth of a decade of latency: floor(20 x log10 of nanoseconds)
-- io_count [I/Os]: I/Os of that latency that began in that stretch
-- longest_ns [ns]: the longest latency among them
--
-- $layer [text]: the layer to look at
-- $start_ns [ns]: where slot 0 begins
-- $end_ns [ns]: what happens from here on does not count
-- $slot_ns [ns]: length of a slot
WITH

clocked AS (
  SELECT
    coalesce(intended_ns, issued_ns) - $start_ns AS begun_ns,
    completed_ns - coalesce(intended_ns, issued_ns) AS latency_ns
  FROM io
  WHERE
    layer = $layer
    AND completed_ns IS NOT NULL
    AND error = 0
    -- Reads and writes; asked like this it takes two thirds of the time of a list.
    AND op <> 'flush'
    AND op <> 'discard'
    AND coalesce(intended_ns, issued_ns) < $end_ns
    AND completed_ns >= $start_ns
),

-- Division cuts towards zero: an I/O from before the start has to be moved down to the slot it began in.
placed AS (
  SELECT
    begun_ns // $slot_ns - (begun_ns % $slot_ns < 0)::BIGINT AS slot,
    floor(20 * log10(greatest(latency_ns, 1)))::INTEGER AS band,
    latency_ns
  FROM clocked
)

SELECT
  slot,
  band,
  count(*) AS io_count,
  max(latency_ns) AS longest_ns
FROM placed
GROUP BY ALL
ORDER BY ALL
