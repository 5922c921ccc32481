-- How are response times distributed in each stretch of the step, per role and operation?
--
-- block [index]: stretch of the step, by when the I/O was wanted
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- bucket_ns [ns]: middle of the histogram bucket, completed minus wanted
-- io_count [I/Os]: I/Os in the bucket
--
-- $layer [text]: the layer to measure at
-- $start_ns [ns]: where block 0 begins
-- $block_ns [ns]: length of a block
WITH

responses AS (
  SELECT
    (coalesce(intended_ns, issued_ns) - $start_ns) // $block_ns AS block,
    file_id,
    op,
    latency_bucket_ns(completed_ns - coalesce(intended_ns, issued_ns)) AS bucket_ns
  FROM io
  WHERE layer = $layer AND completed_ns IS NOT NULL AND error = 0 AND op IN ('read', 'write', 'flush')
),

counted AS (
  SELECT
    block,
    file_id,
    op,
    bucket_ns,
    count(*) AS io_count
  FROM responses
  GROUP BY ALL
)

SELECT
  counted.block,
  coalesce(files.role, 'unattributed') AS role,
  counted.op,
  counted.bucket_ns,
  sum(counted.io_count)::BIGINT AS io_count
FROM counted
LEFT JOIN files USING (file_id)
GROUP BY ALL
ORDER BY ALL
