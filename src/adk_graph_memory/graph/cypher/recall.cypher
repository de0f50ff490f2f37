// word_sources @fragment
// the retrieval sources that search for words: in memories, those that have expired included if $finds_expired, and in names
// that lead to facts
  UNWIND $text_queries AS part
  CALL db.index.fulltext.queryNodes($text_index, part, {limit: $text_hits}) YIELD node, score
  WHERE node.scope = $scope AND ($finds_expired OR
// include node_stands
  )
  WITH node, max(score) AS score ORDER BY score DESC LIMIT $by_words
  RETURN node, score, 'text' AS source
  UNION ALL
  UNWIND $name_queries AS part
  CALL db.index.fulltext.queryNodes('@entity_text', part, {limit: $names}) YIELD node AS entity, score
  WHERE entity.scope = $scope
  CALL (entity) {
    MATCH (entity)<-[:SUBJECT|OBJECT]-(node:@Fact)
    WHERE
// include node_stands
    RETURN node LIMIT $degree
  }
  RETURN node, score, 'entity' AS source

// embedded_memories @fragment
// the memories of the scope that have a vector, if the question has one; further conditions may follow
  UNWIND CASE WHEN $vector IS NULL THEN [] ELSE [1] END AS once
  MATCH (node:@Memory {scope: $scope})
  WHERE node.memory_id IS NOT NULL AND node[$slot] IS NOT NULL AND size(node[$slot]) = size($vector) AND
// include node_stands

// model_worded @fragment
// whether a memory's words are a model's own: in the third person, where people say "I"
coalesce(NOT node.extractor STARTS WITH 'rules', false)

// own_vector @fragment
// the question's vector that a memory is compared with: as it was typed, if the memory's words are a model's own
CASE WHEN $typed_vector IS NOT NULL AND
// include model_worded
THEN $typed_vector ELSE $vector END

// nearest_memories @fragment
// the best of them
  WITH node, vector.similarity.cosine(node[$slot],
// include own_vector
  ) AS score ORDER BY score DESC LIMIT $by_vector
  RETURN node, score, 'vector' AS source

// matches_filters @fragment
// whether a memory matches a caller's filters
(($filters.kind IS NULL OR node.kind = $filters.kind)
  AND ($filters.since IS NULL OR node.timestamp >= $filters.since)
  AND ($filters.until IS NULL OR node.timestamp <= $filters.until)
  AND ($filters.topic IS NULL OR node.topic = $filters.topic)
  AND ($filters.session_id IS NULL OR node.session_id = $filters.session_id
    OR EXISTS { MATCH (node)-[:SUPPORTED_BY]->(e:@Event) WHERE e.session_id = $filters.session_id })
  AND ($filters.entities IS NULL OR EXISTS {
    MATCH (node)-[:SUBJECT|OBJECT|MENTIONS]->(n:@Entity) WHERE n.key IN $filters.entities
  })
  AND ($filters.origins IS NULL OR node.origin IN $filters.origins)
  AND all(member IN $filters.metadata WHERE member IN node.metadata
    OR EXISTS { MATCH (node)-[:SUPPORTED_BY]->(e:@Event) WHERE member IN e.metadata }))

// state_at_until @fragment
// a fact's state as it was known at $until: its successor may have been said later
CASE WHEN $until IS NOT NULL AND fact.state <> 'current' AND $until < head(COLLECT {
  MATCH (fact)<-[:SUPERSEDES]-(newer:@Fact) RETURN min(newer.timestamp)
}) THEN 'current' ELSE fact.state END

// successors @fragment
// a fact's successors and theirs; of many, those that still hold come first, because a fact is linked to all that ended it
  MATCH (fact)<-[:SUPERSEDES]-(newer:@Fact) WHERE $until IS NULL OR newer.timestamp <= $until
  WITH newer ORDER BY newer.state <> 'current', newer.timestamp DESC LIMIT 3
  OPTIONAL MATCH (newer)<-[:SUPERSEDES]-(newest:@Fact) WHERE $until IS NULL OR newest.timestamp <= $until
  WITH newer, newest ORDER BY newest.state <> 'current', newest.timestamp DESC LIMIT 6
  UNWIND [newer, newest] AS memory
  WITH DISTINCT memory WHERE memory IS NOT NULL

