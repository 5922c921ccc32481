-- Do the I/Os of a recording add up to the kernel's own counters of the disks, second by second?
--
-- Bytes are held, not I/Os: merging and splitting change these and not those. They are those of requests where a disk
-- has them, else of what was asked of it. A disk is left out where the recording does not say that all of it was
-- recorded: where it has partitions, of which some may have been asked for, and no counters of the recorder's own I/O.
--
-- device_id [id]: row of devices
-- device [text]: the disk's name
-- from_ns [ns]: start of a sample of the counters
-- until_ns [ns]: end of that sample
-- counted_bytes [bytes]: what the disk read, wrote and discarded in it
-- recorded_bytes [bytes]: bytes of the I/Os that ended in it
-- own_bytes [bytes]: bytes of the recorder's own I/O, which is not recorded
-- has_own [true or false]: whether the recorder counted its own I/O
WITH

per_layer AS (
  SELECT
    device_id,
    layer,
    completed_ns // 10000000 AS bin,
    sum(size_bytes) AS size_bytes
  FROM io
  WHERE layer IN ('block', 'device') AND completed_ns IS NOT NULL AND device_id IS NOT NULL
  GROUP BY ALL
),

layer_of AS (
  SELECT
    device_id,
    max(layer) AS layer
  FROM per_layer
  GROUP BY device_id
),

told AS (
  SELECT DISTINCT instance
  FROM counters
  WHERE object = 'recorder' AND counter = 'own bytes per second'
),

held AS (
  SELECT
    devices.device_id,
    devices.name,
    layer_of.layer
  FROM devices
  INNER JOIN layer_of ON devices.device_id = layer_of.device_id
  WHERE
    devices.kind = 'disk'
    AND (
      devices.name IN (SELECT told.instance FROM told)
      OR (
        (SELECT count(*) FROM told) = 0
        AND devices.device_id NOT IN (
          SELECT parts.parent_device_id
          FROM devices AS parts
          WHERE parts.parent_device_id IS NOT NULL
        )
        AND layer_of.layer = (SELECT max(every.layer) FROM layer_of AS every)
      )
    )
),

samples AS (
  SELECT
    held.device_id,
    held.name,
    held.layer,
    counters.at_ns - counters.interval_ns AS from_ns,
    counters.at_ns AS until_ns,
    sum(counters.value * counters.interval_ns / 1e9) FILTER (
      WHERE counters.object = 'diskstats'
      AND counters.counter IN ('read bytes per second', 'write bytes per second', 'discard bytes per second')
    ) AS counted_bytes,
    coalesce(sum(counters.value * counters.interval_ns / 1e9) FILTER (
      WHERE counters.object = 'recorder' AND counters.layer = held.layer
    ), 0) AS own_bytes
  FROM counters
  INNER JOIN held ON counters.instance = held.name
  WHERE counters.interval_ns IS NOT NULL AND counters.object IN ('diskstats', 'recorder')
  GROUP BY ALL
),

recorded AS (
  SELECT
    samples.device_id,
    samples.until_ns,
    sum(per_layer.size_bytes) AS size_bytes
  FROM per_layer
  INNER JOIN held ON per_layer.device_id = held.device_id AND per_layer.layer = held.layer
  ASOF INNER JOIN samples
    ON per_layer.device_id = samples.device_id AND per_layer.bin * 10000000 <= samples.until_ns
  GROUP BY ALL
)

SELECT
  samples.device_id,
  samples.name AS device,
  samples.from_ns,
  samples.until_ns,
  samples.counted_bytes,
  coalesce(recorded.size_bytes, 0)::DOUBLE AS recorded_bytes,
  samples.own_bytes,
  (SELECT count(*) FROM told) > 0 AS has_own
FROM samples
LEFT JOIN recorded ON samples.device_id = recorded.device_id AND samples.until_ns = recorded.until_ns
WHERE samples.counted_bytes IS NOT NULL
ORDER BY samples.device_id, samples.until_ns
