-- Which windows of a given length carried the most I/Os, and which the most bytes?
--
-- ranked_by [text]: io_count or size_bytes
-- rank [number]: 1 is the busiest
-- from_ns [ns]: start of the window
-- window_ns [ns]: its length
-- io_count [I/Os]: I/Os issued in it
-- size_bytes [bytes]: bytes they asked for
-- read_count [I/Os]: reads among them
-- latency_mean_ns [ns]: mean latency of those that succeeded
--
-- $layer [text]: the layer to count at
-- $window_ns [ns]: length of one window, a multiple of 1 s; aligned to the recording's start
-- $row_limit [number]: how many of each ranking
--
-- Reads: io_per_second
WITH

windows AS (
  SELECT
    floor(second / ($window_ns::BIGINT // 1000000000))::BIGINT AS window_index,
    sum(io_count)::BIGINT AS io_count,
    sum(size_bytes)::BIGINT AS size_bytes,
    sum(read_count)::BIGINT AS read_count,
    sum(latency_sum_ns) / nullif(sum(measured_count), 0) AS latency_mean_ns
  FROM io_per_second
  WHERE layer = $layer
  GROUP BY ALL
),

ranked AS (
  SELECT
    *,
    'io_count' AS ranked_by,
    row_number() OVER (ORDER BY io_count DESC, window_index) AS rank
  FROM windows
  UNION ALL BY NAME
  SELECT
    *,
    'size_bytes' AS ranked_by,
    row_number() OVER (ORDER BY size_bytes DESC, window_index) AS rank
  FROM windows
)

SELECT
  ranked_by,
  rank,
  window_index * $window_ns::BIGINT AS from_ns,
  $window_ns::BIGINT AS window_ns,
  io_count,
  size_bytes,
  read_count,
  latency_mean_ns
FROM ranked
WHERE rank <= $row_limit
ORDER BY ranked_by, rank
