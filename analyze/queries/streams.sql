-- What did each file ask of each device, by operation?
--
-- device_id [id]: row of devices; null where the layer does not know it
-- file_id [id]: row of files; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- io_count [I/Os]: I/Os asked for, failed ones included
-- size_bytes [bytes]: bytes asked for, all I/Os together
-- failed_count [I/Os]: I/Os that ended with an error
-- unfinished_count [I/Os]: I/Os whose end was not seen
--
-- $layer [text]: the layer to count at
--
-- Reads: io_rollup
SELECT
  device_id,
  file_id,
  role,
  op,
  sum(io_count)::BIGINT AS io_count,
  sum(size_bytes * io_count)::BIGINT AS size_bytes,
  sum(failed_count)::BIGINT AS failed_count,
  sum(unfinished_count)::BIGINT AS unfinished_count
FROM io_rollup
WHERE layer = $layer
GROUP BY device_id, file_id, role, op
ORDER BY device_id, file_id, op
