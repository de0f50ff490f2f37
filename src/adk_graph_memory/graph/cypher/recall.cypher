// word_sources @fragment
// the retrieval sources that search for words: in memories (in more of them if some of the best have expired), and in names
// that lead to facts
  UNWIND $text_queries AS part
  CALL db.index.fulltext.queryNodes($text_index, part, {limit: $by_words}) YIELD node, score
  WHERE node.scope = $scope
  WITH part, collect({node: node, score: score}) AS best
  WITH part, best, all(hit IN best WHERE all(node IN [hit.node] WHERE
// include node_stands
  )) AS all_stand
  CALL (part, best, all_stand) {
    UNWIND CASE WHEN all_stand THEN best ELSE [] END AS hit
    RETURN hit.node AS node, hit.score AS score
    UNION ALL
    UNWIND CASE WHEN all_stand THEN [] ELSE [part] END AS again
    CALL db.index.fulltext.queryNodes($text_index, again, {limit: $by_words_of_some}) YIELD node, score
    WHERE node.scope = $scope AND
// include node_stands
    RETURN node, score
  }
  WITH node, score
  WHERE
// include matches_filters
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
    AND
// include matches_filters
    RETURN node LIMIT $degree
  }
  RETURN node, score, 'entity' AS source

// matches_filters @fragment
// whether a memory matches a caller's filters; without filters, each does
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
  AND ($filters.origins IS NULL OR node.origin IN $filters.origins)
  AND all(member IN $filters.metadata WHERE member IN node.metadata
    OR EXISTS { MATCH (node)-[:SUPPORTED_BY]->(e:@Event) WHERE member IN e.metadata })
))

// state_at_until @fragment
// a fact's state as it was known at $until: its successor may have been said later
CASE WHEN $until IS NOT NULL AND fact.state <> 'current' AND EXISTS { (fact)<-[:SUPERSEDES]-(:@Fact) }
  AND NOT EXISTS { MATCH (fact)<-[:SUPERSEDES]-(newer:@Fact) WHERE newer.timestamp <= $until }
  THEN 'current' ELSE fact.state END

// successors @fragment
// a fact's successors and theirs; of many, those that still hold come first, because a fact is linked to all that ended it
CASE WHEN fact.state <> 'current' THEN COLLECT {
  MATCH (fact)<-[:SUPERSEDES]-(newer:@Fact) WHERE $until IS NULL OR newer.timestamp <= $until
  WITH newer ORDER BY newer.state <> 'current', newer.timestamp DESC LIMIT 3
  OPTIONAL MATCH (newer)<-[:SUPERSEDES]-(newest:@Fact) WHERE $until IS NULL OR newest.timestamp <= $until
  WITH newer, newest ORDER BY newest.state <> 'current', newest.timestamp DESC LIMIT 6
  UNWIND [newer, newest] AS memory
  WITH memory WHERE memory IS NOT NULL AND
// include memory_stands
  WITH DISTINCT memory AS successor
  RETURN successor
} ELSE [] END

// candidates @fragment
// one row. candidates: each memory found, the turns that it rests on, the turn that follows it, the ended facts of a turn, and
// the successors of a fact [id, kind, score by text, by vector, by entity, ids of the turns that it rests on, packed tokens,
// characters, state, since and until when it holds, how exactly the former is known, ids of its successors], and for turns also
// [role, author, time, session, whether it contains a question, whether it ends with one, id of the turn that follows, number of
// facts that rest on it, its text if short, its manner]. texts: the best texts by words. live: the live slot.
// writes: the user's write count. usual: how near the question is to a sample of the user's memories
WITH node, max(CASE source WHEN 'text' THEN score END) AS text, max(CASE source WHEN 'vector' THEN score END) AS vector,
     max(CASE source WHEN 'entity' THEN score END) AS entity
UNWIND [node] + COLLECT { MATCH (node)-[:NEXT|SUPPORTED_BY]->(neighbour:@Memory) RETURN neighbour } AS candidate
WITH candidate AS node, max(CASE node WHEN candidate THEN text END) AS text,
     max(CASE node WHEN candidate THEN vector END) AS vector, max(CASE node WHEN candidate THEN entity END) AS entity
WITH *, CASE WHEN node.state <> 'current' THEN [node] ELSE COLLECT {
  MATCH (node)<-[:SUPPORTED_BY]-(fact:@Fact) WHERE fact.state <> 'current' RETURN fact
} END AS ended_facts
UNWIND CASE ended_facts WHEN [] THEN [node] ELSE [node] + ended_facts + COLLECT {
  UNWIND ended_facts AS fact
  UNWIND
// include successors
  AS successor
  RETURN successor
} END AS candidate
WITH candidate AS node, max(CASE node WHEN candidate THEN text END) AS text,
     max(CASE node WHEN candidate THEN vector END) AS vector, max(CASE node WHEN candidate THEN entity END) AS entity
