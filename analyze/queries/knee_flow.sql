-- How many I/Os were due and how many completed in each slot of the step, by operation, device, file and slowness?
--
-- slot [index]: which slot of the step, from 0
-- op [text]: read or write
-- device_id [id]: the device
-- file_id [id]: the file, where one is known
-- is_slow [truth]: the I/O took longer than $slow_ns, from when it was due
-- wanted_count [I/Os]: I/Os that were due in the slot; failed and unfinished ones are left out
-- completed_count [I/Os]: I/Os that completed in the slot without an error
-- completed_bytes [bytes]: bytes of the I/Os that completed in the slot
--
-- $layer [text]: the layer to measure at
-- $start_ns [ns]: where slot 0 begins
-- $slot_ns [ns]: length of a slot
-- $slow_ns [ns]: what takes longer is slow
WITH

finished AS (
  SELECT
    op,
    device_id,
    file_id,
    completed_ns - coalesce(intended_ns, issued_ns) > $slow_ns AS is_slow,
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
    device_id,
    file_id,
    is_slow,
    1 AS wanted,
    0 AS completed,
    0 AS completed_bytes
  FROM finished
  UNION ALL
  SELECT
    completed_slot AS slot,
    op,
    device_id,
    file_id,
    is_slow,
    0 AS wanted,
    1 AS completed,
    size_bytes AS completed_bytes
  FROM finished
)

SELECT
  slot,
  op,
  device_id,
  file_id,
  is_slow,
  sum(wanted)::BIGINT AS wanted_count,
  sum(completed)::BIGINT AS completed_count,
  sum(completed_bytes)::BIGINT AS completed_bytes
FROM ends
GROUP BY ALL
ORDER BY ALL