// hits @fragment
// each memory found, with its score of each source
WITH node, max(CASE source WHEN 'text' THEN score END) AS text, max(CASE source WHEN 'vector' THEN score END) AS vector,
     max(CASE source WHEN 'entity' THEN score END) AS entity

// related @fragment
// the hits, the turns that they rest on, the turn that follows, the ended facts of all these, and the successors of those facts
MATCH (node)-[:NEXT|SUPPORTED_BY*0..1]->(near:@Memory)
WITH near, max(CASE near WHEN node THEN text END) AS text, max(CASE near WHEN node THEN vector END) AS vector,
     max(CASE near WHEN node THEN entity END) AS entity
OPTIONAL MATCH (near)<-[:SUPPORTED_BY*0..1]-(fact:@Fact) WHERE fact.state <> 'current'
UNWIND CASE WHEN fact IS NULL THEN [near] ELSE [near, fact] + COLLECT {
// include successors
  RETURN memory
} END AS node
WITH node, max(CASE node WHEN near THEN text END) AS text, max(CASE node WHEN near THEN vector END) AS vector,
     max(CASE node WHEN near THEN entity END) AS entity

// candidate_rows @fragment
// one row. candidates: of each memory that has not expired [id, kind, score by text, by vector, by entity, ids of the turns that
// it rests on, packed tokens, characters, state, since and until when it holds, how exactly the former is known, ids of its
// successors, whether its words are a model's own], and for turns also [role, author, time, session, whether it contains a
// question, whether it ends with one, id of the turn that follows, number of facts that rest on it, its text if short, its
// manner]. texts: the best texts by words.
// expired: how many of the best by words and by vector have expired. live: the live slot. writes: the user's write count.
// usual: of a sample of the user's memories, whether the words are a model's own, and how near the question is
WITH *, node.text AS content, [(node)-[:NEXT|SUPPORTED_BY]->(turn:@Memory) | turn.memory_id] AS turns,
// include node_stands
AS stands
ORDER BY text IS NULL, text DESC
WITH collect(CASE WHEN stands THEN CASE node.kind WHEN 'event' THEN [
  node.memory_id, 'event', text, vector, entity, [], node[$tokens], size(content), null, null, null, null, null, false,
  node.role, node.author, node.timestamp, node.session_id,
  any(mark IN $question_marks WHERE content CONTAINS mark), any(mark IN $question_marks WHERE right(content, 4) CONTAINS mark),
  head(turns), COUNT { (node)<-[:SUPPORTED_BY]-() }, CASE WHEN size(content) <= $brief THEN content END, node.manner
] ELSE [
  node.memory_id, 'fact', text, vector, entity, turns, node[$tokens], size(content),
  state, node.valid_from.epochSeconds, node.valid_to.epochSeconds, node.valid_from_precision,
  CASE WHEN fact.state <> 'current' THEN COLLECT {
// include successors
    RETURN memory.memory_id
  } END,
// include model_worded
] END END) AS candidates, collect(CASE WHEN stands AND text IS NOT NULL THEN left(content, $readable) END)[..$read] AS texts,
  count(CASE WHEN stands THEN null ELSE coalesce(text, vector) END) AS expired
OPTIONAL MATCH (m:@Meta {key: 'schema'})
OPTIONAL MATCH (u:@User {scope: $scope})
RETURN candidates, texts, expired, m.live AS live, coalesce(u.writes, 0) AS writes, CASE WHEN $vector IS NULL THEN [] ELSE COLLECT {
  CALL () {
    MATCH (node:@Memory {scope: $scope})
    WHERE node.memory_id STARTS WITH 'event:' AND size(node[$slot]) = size($vector)
    RETURN node LIMIT $sample
    UNION ALL
    MATCH (node:@Memory {scope: $scope})
    WHERE node.memory_id STARTS WITH 'fact:' AND size(node[$slot]) = size($vector)
    RETURN node LIMIT $sample / 2
  }
  RETURN [
// include model_worded
  , vector.similarity.cosine(node[$slot],
// include own_vector
  )]
} END AS usual

