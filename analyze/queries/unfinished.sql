-- Which I/Os have no end, and how long had they waited when the recording ended?
--
-- op [text]: what was asked of the storage
-- role [text]: what the file is to the database; unattributed where no file is known
-- slot [number]: which slot the I/O was due in, or issued if it was not due, counted from the start of the span
-- bucket_ns [ns]: wait that stands for the bucket, within 0.05 %
-- io_count [I/Os]: I/Os in the bucket
--
-- $layer [text]: the layer to look at
-- $metric [text]: service (since issued) or response (since intended)
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $slot_ns [ns]: length of a slot
-- $ended_ns [ns]: when the recording ended
WITH

waiting AS (
  SELECT
    op,
    file_id,
    (coalesce(intended_ns, issued_ns) - $from_ns::BIGINT) // $slot_ns::BIGINT AS slot,
    greatest($ended_ns::BIGINT - CASE $metric WHEN 'response' THEN intended_ns ELSE issued_ns END, 0) AS waited_ns
  FROM io
  WHERE
    layer = $layer AND completed_ns IS NULL
    AND issued_ns >= $from_ns AND issued_ns < $until_ns
    AND ($metric = 'service' OR intended_ns IS NOT NULL)
)

SELECT
  waiting.op,
  coalesce(files.role, 'unattributed') AS role,
  waiting.slot,
  latency_bucket_ns(waiting.waited_ns) AS bucket_ns,
  count(*) AS io_count
FROM waiting
LEFT JOIN files USING (file_id)
GROUP BY ALL
ORDER BY ALL
