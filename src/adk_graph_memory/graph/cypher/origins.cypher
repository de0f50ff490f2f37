// strongest_origin @fragment
// whose word a fact is that rests on turns: the strongest of them
head(COLLECT {
  MATCH (f)-[s:SUPPORTED_BY]->(e)
  WITH coalesce(s.origin, e.origin) AS origin
  RETURN origin ORDER BY CASE origin WHEN 'owner' THEN 0 WHEN 'user' THEN 1 WHEN 'import' THEN 2 WHEN 'document' THEN 3
    WHEN 'picture' THEN 4 WHEN 'agent' THEN 5 ELSE 6 END LIMIT 1
})
