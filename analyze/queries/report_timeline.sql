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

clocked AS NOT MATERIALIZED (
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

slotted AS NOT MATERIALIZED (
  SELECT
    *,
    begun_ns // $slot_ns - (begun_ns % $slot_ns < 0)::BIGINT AS begun_slot,
    ended_ns // $slot_ns - (ended_ns % $slot_ns < 0)::BIGINT AS ended_slot
  FROM clocked
),

begun AS (
  SELECT
    begun_slot AS slot,
    count(*) FILTER (WHERE op = 'read') AS read_count,
    count(*) FILTER (WHERE op = 'write') AS write_count,
    sum(size_bytes) FILTER (WHERE op = 'read') AS read_bytes,
    sum(size_bytes) FILTER (WHERE op = 'write') AS written_bytes,
    count(*) FILTER (WHERE is_finished) AS finished_count,
    count(*) FILTER (WHERE is_finished) * (begun_slot + 1)::HUGEINT * $slot_ns
    - sum(begun_ns) FILTER (WHERE is_finished) AS rest_ns
  FROM slotted
  WHERE begun_ns < $end_ns - $start_ns
  GROUP BY begun_slot
),

ended AS (
  SELECT
    ended_slot AS slot,
    count(*) AS ended_count,
    count(*) * (ended_slot + 1)::HUGEINT * $slot_ns - sum(ended_ns) AS rest_ns
  FROM slotted
  WHERE is_finished AND ended_ns < $end_ns - $start_ns
  GROUP BY ended_slot
)

SELECT
  slot,
  coalesce(begun.read_count, 0) AS begun_read_count,
  coalesce(begun.write_count, 0) AS begun_write_count,
  coalesce(begun.read_bytes, 0)::BIGINT AS read_bytes,
  coalesce(begun.written_bytes, 0)::BIGINT AS written_bytes,
  coalesce(begun.finished_count, 0) AS begun_count,
  coalesce(begun.rest_ns, 0)::DOUBLE AS begun_rest_ns,
  coalesce(ended.ended_count, 0) AS ended_count,
  coalesce(ended.rest_ns, 0)::DOUBLE AS ended_rest_ns
FROM begun
FULL JOIN ended USING (slot)
ORDER BY slot
