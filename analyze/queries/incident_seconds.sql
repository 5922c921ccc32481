-- How many I/Os began in each slot of time, how long did they take, and how many were in flight?
--
-- layer [text]: the layer whose clock the rows show
-- device_id [id]: row of devices; null where the layer does not know it
-- file_id [id]: row of files; null where it is unknown or none of those asked about one by one
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- slot [number]: which slot, counted from the start of the span
-- io_count [I/Os]: I/Os that began in it, failed ones included
-- size_bytes [bytes]: bytes they asked for
-- ended_count [I/Os]: I/Os that ended in it, without those that failed or never ended
-- measured_count [I/Os]: I/Os with a latency that began in it or were in flight all through it
-- log_latency_sum [ln(ns)]: sum of the natural logarithms of their latencies
-- log_latency_square_sum [ln(ns)^2]: sum of the squares of these
-- latency_sum_ns [ns]: sum of the latencies of those that began in it
-- begun_count [I/Os]: how many these are
-- in_flight_ns [ns]: time that I/Os with a latency spent in flight within the slot, added up
-- waiting_count [I/Os]: I/Os that began in it, have no end, and had waited for a second when the span ended
-- waiting_log_sum [ln(ns)]: sum of the natural logarithms of how long these had waited
-- waiting_log_square_sum [ln(ns)^2]: sum of the squares of these
-- waiting_sum_ns [ns]: sum of how long they had waited
-- waiting_in_flight_ns [ns]: what of that lies in the slot
--
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $slot_ns [ns]: length of a slot
-- $kept_files [list of ids]: files to tell apart; others of a device and role are taken together
-- $longest_slots [number]: an I/O counts in so many slots after its own at most
WITH

named AS (
  SELECT
    file_id,
    role,
    CASE WHEN list_contains($kept_files::INTEGER[], file_id) THEN file_id END AS kept_file_id
  FROM files
),

labelled AS NOT MATERIALIZED (
  SELECT
    io.layer,
    io.device_id,
    named.kept_file_id AS file_id,
    coalesce(named.role, 'unattributed') AS role,
    io.op,
    io.size_bytes,
    io.error,
    -- A replay answers from when it meant to issue an I/O: waiting to be issued is part of the response.
    coalesce(io.intended_ns, io.issued_ns) AS begun_ns,
    io.completed_ns
  FROM io
  LEFT JOIN named ON io.file_id = named.file_id
),

clocked AS NOT MATERIALIZED (
  SELECT
    layer,
    device_id,
    file_id,
    role,
    op,
    size_bytes,
    completed_ns,
    begun_ns - $from_ns::BIGINT AS begun_ns,
    CASE
      WHEN error = 0 AND completed_ns IS NOT NULL THEN greatest(completed_ns, begun_ns) - $from_ns::BIGINT
    END AS ended_ns,
    -- Without an end, and no longer merely cut off by the end of the recording.
    CASE
      WHEN completed_ns IS NULL AND $until_ns::BIGINT - begun_ns >= 1000000000 THEN $until_ns::BIGINT - begun_ns
    END AS waited_ns
  FROM labelled
  WHERE begun_ns < $until_ns::BIGINT
),

-- -1 is before the span, or never.
slotted AS NOT MATERIALIZED (
  SELECT
    *,
    CASE WHEN begun_ns >= 0 THEN begun_ns // $slot_ns::BIGINT ELSE -1 END AS begun_slot,
    CASE WHEN ended_ns >= 0 THEN ended_ns // $slot_ns::BIGINT ELSE -1 END AS ended_slot,
    -- Decimals add up to the same whichever thread is first.
    ln(greatest(ended_ns - begun_ns, 1))::DECIMAL(18, 12) AS log_latency,
    (ln(greatest(ended_ns - begun_ns, 1)) * ln(greatest(ended_ns - begun_ns, 1)))::DECIMAL(18, 12) AS log_latency_square
  FROM clocked
),

-- Nearly every I/O ends in the slot that it begins in: all are added up as if they did.
begun AS (
  SELECT
    layer,
    device_id,
    file_id,
    role,
    op,
    begun_slot AS slot,
    count(*) AS io_count,
    sum(size_bytes) AS size_bytes,
    count(ended_ns) AS ended_count,
    sum(log_latency) AS log_latency_sum,
    sum(log_latency_square) AS log_latency_square_sum,
    sum(ended_ns - begun_ns) AS latency_sum_ns
  FROM slotted
  WHERE begun_slot >= 0
  GROUP BY layer, device_id, file_id, role, op, begun_slot
),

