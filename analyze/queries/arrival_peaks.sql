-- How many I/Os arrived in the fullest 10 ms, 100 ms and 1 s of each device and role?
--
-- device_id [id]: row of devices; null in the rows for everything together
-- role [text]: what the file is to the database; null in the rows for everything together
-- bin_ns [ns]: length of the bins arrivals were counted in, aligned to the recording's start
-- io_count [I/Os]: all arrivals
-- peak_count [I/Os]: arrivals in the fullest bin
-- is_total [0/1]: 1 in the rows for everything together
--
-- $layer [text]: the layer to count at
--
-- Reads: io_per_10ms
WITH

of_layer AS (
  SELECT
    device_id,
    role,
    bin,
    sum(io_count) AS io_count
  FROM io_per_10ms
  WHERE layer = $layer
  GROUP BY device_id, role, bin
),

widths AS (
  SELECT unnest([1, 10, 100]) AS width
),

per_width AS (
  SELECT
    of_layer.device_id,
    of_layer.role,
    grouping(of_layer.role) AS is_total,
    widths.width,
    floor(of_layer.bin / widths.width) AS bin,
    sum(of_layer.io_count) AS io_count
  FROM of_layer
  CROSS JOIN widths
  GROUP BY
    GROUPING SETS (
      (of_layer.device_id, of_layer.role, widths.width, floor(of_layer.bin / widths.width)),
      (widths.width, floor(of_layer.bin / widths.width))
    )
)

SELECT
  device_id,
  role,
  (width * 10000000)::BIGINT AS bin_ns,
  sum(io_count)::BIGINT AS io_count,
  max(io_count)::BIGINT AS peak_count,
  is_total
FROM per_width
GROUP BY device_id, role, is_total, width
ORDER BY is_total DESC, device_id, role, width
