-- How long did each I/O of a recorded load take when the same I/O was played again, slot by slot?
--
-- op [text]: what was asked of the storage
-- slot [number]: which slot of time the recorded I/O was issued in, counted from the start of its span
-- pair_count [I/Os]: I/Os that have a counterpart
-- log_ratio_sum [number]: sum of the natural logarithms of played over recorded latency
-- recorded_sum_ns [ns]: exact sum of the recorded latencies
-- played_sum_ns [ns]: exact sum of the played latencies
--
-- $layer [text]: the layer to look at, in both
-- $by_place [yes/no]: whether counterparts have the same address; otherwise only the same operation and size
-- $recorded_from_ns [ns]: start of the recorded span
-- $recorded_until_ns [ns]: end of the recorded span, not included
-- $from_ns [ns]: start of the played span
-- $until_ns [ns]: end of the played span, not included
-- $slot_ns [ns]: length of a slot
WITH

either_one AS (
  SELECT
    TRUE AS is_recorded,
    *
  FROM recorded_io
  WHERE issued_ns >= $recorded_from_ns AND issued_ns < $recorded_until_ns
  UNION ALL BY NAME
  SELECT
    FALSE AS is_recorded,
    *
  FROM io
  WHERE issued_ns >= $from_ns AND issued_ns < $until_ns
),

-- The n-th of its kind in one is the counterpart of the n-th of its kind in the other.
numbered AS (
  SELECT
    is_recorded,
    op,
    size_bytes,
    (issued_ns - $recorded_from_ns::BIGINT) // $slot_ns::BIGINT AS slot,
    greatest(completed_ns - issued_ns, 1) AS latency_ns,
    CASE WHEN $by_place THEN offset_bytes END AS place_bytes,
    row_number() OVER (
      PARTITION BY is_recorded, op, size_bytes, place_bytes
      ORDER BY issued_ns, offset_bytes
    ) AS occurrence
  FROM either_one
  WHERE layer = $layer AND error = 0 AND completed_ns IS NOT NULL
)

SELECT
  recorded.op,
  recorded.slot,
  count(*) AS pair_count,
  -- Decimals add up to the same whichever thread is first.
  sum(ln(played.latency_ns / recorded.latency_ns)::DECIMAL(18, 12))::DOUBLE AS log_ratio_sum,
  sum(recorded.latency_ns)::BIGINT AS recorded_sum_ns,
  sum(played.latency_ns)::BIGINT AS played_sum_ns
FROM numbered AS recorded
INNER JOIN numbered AS played
  ON
    recorded.is_recorded AND NOT played.is_recorded
    AND recorded.op = played.op AND recorded.size_bytes = played.size_bytes
    AND recorded.place_bytes IS NOT DISTINCT FROM played.place_bytes
    AND recorded.occurrence = played.occurrence
GROUP BY ALL
ORDER BY ALL
