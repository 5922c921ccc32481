-- How many I/Os arrived in the fullest 10 ms, 100 ms and 1 s of each device and role?
--
-- scope [text]: whether the row is about one role on a device, a whole device, or all of them
-- device_id [id]: row of devices; null in scope all and where the layer does not know it
-- role [text]: what the file is to the database; null but in scope role
-- bin_ns [ns]: length of the bins arrivals were counted in, aligned to the recording's start
-- io_count [I/Os]: all arrivals
-- peak_count [I/Os]: arrivals in the fullest bin
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
    CASE grouping(of_layer.device_id, of_layer.role)
      WHEN 0 THEN 'role'
      WHEN 1 THEN 'device'
      ELSE 'all'
    END AS scope,
    of_layer.device_id,
    of_layer.role,
    widths.width,
    floor(of_layer.bin / widths.width) AS bin,
    sum(of_layer.io_count) AS io_count
  FROM of_layer
  CROSS JOIN widths
  GROUP BY
    GROUPING SETS (
      (of_layer.device_id, of_layer.role, widths.width, floor(of_layer.bin / widths.width)),
      (of_layer.device_id, widths.width, floor(of_layer.bin / widths.width)),
      (widths.width, floor(of_layer.bin / widths.width))
    )
)

SELECT
  scope,
  device_id,
  role,
  (width * 10000000)::BIGINT AS bin_ns,
  sum(io_count)::BIGINT AS io_count,
  max(io_count)::BIGINT AS peak_count
FROM per_width
GROUP BY scope, device_id, role, width
ORDER BY scope, device_id, role, width
