-- How many different blocks did each device and role touch?
--
-- scope [text]: whether the row is about one role on a device, or a whole device
-- device_id [id]: row of devices; null where the layer does not know it
-- role [text]: what the file is to the database; null but in scope role
-- touched_count [blocks]: different blocks read or written
-- read_touched_count [blocks]: different blocks read
-- written_touched_count [blocks]: different blocks written
--
-- $layer [text]: the layer to count at; offsets are on the device (block, device) or in the file (sql, filesystem)
-- $block_bytes [bytes]: granularity; an I/O touches every block it overlaps
WITH

-- A word holds one bit for each of 62 neighbouring blocks, so a hundred million I/Os become a small table.
extents AS NOT MATERIALIZED (
  SELECT
    device_id,
    file_id,
    op,
    (offset_bytes // $block_bytes::UBIGINT)::BIGINT AS first,
    ((offset_bytes + greatest(size_bytes, 1) - 1) // $block_bytes::UBIGINT)::BIGINT AS last,
    size_bytes = 0 AS is_empty
  FROM io
  WHERE layer = $layer
),

-- Few I/Os reach into a second word.
further_words AS (
  SELECT
    device_id,
    file_id,
    op,
    last,
    unnest(range(first // 62 + 1, last // 62 + 1)) AS word
  FROM extents
  WHERE first // 62 < last // 62
),

pieces AS (
  SELECT
    device_id,
    file_id,
    op,
    first // 62 AS word,
    CASE
      WHEN is_empty THEN 0
      WHEN first // 62 = last // 62 THEN ((1::BIGINT << (last - first + 1)) - 1) << (first % 62)
      ELSE (1::BIGINT << 62) - (1::BIGINT << (first % 62))
    END AS mask
  FROM extents
  UNION ALL
  SELECT
    device_id,
    file_id,
    op,
    word,
    CASE WHEN word = last // 62 THEN (1::BIGINT << (last % 62 + 1)) - 1 ELSE (1::BIGINT << 62) - 1 END AS mask
  FROM further_words
),

words_of_files AS (
  SELECT
    device_id,
    file_id,
    word,
    -- Only above the block layer are two files' equal offsets different places.
    CASE WHEN $layer IN ('sql', 'filesystem') THEN file_id END AS place_id,
    coalesce(bit_or(mask) FILTER (WHERE op = 'read'), 0) AS read_mask,
    coalesce(bit_or(mask) FILTER (WHERE op = 'write'), 0) AS written_mask
  FROM pieces
  GROUP BY ALL
  -- Cheaper here than in the scan: I/Os of unknown place, and those that move nothing.
  HAVING word IS NOT NULL AND bit_or(mask) FILTER (WHERE op IN ('read', 'write')) <> 0
),

words AS (
  SELECT
    words_of_files.device_id,
    coalesce(files.role, 'unattributed') AS role,
    words_of_files.place_id,
    words_of_files.word,
    words_of_files.read_mask,
    words_of_files.written_mask
  FROM words_of_files
  LEFT JOIN files USING (file_id)
),

merged AS (
  SELECT
    device_id,
    role,
    place_id,
    word,
    CASE grouping(role) WHEN 0 THEN 'role' ELSE 'device' END AS scope,
    bit_or(read_mask) AS read_mask,
    bit_or(written_mask) AS written_mask
  FROM words
  GROUP BY GROUPING SETS ((device_id, role, place_id, word), (device_id, place_id, word))
)

SELECT
  scope,
  device_id,
  role,
  sum(bit_count(read_mask | written_mask))::BIGINT AS touched_count,
  sum(bit_count(read_mask))::BIGINT AS read_touched_count,
  sum(bit_count(written_mask))::BIGINT AS written_touched_count
FROM merged
GROUP BY scope, device_id, role
ORDER BY scope, device_id, role
