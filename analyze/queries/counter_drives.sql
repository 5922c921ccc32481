-- What load and latency do the counters show for each drive or file?
--
-- source [text]: host or file the counters came from
-- layer [text]: layer they speak of
-- object [text]: counter object, such as PhysicalDisk or the DMV's name
-- instance [text]: drive or file; _Total is the sum of the others
-- sampled_ns [ns]: length of the time with a sample
-- read_ios_per_s [I/Os/s]: mean rate of reads
-- write_ios_per_s [I/Os/s]: mean rate of writes
-- ios_per_s [I/Os/s]: mean rate of reads and writes together
-- peak_ios_per_s [I/Os/s]: the highest rate of reads and writes together in one interval
-- read_bytes_per_s [bytes/s]: mean rate of bytes read
-- written_bytes_per_s [bytes/s]: mean rate of bytes written
-- read_size_bytes [bytes]: mean size of a read
-- write_size_bytes [bytes]: mean size of a write
-- queue_length_mean [I/Os in flight]: mean queue length over time
-- read_latency_mean_ns [ns]: mean over the reads where their rate was sampled too, else over time
-- write_latency_mean_ns [ns]: mean over the writes where their rate was sampled too, else over time
-- read_latency_max_ns [ns]: highest mean of one interval
-- write_latency_max_ns [ns]: highest mean of one interval
--
-- Reads: counter_segments
WITH

segments AS (
  SELECT
    source,
    layer,
    object,
    instance,
    (until_ns - from_ns)::DOUBLE AS weight,
    read_iops AS read_rate,
    write_iops AS write_rate,
    iops AS rate,
    read_bytes_per_second AS read_bytes,
    write_bytes_per_second AS written_bytes,
    read_size_bytes AS read_size,
    write_size_bytes AS write_size,
    queue_length,
    read_latency_ns AS read_latency,
    write_latency_ns AS write_latency
  FROM counter_segments
),

-- A mean per I/O weighs a stretch by its I/Os, a rate by its length.
sums AS (
  SELECT
    source,
    layer,
    object,
    instance,
    sum(weight) AS sampled,
    sum(read_rate * weight) / sum(weight) FILTER (WHERE read_rate IS NOT NULL) AS read_rate,
    sum(write_rate * weight) / sum(weight) FILTER (WHERE write_rate IS NOT NULL) AS write_rate,
    sum(rate * weight) / sum(weight) FILTER (WHERE rate IS NOT NULL) AS rate,
    max(coalesce(rate, read_rate + write_rate)) AS peak,
    sum(read_bytes * weight) / sum(weight) FILTER (WHERE read_bytes IS NOT NULL) AS read_bytes,
    sum(written_bytes * weight) / sum(weight) FILTER (WHERE written_bytes IS NOT NULL) AS written_bytes,
    sum(read_size * read_rate * weight)
    / nullif(sum(read_rate * weight) FILTER (WHERE read_size IS NOT NULL), 0) AS read_size,
    sum(write_size * write_rate * weight)
    / nullif(sum(write_rate * weight) FILTER (WHERE write_size IS NOT NULL), 0) AS write_size,
    sum(read_bytes * weight) FILTER (WHERE read_rate IS NOT NULL)
    / nullif(sum(read_rate * weight) FILTER (WHERE read_bytes IS NOT NULL), 0) AS read_size_of_rates,
    sum(written_bytes * weight) FILTER (WHERE write_rate IS NOT NULL)
    / nullif(sum(write_rate * weight) FILTER (WHERE written_bytes IS NOT NULL), 0) AS write_size_of_rates,
    avg(read_size) AS read_size_over_time,
    avg(write_size) AS write_size_over_time,
    sum(queue_length * weight) / sum(weight) FILTER (WHERE queue_length IS NOT NULL) AS queue_length,
    sum(read_latency * read_rate * weight)
    / nullif(sum(read_rate * weight) FILTER (WHERE read_latency IS NOT NULL), 0) AS read_latency,
    sum(write_latency * write_rate * weight)
    / nullif(sum(write_rate * weight) FILTER (WHERE write_latency IS NOT NULL), 0) AS write_latency,
    sum(read_latency * weight) / sum(weight) FILTER (WHERE read_latency IS NOT NULL) AS read_latency_over_time,
    sum(write_latency * weight) / sum(weight) FILTER (WHERE write_latency IS NOT NULL) AS write_latency_over_time,
    max(read_latency) AS read_latency_max,
    max(write_latency) AS write_latency_max
  FROM segments
  GROUP BY ALL
)

SELECT
  source,
  layer,
  object,
  instance,
  sampled::BIGINT AS sampled_ns,
  read_rate AS read_ios_per_s,
  write_rate AS write_ios_per_s,
  coalesce(rate, read_rate + write_rate) AS ios_per_s,
  peak AS peak_ios_per_s,
  read_bytes AS read_bytes_per_s,
  written_bytes AS written_bytes_per_s,
  coalesce(read_size_of_rates, read_size, read_size_over_time) AS read_size_bytes,
  coalesce(write_size_of_rates, write_size, write_size_over_time) AS write_size_bytes,
  queue_length AS queue_length_mean,
  coalesce(read_latency, read_latency_over_time) AS read_latency_mean_ns,
  coalesce(write_latency, write_latency_over_time) AS write_latency_mean_ns,
  read_latency_max AS read_latency_max_ns,
  write_latency_max AS write_latency_max_ns
FROM sums
ORDER BY source, layer, object, instance
