-- Which counters show latency and load, stretch by stretch, for each drive, file or host?
--
-- layer [text]: layer it speaks of
-- object [text]: counter object
-- source [text]: host or file the counter came from
-- instance [text]: what the object counts for
-- instance_number [number]: one number for the rows of one layer, object, source and instance
-- from_ns [ns]: start of the stretch
-- until_ns [ns]: end of the stretch
-- read_iops [1/s]: rate of reads
-- write_iops [1/s]: rate of writes
-- iops [1/s]: rate of both
-- read_bytes_per_second [unit of metric]: bytes/s, rate of bytes read
-- write_bytes_per_second [unit of metric]: bytes/s, rate of bytes written
-- bytes_per_second [unit of metric]: bytes/s, rate of both
-- queue_length [I/Os in flight]: mean queue length
-- in_flight [I/Os in flight]: queue length at the moment in which the stretch starts, where it was looked at then
-- read_latency_ns [ns]: mean latency of a read
-- write_latency_ns [ns]: mean latency of a write
-- latency_ns [ns]: mean latency of both
-- read_latency_until_ns [ns]: end of the sample that the mean latency of a read comes from
-- write_latency_until_ns [ns]: the same of writes
-- latency_until_ns [ns]: the same of both
--
-- Reads: counter_segments
SELECT
  layer,
  object,
  source,
  coalesce(instance, '') AS instance,
  dense_rank() OVER (ORDER BY layer, object, source, instance) AS instance_number,
  from_ns,
  until_ns,
  read_iops,
  write_iops,
  iops,
  read_bytes_per_second,
  write_bytes_per_second,
  bytes_per_second,
  queue_length,
  in_flight,
  read_latency_ns,
  write_latency_ns,
  latency_ns,
  read_latency_until_ns,
  write_latency_until_ns,
  latency_until_ns
FROM counter_segments
WHERE layer IS NOT NULL
ORDER BY instance_number, from_ns
