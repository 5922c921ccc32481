-- How many I/Os of each operation took how long in each slot of time, by doublings of latency?
--
-- op [text]: what was asked of the storage
-- slot [number]: which slot the I/O was due in, or issued if it was not due, counted from the start of the span
-- latency_bits [number]: how many bits the latency in nanoseconds has; n bits are 2^(n-1) or more, and below 2^n
-- io_count [I/Os]: failed and unfinished ones are left out
--
-- $layer [text]: the layer to look at
-- $metric [text]: service (completed - issued) or response (completed - intended)
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $slot_ns [ns]: length of a slot
WITH

timed AS (
  SELECT
    op,
    (coalesce(intended_ns, issued_ns) - $from_ns::BIGINT) // $slot_ns::BIGINT AS slot,
    greatest(completed_ns - CASE $metric WHEN 'response' THEN intended_ns ELSE issued_ns END, 0) AS latency_ns
  FROM io
  WHERE
    layer = $layer AND error = 0 AND completed_ns IS NOT NULL
    AND issued_ns >= $from_ns AND issued_ns < $until_ns
    AND ($metric = 'service' OR intended_ns IS NOT NULL)
)

SELECT
  op,
  slot,
  CASE latency_ns WHEN 0 THEN 0 ELSE floor(log2(latency_ns))::BIGINT + 1 END AS latency_bits,
  count(*) AS io_count
FROM timed
GROUP BY ALL
ORDER BY ALL