WHERE
// include node_stands
AND
// include matches_filters
WITH node, node AS fact, text, vector, entity, node.text AS content
ORDER BY text IS NULL, text DESC
WITH collect(CASE node.kind WHEN 'event' THEN [
  node.memory_id, 'event', text, vector, entity, [], node[$tokens], size(content), null, null, null, null, null,
  node.role, node.author, node.timestamp, node.session_id,
  content CONTAINS '?' OR content CONTAINS '？' OR content CONTAINS '؟',
  any(mark IN ['?', '？', '؟'] WHERE right(content, 4) CONTAINS mark),
  head(COLLECT { MATCH (node)-[:NEXT]->(follower:@Memory) RETURN follower.memory_id }),
  COUNT { (node)<-[:SUPPORTED_BY]-() }, CASE WHEN size(content) <= $brief THEN content END, node.manner
] ELSE [
  node.memory_id, 'fact', text, vector, entity,
  COLLECT { MATCH (node)-[:SUPPORTED_BY]->(turn:@Memory) RETURN turn.memory_id }, node[$tokens], size(content),
// include state_at_until
  , node.valid_from.epochSeconds, node.valid_to.epochSeconds, node.valid_from_precision,
  CASE WHEN node.state <> 'current' THEN [successor IN
// include successors
  | successor.memory_id] END
] END) AS candidates, collect(CASE WHEN text IS NOT NULL THEN left(content, $readable) END)[..$read] AS texts
OPTIONAL MATCH (m:@Meta {key: 'schema'})
OPTIONAL MATCH (u:@User {scope: $scope})

// baseline @fragment
// how near the question is to a sample of this user's memories
RETURN candidates, texts, m.live AS live, coalesce(u.writes, 0) AS writes, COLLECT {
  MATCH (memory:@Memory {scope: $scope})
  WHERE memory.memory_id IS NOT NULL
  WITH memory[$slot] AS stored_vector WHERE size(stored_vector) = size($vector)
  RETURN vector.similarity.cosine(stored_vector, $vector) LIMIT $sample
} AS usual

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

// candidates_text
// candidates by words alone
CALL () {
// include word_sources
}
// include candidates
RETURN candidates, texts, m.live AS live, coalesce(u.writes, 0) AS writes, [] AS usual

// candidates_SLOT @2026
// candidates by words and by the vectors of one slot; every vector of the scope is compared if some of the nearest have expired
CYPHER 25
CALL () {
// include word_sources
  UNION ALL
  MATCH (node:@Memory)
  SEARCH node IN (VECTOR INDEX @memory_vector_SLOT FOR $vector WHERE node.scope = $scope LIMIT $by_vector) SCORE AS score
  WITH collect({node: node, score: score}) AS nearest
  WITH nearest, all(near IN nearest WHERE all(node IN [near.node] WHERE
// include node_stands
  )) AS all_stand
  CALL (nearest, all_stand) {
    UNWIND CASE WHEN all_stand THEN nearest ELSE [] END AS near
    RETURN near.node AS node, near.score AS score
    UNION ALL
    UNWIND CASE WHEN all_stand THEN [] ELSE [1] END AS once
    MATCH (node:@Memory {scope: $scope})
    WHERE node.memory_id IS NOT NULL AND node[$slot] IS NOT NULL AND size(node[$slot]) = size($vector) AND
// include node_stands
    RETURN node, vector.similarity.cosine(node[$slot], $vector) AS score ORDER BY score DESC LIMIT $by_vector
  }
  RETURN node, score, 'vector' AS source
}
// include candidates
// include baseline

// candidates_scan
// candidates by words and by comparing every vector of the scope: if there is no vector index, or filters leave only some
CALL () {
// include word_sources
  UNION ALL
  MATCH (node:@Memory {scope: $scope})
  WHERE node.memory_id IS NOT NULL AND node[$slot] IS NOT NULL AND size(node[$slot]) = size($vector) AND
// include node_stands
  AND
// include matches_filters
  WITH node, vector.similarity.cosine(node[$slot], $vector) AS score ORDER BY score DESC LIMIT $by_vector
  RETURN node, score, 'vector' AS source
}
// include candidates
// include baseline

// results
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

