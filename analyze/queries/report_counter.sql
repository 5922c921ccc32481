-- What did one performance counter show over time, in a bounded number of points?
--
-- at_ns [ns]: end of the point's interval
-- value [unit]: mean of the values in it
-- unit [text]: unit of the values
--
-- $object [text]: counter object
-- $instance [text]: instance within the object; empty where it has none
-- $counter [text]: counter name
-- $start_ns [ns]: start of the time shown
-- $end_ns [ns]: end of the time shown
-- $points_max [points]: how many points at most
SELECT
  max(at_ns) AS at_ns,
  avg(value) AS value,
  any_value(unit) AS unit
FROM counters
WHERE
  object = $object
  AND coalesce(instance, '') = $instance
  AND counter = $counter
  AND at_ns > $start_ns
  AND at_ns <= $end_ns
GROUP BY floor((at_ns - $start_ns)::DOUBLE / greatest($end_ns - $start_ns, 1) * $points_max)
ORDER BY max(at_ns)
