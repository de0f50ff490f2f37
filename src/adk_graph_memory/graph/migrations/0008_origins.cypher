// turn_origins
MATCH (e:@Event)
WHERE e.memory_id IS NOT NULL AND (e.origin IS NULL OR (e.manner IS NOT NULL AND e.writer IS NULL))
CALL (e) {
  SET e.writer = CASE WHEN e.manner IS NOT NULL THEN coalesce(e.origin, '') END,
    e.origin = CASE WHEN e.session_id = ':owner:' THEN 'owner' WHEN e.role = 'model' THEN 'agent' ELSE 'user' END
} IN TRANSACTIONS OF 5000 ROWS

// fact_origins
MATCH (f:@Fact)
WHERE f.id IS NOT NULL AND f.origin IS NULL
CALL (f) {
  SET f.origin = CASE WHEN f.direct THEN CASE f.author WHEN 'user' THEN 'user' ELSE 'import' END ELSE head(COLLECT {
    MATCH (f)-[:SUPPORTED_BY]->(e)
    RETURN e.origin AS origin
    ORDER BY CASE e.origin WHEN 'owner' THEN 0 WHEN 'user' THEN 1 ELSE 2 END LIMIT 1
  }) END
} IN TRANSACTIONS OF 5000 ROWS
