// word_legs @fragment
// the legs that look for words: in memories, and in names that lead to facts
  CALL db.index.fulltext.queryNodes($text_index, $text_query, {limit: $by_words}) YIELD node, score
  WHERE node.scope = $scope
  RETURN node, score, 'text' AS leg
  UNION ALL
  CALL db.index.fulltext.queryNodes('@entity_text', $name_query, {limit: $names}) YIELD node AS entity, score
  WHERE entity.scope = $scope
  CALL (entity) { MATCH (entity)<-[:SUBJECT|OBJECT]-(node:@Fact) RETURN node LIMIT $degree }
  RETURN node, score, 'entity' AS leg

// chosen @fragment
// whether a memory is what a caller's filters leave; without any, everything is
($filters IS NULL OR (
  ($filters.kind IS NULL OR node.kind = $filters.kind)
  AND ($filters.since IS NULL OR node.timestamp >= $filters.since)
  AND ($filters.until IS NULL OR node.timestamp <= $filters.until)
  AND ($filters.topic IS NULL OR node.topic = $filters.topic)
  AND ($filters.session_id IS NULL OR node.session_id = $filters.session_id
    OR EXISTS { MATCH (node)-[:SUPPORTED_BY]->(e:@Event) WHERE e.session_id = $filters.session_id })
  AND ($filters.entity IS NULL OR EXISTS {
    MATCH (node)-[:SUBJECT|OBJECT|MENTIONS]->(n:@Entity)
    WHERE any(name IN [n.name] + n.aliases WHERE toLower(name) = toLower($filters.entity))
  })
))

// state_then @fragment
// a fact's state as it was known at $until: what took its place may have been said later
CASE WHEN $until IS NOT NULL AND node.state = 'superseded' AND EXISTS { (node)<-[:SUPERSEDES]-(:@Fact) }
  AND NOT EXISTS { MATCH (node)<-[:SUPERSEDES]-(newer:@Fact) WHERE newer.timestamp <= $until }
  THEN 'current' ELSE node.state END

// successors @fragment
// what took a fact's place, and what took that one's; of many what still holds first, for all that ended one may be linked
CASE node.state WHEN 'superseded' THEN COLLECT {
  MATCH (node)<-[:SUPERSEDES]-(one:@Fact) WHERE $until IS NULL OR one.timestamp <= $until
  WITH one ORDER BY one.state = 'superseded', one.timestamp DESC LIMIT 3
  OPTIONAL MATCH (one)<-[:SUPERSEDES]-(other:@Fact) WHERE $until IS NULL OR other.timestamp <= $until
  WITH one, other ORDER BY other.state = 'superseded', other.timestamp DESC LIMIT 6
  UNWIND [one, other] AS later
  WITH later WHERE later IS NOT NULL
  RETURN DISTINCT later
} ELSE [] END

// candidates @fragment
// one row. candidates: of each memory found, of the turns that it rests on, the turn that follows it, and what took its place
// [id, kind, score by text, by vector, by entity, keys of the entities it speaks of, ids of the turns that it rests on, state,
// since and until when it holds, ids of the facts that took its place], and of turns further [role, author, time, session,
// characters, whether it asks, whether it ends so, id of the turn that follows]. texts: of those that words found best.
// live: the slot. writes: how often the user was written to. usual: how near the question is to some of what this user says
WITH node, max(CASE leg WHEN 'text' THEN score END) AS text, max(CASE leg WHEN 'vector' THEN score END) AS vector,
     max(CASE leg WHEN 'entity' THEN score END) AS entity
OPTIONAL MATCH (node)-[:NEXT|SUPPORTED_BY]->(beside:@Memory)
WITH node, text, vector, entity, collect(beside) AS beside
UNWIND [node] + beside +
// include successors
AS found
WITH found AS node, max(CASE node WHEN found THEN text END) AS text, max(CASE node WHEN found THEN vector END) AS vector,
     max(CASE node WHEN found THEN entity END) AS entity
WHERE
// include chosen
OPTIONAL MATCH (node)-[r:NEXT|SUPPORTED_BY|SUBJECT|OBJECT|MENTIONS]->(other)
WITH node, text, vector, entity, node.text AS told, max(CASE type(r) WHEN 'NEXT' THEN other.memory_id END) AS follower,
     collect(CASE type(r) WHEN 'SUPPORTED_BY' THEN other.memory_id END) AS sources, collect(other.key) AS entities
ORDER BY text IS NULL, text DESC
WITH collect(CASE node.kind WHEN 'event' THEN [
  node.memory_id, 'event', text, vector, entity, entities, [], null, null, null, null,
  node.role, node.author, node.timestamp, node.session_id, size(told), any(mark IN ['?', '？', '؟'] WHERE told CONTAINS mark),
  any(mark IN ['?', '？', '؟'] WHERE right(told, 4) CONTAINS mark), follower
] ELSE [
  node.memory_id, 'fact', text, vector, entity, entities, sources,
// include state_then
  , node.valid_from.epochSeconds, node.valid_to.epochSeconds,
  CASE node.state WHEN 'superseded' THEN [later IN
// include successors
  | later.memory_id] END
] END) AS candidates, collect(CASE WHEN text IS NOT NULL THEN left(told, $readable) END)[..$read] AS texts
OPTIONAL MATCH (m:@Meta {key: 'schema'})
OPTIONAL MATCH (u:@User {scope: $scope})

