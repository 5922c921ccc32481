-- Which I/Os were issued in a slice of time, in the order they are stored?
--
-- issued_ns [ns]: when it was issued, in time of the recording
-- offset_bytes [bytes]: where on its device or file it began; -1 if unknown
-- size_bytes [bytes]: bytes it asked for
-- is_finished [0/1]: 1 if its completion was seen
-- stream_key [number]: device, file and operation in one number
--
-- $layer [text]: the layer to look at
-- $from_ns [ns]: start of the slice
-- $until_ns [ns]: end of the slice, not included
-- $file_stride [number]: two more than the largest file_id, so that every file of a device gets a number of its own
SELECT
  issued_ns,
  coalesce(offset_bytes::BIGINT, -1) AS offset_bytes,
  size_bytes::BIGINT AS size_bytes,
  completed_ns IS NOT NULL AS is_finished,
  ((coalesce(device_id, -1)::BIGINT + 1) * $file_stride::BIGINT + coalesce(file_id, -1) + 1) * 4
  + CASE op WHEN 'read' THEN 0 WHEN 'write' THEN 1 WHEN 'flush' THEN 2 ELSE 3 END AS stream_key
FROM io
WHERE layer = $layer AND issued_ns >= $from_ns AND issued_ns < $until_ns
