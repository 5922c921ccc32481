-- How many I/Os were due and how many completed in each slot of the step, by operation?
--
-- slot [index]: which slot of the step, from 0
-- op [text]: read or write
-- wanted_count [I/Os]: I/Os that were due in the slot; failed and unfinished ones are left out
-- completed_count [I/Os]: I/Os that completed in the slot without an error
-- completed_bytes [bytes]: bytes of the I/Os that completed in the slot
--
-- $layer [text]: the layer to measure at
-- $start_ns [ns]: where slot 0 begins
-- $slot_ns [ns]: length of a slot
WITH

finished AS (
  SELECT
    op,
    (coalesce(intended_ns, issued_ns) - $start_ns) // $slot_ns AS wanted_slot,
    (completed_ns - $start_ns) // $slot_ns AS completed_slot,
    size_bytes
  FROM io
  WHERE layer = $layer AND completed_ns IS NOT NULL AND error = 0 AND op IN ('read', 'write')
),

ends AS (
  SELECT
    wanted_slot AS slot,
    op,
    1 AS wanted,
    0 AS completed,
    0 AS completed_bytes
  FROM finished
  UNION ALL
  SELECT
    completed_slot AS slot,
    op,
    0 AS wanted,
    1 AS completed,
    size_bytes AS completed_bytes
  FROM finished
)

SELECT
  slot,
  op,
  sum(wanted)::BIGINT AS wanted_count,
  sum(completed)::BIGINT AS completed_count,
  sum(completed_bytes)::BIGINT AS completed_bytes
FROM ends
GROUP BY ALL
ORDER BY ALL
