// word_legs @fragment
// the legs that look for words: in memories, and in names that lead to facts
  CALL db.index.fulltext.queryNodes('@memory_text', $text_query, {limit: $fetch}) YIELD node, score
  WHERE node.scope = $scope AND node.open
  RETURN node, score, 'text' AS leg
  UNION ALL
  CALL db.index.fulltext.queryNodes('@entity_text', $name_query, {limit: $names}) YIELD node AS entity, score
  WHERE entity.scope = $scope
  CALL (entity) { MATCH (entity)<-[:SUBJECT|OBJECT]-(node:@Fact) WHERE node.open RETURN node LIMIT $degree }
  RETURN node, score, 'entity' AS leg

// candidates @fragment
// one row: [id, leg, raw score, role, author, whether it asks, id, role and author of the turn that follows] of all candidates;
// the live slot, and how often the user was written to
WITH node, leg, score WHERE $until IS NULL OR node.timestamp <= $until
OPTIONAL MATCH (node)-[:NEXT]->(later:@Memory) WHERE $until IS NULL OR later.timestamp <= $until
WITH collect([node.memory_id, leg, score, node.role, node.author, node.text =~ '(?s).*[?？]\\s*',
     later.memory_id, later.role, later.author]) AS candidates
OPTIONAL MATCH (m:@Meta {key: 'schema'})
OPTIONAL MATCH (u:@User {scope: $scope})
RETURN candidates, m.live AS live, coalesce(u.writes, 0) AS writes

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

// legs_a @2026
// candidates by words and by the vectors of slot a
CYPHER 25
CALL () {
// include word_legs
  UNION ALL
  MATCH (node:@Memory)
  SEARCH node IN (VECTOR INDEX @memory_vector_a FOR $vector WHERE node.scope = $scope AND node.open = true LIMIT $fetch) SCORE AS score
  RETURN node, score, 'vector' AS leg
}
// include candidates

// legs_b @2026
// candidates by words and by the vectors of slot b
CYPHER 25
CALL () {
// include word_legs
  UNION ALL
  MATCH (node:@Memory)
  SEARCH node IN (VECTOR INDEX @memory_vector_b FOR $vector WHERE node.scope = $scope AND node.open = true LIMIT $fetch) SCORE AS score
  RETURN node, score, 'vector' AS leg
}
// include candidates

// legs_scan
// candidates by words and by comparing every vector of the scope: where there is no vector index to ask
CALL () {
// include word_legs
  UNION ALL
  MATCH (node:@Memory {scope: $scope})
  WHERE node.memory_id IS NOT NULL AND node.open AND node[$slot] IS NOT NULL AND size(node[$slot]) = size($vector)
  WITH node, vector.similarity.cosine(node[$slot], $vector) AS score ORDER BY score DESC LIMIT $fetch
  RETURN node, score, 'vector' AS leg
}
// include candidates

// hits
// a row a hit, best first, with `node` and `score` bound for the retrieval query that follows
UNWIND $hits AS hit
MATCH (node:@Memory {scope: $scope, memory_id: hit.id})
WITH node, hit.score AS score ORDER BY score DESC
RETURN node, score

// retrieval_query @fragment
// a row a hit, best first: a turn, or a fact with the words that support it and what it is about
OPTIONAL MATCH (node)-[support:SUPPORTED_BY]->(source:@Event)
WITH node, score, support, source ORDER BY score DESC, node.memory_id, source.timestamp, source.seq
WITH node, score, collect(source.id) AS source_ids, collect(source.memory_id) AS evidence, collect(support.quote) AS quotes,
     collect(source.session_id) AS sessions, collect(coalesce(support.verified, true)) AS verified
OPTIONAL MATCH (node)-[:SUBJECT]->(subject:@Entity)
OPTIONAL MATCH (node)-[:OBJECT]->(object:@Entity)
WITH *
ORDER BY score DESC, node.memory_id
RETURN node.text AS text, score, node.memory_id AS id, node.kind AS kind, node.author AS author,
       node.timestamp AS timestamp, node.valid_from AS valid_from, node.valid_to AS valid_to, node.metadata AS metadata,
       CASE node.kind WHEN 'event' THEN [node.id] ELSE source_ids END AS source_event_ids,
       CASE node.kind WHEN 'event' THEN [node.memory_id] ELSE evidence END AS evidence,
       CASE node.kind WHEN 'event' THEN node.session_id ELSE head(sessions) END AS session_id,
       head(quotes) AS quote, subject.name AS subject, node.predicate AS predicate, object.name AS object,
       CASE node.topic WHEN '' THEN null ELSE node.topic END AS topic,
       CASE WHEN node.stale THEN true END AS stale, CASE WHEN verified <> [] AND NOT true IN verified THEN false END AS verified
