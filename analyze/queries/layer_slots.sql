-- How much latency did each slot of time see, by layer and operation?
--
-- layer [text]: the layer whose clock is meant
-- op [text]: what was asked of the storage
-- slot [number]: which slot, counted from the start of the span
-- io_count [I/Os]: I/Os issued in the slot; failed and unfinished ones are left out
-- latency_sum_ns [ns]: exact sum of completed - issued
--
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $slot_ns [ns]: length of a slot
SELECT
  layer,
  op,
  (issued_ns - $from_ns::BIGINT) // $slot_ns::BIGINT AS slot,
  count(*) AS io_count,
  sum(greatest(completed_ns - issued_ns, 0))::BIGINT AS latency_sum_ns
FROM io
WHERE
  error = 0 AND completed_ns IS NOT NULL
  AND issued_ns >= $from_ns AND issued_ns < $until_ns
GROUP BY ALL
ORDER BY ALL
