-- How many I/Os began and ended in each stretch of time, and how much they moved?
--
-- slot [index]: stretch of time; negative before the first
-- begun_read_count [I/Os]: reads wanted in it
-- begun_write_count [I/Os]: writes wanted in it
-- read_bytes [bytes]: bytes those reads asked for
-- written_bytes [bytes]: bytes those writes asked for
-- begun_count [I/Os]: I/Os of any kind wanted in it, if they were seen to end
-- begun_rest_ns [ns]: sum over these of the time from their start to the end of the stretch
-- ended_count [I/Os]: I/Os that completed in it
-- ended_rest_ns [ns]: sum over these of the time from their completion to the end of the stretch
--
-- $layer [text]: the layer to look at
-- $start_ns [ns]: where slot 0 begins
-- $end_ns [ns]: what happens from here on does not count
-- $slot_ns [ns]: length of a slot
WITH

clocked AS (
  SELECT
    op,
    size_bytes,
    completed_ns IS NOT NULL AS is_finished,
    coalesce(intended_ns, issued_ns) - $start_ns AS begun_ns,
    completed_ns - $start_ns AS ended_ns
  FROM io
  -- What had ended before the first slot counts in none of them.
  WHERE layer = $layer AND (completed_ns >= $start_ns OR completed_ns IS NULL)
),

-- Division cuts towards zero: what lies before the start has to be moved down to its slot.
ends AS (
  SELECT
    begun_ns // $slot_ns - (begun_ns % $slot_ns < 0)::BIGINT AS slot,
    op,
    size_bytes,
    is_finished AS is_begin,
    FALSE AS is_end,
    TRUE AS is_asked,
    $slot_ns * (1 - (begun_ns % $slot_ns < 0)::BIGINT) - begun_ns % $slot_ns AS rest_ns
  FROM clocked
  WHERE begun_ns < $end_ns - $start_ns
  UNION ALL
  SELECT
    ended_ns // $slot_ns - (ended_ns % $slot_ns < 0)::BIGINT AS slot,
    op,
    size_bytes,
    FALSE AS is_begin,
    TRUE AS is_end,
    FALSE AS is_asked,
    $slot_ns * (1 - (ended_ns % $slot_ns < 0)::BIGINT) - ended_ns % $slot_ns AS rest_ns
  FROM clocked
  WHERE is_finished AND ended_ns < $end_ns - $start_ns
)

SELECT
  slot,
  count(*) FILTER (WHERE is_asked AND op = 'read') AS begun_read_count,
  count(*) FILTER (WHERE is_asked AND op = 'write') AS begun_write_count,
  coalesce(sum(size_bytes) FILTER (WHERE is_asked AND op = 'read'), 0)::BIGINT AS read_bytes,
  coalesce(sum(size_bytes) FILTER (WHERE is_asked AND op = 'write'), 0)::BIGINT AS written_bytes,
  count(*) FILTER (WHERE is_begin) AS begun_count,
  coalesce(sum(rest_ns) FILTER (WHERE is_begin), 0)::DOUBLE AS begun_rest_ns,
  count(*) FILTER (WHERE is_end) AS ended_count,
  coalesce(sum(rest_ns) FILTER (WHERE is_end), 0)::DOUBLE AS ended_rest_ns
FROM ends
GROUP BY slot
ORDER BY slot
