-- What load was offered to the storage at a layer, what did it carry, and how was it paced?
--
-- io_count [I/Os]: reads and writes that completed without an error
-- error_count [I/Os]: reads and writes that failed
-- size_bytes [bytes]: bytes of those that completed without an error
-- delayed_count [I/Os]: held back by the replay because too many were in flight
-- start_ns [ns]: when the first was wanted
-- wanted_ns_p99 [ns]: when the first 99 % were wanted
-- completed_ns_p99 [ns]: when 99 % had completed
-- wanted_end_ns [ns]: when the last was wanted
-- response_ns_sum [ns]: sum of completed minus wanted
-- service_ns_sum [ns]: sum of completed minus issued
-- in_flight_ns_sum [ns]: time they were under way, wanted to completed, inside start to wanted_end
-- lateness_ns_p99 [ns]: 99 % were issued no later than this after they were wanted; delayed ones left out
--
-- $layer [text]: the layer to measure at
WITH

wanted AS (
  SELECT
    coalesce(intended_ns, issued_ns) AS wanted_ns,
    issued_ns,
    completed_ns,
    size_bytes,
    error,
    (flags & 1024) <> 0 AS is_delayed
  FROM io
  WHERE layer = $layer AND completed_ns IS NOT NULL AND op IN ('read', 'write')
),

bounds AS (
  SELECT
    min(wanted_ns) AS start_ns,
    max(wanted_ns) AS wanted_end_ns
  FROM wanted
  WHERE error = 0
)

SELECT
  count(*) FILTER (WHERE wanted.error = 0) AS io_count,
  count(*) FILTER (WHERE wanted.error <> 0) AS error_count,
  coalesce(sum(wanted.size_bytes) FILTER (WHERE wanted.error = 0), 0)::BIGINT AS size_bytes,
  count(*) FILTER (WHERE wanted.error = 0 AND wanted.is_delayed) AS delayed_count,
  any_value(bounds.start_ns) AS start_ns,
  quantile_disc(wanted.wanted_ns, 0.99) FILTER (WHERE wanted.error = 0) AS wanted_ns_p99,
  quantile_disc(wanted.completed_ns, 0.99) FILTER (WHERE wanted.error = 0) AS completed_ns_p99,
  any_value(bounds.wanted_end_ns) AS wanted_end_ns,
  coalesce(sum(wanted.completed_ns - wanted.wanted_ns) FILTER (WHERE wanted.error = 0), 0)::DOUBLE AS response_ns_sum,
  coalesce(sum(wanted.completed_ns - wanted.issued_ns) FILTER (WHERE wanted.error = 0), 0)::DOUBLE AS service_ns_sum,
  coalesce(
    sum(
      greatest(least(wanted.completed_ns, bounds.wanted_end_ns) - wanted.wanted_ns, 0)
    ) FILTER (WHERE wanted.error = 0),
    0
  )::DOUBLE AS in_flight_ns_sum,
  coalesce(
    quantile_disc(
      wanted.issued_ns - wanted.wanted_ns, 0.99
    ) FILTER (WHERE wanted.error = 0 AND NOT wanted.is_delayed),
    0
  ) AS lateness_ns_p99
FROM wanted
CROSS JOIN bounds
