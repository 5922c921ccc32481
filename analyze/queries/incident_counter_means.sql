-- Which counters tell of latency and load, value by value?
--
-- at_ns [ns]: end of the interval the value stands for
-- interval_ns [ns]: length of that interval
-- source [text]: host or file the counter came from
-- object [text]: counter object
-- instance [text]: what the object counts for
-- layer [text]: layer it speaks of
-- metric [text]: common name across sources
-- value [unit of metric]: the value
--
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, included
SELECT
  at_ns,
  interval_ns,
  source,
  object,
  coalesce(instance, '') AS instance,
  layer,
  metric,
  value
FROM counters
WHERE
  layer IS NOT NULL
  AND metric IN (
    'read_latency_ns', 'write_latency_ns', 'latency_ns', 'read_iops', 'write_iops', 'iops',
    'read_bytes_per_second', 'write_bytes_per_second', 'bytes_per_second', 'queue_length'
  )
  AND at_ns > $from_ns
  AND at_ns <= $until_ns
  AND isfinite(value)
ORDER BY at_ns, source, object, instance, metric
