-- Which kinds of events were recorded beside the I/Os?
--
-- kind [text]: checkpoint, backup, log_flush, autogrow, note
-- marker_count [events]: events of that kind
-- first_at_ns [ns]: when the first began
-- last_at_ns [ns]: when the last began
-- lasted_max_ns [ns]: how long the longest lasted; null where all were instants
-- first_text [text]: details of the first in the source's words
SELECT
  kind,
  count(*) AS marker_count,
  min(at_ns) AS first_at_ns,
  max(at_ns) AS last_at_ns,
  max(duration_ns) AS lasted_max_ns,
  arg_min(text, at_ns) AS first_text
FROM markers
GROUP BY kind
ORDER BY marker_count DESC, kind
