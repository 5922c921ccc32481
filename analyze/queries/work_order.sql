-- How much of the work in a span of time was sequential, and how evenly did it arrive?
--
-- op [text]: what was asked of the storage
-- io_count [I/Os]: I/Os issued in the span
-- placed_count [I/Os]: those whose place is known
-- sequential_count [I/Os]: those that start where the one before of the same device, file, operation and copy ended
-- gap_count [gaps]: those with an arrival before them in the span, of any operation
-- gap_sum_ns [ns]: sum of the times since that arrival
-- gap_square_sum_ns2 [ns2]: sum of their squares
--
-- $layer [text]: the layer to look at
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
WITH

-- Whole numbers add up to the same whatever their order.
arrivals AS (
  SELECT
    op,
    offset_bytes,
    (issued_ns - lag(issued_ns) OVER (ORDER BY issued_ns, offset_bytes))::HUGEINT AS gap_ns,
    lag(offset_bytes + size_bytes IGNORE NULLS) OVER (
      PARTITION BY device_id, file_id, op, copy ORDER BY issued_ns, offset_bytes
    ) AS end_before_bytes
  FROM io
  WHERE layer = $layer AND issued_ns >= $from_ns AND issued_ns < $until_ns
)

SELECT
  op,
  count(*) AS io_count,
  count(offset_bytes) AS placed_count,
  count(*) FILTER (WHERE offset_bytes = end_before_bytes) AS sequential_count,
  count(gap_ns) AS gap_count,
  coalesce(sum(gap_ns), 0)::DOUBLE AS gap_sum_ns,
  coalesce(sum(gap_ns * gap_ns), 0)::DOUBLE AS gap_square_sum_ns2
FROM arrivals
GROUP BY op
ORDER BY op
