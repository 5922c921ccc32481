-- Which markers are in a stretch of time, or began shortly before it?
--
-- kind [text]: checkpoint, backup, log_flush, autogrow, note
-- text [text]: details in the source's words
-- at_ns [ns]: when it began
-- duration_ns [ns]: how long it lasted; null for an instant
--
-- $from_ns [ns]: start of the stretch
-- $until_ns [ns]: end of the stretch, not included
-- $lead_ns [ns]: how long before the start still counts
SELECT
  kind,
  text,
  at_ns,
  duration_ns
FROM markers
WHERE at_ns < $until_ns AND at_ns + coalesce(duration_ns, 0) >= $from_ns::BIGINT - $lead_ns::BIGINT
ORDER BY at_ns, kind, text
