-- What do the counters of each drive or file show at the same time, stretch by stretch?
--
-- Values that are sampled at different intervals, or by several logs, hold side by side here: within a stretch none of
-- them changes. Where two samples of one counter overlap, the later one holds from the end of the earlier on; of two
-- that end together the shorter holds. A counter without a sample in a stretch is null.
--
-- source [text]: host or file the counters came from
-- layer [text]: layer they speak of
-- object [text]: counter object, such as PhysicalDisk or the DMV's name
-- instance [text]: drive or file; _Total is the sum of the others
-- from_ns [ns]: start of the stretch
-- until_ns [ns]: end of the stretch
-- read_iops [1/s]: rate of reads
-- write_iops [1/s]: rate of writes
-- iops [1/s]: rate of reads and writes together
-- read_bytes_per_second [unit of metric]: bytes/s, rate of bytes read
-- write_bytes_per_second [unit of metric]: bytes/s, rate of bytes written
-- bytes_per_second [unit of metric]: bytes/s, rate of bytes read and written together
-- read_size_bytes [bytes]: mean size of a read
-- write_size_bytes [bytes]: mean size of a write
-- queue_length [I/Os in flight]: mean queue length
-- in_flight [I/Os in flight]: queue length at the moment in which the stretch starts, where it was looked at then
-- read_latency_ns [ns]: mean latency of a read
-- write_latency_ns [ns]: mean latency of a write
-- latency_ns [ns]: mean latency of reads and writes together
-- read_latency_until_ns [ns]: end of the sample that the mean latency of a read comes from
-- write_latency_until_ns [ns]: end of the sample that the mean latency of a write comes from
-- latency_until_ns [ns]: end of the sample that latency_ns comes from
WITH

samples AS (
  SELECT
    source,
    layer,
    object,
    instance,
    metric,
    value,
    at_ns AS until_ns,
    greatest(
      at_ns - greatest(coalesce(interval_ns, 1), 1),
      coalesce(lag(at_ns) OVER series, at_ns - greatest(coalesce(interval_ns, 1), 1))
    ) AS from_ns
  FROM counters
  WHERE
    metric IN (
      'read_iops', 'write_iops', 'iops', 'read_bytes_per_second', 'write_bytes_per_second', 'bytes_per_second',
      'read_size_bytes', 'write_size_bytes', 'queue_length', 'read_latency_ns', 'write_latency_ns', 'latency_ns'
    )
    AND isfinite(value)
  WINDOW series AS (
    PARTITION BY source, layer, object, instance, metric
    ORDER BY at_ns, coalesce(interval_ns, 1), value DESC
  )
),

-- A sample holds from its start on, and nothing (NaN) from its end on, unless another one starts there.
changes AS (
  SELECT
    source,
    layer,
    object,
    instance,
    metric,
    from_ns AS at_ns,
    value,
    until_ns
  FROM samples
  WHERE from_ns < until_ns
  UNION ALL
  SELECT
    source,
    layer,
    object,
    instance,
    metric,
    until_ns AS at_ns,
    'nan'::DOUBLE AS value,
    NULL AS until_ns
  FROM samples
  WHERE from_ns < until_ns
  UNION ALL
  SELECT
    source,
    layer,
    object,
    instance,
    metric,
    at_ns,
    value,
    NULL AS until_ns
  FROM counters
  WHERE metric = 'in_flight' AND isfinite(value)
),

moments AS (
  SELECT
    source,
    layer,
    object,
    instance,
    at_ns,
    min(value) FILTER (WHERE metric = 'read_iops') AS read_iops,
    min(value) FILTER (WHERE metric = 'write_iops') AS write_iops,
    min(value) FILTER (WHERE metric = 'iops') AS iops,
    min(value) FILTER (WHERE metric = 'read_bytes_per_second') AS read_bytes_per_second,
    min(value) FILTER (WHERE metric = 'write_bytes_per_second') AS write_bytes_per_second,
    min(value) FILTER (WHERE metric = 'bytes_per_second') AS bytes_per_second,
    min(value) FILTER (WHERE metric = 'read_size_bytes') AS read_size_bytes,
    min(value) FILTER (WHERE metric = 'write_size_bytes') AS write_size_bytes,
    min(value) FILTER (WHERE metric = 'queue_length') AS queue_length,
    min(value) FILTER (WHERE metric = 'in_flight') AS in_flight,
    min(value) FILTER (WHERE metric = 'read_latency_ns') AS read_latency_ns,
    min(value) FILTER (WHERE metric = 'write_latency_ns') AS write_latency_ns,
    min(value) FILTER (WHERE metric = 'latency_ns') AS latency_ns,
    min(until_ns) FILTER (WHERE metric = 'read_latency_ns') AS read_latency_until_ns,
    min(until_ns) FILTER (WHERE metric = 'write_latency_ns') AS write_latency_until_ns,
    min(until_ns) FILTER (WHERE metric = 'latency_ns') AS latency_until_ns
  FROM changes
  GROUP BY source, layer, object, instance, at_ns
),

segments AS (
  SELECT
    source,
    layer,
    object,
    instance,
    at_ns AS from_ns,
    lead(at_ns) OVER moments_of_one AS until_ns,
    nullif(last_value(read_iops IGNORE NULLS) OVER moments_of_one, 'nan') AS read_iops,
    nullif(last_value(write_iops IGNORE NULLS) OVER moments_of_one, 'nan') AS write_iops,
    nullif(last_value(iops IGNORE NULLS) OVER moments_of_one, 'nan') AS iops,
    nullif(last_value(read_bytes_per_second IGNORE NULLS) OVER moments_of_one, 'nan') AS read_bytes_per_second,
    nullif(last_value(write_bytes_per_second IGNORE NULLS) OVER moments_of_one, 'nan') AS write_bytes_per_second,
    nullif(last_value(bytes_per_second IGNORE NULLS) OVER moments_of_one, 'nan') AS bytes_per_second,
    nullif(last_value(read_size_bytes IGNORE NULLS) OVER moments_of_one, 'nan') AS read_size_bytes,
    nullif(last_value(write_size_bytes IGNORE NULLS) OVER moments_of_one, 'nan') AS write_size_bytes,
    nullif(last_value(queue_length IGNORE NULLS) OVER moments_of_one, 'nan') AS queue_length,
    in_flight,
    nullif(last_value(read_latency_ns IGNORE NULLS) OVER moments_of_one, 'nan') AS read_latency_ns,
    nullif(last_value(write_latency_ns IGNORE NULLS) OVER moments_of_one, 'nan') AS write_latency_ns,
    nullif(last_value(latency_ns IGNORE NULLS) OVER moments_of_one, 'nan') AS latency_ns,
    last_value(read_latency_until_ns IGNORE NULLS) OVER moments_of_one AS read_latency_until_ns,
    last_value(write_latency_until_ns IGNORE NULLS) OVER moments_of_one AS write_latency_until_ns,
    last_value(latency_until_ns IGNORE NULLS) OVER moments_of_one AS latency_until_ns
  FROM moments
  WINDOW moments_of_one AS (PARTITION BY source, layer, object, instance ORDER BY at_ns)
)

SELECT *
FROM segments
WHERE
  until_ns IS NOT NULL
  AND coalesce(
    read_iops, write_iops, iops, read_bytes_per_second, write_bytes_per_second, bytes_per_second,
    read_size_bytes, write_size_bytes, queue_length, read_latency_ns, write_latency_ns, latency_ns
  ) IS NOT NULL
ORDER BY source, layer, object, instance, from_ns
