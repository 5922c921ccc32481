-- How much of which work was asked for in a span of time?
--
-- op [text]: what was asked of the storage
-- size_bytes [bytes]: bytes of one transfer
-- io_count [I/Os]: how many transfers had that size
--
-- $layer [text]: the layer to count at
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
SELECT
  op,
  size_bytes,
  count(*) AS io_count
FROM io
WHERE layer = $layer AND issued_ns >= $from_ns AND issued_ns < $until_ns
GROUP BY op, size_bytes
ORDER BY op, size_bytes