// speakers
// one row: the names of each author of the user's turns, the one on the turns first; the user's write count; the member of the
// user's state that names their time zone, and the offset of their last turn; the beginnings of some turns of people (not of
// the agent)
OPTIONAL MATCH (u:@User {scope: $scope})
WITH coalesce(u.authors, []) AS authors, coalesce(u.writes, 0) AS writes, u.offset AS offset,
     [member IN
// include live_user_state
     WHERE member STARTS WITH '"timezone":'] AS timezone
WITH authors, writes, offset, timezone, COLLECT {
  MATCH (n:@Entity {scope: $scope}) WHERE n.key IS NOT NULL AND any(name IN [n.name] + n.aliases WHERE name IN authors)
  RETURN [n.name] + n.aliases
} AS known
RETURN writes, timezone, offset, COLLECT {
  UNWIND authors AS author
  RETURN [author] + COLLECT {
    UNWIND [names IN known WHERE author IN names] AS names
    UNWIND names AS name
    WITH name WHERE name <> author
    RETURN DISTINCT name
  }
} AS speakers, COLLECT {
  MATCH (some:@Memory {scope: $scope}) WHERE some.memory_id IS NOT NULL AND coalesce(some.role, 'user') <> 'model'
  RETURN left(some.text, $readable) LIMIT $sample
} AS texts

// candidates_SLOT @2026
// candidates by words and by the vectors of one slot
CYPHER 25
CALL () {
// include word_sources
  UNION ALL
  MATCH (node:@Memory)
  SEARCH node IN (VECTOR INDEX @memory_vector_SLOT FOR $vector WHERE node.scope = $scope LIMIT $vector_hits) SCORE AS near
  WITH node, CASE WHEN $typed_vector IS NOT NULL AND
// include model_worded
  THEN vector.similarity.cosine(node[$slot], $typed_vector) ELSE near END AS score ORDER BY score DESC LIMIT $by_vector
  RETURN node, score, 'vector' AS source
}
// include hits
// include related
WITH *, node AS fact, node.state AS state
// include candidate_rows

// candidates_scan
// candidates by words and by comparing every vector of the scope: if there is no vector index, or some of the best have expired
CALL () {
// include word_sources
  UNION ALL
// include embedded_memories
// include nearest_memories
}
// include hits
// include related
WITH *, node AS fact, node.state AS state
// include candidate_rows

// candidates_filtered
// candidates among the memories that match a caller's filters
CALL () {
// include word_sources
  UNION ALL
// include embedded_memories
  AND
// include matches_filters
// include nearest_memories
}
// include hits
WHERE
// include matches_filters
// include related
WHERE
// include matches_filters
WITH *, node AS fact
WITH *,
// include state_at_until
AS state
// include candidate_rows

// result_nodes @fragment
// a row a result, best first, with `node` and `score` bound for the retrieval query that follows: a turn or a fact; a turn's
// fact takes its place if it has a number, or names an entity, that the turn does not
UNWIND $results AS result
MATCH (memory:@Memory {scope: $scope, memory_id: result.id})
OPTIONAL MATCH (fact:@Memory {scope: $scope, memory_id: result.fact})
WITH result.score AS score, CASE WHEN fact IS NULL THEN memory WHEN EXISTS {
  MATCH (fact)-[:SUBJECT|OBJECT]->(n:@Entity)
  WHERE none(name IN [n.name] + n.aliases WHERE name = memory.author OR toLower(memory.text) CONTAINS toLower(name))
} THEN fact WHEN NOT fact.text =~ '(?s).*[0-9].*' THEN memory WHEN
  any(word IN split(fact.text, ' ') WHERE word =~ '.*[0-9].*' AND NOT memory.text CONTAINS btrim(word, $marks))
  THEN fact ELSE memory END AS node
WITH node, score ORDER BY score DESC
RETURN node, score

