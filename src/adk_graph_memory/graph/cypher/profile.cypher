// profile_facts
// one row: the names of those who speak as the user ('user' or the user's id, or else all people who speak); and the facts that
// hold of them or of somebody with such a name, of their agents if they told them, or of nobody if they were told to memory itself: of each predicate the best
OPTIONAL MATCH (u:@User {scope: $scope})
WITH coalesce(u.authors, []) AS authors
WITH [name IN authors WHERE coalesce(head(COLLECT {
       MATCH (e:@Event {scope: $scope}) WHERE e.memory_id IS NOT NULL AND e.author = name RETURN e.role LIMIT 1
     }), 'user') <> 'model'] AS people, authors
WITH authors, people, [name IN people WHERE toLower(name) IN ['user', toLower($user_id)]] AS own
WITH authors, people, CASE WHEN size(own) > 0 THEN own ELSE people END AS speakers
WITH speakers, [name IN authors WHERE NOT name IN people] AS agents
WITH speakers, COLLECT {
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND
    any(name IN [n.name] + n.aliases WHERE name IN speakers OR toLower(name) IN ['user', toLower($user_id)])
  RETURN n
} AS users, COLLECT {
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND any(name IN [n.name] + n.aliases WHERE name IN agents)
  RETURN n
} AS bots
CALL (speakers, users, bots) {
  UNWIND users AS n
  MATCH (n)<-[r:SUBJECT|OBJECT]-(f:@Fact)
  RETURN f, toLower(type(r)) AS place
  UNION
  UNWIND [n IN bots WHERE NOT n IN users] AS n
  MATCH (n)<-[:SUBJECT]-(f:@Fact) WHERE f.author IN speakers
  RETURN f, 'agent' AS place
  UNION
  MATCH (f:@Fact {scope: $scope}) WHERE f.id IS NOT NULL AND f.direct
  RETURN f, 'nowhere' AS place
}
WITH speakers, f, place
WHERE f.modality IN $modalities AND coalesce(f.valid_from <= $now, true) AND
// include fact_stands
  AND
// include holds
WITH speakers, f, place ORDER BY f.support DESC, f.timestamp DESC, f.id
WITH speakers, place, f.predicate AS predicate, collect(f) AS facts
WITH speakers, place, facts[..CASE predicate WHEN 'states' THEN $statements ELSE $each END] AS facts
UNWIND facts AS f
WITH speakers, collect(f {place: place, .support,
// include listed_fact
})[..$most] AS facts
RETURN speakers, facts

// fact_sources
// a row for each of these facts: the words that it rests on
MATCH (f:@Memory {scope: $scope}) WHERE f:@Fact AND f.memory_id IN $ids
RETURN f.memory_id AS id,
// include listed_sources
  AS sources
