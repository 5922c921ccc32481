-- How many different blocks did the reads and writes of a span of time touch?
--
-- touched_count [blocks]: different blocks read or written
-- read_touched_count [blocks]: different blocks read
-- written_touched_count [blocks]: different blocks written
--
-- $layer [text]: the layer to count at; offsets are on the device (block, device) or in the file (sql, filesystem)
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $block_bytes [bytes]: granularity; an I/O touches every block it overlaps
WITH

-- A word holds one bit for each of 62 neighbouring blocks, so a hundred million I/Os become a small table.
extents AS (
  SELECT
    device_id,
    op,
    -- Only above the block layer are two files' equal offsets different places.
    CASE WHEN $layer IN ('sql', 'filesystem') THEN file_id END AS place_id,
    (offset_bytes // $block_bytes::UBIGINT)::BIGINT AS first,
    ((offset_bytes + size_bytes - 1) // $block_bytes::UBIGINT)::BIGINT AS last
  FROM io
  WHERE
    layer = $layer AND op IN ('read', 'write') AND size_bytes > 0
    AND issued_ns >= $from_ns AND issued_ns < $until_ns
),

pieces AS (
  SELECT
    device_id,
    op,
    place_id,
    first // 62 AS word,
    CASE
      WHEN first // 62 = last // 62 THEN ((1::BIGINT << (last - first + 1)) - 1) << (first % 62)
      ELSE (1::BIGINT << 62) - (1::BIGINT << (first % 62))
    END AS mask
  FROM extents
  UNION ALL
  SELECT
    device_id,
    op,
    place_id,
    word,
    CASE WHEN word = last // 62 THEN (1::BIGINT << (last % 62 + 1)) - 1 ELSE (1::BIGINT << 62) - 1 END AS mask
  FROM (
    SELECT
      device_id,
      op,
      place_id,
      last,
      unnest(range(first // 62 + 1, last // 62 + 1)) AS word
    FROM extents
    WHERE first // 62 < last // 62
  ) AS further_words
),

words AS (
  SELECT
    device_id,
    place_id,
    word,
    coalesce(bit_or(mask) FILTER (WHERE op = 'read'), 0) AS read_mask,
    coalesce(bit_or(mask) FILTER (WHERE op = 'write'), 0) AS written_mask
  FROM pieces
  GROUP BY device_id, place_id, word
)

SELECT
  coalesce(sum(bit_count(read_mask | written_mask)), 0)::BIGINT AS touched_count,
  coalesce(sum(bit_count(read_mask)), 0)::BIGINT AS read_touched_count,
  coalesce(sum(bit_count(written_mask)), 0)::BIGINT AS written_touched_count
FROM words
