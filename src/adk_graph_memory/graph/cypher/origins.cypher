// strongest_origin @fragment
// whose word a fact is that rests on turns: the strongest of them
head(COLLECT {
  MATCH (f)-[:SUPPORTED_BY]->(e)
  RETURN e.origin AS origin
  ORDER BY CASE e.origin WHEN 'owner' THEN 0 WHEN 'user' THEN 1 WHEN 'import' THEN 2 WHEN 'document' THEN 3 WHEN 'agent' THEN 4 ELSE 5 END LIMIT 1
})
