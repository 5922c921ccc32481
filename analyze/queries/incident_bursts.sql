-- How many I/Os began together with each I/O, itself included, in the same short bin of time?
--
-- device_id [id]: row of devices; null where the layer does not know it
-- slot [number]: which slot, counted from the start of the span
-- io_count [I/Os]: I/Os that began in the slot, failed ones included
-- together_count [I/Os]: the sum, over these, of how many began in the same bin on the same device
--
-- $layer [text]: the layer to count at
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $slot_ns [ns]: length of a slot
-- $bin_ns [ns]: length of a bin, no longer than a slot
-- $issued_ns [list of ns]: when the first and the last that count can have been issued; others are passed over
WITH

begun AS (
  SELECT
    device_id,
    coalesce(intended_ns, issued_ns) - $from_ns::BIGINT AS at_ns
  FROM io
  WHERE
    layer = $layer
    AND issued_ns >= $issued_ns[1] AND issued_ns <= $issued_ns[2]
    AND coalesce(intended_ns, issued_ns) >= $from_ns::BIGINT
    AND coalesce(intended_ns, issued_ns) < $until_ns::BIGINT
),

binned AS (
  SELECT
    device_id,
    at_ns // $slot_ns::BIGINT AS slot,
    (at_ns % $slot_ns::BIGINT) // $bin_ns::BIGINT AS bin,
    count(*) AS io_count
  FROM begun
  GROUP BY ALL
)

SELECT
  device_id,
  slot,
  sum(io_count)::BIGINT AS io_count,
  sum(io_count * io_count)::BIGINT AS together_count
FROM binned
GROUP BY device_id, slot
ORDER BY device_id, slot