// background @fragment
// how near the question is to what this user says as a rule, told from some of it
RETURN candidates, texts, m.live AS live, coalesce(u.writes, 0) AS writes, COLLECT {
  MATCH (some:@Memory {scope: $scope})
  WHERE some.memory_id IS NOT NULL
  WITH some[$slot] AS known WHERE size(known) = size($vector)
  RETURN vector.similarity.cosine(known, $vector) LIMIT $sample
} AS usual

// speakers
// one row: the names of each author of the user's turns, that on the turns first; how often the user was written to
OPTIONAL MATCH (u:@User {scope: $scope})
WITH coalesce(u.authors, []) AS authors, coalesce(u.writes, 0) AS writes
WITH authors, writes, COLLECT {
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND any(name IN [n.name] + n.aliases WHERE name IN authors)
  RETURN [n.name] + n.aliases
} AS known
RETURN writes, COLLECT {
  UNWIND authors AS author
  RETURN [author] + COLLECT {
    UNWIND [names IN known WHERE author IN names] AS names
    UNWIND names AS name
    WITH name WHERE name <> author
    RETURN DISTINCT name
  }
} AS speakers

// legs_text
// candidates by words alone
CALL () {
// include word_legs
}
// include candidates
RETURN candidates, texts, m.live AS live, coalesce(u.writes, 0) AS writes, [] AS usual

// legs_a @2026
// candidates by words and by the vectors of slot a
CYPHER 25
CALL () {
// include word_legs
  UNION ALL
  MATCH (node:@Memory)
  SEARCH node IN (VECTOR INDEX @memory_vector_a FOR $vector WHERE node.scope = $scope LIMIT $by_vector) SCORE AS score
  RETURN node, score, 'vector' AS leg
}
// include candidates
// include background

// legs_b @2026
// candidates by words and by the vectors of slot b
CYPHER 25
CALL () {
// include word_legs
  UNION ALL
  MATCH (node:@Memory)
  SEARCH node IN (VECTOR INDEX @memory_vector_b FOR $vector WHERE node.scope = $scope LIMIT $by_vector) SCORE AS score
  RETURN node, score, 'vector' AS leg
}
// include candidates
// include background

// legs_scan
// candidates by words and by comparing every vector of the scope: where there is no vector index, or only some are wanted
CALL () {
// include word_legs
  UNION ALL
  MATCH (node:@Memory {scope: $scope})
  WHERE node.memory_id IS NOT NULL AND node[$slot] IS NOT NULL AND size(node[$slot]) = size($vector) AND
// include chosen
  WITH node, vector.similarity.cosine(node[$slot], $vector) AS score ORDER BY score DESC LIMIT $by_vector
  RETURN node, score, 'vector' AS leg
}
// include candidates
// include background

// hits
// a row a hit, best first, with `node` and `score` bound for the retrieval query that follows
UNWIND $hits AS hit
MATCH (node:@Memory {scope: $scope, memory_id: hit.id})
WITH node, hit.score AS score ORDER BY score DESC
RETURN node, score

// retrieval_query @fragment
// a row a hit, best first: a turn, with the question that it answers where it is short, or a fact with the words that
// support it and what it is about
OPTIONAL MATCH (node)-[support:SUPPORTED_BY]->(source:@Event)
WITH node, score, support, source ORDER BY score DESC, node.memory_id, source.timestamp, source.seq
WITH node, score, collect(source.id) AS source_ids, collect(support.quote) AS quotes, collect(source.session_id) AS sessions,
     collect(coalesce(support.verified, true)) AS verified
OPTIONAL MATCH (node)-[:SUBJECT]->(subject:@Entity)
OPTIONAL MATCH (node)-[:OBJECT]->(object:@Entity)
WITH *
ORDER BY score DESC, node.memory_id
RETURN node.text AS text, score, node.memory_id AS id, node.kind AS kind, node.author AS author,
       node.timestamp AS timestamp, node.valid_from AS valid_from, node.valid_to AS valid_to, node.metadata AS metadata,
       CASE node.kind WHEN 'event' THEN [node.id] ELSE source_ids END AS source_event_ids,
       CASE node.kind WHEN 'event' THEN node.session_id ELSE head(sessions) END AS session_id,
       head(quotes) AS quote, subject.name AS subject, node.predicate AS predicate, object.name AS object,
       CASE node.topic WHEN '' THEN null ELSE node.topic END AS topic,
       CASE WHEN node.kind = 'event' AND size(node.text) <= 60 THEN head(COLLECT {
         MATCH (before:@Memory)-[:NEXT]->(node)
         WHERE any(mark IN ['?', '？', '؟'] WHERE right(before.text, 4) CONTAINS mark)
         RETURN before.text LIMIT 1
       }) END AS asked,
       COLLECT {
         MATCH (node)-[:SUPERSEDES]->(earlier:@Fact) WHERE earlier.state = 'superseded'
         RETURN earlier.text ORDER BY earlier.timestamp DESC LIMIT 3
       } AS previously,
// include state_then
       AS state,
       CASE WHEN node.stale THEN true END AS stale, CASE WHEN verified <> [] AND NOT true IN verified THEN false END AS verified