// results
// one row: of each result, best first, what it says; the facts that rest on a turn, or the fact itself, each with the quote that
// supports it, with its successors if it ended, and with its value if its predicate has only one; of a fact also the turns that
// it rests on, what it is about, and what it replaced; of a short turn the question that it answers
CALL () {
// include result_nodes
}
OPTIONAL MATCH (node)<-[support:SUPPORTED_BY*0..1]-(memory:@Fact)
WHERE memory = node OR
// include memory_stands
WITH node, score, support, memory AS fact
WITH *,
// include state_at_until
AS state, CASE WHEN fact.state <> 'current' THEN COLLECT {
// include successors
  AND
// include memory_stands
  RETURN memory {.text, .state}
} END AS successors
ORDER BY fact.memory_id
WITH node, score, collect(fact {.memory_id, .modality, .valid_to, state: state, successors: successors,
  value: CASE WHEN fact.single AND state = 'current' AND fact.modality = 'asserted' AND NOT EXISTS { (fact)-[:OBJECT]->() }
    THEN {subject: head(COLLECT { MATCH (fact)-[:SUBJECT]->(n:@Entity) RETURN n.key }), predicate: fact.predicate, text: fact.text} END,
  quote: head(support).quote, stale: fact.stale AND fact.state = 'current'}) AS facts
ORDER BY score DESC, node.memory_id
RETURN collect(CASE node.kind WHEN 'fact' THEN node {.text, .kind, .author, .timestamp, .offset, .valid_from, .valid_to,
  .valid_from_precision, .valid_to_precision, .modality, .predicate, .topic, .origin, .metadata, id: node.memory_id,
  score: score, facts: facts,
  sources: COLLECT {
    MATCH (node)-[support:SUPPORTED_BY]->(memory:@Event)
    WHERE
// include memory_stands
    WITH support, memory ORDER BY memory.timestamp, memory.seq
    RETURN memory {.id, .session_id, .manner, .writer, .metadata, quote: support.quote, verified: support.verified,
      shown: CASE WHEN support.origin = 'picture' THEN memory.shown END}
  },
  subject: head([(node)-[:SUBJECT]->(n:@Entity) | n.name]),
  object: head([(node)-[:OBJECT]->(n:@Entity) | n.name]),
  previously: COLLECT {
    MATCH (node)-[:SUPERSEDES]->(memory:@Fact)
    WHERE memory.state = 'superseded' AND memory.predicate = node.predicate
      AND (NOT memory.modality IN ['planned', 'hypothetical'] OR memory.modality = node.modality)
      AND EXISTS { (node)-[:SUBJECT]->(:@Entity)<-[:SUBJECT]-(memory) } AND
// include memory_stands
    WITH DISTINCT memory ORDER BY memory.timestamp DESC LIMIT 3
    RETURN memory.text
  }
} ELSE node {.text, .kind, .author, .timestamp, .offset, .origin, .manner, .writer, .metadata, .session_id, .shown,
  id: node.memory_id, event_id: node.id, score: score, facts: facts,
  question: CASE WHEN size(node.text) <= 60 THEN head(COLLECT {
    MATCH (memory:@Memory)-[:NEXT]->(node)
    WHERE any(mark IN $question_marks WHERE right(memory.text, 4) CONTAINS mark) AND
// include memory_stands
    RETURN memory.text LIMIT 1
  }) END
} END) AS results

// plain_search
// one row: the best memories by words, of facts only those that hold; with nothing that is related to them, so that a server
// has little to plan
UNWIND $text_queries AS part
CALL db.index.fulltext.queryNodes($text_index, part, {limit: $text_hits}) YIELD node, score
WHERE node.scope = $scope AND coalesce(node.state, 'current') = 'current' AND
// include node_stands
WITH node, max(score) AS score ORDER BY score DESC
RETURN collect(node {.memory_id, .kind, .text, .author, .role, .timestamp, .offset, .session_id, .id, .valid_from, .valid_to,
  .valid_from_precision, .valid_to_precision, .modality, .predicate, .topic, .origin, .manner, .writer, .metadata, .shown, score: score
}) AS memories
