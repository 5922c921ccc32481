-- How many I/Os were wanted and how many completed in each stretch of the step?
--
-- block [index]: stretch of the step
-- wanted_count [I/Os]: reads and writes wanted in it
-- completed_count [I/Os]: reads and writes completed in it
-- completed_bytes [bytes]: bytes these moved
--
-- $layer [text]: the layer to measure at
-- $start_ns [ns]: where block 0 begins
-- $block_ns [ns]: length of a block
WITH

finished AS (
  SELECT
    (coalesce(intended_ns, issued_ns) - $start_ns) // $block_ns AS wanted_block,
    (completed_ns - $start_ns) // $block_ns AS completed_block,
    size_bytes
  FROM io
  WHERE layer = $layer AND completed_ns IS NOT NULL AND error = 0 AND op IN ('read', 'write')
),

ends AS (
  SELECT
    wanted_block AS block,
    1 AS wanted,
    0 AS completed,
    0 AS completed_bytes
  FROM finished
  UNION ALL
  SELECT
    completed_block AS block,
    0 AS wanted,
    1 AS completed,
    size_bytes AS completed_bytes
  FROM finished
)

SELECT
  block,
  sum(wanted)::BIGINT AS wanted_count,
  sum(completed)::BIGINT AS completed_count,
  sum(completed_bytes)::BIGINT AS completed_bytes
FROM ends
GROUP BY block
ORDER BY block
