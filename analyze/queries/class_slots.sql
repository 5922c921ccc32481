-- How many I/Os in each slot of time took no longer than given latencies, by role, operation and size class?
--
-- class_key [id]: position of the class in $classes
-- slot [number]: which slot the I/O was due in, or issued if it was not due, counted from the start of the span
-- io_count [I/Os]: I/Os of the class in the slot; failed and unfinished ones are left out
-- latency_sum_ns [ns]: exact sum of their latencies
-- below_class_count [list of I/Os]: how many did not exceed each of the class's own limits
-- below_op_count [list of I/Os]: how many did not exceed each of the limits of the whole operation
--
-- $layer [text]: the layer to look at
-- $metric [text]: service (completed - issued) or response (completed - intended)
-- $with_roles [yes/no]: whether to tell roles apart
-- $from_ns [ns]: start of the span
-- $until_ns [ns]: end of the span, not included
-- $slot_ns [ns]: length of a slot
-- $classes [list]: class_key, role, op, size_class_bytes (0: over 1 MiB), limits_ns and op_limits_ns (three each)
WITH

classes AS (
  SELECT unnest($classes, recursive := TRUE)
),

roles AS (
  SELECT
    file_id,
    role
  FROM files
  WHERE $with_roles
),

timed AS (
  SELECT
    (coalesce(intended_ns, issued_ns) - $from_ns::BIGINT) // $slot_ns::BIGINT AS slot,
    file_id,
    op,
    CASE
      WHEN size_bytes > 1048576 THEN 0
      ELSE greatest(1::BIGINT << ceil(log2(greatest(size_bytes, 1)))::BIGINT, 4096)
    END AS size_class_bytes,
    greatest(completed_ns - CASE $metric WHEN 'response' THEN intended_ns ELSE issued_ns END, 0) AS latency_ns
  FROM io
  WHERE
    layer = $layer AND error = 0 AND completed_ns IS NOT NULL
    AND issued_ns >= $from_ns AND issued_ns < $until_ns
    AND ($metric = 'service' OR intended_ns IS NOT NULL)
),

attributed AS (
  SELECT
    timed.slot,
    timed.op,
    timed.size_class_bytes,
    timed.latency_ns,
    coalesce(roles.role, 'unattributed') AS role
  FROM timed
  LEFT JOIN roles USING (file_id)
)

SELECT
  classes.class_key,
  attributed.slot,
  count(*) AS io_count,
  sum(attributed.latency_ns)::BIGINT AS latency_sum_ns,
  [
    count(*) FILTER (WHERE attributed.latency_ns <= classes.limits_ns[1]),
    count(*) FILTER (WHERE attributed.latency_ns <= classes.limits_ns[2]),
    count(*) FILTER (WHERE attributed.latency_ns <= classes.limits_ns[3])
  ] AS below_class_count,
  [
    count(*) FILTER (WHERE attributed.latency_ns <= classes.op_limits_ns[1]),
    count(*) FILTER (WHERE attributed.latency_ns <= classes.op_limits_ns[2]),
    count(*) FILTER (WHERE attributed.latency_ns <= classes.op_limits_ns[3])
  ] AS below_op_count
FROM attributed
INNER JOIN classes
  ON
    attributed.role = classes.role AND attributed.op = classes.op
    AND attributed.size_class_bytes = classes.size_class_bytes
GROUP BY classes.class_key, attributed.slot
ORDER BY classes.class_key, attributed.slot
