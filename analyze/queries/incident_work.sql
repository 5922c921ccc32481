-- Which processes and files had which I/O at one layer during a stretch of time?
--
-- device_id [id]: row of devices; null where the layer does not know it
-- file_id [id]: row of files; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- process_id [id]: row of processes; null where the layer does not know it
-- op [text]: what was asked of the storage
-- size_class_bytes [bytes]: largest size in the class, a power of two from 4 KiB to 1 MiB; null for larger I/Os
-- io_count [I/Os]: I/Os issued, failed ones included
-- size_bytes [bytes]: bytes they asked for
-- measured_count [I/Os]: those that succeeded, with a latency
-- latency_sum_ns [ns]: sum of the latencies of the measured ones
-- latency_square_sum [ns^2]: sum of the squares of these latencies
-- waiting_count [I/Os]: those that have no end, and had waited for a second when the span ended
-- waiting_sum_ns [ns]: sum of how long these had waited
--
-- $layer [text]: the layer to look at
-- $from_ns [ns]: start of the stretch
-- $until_ns [ns]: end of the stretch, not included
-- $span_until_ns [ns]: end of the span, until which what has no end waits
-- $has_losses [flag]: whether an end may have been lost: then only what no later I/O of its device has overtaken waits
WITH

answered AS (
  SELECT
    device_id,
    max(issued_ns) AS last_ns
  FROM io
  WHERE $has_losses::BOOLEAN AND layer = $layer AND issued_ns >= $from_ns AND completed_ns IS NOT NULL
  GROUP BY device_id
),

classed AS (
  SELECT
    device_id,
    file_id,
    process_id,
    op,
    size_bytes,
    issued_ns,
    CASE
      WHEN size_bytes <= 1048576 THEN greatest(1::BIGINT << ceil(log2(greatest(size_bytes, 1)))::BIGINT, 4096)
    END AS size_class_bytes,
    CASE WHEN error = 0 THEN completed_ns - issued_ns END AS latency_ns,
    CASE
      WHEN completed_ns IS NULL AND $span_until_ns::BIGINT - issued_ns >= 1000000000
        THEN $span_until_ns::BIGINT - issued_ns
    END AS waited_ns
  FROM io
  WHERE layer = $layer AND issued_ns >= $from_ns AND issued_ns < $until_ns
),

believed AS (
  SELECT
    classed.* EXCLUDE (waited_ns),
    CASE
      WHEN answered.last_ns IS NULL OR classed.issued_ns > answered.last_ns THEN classed.waited_ns
    END AS waited_ns
  FROM classed
  LEFT JOIN answered ON classed.device_id IS NOT DISTINCT FROM answered.device_id
),

summed AS (
  SELECT
    device_id,
    file_id,
    process_id,
    op,
    size_class_bytes,
    count(*) AS io_count,
    sum(size_bytes)::BIGINT AS size_bytes,
    count(latency_ns) AS measured_count,
    coalesce(sum(greatest(latency_ns, 0)) FILTER (WHERE latency_ns IS NOT NULL), 0)::BIGINT AS latency_sum_ns,
    coalesce(
      sum(greatest(latency_ns, 0)::DOUBLE * greatest(latency_ns, 0)) FILTER (WHERE latency_ns IS NOT NULL), 0
    ) AS latency_square_sum,
    count(waited_ns) AS waiting_count,
    coalesce(sum(waited_ns), 0)::BIGINT AS waiting_sum_ns
  FROM believed
  GROUP BY ALL
)

SELECT
  summed.device_id,
  summed.file_id,
  coalesce(files.role, 'unattributed') AS role,
  summed.process_id,
  summed.op,
  summed.size_class_bytes,
  summed.io_count,
  summed.size_bytes,
  summed.measured_count,
  summed.latency_sum_ns,
  summed.latency_square_sum,
  summed.waiting_count,
  summed.waiting_sum_ns
FROM summed
LEFT JOIN files ON summed.file_id = files.file_id
ORDER BY summed.device_id, summed.file_id, summed.process_id, summed.op, summed.size_class_bytes