-- Those that did not are few. Each has a row for every later slot that it was in flight in, and one for the slot
-- that it began in, from which what lies beyond is taken away again.
reached AS (
  SELECT
    *,
    unnest(range(
      begun_slot,
      least(
        ended_slot,
        begun_slot + $longest_slots::BIGINT,
        ($until_ns::BIGINT - $from_ns::BIGINT - 1) // $slot_ns::BIGINT
      ) + 1
    )) AS slot
  FROM slotted
  WHERE ended_slot > begun_slot
),

parts AS (
  SELECT
    layer,
    device_id,
    file_id,
    role,
    op,
    slot,
    io_count,
    size_bytes,
    ended_count,
    ended_count AS measured_count,
    log_latency_sum,
    log_latency_square_sum,
    latency_sum_ns,
    ended_count AS begun_count,
    latency_sum_ns AS in_flight_ns,
    0 AS waiting_count,
    0 AS waiting_log_sum,
    0 AS waiting_log_square_sum,
    0 AS waiting_sum_ns,
    0 AS waiting_in_flight_ns
  FROM begun
  UNION ALL
  SELECT
    layer,
    device_id,
    file_id,
    role,
    op,
    slot,
    0 AS io_count,
    0 AS size_bytes,
    count(*) FILTER (WHERE slot = ended_slot) - count(*) FILTER (WHERE slot = begun_slot) AS ended_count,
    count(*) FILTER (WHERE slot > begun_slot AND slot < ended_slot) AS measured_count,
    sum(log_latency) FILTER (WHERE slot > begun_slot AND slot < ended_slot) AS log_latency_sum,
    sum(log_latency_square) FILTER (WHERE slot > begun_slot AND slot < ended_slot) AS log_latency_square_sum,
    0 AS latency_sum_ns,
    0 AS begun_count,
    sum(CASE
      WHEN slot > begun_slot THEN least(ended_ns - slot * $slot_ns::BIGINT, $slot_ns::BIGINT)
      ELSE (slot + 1) * $slot_ns::BIGINT - ended_ns
    END) AS in_flight_ns,
    0 AS waiting_count,
    0 AS waiting_log_sum,
    0 AS waiting_log_square_sum,
    0 AS waiting_sum_ns,
    0 AS waiting_in_flight_ns
  FROM reached
  WHERE slot >= 0
  GROUP BY layer, device_id, file_id, role, op, slot
  UNION ALL
  SELECT
    layer,
    device_id,
    file_id,
    role,
    op,
    begun_slot AS slot,
    0 AS io_count,
    0 AS size_bytes,
    0 AS ended_count,
    0 AS measured_count,
    0 AS log_latency_sum,
    0 AS log_latency_square_sum,
    0 AS latency_sum_ns,
    0 AS begun_count,
    0 AS in_flight_ns,
    count(*) AS waiting_count,
    sum(ln(waited_ns)::DECIMAL(18, 12)) AS waiting_log_sum,
    sum((ln(waited_ns) ** 2)::DECIMAL(18, 12)) AS waiting_log_square_sum,
    sum(waited_ns) AS waiting_sum_ns,
    sum(least(waited_ns, (begun_slot + 1) * $slot_ns::BIGINT - begun_ns)) AS waiting_in_flight_ns
  FROM slotted
  WHERE completed_ns IS NULL AND waited_ns IS NOT NULL AND begun_slot >= 0
  GROUP BY layer, device_id, file_id, role, op, begun_slot
)

SELECT
  layer,
  device_id,
  file_id,
  role,
  op,
  slot,
  sum(io_count)::BIGINT AS io_count,
  coalesce(sum(size_bytes), 0)::BIGINT AS size_bytes,
  sum(ended_count)::BIGINT AS ended_count,
  sum(measured_count)::BIGINT AS measured_count,
  coalesce(sum(log_latency_sum), 0)::DOUBLE AS log_latency_sum,
  coalesce(sum(log_latency_square_sum), 0)::DOUBLE AS log_latency_square_sum,
  coalesce(sum(latency_sum_ns), 0)::DOUBLE AS latency_sum_ns,
  sum(begun_count)::BIGINT AS begun_count,
  coalesce(sum(in_flight_ns), 0)::DOUBLE AS in_flight_ns,
  sum(waiting_count)::BIGINT AS waiting_count,
  coalesce(sum(waiting_log_sum), 0)::DOUBLE AS waiting_log_sum,
  coalesce(sum(waiting_log_square_sum), 0)::DOUBLE AS waiting_log_square_sum,
  coalesce(sum(waiting_sum_ns), 0)::DOUBLE AS waiting_sum_ns,
  coalesce(sum(waiting_in_flight_ns), 0)::DOUBLE AS waiting_in_flight_ns
FROM parts
GROUP BY layer, device_id, file_id, role, op, slot
ORDER BY layer, device_id, file_id, role, op, slot