// retrieval_query @fragment
// a row a result, best first: a turn, with the question that it answers if it is short and the words of its found facts if it
// is long, or a fact with the words that support it and what it is about; of either, the endings of its facts
// with state, modality, until when, and the texts and states of the successors
WITH node, score, CASE node.kind WHEN 'fact' THEN [node] ELSE COLLECT {
  MATCH (node)<-[:SUPPORTED_BY]-(memory:@Fact)
  WHERE
// include memory_stands
  WITH memory AS fact
  RETURN fact ORDER BY fact.memory_id
} END AS facts, CASE node.kind WHEN 'fact' THEN COLLECT {
  MATCH (node)-[support:SUPPORTED_BY]->(memory:@Event)
  WHERE
// include memory_stands
  WITH support, memory AS source
  RETURN {id: source.id, quote: support.quote, session: source.session_id, verified: coalesce(support.verified, true),
    manner: source.manner, writer: source.writer, metadata: source.metadata} ORDER BY source.timestamp, source.seq
} ELSE [] END AS sources
WITH *, [source IN sources WHERE source.manner IS NOT NULL] AS indirect
ORDER BY score DESC, node.memory_id
RETURN node.text AS text, score, node.memory_id AS id, node.kind AS kind, node.author AS author,
       node.timestamp AS timestamp, node.offset AS offset, node.valid_from AS valid_from, node.valid_to AS valid_to,
       node.valid_from_precision AS valid_from_precision, node.valid_to_precision AS valid_to_precision,
       node.modality AS modality,
       head([given IN [node.metadata] + [source IN sources | source.metadata] WHERE given <> []]) AS metadata,
       CASE node.kind WHEN 'event' THEN [node.id] ELSE [source IN sources | source.id] END AS source_event_ids,
       CASE node.kind WHEN 'event' THEN node.session_id ELSE head(sources).session END AS session_id,
       CASE WHEN node.kind = 'fact' THEN head([source IN sources WHERE source.quote IS NOT NULL | source.quote])
         WHEN size(node.text) > $readable THEN head(COLLECT {
         MATCH (node)<-[support:SUPPORTED_BY]-(fact:@Fact) WHERE fact.memory_id IN $facts RETURN support.quote LIMIT 1
       }) END AS quote,
       CASE node.kind WHEN 'fact' THEN head(COLLECT { MATCH (node)-[:SUBJECT]->(n:@Entity) RETURN n.name }) END AS subject,
       node.predicate AS predicate,
       CASE node.kind WHEN 'fact' THEN head(COLLECT { MATCH (node)-[:OBJECT]->(n:@Entity) RETURN n.name }) END AS object,
       CASE node.topic WHEN '' THEN null ELSE node.topic END AS topic,
       CASE WHEN node.kind = 'event' AND size(node.text) <= 60 THEN head(COLLECT {
         MATCH (memory:@Memory)-[:NEXT]->(node)
         WHERE any(mark IN ['?', '？', '؟'] WHERE right(memory.text, 4) CONTAINS mark) AND
// include memory_stands
         RETURN memory.text LIMIT 1
       }) END AS question,
       CASE node.kind WHEN 'fact' THEN COLLECT {
         MATCH (node)-[:SUPERSEDES]->(earlier:@Fact)
         WHERE earlier.state = 'superseded' AND earlier.predicate = node.predicate
           AND (NOT earlier.modality IN ['planned', 'hypothetical'] OR earlier.modality = node.modality)
           AND EXISTS { (node)-[:SUBJECT]->(:@Entity)<-[:SUBJECT]-(earlier) }
         WITH DISTINCT earlier AS memory
         WHERE
// include memory_stands
         RETURN memory.text ORDER BY memory.timestamp DESC LIMIT 3
       } END AS previously,
       size(facts) AS facts,
       CASE WHEN any(fact IN facts WHERE fact.state <> 'current') THEN COLLECT {
         UNWIND facts AS fact
         WITH fact,
// include state_at_until
         AS state
         WHERE state <> 'current'
         RETURN fact {.modality, .valid_to, state: state, successors: COLLECT {
           UNWIND
// include successors
           AS successor
           RETURN successor {.text, .state}
         }}
       } END AS endings,
       CASE WHEN any(fact IN facts WHERE fact.stale AND fact.state = 'current') THEN true END AS stale,
       CASE WHEN sources <> [] AND none(source IN sources WHERE source.verified) THEN false END AS verified,
       CASE WHEN node.kind = 'event' THEN node.manner
         WHEN size(indirect) = size(sources) THEN head(indirect).manner END AS manner,
       node.origin AS origin,
       CASE WHEN node.kind = 'event' THEN node.writer WHEN size(indirect) = size(sources)
         THEN head([source IN indirect WHERE source.writer <> '' | source.writer]) END AS writer
